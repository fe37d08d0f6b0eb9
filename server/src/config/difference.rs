//! The differences of two configurations, for an operator.

use std::fmt;

use serde_json::{Value, json};

use super::read::find;
use super::route_origins::is_of_origins;
use super::setting::Setting;
use super::table::{
    BALANCE, BEFORE_REGEX, NAMES, ORIGIN, PATH_PREFIX, PATH_REGEX, PER_SITE, RULES, SITE_LISTEN,
    Settings,
};
use super::{Config, Route, Site};

/// Text below changes of which some need a restart.
pub const RESTART_HINT: &str = "A reload refuses these changes; `forebay serve ... --upgrade` \
    applies them without a failed request.";

/// Number of sites and routes that are named for one change.
const SUBJECTS_SHOWN: usize = 5;

/// The name of the setting for the access log of the server, or of a site.
const ACCESS_LOG: &str = "access_log";

/// A difference of two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// The setting; `None` if sites or routes were added or removed.
    pub setting: Option<&'static str>,
    /// The old value as it was written; `None` if sites or routes were added.
    pub old: Option<String>,
    /// The new value as it was written; `None` if sites or routes were removed.
    pub new: Option<String>,
    /// The sites and routes that differ; empty for a setting of the server.
    pub subjects: Vec<String>,
    /// Whether a reload cannot apply the change, so that a restart or an upgrade is needed.
    pub needs_restart: bool,
}

impl ConfigChange {
    /// Returns the change as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "setting": self.setting,
            "old": self.old,
            "new": self.new,
            "in": self.subjects,
            "applies": if self.needs_restart { "restart" } else { "reload" },
        })
    }
}

impl fmt::Display for ConfigChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&change_text(&self.to_json()))
    }
}

/// Returns the text of a change, which is given as [`ConfigChange::to_json`] writes it.
pub fn change_text(change: &Value) -> String {
    let all = change["in"].as_array().map_or(&[][..], Vec::as_slice);
    let shown: Vec<_> = all.iter().filter_map(Value::as_str).take(SUBJECTS_SHOWN).collect();
    let mut subjects = shown.join("; ");
    if let Some(more @ 1..) = all.len().checked_sub(SUBJECTS_SHOWN) {
        subjects += &format!("; and {more} more");
    }
    let (old, new) = (change["old"].as_str(), change["new"].as_str());
    let Some(setting) = change["setting"].as_str() else {
        let verb = if new.is_some() { "added" } else { "removed" };
        return format!("{verb}: {subjects}");
    };
    let values = match (old, new) {
        (Some(old), Some(new)) if old == new => {
            format!("{new}, but its content has changed")
        }
        (old, new) => format!("{} -> {}", old.unwrap_or_default(), new.unwrap_or_default()),
    };
    let place = if subjects.is_empty() { String::new() } else { format!(" ({subjects})") };
    let restart = if change["applies"] == "restart" { "; needs a restart" } else { "" };
    format!("{setting}: {values}{place}{restart}")
}

/// The changes that have been found. Equal changes of several sites and routes are one change.
#[derive(Default)]
struct ChangeList(Vec<ConfigChange>);

/// A site, or a route of a site, in both configurations.
struct ComparedSection<'a> {
    site: &'a str,
    route: Option<&'a Route>,
}

impl Config {
    /// Returns the changes of settings that differ in `new` although only a restart can apply them.
    pub fn reload_conflicts(&self, new: &Config) -> Vec<ConfigChange> {
        let mut list = ChangeList::default();
        let differences = self.server.differences(&new.server);
        for setting in differences.into_iter().filter(|setting| !setting.reloads) {
            list.add_setting(setting, (self, new), None);
        }
        list.0
    }

