//! The values of a configuration as they were written, for messages. The value of a reference, such
//! as `{ env = "NAME" }`, is not among them.

use std::collections::{BTreeMap, HashMap};

use toml::de::DeTable;

use super::setting::{RawValue, Setting};
use super::source::SourceFiles;

/// The values of one section, by the names of the settings.
type SectionValues = BTreeMap<String, String>;

/// The values of all sections.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrittenValues {
    top: SectionValues,
    /// The values of each site, by its name.
    sites: HashMap<String, SectionValues>,
    /// The values of the routes of each site, by the name of the site, in the order of the file.
    routes: HashMap<String, Vec<SectionValues>>,
}

/// Two configurations with the same values are equal, however the values were written.
impl PartialEq for WrittenValues {
    fn eq(&self, _: &WrittenValues) -> bool {
        true
    }
}

impl WrittenValues {
    /// Collects the values of all files.
    pub(super) fn of(sources: &SourceFiles<'_>, tables: &[DeTable<'_>]) -> WrittenValues {
        let mut written = WrittenValues::default();
        for table in tables {
            written.top.extend(section(sources, table));
            let Some(sites) = table.get("site").and_then(|sites| sites.get_ref().as_array()) else {
                continue;
            };
            for site in sites.iter().filter_map(|site| site.get_ref().as_table()) {
                written.add_site(sources, site);
            }
        }
        written
    }

    fn add_site(&mut self, sources: &SourceFiles<'_>, site: &DeTable<'_>) {
        let text = |table: &DeTable<'_>, name: &str| {
            table.get(name).and_then(|value| value.get_ref().as_str()).map(str::to_owned)
        };
        let Some(name) = text(site, "name") else { return };
        self.sites.insert(name.clone(), section(sources, site));
        let routes = site.get("route").and_then(|routes| routes.get_ref().as_array());
        let routes = routes.into_iter().flat_map(|routes| routes.iter());
        let routes = routes.filter_map(|route| route.get_ref().as_table());
        self.routes.insert(name, routes.map(|route| section(sources, route)).collect());
    }

    /// Notes the value of a flag.
    pub(super) fn set_flag(&mut self, setting: &Setting, raw: RawValue<'_>) {
        if let RawValue::Flag(text) = raw {
            self.top.insert(setting.name.to_owned(), format!("{text:?}"));
        }
    }

    /// Returns the text of the innermost value of a setting: that of the route, of the site, of the
    /// top, or the default. Without a site, the value of the top is meant; without a route, that of
    /// the site. `route` is the index of the route's section.
    pub(super) fn text(
        &self,
        setting: &Setting,
        site: Option<&str>,
        route: Option<usize>,
    ) -> String {
        let of_route = site.zip(route).and_then(|(site, route)| self.routes.get(site)?.get(route));
        let of_site = site.and_then(|site| self.sites.get(site));
        shown(setting, &[of_route, of_site, Some(&self.top)])
    }

    /// Whether the section of a site has a value of the setting.
    pub(super) fn is_in_site(&self, setting: &str, site: &str) -> bool {
        self.sites.get(site).is_some_and(|values| values.contains_key(setting))
    }

    /// Returns the text of the value that the section of a site has, or of the default.
    pub(super) fn text_in_site(&self, setting: &Setting, site: &str) -> String {
        shown(setting, &[self.sites.get(site)])
    }

    /// Returns the text of the value that the section of a route has, or of the default.
    pub(super) fn text_in_route(&self, setting: &Setting, site: &str, route: usize) -> String {
        let of_route = self.routes.get(site).and_then(|routes| routes.get(route));
        shown(setting, &[of_route])
    }
}

/// Returns the text of the value in the first of these sections that has one, or of the default.
fn shown(setting: &Setting, sections: &[Option<&SectionValues>]) -> String {
    let written = sections.iter().flatten().find_map(|values| values.get(setting.name));
    let default = || match (setting.default, setting.kind.is_quoted()) {
        (Some(default), true) => format!("{default:?} (default)"),
        (Some("") | None, false) | (None, true) => "nothing (default)".to_owned(),
        (Some(default), false) => format!("{default} (default)"),
    };
    written.cloned().unwrap_or_else(default)
}

/// Returns the values of a section, each on one line.
fn section(sources: &SourceFiles<'_>, table: &DeTable<'_>) -> SectionValues {
    let values = table.iter().filter(|(key, _)| !matches!(&**key.get_ref(), "site" | "route"));
    let values = values.map(|(key, value)| {
        let text = sources.text(&value.span());
        (key.get_ref().to_string(), text.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    values.collect()
}
