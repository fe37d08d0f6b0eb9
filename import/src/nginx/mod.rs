//! Configurations of nginx.

mod access;
mod beyond;
mod caching;
mod condition;
mod cover;
mod error_pages;
mod fields;
mod files;
mod header_rules;
mod include;
mod internal;
mod known;
mod limits;
mod location;
mod locations;
mod origins;
mod pattern;
mod prefix;
mod real_ip;
mod redirect;
mod request_limits;
mod scope;
mod server;
mod source;
mod syntax;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::include::IncludedFiles;
use self::real_ip::RealIp;
use self::scope::BlockScope;
use self::source::NginxSource;
use self::syntax::NginxDirective;
use crate::rule_files::RuleFiles;
use crate::{Import, ImportError, ImportOptions};

/// Folders whose files are parts of the configuration in the folder above.
const PARTS: &[&str] = &["sites-available", "sites-enabled", "conf.d"];

/// Translates a configuration of nginx: `nginx.conf`, or files with `server` sections.
///
/// # Errors
/// A file cannot be read, is malformed, or is too large.
pub fn nginx(paths: &[PathBuf], options: &ImportOptions) -> Result<Import, ImportError> {
    let prefix = options.prefix.clone().unwrap_or_else(|| prefix_of(paths));
    let mut files = IncludedFiles::new(prefix.clone());
    let mut directives = Vec::new();
    for path in paths {
        directives.extend(files.read(path, 0)?);
    }
    Ok(translate(directives, prefix, options))
}

/// nginx resolves paths against the folder of `nginx.conf`.
fn prefix_of(paths: &[PathBuf]) -> PathBuf {
    let Some(first) = paths.first() else { return PathBuf::new() };
    let folder = first.parent().unwrap_or(Path::new(""));
    match folder.file_name() {
        Some(name) if PARTS.iter().any(|part| name == *part) => {
            folder.parent().unwrap_or(folder).to_owned()
        }
        _ => folder.to_owned(),
    }
}

fn translate(directives: Vec<NginxDirective>, prefix: PathBuf, options: &ImportOptions) -> Import {
    let mut http = Vec::new();
    let mut others = Vec::new();
    for mut directive in directives {
        match directive.name.as_str() {
            "http" => http.extend(directive.block.take().unwrap_or_default()),
            name if known::is_main(name) => {}
            "stream" | "mail" => others.push(directive),
            _ => http.push(directive),
        }
    }
    let named = |name: &'static str| {
        let all = http.iter().filter(move |directive| directive.name == name);
        all.map(|directive| (directive.arg(0), directive)).collect::<BTreeMap<_, _>>()
    };
    let source = NginxSource {
        http: &http,
        groups: named("upstream"),
        rate_zones: request_limits::zones(&http, "limit_req_zone"),
        count_zones: request_limits::zones(&http, "limit_conn_zone"),
        real_ip: RealIp::of_all(&http),
        has_prefix: options.prefix.is_some(),
        prefix,
        drop_access_rules: options.drop_access_rules,
        rule_files: RefCell::new(RuleFiles::new(options.rules_stem.as_deref())),
        notes: RefCell::default(),
    };
    for other in &others {
        source.note(other, "Forebay serves only HTTP; keep this section in nginx");
    }
    known::note_unknown(&source, &http);
    let toml = server::write_all(&source, &BlockScope::new(&http));
    let mut notes = source.notes.into_inner();
    notes.sort();
    Import { toml, rule_files: source.rule_files.into_inner().into_files(), notes }
}
