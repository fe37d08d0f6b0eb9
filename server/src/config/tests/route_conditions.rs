//! `methods`, `with_fields`, `with_query` and `with_cookies` of routes.

use super::bad::{Case, SITE, check};
use crate::config::Config;

/// Lines that follow a valid site, and so begin on line 5.
#[rustfmt::skip]
const CASES: &[Case] = &[
    ("methods = ['POST']", "5:1", &["write this setting in [[site.route]]"]),
    ("with_query = ['a']", "5:1", &["write this setting in [[site.route]]"]),
    ("[[site.route]]\nmethods = ['POST']", "5:1", &["path_prefix"]),
    ("[[site.route]]\npath_prefix = '/a'\nmethods = ['post']", "7:11", &["write \"POST\""]),
    ("[[site.route]]\npath_prefix = '/a'\nmethods = 'POST'", "7:11", &["write [\"POST\"]"]),
    ("[[site.route]]\npath_prefix = '/a'\nmethods = []", "7:11",
        &["has 0 elements", "leave it out"]),
    ("[[site.route]]\npath_prefix = '/a'\nmethods = ['HEAD']", "7:11", &["so write \"GET\""]),
    ("[[site.route]]\npath_prefix = '/a'\nmethods = ['PURGE']", "7:11", &["the route of GET"]),
    ("[[site.route]]\npath_prefix = '/a'\nmethods = ['A B']", "7:11", &["write a method"]),
    ("[[site.route]]\npath_prefix = '/a'\nmethods = ['POST']\ncache = true", "8:9",
        &["do not have GET cannot store", "or write \"GET\""]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_fields = ['X Y=1']", "7:15", &["write a name"]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_fields = ['X=1', 'x=2']", "7:15",
        &["already in the list", "another route for another value"]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_fields = ['X= 1']", "7:15",
        &["no request has such a value"]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_query = ['a&b']", "7:14", &["write a name"]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_query = ['a=b&c']", "7:14",
        &["no request has such a value"]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_query = 'a'", "7:14", &["write [\"a\"]"]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_cookies = ['=']", "7:16", &["write a name"]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_cookies = ['a=b;c']", "7:16",
        &["no request has such a value"]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_query = ['a']\ncache = true", "8:9",
        &["cannot store responses", "leave `cache` out"]),
    ("[[site.route]]\npath = '/a'\nmethods = ['POST']\n[[site.route]]\npath = '/a'\n\
        methods = ['POST']", "9:8", &["two routes for \"/a\", method POST", "at f.toml:6:8"]),
    ("[[site.route]]\npath_prefix = '/a'\nmethods = ['TRACE']", "7:11",
        &["before it has a route"]),
    ("[[site.route]]\npath_prefix = '/a'\nmethods = ['GET', 'GET']", "7:11",
        &["already in the list"]),
    ("[[site.route]]\npath = '/a'\nmethods = ['POST', 'PUT']\n[[site.route]]\npath = '/a'\n\
        methods = ['PUT', 'POST']", "9:8",
        &["two routes for \"/a\", method PUT or POST", "at f.toml:6:8"]),
    ("[[site.route]]\npath = '/a'\nwith_fields = ['A', 'b=c']\n[[site.route]]\npath = '/a'\n\
        with_fields = ['B=c', 'a']", "9:8", &["two routes for \"/a\", field B=c, field a"]),
    ("[[site.route]]\npath = '/a'\nwith_query = ['v']\n[[site.route]]\npath = '/a'\n\
        with_query = ['w', 'v=2']", "9:8",
        &["each meets the conditions of \"/a\", parameter v,", "before the one at f.toml:6:8"]),
    ("[[site.route]]\npath = '/a'\nmethods = ['GET', 'PUT']\n[[site.route]]\npath = '/a'\n\
        methods = ['HEAD', 'GET']\nwith_cookies = ['a']", "9:8",
        &["no request can have this route"]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_query = ['a']\n\
        [[site.route]]\npath_prefix = '/a'\nrate_limit = ['1/1s']", "6:15",
        &["the route of /a, which has another `rate_limit`", "write `rate_limit` here, too"]),
    ("[[site.route]]\npath_prefix = '/a'\ndeny_from = ['::1']\n\
        [[site.route]]\npath_prefix = '/a'\nmethods = ['POST']", "9:15",
        &["another `deny_from`", "write `deny_from` here, too"]),
    ("[[site.route]]\npath_prefix = '/a'\nwith_query = ['a']\n\
        [[site.route]]\npath_regex = '\\.b$'", "6:15",
        &["another `cache`", "`before_regex = true`"]),
];