    /// Returns the changes from this configuration to `new`: of the server first, then of sites in
    /// their order. Sites are the same if they have the same name, and routes if they have the same
    /// paths and conditions.
    pub fn changes(&self, new: &Config) -> Vec<ConfigChange> {
        let mut list = ChangeList::default();
        for setting in self.server.differences(&new.server) {
            list.add_setting(setting, (self, new), None);
        }
        if self.access_logs.server_log() != new.access_logs.server_log()
            && let Some(setting) = find(PER_SITE.iter(), ACCESS_LOG)
        {
            list.add_setting(setting, (self, new), None);
        }
        if self.rules_of(None) != new.rules_of(None) {
            list.add_setting(&RULES, (self, new), None);
        }
        let site_of = |config: &Config, name: &str| {
            config.sites.iter().find(|site| site.name == name).cloned()
        };
        for site in &self.sites {
            match site_of(new, &site.name) {
                Some(other) => list.compare_sites((self, site), (new, &other)),
                None => list.add(None, (Some("site"), None), format!("site {:?}", site.name)),
            }
        }
        for site in new.sites.iter().filter(|site| site_of(self, &site.name).is_none()) {
            list.add(None, (None, Some("site")), format!("site {:?}", site.name));
        }
        list.0
    }
}

impl ComparedSection<'_> {
    fn shown(&self) -> String {
        match self.route {
            Some(route) => format!("site {:?}, route {}", self.site, route.shown_path()),
            None => format!("site {:?}", self.site),
        }
    }

    fn text(&self, config: &Config, setting: &Setting) -> String {
        let route = self.route.and_then(|route| route.section);
        // A section with one of these settings switches the other off.
        let is_off = |name: &str| {
            self.route.is_some_and(|route| match name {
                "redirect" => route.settings.redirect.get().is_none(),
                "respond" => route.settings.respond.get().is_none(),
                "files" => route.settings.files.get().is_none(),
                _ => false,
            })
        };
        // `balance` belongs to the `origin` of its section, and is not inherited without it.
        let has_own = self.route.is_some_and(|route| route.own_origins.is_some());
        let is_own_only = setting.name == BALANCE.name && has_own;
        match (is_off(setting.name), route) {
            (true, _) => "\"off\"".to_owned(),
            // The setting of the server has the same name.
            _ if setting.name == SITE_LISTEN.name => {
                config.written.text_in_site(setting, self.site)
            }
            (_, Some(route)) if is_own_only => {
                config.written.text_in_route(setting, self.site, route)
            }
            _ => config.written.text(setting, Some(self.site), route),
        }
    }
}

/// Whether routes of two configurations are the same: they have the same paths and conditions.
fn is_same(one: &Route, other: &Route) -> bool {
    one.identity() == other.identity()
}

/// Returns the settings in which the origins of two routes differ, if one of the routes has origins
/// of its own. Each route is given with its site.
fn origin_differences(
    (site, route): (&Site, &Route),
    (other_site, other): (&Site, &Route),
) -> Vec<&'static Setting> {
    if route.own_origins.is_none() && other.own_origins.is_none() {
        return Vec::new();
    }
    let settings = route.own_origins.as_deref().unwrap_or(&site.settings);
    let others = other.own_origins.as_deref().unwrap_or(&other_site.settings);
    let mut differ = settings.differences(others);
    differ.retain(|setting| is_of_origins(setting));
    let is_gained_or_lost = route.own_origins.is_some() != other.own_origins.is_some();
    if is_gained_or_lost || route.origins.configured() != other.origins.configured() {
        differ.push(&ORIGIN);
    }
    if route.origins.balance != other.origins.balance {
        differ.push(&BALANCE);
    }
    differ
}

