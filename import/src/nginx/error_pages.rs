//! `error_page`, where a file is the page.

use std::path::Path;

use super::files;
use super::known::HANDLERS;
use super::scope::{BlockScope, PASSES};
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Pages that a route may have, and bytes that a page may have.
const PAGES_MAX: usize = 40;
const BYTES_MAX: u64 = 64 << 10;

/// Directives of a location whose file is not its answer.
const OTHERS: &[&str] = &["alias", "return", "rewrite", "if", "deny", "auth_basic"];

/// Writes the pages of a route. nginx replaces its own errors, and those of origins if
/// `proxy_intercept_errors` is on.
pub(super) fn write(source: &NginxSource<'_>, scope: &BlockScope<'_>, table: &mut TomlTable) {
    let mut pages = Vec::<(u16, String)>::new();
    for directive in scope.all(&["error_page"]) {
        let statuses = directive.args.split_last().map_or(&[][..], |(_, statuses)| statuses);
        let codes: Vec<_> = statuses.iter().map(|text| text.parse::<u16>().ok()).collect();
        let is_error = |code: &Option<u16>| code.is_some_and(|code| (400..600).contains(&code));
        let found = page(source, scope, directive);
        match found.filter(|_| codes.iter().all(is_error)) {
            None => source.note(
                directive,
                "left out: only a file of a location with `root` can be the page, with the status \
                 of the error; name files in error_pages or origin_error_pages",
            ),
            Some(path) => {
                let new = |code: &u16| !pages.iter().any(|(known, _)| known == code);
                let codes: Vec<_> = codes.into_iter().flatten().filter(new).collect();
                pages.extend(codes.into_iter().map(|code| (code, path.clone())));
                if pages.len() > PAGES_MAX {
                    source.note(directive, "left out in part: a route has at most 40 pages");
                }
            }
        }
    }
    pages.truncate(PAGES_MAX);
    let texts: Vec<_> = pages.iter().map(|(code, path)| format!("{code}={path}")).collect();
    if texts.is_empty() {
        return;
    }
    table.texts("error_pages", &texts);
    // Forebay takes files for an origin.
    let intercepts =
        if scope.is_grpc() { "grpc_intercept_errors" } else { "proxy_intercept_errors" };
    if table.has("files") || scope.is_on(intercepts) {
        table.texts("origin_error_pages", &texts);
    }
}

/// The file of a page: that of `location = /page`, or of `location /`.
fn page(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    directive: &NginxDirective,
) -> Option<String> {
    let url = files::page_of(directive.args.last()?)?;
    let server = scope.of_server()?;
    let locations = || server.own().iter().filter(|one| one.name == "location");
    let exact = locations().find(|one| one.args == ["=", url]);
    let location = exact.or_else(|| locations().find(|one| one.args == ["/"]));
    let found = location.map_or(server.clone(), |one| server.inside(one.inner()));
    // nginx might answer with another page than the file.
    let is_other = found.own().iter().any(|one| {
        let name = one.name.as_str();
        [OTHERS, PASSES, HANDLERS].iter().any(|names| names.contains(&name))
    });
    if is_other {
        return None;
    }
    let root = found.one("root").filter(|root| !root.arg(0).contains('$'))?;
    if !root.arg(0).starts_with('/') && !source.has_prefix {
        return None;
    }
    let path = format!("{}{url}", source.path(root.arg(0)).trim_end_matches('/'));
    let metadata = Path::new(&path).metadata().ok()?;
    let end = url.rsplit_once('.').map_or("", |(_, end)| end);
    let is_usable = metadata.is_file() && metadata.len() <= BYTES_MAX;
    (is_usable && matches!(end, "html" | "json" | "txt")).then_some(path)
}
