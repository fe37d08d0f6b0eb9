//! The origins of a route, in place of those of its site.

use toml::de::DeTable;

use super::error::ProblemSpan;
use super::files::FilesDirectory;
use super::origins::{Balance, OriginGroup};
use super::read::{Reader, find, raw};
use super::setting::{Setting, ValueProblem};
use super::table::{BALANCE, ORIGIN, PER_SITE, RouteSettings, Settings, SiteSettings};
use super::tls::PlaceOf;
use super::value::{FixedAnswer, Redirect};

/// Origins that a route has in place of those of its site.
pub(super) struct RouteOrigins {
    pub(super) group: OriginGroup,
    /// The settings from which the group was made: those of the site, and those beside `origin`.
    pub(super) settings: SiteSettings,
}

/// Whether a setting concerns origins, so that a route with `origin` may have it.
pub(super) fn is_of_origins(setting: &Setting) -> bool {
    setting.name.starts_with("health_") || setting.name.starts_with("origin_")
}

/// Returns the settings that a route has for its own origins.
pub(super) fn origin_settings() -> impl Iterator<Item = &'static Setting> + Clone {
    PER_SITE.iter().filter(|setting| is_of_origins(setting))
}

/// Whether the reader of a route's origins reads this key.
pub(super) fn is_origin_key(key: &str) -> bool {
    key == ORIGIN.name || key == BALANCE.name || find(origin_settings(), key).is_some()
}

impl Reader<'_> {
    /// Reads the origins of a route, with the settings beside them; `None` if the route has the
    /// origins of its site, whose settings are `of_site`; `outer_at` returns their positions.
    pub(super) fn route_origins(
        &mut self,
        table: &DeTable<'_>,
        (of_site, outer_at): (&SiteSettings, PlaceOf<'_>),
    ) -> Option<RouteOrigins> {
        let keys = table.iter().filter(|(key, _)| is_origin_key(key.get_ref()));
        let Some(value) = table.get(ORIGIN.name) else {
            for (key, _) in keys {
                let text = format!("`{}` is set for a route without `origin`", key.get_ref());
                let hint = "write `origin` in this section too, or this setting in [[site]]: the \
                            route has the origins of its site";
                self.problem(ProblemSpan::Span(key.span()), ValueProblem::new(text).hint(hint));
            }
            return None;
        };
        let mut settings = of_site.clone();
        for (key, value) in keys {
            if let Some(setting) = find(origin_settings(), key.get_ref()) {
                let read = settings.set(setting, raw(value.get_ref()));
                self.keep_at(value.span(), read);
            }
        }
        let at = |name| {
            let own = table.get(name).map(|value| ProblemSpan::Span(value.span()));
            own.or_else(|| outer_at(name))
        };
        let balance = self.of_table(table, &BALANCE, Balance::default()).unwrap_or_default();
        let group = self.origins(value, balance);
        if let Some(group) = &group {
            let own_at = |name| table.get(name).map(|value| ProblemSpan::Span(value.span()));
            self.check_origin_terms((group, &[]), &settings, &own_at);
        }
        let group = group.and_then(|group| self.equip_origins(group, &settings, &at));
        // An empty group stands for invalid origins, which have been reported.
        Some(RouteOrigins { group: group.unwrap_or_default(), settings })
    }

    /// Lets the origins of a route answer in place of the `redirect`, `respond` or `files` of outer
    /// sections. Reports such a setting in the same section.
    pub(super) fn settle_origin(&mut self, table: &DeTable<'_>, settings: &mut RouteSettings) {
        for (name, is_on) in settings.answers() {
            if let Some(value) = table.get(name).filter(|_| is_on) {
                let text = format!("`{}` and `{name}` are in the same section", ORIGIN.name);
                let hint = "a request gets one answer, so leave one of them out";
                let problem = ValueProblem::new(text).hint(hint);
                self.problem(ProblemSpan::Span(value.span()), problem);
            }
        }
        settings.redirect = Redirect::default();
        settings.respond = FixedAnswer::default();
        settings.files = FilesDirectory::default();
    }
}