impl ChangeList {
    fn compare_sites(&mut self, (old, site): (&Config, &Site), (new, other): (&Config, &Site)) {
        let subject = ComparedSection { site: &site.name, route: None };
        let mut differ: Vec<&Setting> = site.settings.differences(&other.settings);
        // A change at the top is not listed for each site that has the log of the server.
        let has_own = |config: &Config| config.written.is_in_site(ACCESS_LOG, &site.name);
        differ.retain(|setting| setting.name != ACCESS_LOG || has_own(old) || has_own(new));
        // A changed file of a certificate counts, too.
        let certificates = |setting: &&Setting| setting.name == "tls_cert";
        if site.certificates != other.certificates
            && !differ.iter().any(certificates)
            && let Some(setting) = PER_SITE.iter().find(certificates)
        {
            differ.push(setting);
        }
        if site.names != other.names {
            differ.push(&NAMES);
        }
        if site.listen != other.listen {
            differ.push(&SITE_LISTEN);
        }
        if site.origins.configured() != other.origins.configured() {
            differ.push(&ORIGIN);
        }
        if site.origins.balance != other.origins.balance {
            differ.push(&BALANCE);
        }
        for setting in differ {
            self.add_setting(setting, (old, new), Some((&subject, &subject)));
        }
        for route in site.routes() {
            let subject = ComparedSection { route: Some(route), ..subject };
            match other.routes().iter().find(|other| is_same(route, other)) {
                Some(counterpart) => {
                    let after = ComparedSection { route: Some(counterpart), ..subject };
                    for setting in route.settings.differences(&counterpart.settings) {
                        self.add_setting(setting, (old, new), Some((&subject, &after)));
                    }
                    for setting in origin_differences((site, route), (other, counterpart)) {
                        self.add_setting(setting, (old, new), Some((&subject, &after)));
                    }
                    if route.is_before_regex != counterpart.is_before_regex {
                        self.add_setting(&BEFORE_REGEX, (old, new), Some((&subject, &after)));
                    }
                    if old.rules_of(Some(route)) != new.rules_of(Some(counterpart))
                        && old.rules_of(None) == new.rules_of(None)
                    {
                        self.add_setting(&RULES, (old, new), Some((&subject, &after)));
                    }
                }
                None => self.add(None, (Some("route"), None), subject.shown()),
            }
        }
        for route in other.routes() {
            if !site.routes().iter().any(|known| is_same(known, route)) {
                let subject = ComparedSection { route: Some(route), ..subject };
                self.add(None, (None, Some("route")), subject.shown());
            }
        }
        let patterns = |route: &Route| {
            let is_pattern = route.paths.are_matching() && route.conditions.is_none();
            is_pattern.then(|| route.paths.text().to_owned())
        };
        let conditions = |route: &Route| route.conditions.as_ref().map(|_| route.shown_path());
        self.compare_order((site, other), &PATH_REGEX, ", ", patterns);
        self.compare_order((site, other), &PATH_PREFIX, "; ", conditions);
    }

    /// Adds a change in the order of those routes that `shown` selects and both sites have. The
    /// first of these routes that fits a request counts.
    fn compare_order(
        &mut self,
        (site, other): (&Site, &Site),
        setting: &'static Setting,
        separator: &str,
        shown: impl Fn(&Route) -> Option<String>,
    ) {
        let order = |site: &Site, other: &Site| {
            let routes = site.routes().iter();
            let kept = routes.filter(|route| other.routes().iter().any(|one| is_same(one, route)));
            let both = kept.filter_map(|route| Some((route.identity(), shown(route)?)));
            let (identities, shown): (Vec<_>, Vec<_>) = both.unzip();
            (identities, shown.join(separator))
        };
        let ((old, before), (new, after)) = (order(site, other), order(other, site));
        if old != new {
            let subject = format!("site {:?}, order of the routes", site.name);
            self.add(Some(setting), (Some(&before), Some(&after)), subject);
        }
    }

    fn add_setting(
        &mut self,
        setting: &'static Setting,
        (old, new): (&Config, &Config),
        subjects: Option<(&ComparedSection<'_>, &ComparedSection<'_>)>,
    ) {
        match subjects {
            None => {
                let texts = [old, new].map(|config| config.written.text(setting, None, None));
                let [before, after] = &texts;
                self.add(Some(setting), (Some(before), Some(after)), String::new());
            }
            Some((one, other)) => {
                let (before, after) = (one.text(old, setting), other.text(new, setting));
                self.add(Some(setting), (Some(&before), Some(&after)), one.shown());
            }
        }
    }

    fn add(
        &mut self,
        setting: Option<&'static Setting>,
        (old, new): (Option<&str>, Option<&str>),
        subject: String,
    ) {
        let (old, new) = (old.map(str::to_owned), new.map(str::to_owned));
        let name = setting.map(|setting| setting.name);
        let is_same = |change: &&mut ConfigChange| {
            change.setting == name && change.old == old && change.new == new
        };
        match self.0.iter_mut().find(is_same) {
            Some(change) => change.subjects.push(subject),
            None => self.0.push(ConfigChange {
                setting: name,
                old,
                new,
                subjects: if subject.is_empty() { Vec::new() } else { vec![subject] },
                needs_restart: setting.is_some_and(|setting| !setting.reloads),
            }),
        }
    }
}
