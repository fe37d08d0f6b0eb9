//! Configurations of nginx.

mod access;
mod caching;
mod condition;
mod cover;
mod fields;
mod files;
mod include;
mod known;
mod limits;
mod location;
mod origins;
mod real_ip;
mod redirect;
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
    let zones = http.iter().filter(|directive| directive.name == "limit_req_zone");
    let limits = zones
        .filter_map(|zone| {
            let name = zone.args.iter().find_map(|arg| arg.strip_prefix("zone="))?;
            Some((name.split(':').next().unwrap_or(name), zone))
        })
        .collect();
    let source = NginxSource {
        http: &http,
        groups: named("upstream"),
        limits,
        real_ip: real_ip_of(&http),
        has_prefix: options.prefix.is_some(),
        prefix,
        drop_access_rules: options.drop_access_rules,
        notes: RefCell::default(),
    };
    for other in &others {
        source.note(other, "Forebay serves only HTTP; keep this section in nginx");
    }
    known::note_unknown(&source, &http);
    let toml = server::write_all(&source, &BlockScope::new(&http));
    let mut notes = source.notes.into_inner();
    notes.sort();
    Import { toml, notes }
}

/// The trusted proxies of all servers if they are the same, or else those of `http`.
fn real_ip_of(http: &[NginxDirective]) -> RealIp {
    let outer = BlockScope::new(http);
    let servers = http.iter().filter(|directive| directive.name == "server");
    let mut each = servers.map(|server| RealIp::of(&outer.inside(server.inner())));
    let found = match each.next() {
        Some(first) if each.all(|other| other == first) => first,
        _ => RealIp::of(&outer),
    };
    if found.can_be_trusted() { found } else { RealIp::default() }
}
