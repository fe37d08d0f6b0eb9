//! Invalid `path_regex` and `before_regex` of routes.

use super::bad::{Case, SITE, check, errors};
use crate::config::Config;

/// Lines that follow a valid site, and so begin on line 5.
#[rustfmt::skip]
const CASES: &[Case] = &[
    ("path_regex = '/'", "5:1", &["write this setting in [[site.route]]"]),
    ("[[site.route]]\npath_regex = ''", "6:14", &["`path_regex` is empty", "single quotes"]),
    ("[[site.route]]\npath_regex = 1", "6:14", &["in double quotes"]),
    ("[[site.route]]\npath_regex = '('", "6:14", &["cannot be '(': unclosed group"]),
    ("[[site.route]]\npath_regex = '~* \\.php$'", "6:14",
        &["cannot have white space", "write '"]),
    ("[[site.route]]\npath_regex = '^/(?!api/)'", "6:14",
        &["at '(?!', look-around is not supported", "can have a route of their own"]),
    ("[[site.route]]\npath_regex = '(a)\\1'", "6:14", &["at '\\1', back-references"]),
    ("[[site.route]]\npath_regex = '(((a{99}){99}){99}){99}'", "6:14",
        &["more than 1MiB when compiled", "smaller repetition counts"]),
    ("[[site.route]]\npath_regex = 'a'\n[[site.route]]\npath_regex = 'a'", "8:14",
        &["two routes for \"a\"", "at f.toml:6:14"]),
    ("[[site.route]]\npath_regex = 'a'\npath = '/a'", "7:8",
        &["`path` and `path_regex` are in the same section", "leave one of them out"]),
    ("[[site.route]]\npath_regex = 'a'\nbefore_regex = true", "7:16",
        &["only for routes with `path_prefix`", "leave it out"]),
    ("[[site.route]]\npath_prefix = '/a'\nbefore_regex = 'yes'", "7:16", &["true or false"]),
    ("[[site.route]]\npath_prefix = '/a'\ncache = false\n[[site.route]]\npath_regex = '\\.b$'",
        "6:15", &["'\\.b$' may match paths of this route", "another `cache`",
        "`before_regex = true`, so that this prefix wins"]),
    ("[[site.route]]\npath_regex = 'b'\n[[site.route]]\npath_prefix = '/a'\n\
        deny_from = ['::1']", "8:15", &["another `deny_from`"]),
    ("[[site.route]]\npath_regex = 'b'\n[[site.route]]\npath_prefix = '/a'\n\
        origin = 'http://b'", "8:15", &["another `origin`", "`before_regex = true`"]),
    ("[[site.route]]\npath_regex = 'b'\n[[site.route]]\npath_prefix = '/a'\n\
        respond = '403'", "8:15", &["another `respond`", "`before_regex = true`"]),
    ("[[site.route]]\npath_regex = 'b'\n[[site.route]]\npath_prefix = '/a'\n\
        redirect = '302 /b'", "8:15", &["another `redirect`"]),
    ("[[site.route]]\npath_regex = 'b'\n[[site.route]]\npath_prefix = '/a'\n\
        files = '/'", "8:15", &["another `files`"]),
    ("[[site.route]]\npath_regex = 'b'\n[[site.route]]\npath_prefix = '/a'\n\
        https_redirect_port = 443", "8:15", &["another `https_redirect_port`"]),
    ("purge_from = ['::1']\n[[site.route]]\npath_regex = 'b'\n[[site.route]]\n\
        path_prefix = '/a'\npurge_from = []", "9:15", &["another `purge_from`"]),
    ("files = '/'\nfiles_strip_prefix = true\n[[site.route]]\npath_regex = 'a'", "8:14",
        &["`files_strip_prefix` needs a prefix", "`files_strip_prefix = false` in this route"]),
];

#[test]
fn a_bad_regular_expression_is_refused_with_its_place_and_a_hint() {
    for (lines, place, parts) in CASES {
        check(&format!("{SITE}{lines}\n"), place, parts);
    }
}

#[test]
fn too_many_regular_expressions_are_refused() {
    use crate::limits::{PATH_REGEXES_MAX, PATH_REGEXES_PER_SITE_MAX};
    let routes = |site: usize, count: usize| -> String {
        let route = |i| format!("[[site.route]]\npath_regex = '{site}x{i}'\n");
        (0..count).map(route).collect()
    };
    let line = 6 + 2 * PATH_REGEXES_PER_SITE_MAX;
    let text = format!("{SITE}{}", routes(0, PATH_REGEXES_PER_SITE_MAX + 2));
    check(&text, &format!("{line}:14"), &["a site has at most 32 routes with `path_regex`"]);
    let site = |i: usize| {
        let name = format!("s{i}");
        let site =
            SITE.replace("a.org", &format!("{name}.org")).replace("\"a\"", &format!("{name:?}"));
        format!("{site}{}", routes(i, PATH_REGEXES_PER_SITE_MAX))
    };
    let full: String = (0..PATH_REGEXES_MAX / PATH_REGEXES_PER_SITE_MAX).map(site).collect();
    assert!(Config::from_toml(&full, "f.toml").is_ok());
    let line = full.lines().count() + 6;
    let text = format!("{full}{SITE}{}", routes(9, 2));
    check(&text, &format!("{line}:14"), &["all sites together have at most 1024 `path_regex`"]);
    // The size of all patterns is limited, too: 64 of these take more than 32 MiB.
    let large = |i: usize| site(i).replace("path_regex = '", "path_regex = '[a-z]{1200}");
    let shown = errors(&[large(1), large(2), large(3), large(4)].concat()).to_string();
    assert!(shown.contains("all routes take more than 32MiB"), "{shown}");
    assert!(shown.ends_with("1 error"), "{shown}");
}
