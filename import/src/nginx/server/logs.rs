//! `access_log`: the log of the server, and those of sites. All of them have one format.

use super::super::scope::BlockScope;
use super::super::source::NginxSource;
use super::super::syntax::NginxDirective;
use crate::toml::{TomlTable, quote};

/// Number of different access logs that a configuration may have.
const LOGS_MAX: usize = 128;

/// The access logs that have been written.
#[derive(Default)]
pub(super) struct WrittenLogs {
    paths: Vec<String>,
    format: Option<&'static str>,
}

impl WrittenLogs {
    /// Writes the log of `http`, which servers inherit.
    pub(super) fn write_top(
        &mut self,
        source: &NginxSource<'_>,
        http: &BlockScope<'_>,
        top: &mut TomlTable,
    ) {
        if let Some(path) = self.path(source, &http.all(&["access_log"])) {
            top.text("access_log", &path);
        }
    }

    /// Writes the log of a server, unless the server inherits the log of `http`.
    pub(super) fn write_site(
        &mut self,
        source: &NginxSource<'_>,
        server: &NginxDirective,
        top: &TomlTable,
        site: &mut TomlTable,
    ) {
        let own: Vec<_> = server.inner().iter().filter(|one| one.name == "access_log").collect();
        if let Some(path) = self.path(source, &own)
            && top.value("access_log").map_or(path != "off", |outer| outer != quote(&path))
        {
            site.text("access_log", &path);
        }
        note_locations(source, server.inner());
    }

    /// Writes the format of all logs.
    pub(super) fn write_format(&self, top: &mut TomlTable) {
        if let Some(format) = self.format {
            top.text("access_log_format", format);
        }
    }

    /// Returns the path of the only log that the directives of a block become, or `off`.
    fn path(&mut self, source: &NginxSource<'_>, directives: &[&NginxDirective]) -> Option<String> {
        if directives.iter().any(|one| one.arg(0) == "off") {
            return Some("off".to_owned());
        }
        let mut found: Option<String> = None;
        for directive in directives {
            let path = directive.arg(0).to_owned();
            if !path.starts_with('/') || path.contains('$') {
                source.note(directive, "left out: name a file in access_log");
            } else if found.is_some() {
                source.note(directive, "left out: a site has one access log");
            } else if !self.paths.contains(&path) && self.paths.len() == LOGS_MAX {
                let message = format!("left out: there are at most {LOGS_MAX} access logs");
                source.note(directive, message);
            } else {
                self.note_format(source, directive);
                if !self.paths.contains(&path) {
                    self.paths.push(path.clone());
                }
                found = Some(path);
            }
        }
        found
    }

    fn note_format(&mut self, source: &NginxSource<'_>, directive: &NginxDirective) {
        let is_combined = matches!(directive.arg(1), "" | "combined" | "main");
        let format = if is_combined { "combined" } else { "json" };
        if *self.format.get_or_insert(format) != format {
            source.note(directive, "all access logs have the format of the first one");
        }
    }
}

/// Lists the logs of locations. An `off` there is passed over: the log has more lines.
fn note_locations(source: &NginxSource<'_>, block: &[NginxDirective]) {
    let mut blocks: Vec<_> = block.iter().filter(|one| one.name == "location").collect();
    while let Some(location) = blocks.pop() {
        for directive in location.inner() {
            match directive.name.as_str() {
                "location" => blocks.push(directive),
                "access_log" if directive.arg(0) != "off" => {
                    source.note(directive, "left out: a location has the access log of its site");
                }
                _ => {}
            }
        }
    }
}