/// Lines that follow a valid site. In each, a field, a parameter or a cookie would lead around a
/// restriction.
#[rustfmt::skip]
const EVASIONS: &[Case] = &[
    ("ambiguous_path = 'normal-form'\n\
        [[site.route]]\npath_prefix = '/a'\nambiguous_path = 'refuse'\n\
        [[site.route]]\npath_prefix = '/a'\nwith_cookies = ['b=1']", "10:15",
        &["the route of /a, which has another `ambiguous_path`", "write `ambiguous_path` here"]),
    ("ambiguous_path = 'normal-form'\n\
        [[site.route]]\npath_prefix = '/a'\nambiguous_path = 'refuse'\n\
        [[site.route]]\npath_prefix = '/a/b'\nwith_cookies = ['b=1']", "10:15",
        &["the route of /a, which has another `ambiguous_path`"]),
    ("[[site.route]]\npath_prefix = '/a'\nforward_client_certificate = true\n\
        [[site.route]]\npath_prefix = '/a'\nwith_cookies = ['b=1']", "9:15",
        &["the route of /a, which has another `forward_client_certificate`"]),
    ("[[site.route]]\npath = '/a'\nwith_query = ['v']\n\
        [[site.route]]\npath = '/a'\nmethods = ['POST']\ndeny_from = ['::1']", "6:8",
        &["/a (only this path), method POST, which has another `deny_from`"]),
    ("[[site.route]]\npath_prefix = '/a'\nrate_limit = ['1/1s']\n\
        [[site.route]]\npath = '/a'\nwith_query = ['v']", "9:8",
        &["the route of /a, which has another `rate_limit`"]),
    ("[[site.route]]\npath_prefix = '/'\nrate_limit = ['1/1s']\n\
        [[site.route]]\npath_prefix = '/a/b'\nwith_query = ['v']", "9:15",
        &["the route of /, which has another `rate_limit`"]),
    ("[[site.route]]\npath_regex = '^/a'\nrate_limit = ['1/1s']\n\
        [[site.route]]\npath = '/a'\nwith_query = ['v']", "9:8",
        &["the route of ^/a (regular expression), which has another `rate_limit`"]),
    ("[[site.route]]\npath_regex = 'b'\nwith_query = ['v']\n\
        [[site.route]]\npath_regex = '^/a'\nrate_limit = ['1/1s']", "6:14",
        &["the route of ^/a (regular expression), which has another `rate_limit`"]),
    ("[[site.route]]\npath_prefix = '/'\nrate_limit = ['1/1s']\n\
        [[site.route]]\npath_regex = 'b'\nwith_query = ['v']", "9:14",
        &["the route of /, which has another `rate_limit`"]),
];

#[test]
fn a_route_with_conditions_has_the_restrictions_of_the_routes_that_it_goes_before() {
    for (lines, place, parts) in EVASIONS {
        check(&format!("{SITE}{lines}\n"), place, parts);
    }
    for lines in [
        // A setting that is written is meant.
        "[[site.route]]\npath_prefix = '/a'\nrate_limit = ['1/1s']\n\
         [[site.route]]\npath = '/a'\nwith_query = ['v']\nrate_limit = []",
        // No request can have both routes.
        "[[site.route]]\npath = '/a'\nmethods = ['GET']\nwith_query = ['v']\n\
         [[site.route]]\npath = '/a'\nmethods = ['POST']\ndeny_from = ['::1']",
        "[[site.route]]\npath_prefix = '/a'\nrate_limit = ['1/1s']\n\
         [[site.route]]\npath = '/ab'\nwith_query = ['v']",
        "[[site.route]]\npath_prefix = '/a'\nrate_limit = ['1/1s']\n\
         [[site.route]]\npath = '/a'\n[[site.route]]\npath = '/a'\nwith_query = ['v']",
        "[[site.route]]\npath_prefix = '/a'\ndeny_from = ['::1']\nbefore_regex = false\n\
         [[site.route]]\npath_regex = 'b'\n[[site.route]]\npath_regex = 'b'\n\
         with_query = ['v']\n[[site.route]]\npath_regex = 'c'\ndeny_from = ['::1']",
        // The other route has no restriction.
        "deny_from = ['::1']\n[[site.route]]\npath_prefix = '/a'\ndeny_from = []\n\
         [[site.route]]\npath_prefix = '/a'\nwith_query = ['v']",
        "[[site.route]]\npath_prefix = '/a'\nambiguous_path = 'normal-form'\n\
         [[site.route]]\npath_prefix = '/a'\nwith_query = ['v']",
    ] {
        routes(&format!("{lines}\n"));
    }
}

