//! `root`, `alias`, `index` and `try_files`: locations that answer with files.

use std::path::Path;

use super::caching;
use super::location::{LocationKind, NginxLocation};
use super::redirect::unavailable;
use super::request_limits;
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Names that `files_index` may have.
const INDEX_MAX: usize = 8;

/// Extensions of files whose content is the page. Others may be programs.
const PAGES: &[&str] = &["html", "htm", "xhtml", "xml", "txt", "json"];

/// Settings of a route that answers with files, or has origins of its own.
const SETTINGS: &[&str] = &[
    "origin",
    "balance",
    "files",
    "files_strip_prefix",
    "files_index",
    "files_fallback",
    "files_precompressed",
    "origin_host",
    "origin_strip_prefix",
    "origin_add_prefix",
    "heuristic_percent",
    "compress",
    "compress_types",
    "compress_bytes_min",
];

/// Writes the settings of a location that serves files, or that it cannot be carried over.
pub(super) fn write(source: &NginxSource<'_>, location: &NginxLocation<'_>, table: &mut TomlTable) {
    let scope = &location.scope;
    match directory(source, location) {
        Err((directive, reason)) => return unavailable(source, directive, table, &reason),
        Ok((path, is_stripped)) => {
            table.text("files", &path);
            if is_stripped {
                table.raw("files_strip_prefix", "true");
            }
            let above = if is_stripped { location.path.trim_end_matches('/') } else { "" };
            let below = fallback(scope).map(|path| path.strip_prefix(above).unwrap_or_default());
            match below {
                None => {}
                Some(path) if path.starts_with('/') => table.text("files_fallback", path),
                Some(_) => {
                    let reason = "the last file of try_files is outside the location";
                    return unavailable(source, location.directive, table, reason);
                }
            }
        }
    }
    index(source, scope, table);
    if scope.one("gzip_static").is_some_and(|one| one.arg(0) != "off") {
        table.raw("files_precompressed", "true");
    }
    if let Some(list) = scope.one("autoindex").filter(|one| one.arg(0) == "on") {
        source.note(list, "left out: the content of a directory is not listed; it gets 403");
    }
    // nginx looks at the file for each request.
    table.raw("heuristic_percent", "0");
    caching::compress(source, scope, table);
    request_limits::of_location(source, scope, table);
}

/// Removes the files, or the origins, of a route.
pub(super) fn clear(table: &mut TomlTable) {
    SETTINGS.iter().for_each(|name| table.remove(name));
}

/// Whether a location has the files of the route, or none.
pub(super) fn are_the_same(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    table: &TomlTable,
) -> bool {
    let own = scope.own();
    if own.iter().any(|one| one.name == "return") {
        return true;
    }
    let has_fallback = fallback(scope).is_none_or(|path| {
        table.value("files_fallback") == Some(crate::toml::quote(path).as_str())
    });
    let is_plain =
        own.iter().all(|one| one.name != "rewrite") && tried(own).is_ok() && has_fallback;
    let root = scope.all(&["root", "alias"]).first().copied();
    is_plain
        && root.is_some_and(|root| {
            root.name == "root"
                && absolute(source, root).is_ok_and(|path| {
                    table.value("files") == Some(crate::toml::quote(&path).as_str())
                        && !table.has("files_strip_prefix")
                })
        })
}

type FilesReason<'s> = (&'s NginxDirective, String);

/// The directory, and whether the path of the location is left out below it.
fn directory<'s>(
    source: &NginxSource<'_>,
    location: &NginxLocation<'s>,
) -> Result<(String, bool), FilesReason<'s>> {
    let scope = &location.scope;
    tried(scope.own())?;
    if let Some(ssi) = scope.one("ssi").filter(|ssi| ssi.arg(0) == "on") {
        return Err((ssi, "files are sent as they are".to_owned()));
    }
    if let Some(links) = scope.one("disable_symlinks").filter(|links| links.arg(0) != "off") {
        return Err((links, "symbolic links inside the directory are followed".to_owned()));
    }
    let Some(root) = scope.all(&["root", "alias"]).first().copied() else {
        return Err((location.directive, "nginx's default directory is not known".to_owned()));
    };
    let path = absolute(source, root)?;
    let (path, is_stripped) = match root.name.as_str() {
        "root" => (path, false),
        _ if scope.own_one("alias").is_none() => {
            return Err((root, "the directory of an outer `alias`".to_owned()));
        }
        _ => below(location, root, &path).map_err(|reason| (root, reason.to_owned()))?,
    };
    match Path::new(&path).is_dir() {
        true => Ok((path, is_stripped)),
        false => Err((root, format!("there is no directory {path} on this machine"))),
    }
}