#[test]
fn a_bad_condition_is_refused_with_its_place_and_a_hint() {
    for (lines, place, parts) in CASES {
        check(&format!("{SITE}{lines}\n"), place, parts);
    }
    let many: Vec<_> = (0..17).map(|number| format!("a{number}")).collect();
    let lines = format!("[[site.route]]\npath_prefix = '/a'\nwith_query = {many:?}");
    check(&format!("{SITE}{lines}\n"), "7:14", &["has 17 elements", "write at most 16"]);
}

/// Returns the routes of the site of a configuration, in the order in which they are compared.
fn routes(lines: &str) -> Vec<String> {
    let text = format!("{SITE}{lines}");
    let config = Config::from_toml(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let site = config.sites.iter().next().expect("it has one");
    site.routes().iter().map(|route| route.shown_path()).collect()
}

#[test]
fn routes_with_conditions_come_before_the_route_of_the_same_paths_without() {
    let route = |lines: &str| format!("[[site.route]]\n{lines}\n");
    let lines: String = [
        "path_prefix = '/'\ncache = false",
        "path_prefix = '/'\nmethods = ['POST']",
        "path_prefix = '/b'",
        "path_prefix = '/b'\nwith_query = ['z']",
        "path_prefix = '/b'\nwith_query = ['y']\nwith_fields = ['A', 'B=c']",
        "path = '/'\nwith_cookies = ['c']",
        "path_regex = 'x'\ncache = false",
        "path_regex = 'y'",
        "path_regex = 'x'\nmethods = ['PUT']",
    ]
    .map(|lines| match lines.contains("'/b'") {
        true => route(&format!("{lines}\nbefore_regex = false")),
        false => route(lines),
    })
    .concat();
    let expected = [
        "x (regular expression), method PUT",
        "x (regular expression)",
        "y (regular expression)",
        "/b, parameter z",
        "/b, field A, field B=c, parameter y",
        "/b",
        "/ (only this path), cookie c",
        "/, method POST",
        "/",
    ];
    assert_eq!(routes(&lines), expected);
}

#[test]
fn routes_of_the_same_paths_that_can_have_requests_are_accepted() {
    for (one, other) in [
        ("with_query = ['v=2']", "with_query = ['v']"),
        ("with_query = ['v']", "with_query = ['V']"),
        ("with_query = ['v']\nmethods = ['GET']", "with_query = ['v', 'w']"),
        ("methods = ['GET']", "methods = ['GET', 'POST']"),
        ("with_fields = ['A=x, parameter y']", "with_fields = ['A=x']\nwith_query = ['y']"),
    ] {
        let route = "[[site.route]]\npath = '/a'\n";
        let routes = routes(&format!("{route}{one}\n{route}{other}\n"));
        assert_eq!(routes.len(), 3, "{one} {other}");
        assert_ne!(routes.first(), routes.get(1), "they have the same text");
    }
}

#[test]
fn only_a_route_that_every_get_request_of_its_urls_has_may_store() {
    for (lines, expected) in [
        ("methods = ['GET']", true),
        ("methods = ['GET', 'HEAD', 'POST']", true),
        ("methods = ['POST']", false),
        ("methods = ['GET']\nwith_fields = ['a']", false),
        ("with_query = ['a']", false),
        ("with_cookies = ['a']\ncache = false", false),
    ] {
        let text = format!("{SITE}[[site.route]]\npath_prefix = '/a'\n{lines}\n");
        let config = Config::from_toml(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let site = config.sites.iter().next().expect("it has one");
        let route = site.routes().first().expect("it has two");
        assert_eq!((route.may_store(), route.settings.cache), (expected, expected), "{lines}");
        assert_eq!(site.route(b"/a").number == route.number, expected, "{lines}");
    }
}