/// The directory of an `alias`.
fn below(
    location: &NginxLocation<'_>,
    alias: &NginxDirective,
    path: &str,
) -> Result<(String, bool), &'static str> {
    if location.kind == LocationKind::Regex {
        return Err("the alias of a regular expression");
    }
    let is_folder = alias.arg(0).ends_with('/');
    if let Some(root) = path.strip_suffix(location.path.trim_end_matches('/'))
        && location.path != "/"
        && is_folder == location.path.ends_with('/')
    {
        return Ok((if root.is_empty() { "/" } else { root }.to_owned(), false));
    }
    match location.kind {
        LocationKind::Exact => Err("the alias of one path has another name"),
        _ if location.path.ends_with('/') != is_folder => {
            Err("only one of the location and its alias ends with a slash")
        }
        _ => Ok((path.to_owned(), true)),
    }
}

/// The path of a directory without a slash at its end.
fn absolute<'s>(
    source: &NginxSource<'_>,
    root: &'s NginxDirective,
) -> Result<String, FilesReason<'s>> {
    let text = root.arg(0);
    if text.contains('$') || text.is_empty() {
        return Err((root, "the directory has variables".to_owned()));
    }
    if !text.starts_with('/') && !source.has_prefix {
        let reason = "the directory is relative to the one that nginx was built with; write an \
                      absolute path, or use --prefix";
        return Err((root, reason.to_owned()));
    }
    let path = source.path(text);
    let trimmed = path.trim_end_matches('/');
    Ok(if trimmed.is_empty() { "/" } else { trimmed }.to_owned())
}

/// `try_files` that tries nothing but the file itself.
fn tried(own: &[NginxDirective]) -> Result<(), FilesReason<'_>> {
    let Some(list) = own.iter().find(|one| one.name == "try_files") else { return Ok(()) };
    let words: Vec<_> = list.args.iter().map(String::as_str).collect();
    let last = match words.as_slice() {
        ["$uri", last] | ["$uri", "$uri/", last] => *last,
        _ => "",
    };
    match last == "=404" || page_of(last).is_some() {
        true => Ok(()),
        false => {
            let reason = "files are tried in place of others only as $uri, $uri/ and a page";
            Err((list, reason.to_owned()))
        }
    }
}

/// The path of the page that `try_files` answers with if there is no file.
pub(super) fn fallback<'s>(scope: &BlockScope<'s>) -> Option<&'s str> {
    let list = scope.own_one("try_files")?;
    page_of(list.args.last()?)
}

/// The path of a page, without a query.
pub(super) fn page_of(word: &str) -> Option<&str> {
    let ends = ["$is_args$args", "?$args", "?$query_string"];
    let path = ends.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    let is_name = |name: &str| {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain)
    };
    let (_, end) = path.rsplit_once('.')?;
    let is_path = path.strip_prefix('/').is_some_and(|path| path.split('/').all(is_name));
    (is_path && PAGES.contains(&end)).then_some(path)
}

/// The names of the files that answer for their directories, as nginx has them.
pub(super) fn index_names<'s>(scope: &BlockScope<'s>) -> Vec<&'s str> {
    let all = scope.all(&["index"]);
    match all.is_empty() {
        true => vec!["index.html"],
        false => all.iter().flat_map(|one| one.args.iter().map(String::as_str)).collect(),
    }
}

fn index(source: &NginxSource<'_>, scope: &BlockScope<'_>, table: &mut TomlTable) {
    let mut names = Vec::new();
    for directive in scope.all(&["index"]) {
        for name in &directive.args {
            let end = name.rsplit_once('.').map_or("", |(_, end)| end);
            let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            let is_usable = is_name && PAGES.contains(&end) && !name.starts_with('.');
            if !is_usable || names.len() == INDEX_MAX {
                source.note(directive, format!("{name} is left out: it is no page"));
            } else if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    if !names.is_empty() && names != ["index.html"] {
        table.texts("files_index", &names);
    }
}
