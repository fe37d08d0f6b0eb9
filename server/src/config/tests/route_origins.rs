//! Origins of routes: valid and invalid forms, inherited settings, and differences.

use super::super::*;

const SITE: &str = "[[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = \"http://a\"\n";

/// A configuration with a site that begins on line 1, and a route whose lines begin on line 7.
fn with_route(lines: &str) -> String {
    format!("{SITE}[[site.route]]\npath_prefix = \"/x\"\n{lines}")
}

fn read(text: &str) -> Config {
    Config::from_toml(text, "f.toml").unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// Checks that a route with these lines has exactly one error, which is at this place, and that its
/// text contains these parts.
fn check(cases: &[(&str, &str, &[&str])]) {
    for (lines, place, parts) in cases {
        let text = with_route(lines);
        let Err(errors) = Config::from_toml(&text, "f.toml") else { panic!("{text} is valid") };
        let shown = errors.to_string();
        assert_eq!(errors.count(), 1, "{text}\n{shown}");
        assert!(shown.starts_with(&format!("f.toml:{place}: ")), "{text}\n{shown}");
        for part in *parts {
            assert!(shown.contains(part), "no {part:?} in the answer to\n{text}\n{shown}");
        }
    }
}

#[test]
fn a_route_has_its_own_origins_or_those_of_its_site() {
    let config = read(&with_route(
        "origin = [\"http://b:1\", { url = \"http://c:2\", backup = true }]\nbalance = \"hash\"\n\
         [[site.route]]\npath_prefix = \"/y\"\n",
    ));
    let site = config.sites.iter().next().expect("it has one");
    let shown = |path: &str| site.route(path.as_bytes()).origins.to_string();
    assert_eq!([shown("/x/1"), shown("/y"), shown("/")], ["b:1, c:2", "a", "a"]);
    assert_eq!(site.route(b"/x").origins.balance, Balance::Hash);
    let keys: Vec<_> = config.sites.origin_groups().map(|of| &*of.group.key).collect();
    assert_eq!(keys, ["a", "a\0/x"]);
}

#[test]
fn health_checks_of_a_site_apply_to_its_routes_unless_they_have_their_own() {
    let health = |lines: &str| {
        let text = format!("health_path = \"/up\"\n{}", with_route(lines));
        let config = read(&text);
        let site = config.sites.iter().next().expect("it has one");
        let path = |path: &[u8]| site.route(path).origins.health.as_ref().map(|h| h.path.clone());
        (path(b"/"), path(b"/x"))
    };
    let up = || Some("/up".to_owned());
    assert_eq!(health("origin = \"http://b\""), (up(), up()));
    assert_eq!(health("origin = \"http://b\"\nhealth_path = \"off\""), (up(), None));
    let own = health("origin = \"http://b\"\nhealth_path = \"/ok\"\nhealth_status = 204");
    assert_eq!(own, (up(), Some("/ok".to_owned())));
}

#[test]
fn a_route_with_origins_has_its_own_limits_of_outliers() {
    let outliers = |lines: &str| {
        let text = format!("origin_outlier_factor = 3\n{}", with_route(lines));
        let config = read(&text);
        let site = config.sites.iter().next().expect("it has one");
        let limits = |path: &[u8]| {
            let outliers = site.route(path).origins.outliers;
            outliers.map(|limits| (limits.factor, limits.ms_min))
        };
        (limits(b"/"), limits(b"/x"))
    };
    let of_site = Some((3, 100));
    assert_eq!(outliers(""), (of_site, of_site));
    assert_eq!(outliers("origin = \"http://b\""), (of_site, of_site));
    assert_eq!(outliers("origin = \"http://b\"\norigin_outlier_factor = 0"), (of_site, None));
    let own = "origin = \"http://b\"\norigin_outlier_ms_min = \"2s\"";
    assert_eq!(outliers(own), (of_site, Some((3, 2000))));
}

#[test]
fn the_origins_of_a_route_answer_in_place_of_what_outer_sections_say() {
    let site = SITE.replace("origin = \"http://a\"\n", "redirect = \"301 https://b.org/\"\n");
    let text = format!("{site}[[site.route]]\npath_prefix = \"/x\"\norigin = \"http://b\"\n");
    let config = read(&text);
    let site = config.sites.iter().next().expect("it has one");
    assert!(!site.route(b"/x").answers_itself() && site.route(b"/").answers_itself());
    assert_eq!(site.origins.first(), None);
}

#[test]
fn a_route_with_bad_origins_is_refused_with_its_place_and_a_hint() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("origin = \"b:1\"", "7:10", &["cannot be \"b:1\"", "write \"http://b:1\""]),
        ("origin = []", "7:10", &["`origin` is empty"]),
        ("origin = [\"http://b\", \"http://b\"]", "7:23", &["repeats \"b\"", "`weight`"]),
        (
            "origin = { url = \"http://b\", wait = 1 }",
            "7:30",
            &["`wait` is not a setting of an origin"],
        ),
        ("origin = \"http://b\"\nbalance = \"lest\"", "8:11", &["did you mean \"least\"?"]),
        ("balance = \"hash\"", "7:1", &["for a route without `origin`", "in this section too"]),
        ("health_path = \"/up\"", "7:1", &["for a route without `origin`", "[[site]]"]),
        ("origin = \"http://b\"\nhealth_path = \"up\"", "8:15", &["write \"/up\""]),
        ("origin = \"http://b\"\ntls_cert = [\"x\"]", "8:1", &["not a setting of a route"]),
        ("origin = \"http://b\"\norigin_tls_name = \"\"", "8:19", &["`origin_tls_name`"]),
        ("origin = \"https://b\"\norigin_ca = [\"/nowhere\"]", "8:13", &["/nowhere"]),
        ("origin = \"http://b\"\nredirect = \"301 /y\"", "8:12", &["same section", "one answer"]),
        ("origin = \"http://b\"\nfiles = \"/\"", "8:9", &["`origin` and `files`"]),
    ];
    check(cases);
}

#[test]
fn a_difference_names_the_settings_of_a_routes_own_origins() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("", "origin = \"http://b\"", &["origin: \"http://a\" > \"http://b\""]),
        ("origin = \"http://b\"", "", &["origin: \"http://b\" > \"http://a\""]),
        (
            "origin = \"http://b\"",
            "origin = \"http://b:1\"\nbalance = \"hash\"\nhealth_status = 204",
            &[
                "health_status: 200 (default) > 204",
                "origin: \"http://b\" > \"http://b:1\"",
                "balance: \"round-robin\" (default) > \"hash\"",
            ],
        ),
        ("origin = \"http://b\"", "origin = [\"http://b\"]", &[]),
    ];
    for (old, new, expected) in cases {
        let (old, new) = (read(&with_route(old)), read(&with_route(new)));
        assert_eq!(changes_of_route(&old, &new), *expected);
        assert_eq!(old == new, expected.is_empty());
    }
}

/// Returns the changes, all of which concern the route.
fn changes_of_route(old: &Config, new: &Config) -> Vec<String> {
    let shown = |change: ConfigChange| {
        assert_eq!(change.subjects, ["site \"a\", route /x"]);
        let text = |value: Option<String>| value.unwrap_or_default();
        let setting = change.setting.unwrap_or_default();
        format!("{setting}: {} > {}", text(change.old), text(change.new))
    };
    old.changes(new).into_iter().map(shown).collect()
}

#[test]
fn a_difference_shows_the_values_that_apply_to_a_route() {
    let config = |lines: &str| {
        let site = format!("{SITE}balance = \"hash\"\nhealth_path = \"/ready\"\n");
        read(&format!("{site}[[site.route]]\npath_prefix = \"/x\"\n{lines}"))
    };
    let own = "origin = \"http://b\"\n";
    let least = format!("{own}balance = \"least\"");
    let changes = changes_of_route(&config(own), &config(&least));
    assert_eq!(changes, ["balance: \"round-robin\" (default) > \"least\""]);
    let unchecked = format!("{own}health_path = \"off\"");
    let changes = changes_of_route(&config(""), &config(&unchecked));
    let expected = [
        "health_path: \"/ready\" > \"off\"",
        "origin: \"http://a\" > \"http://b\"",
        "balance: \"hash\" > \"round-robin\" (default)",
    ];
    assert_eq!(changes, expected);
}

#[test]
fn a_bad_host_or_prefix_for_the_origin_is_refused_with_its_place_and_a_hint() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("origin_host = \"http://b\"", "7:15", &["cannot be", "without a scheme or a path"]),
        ("origin_host = \"b:x\"", "7:15", &["a port is a number"]),
        ("origin_host = \"b c\"", "7:15", &["letters, digits"]),
        ("origin_host = \"\"", "7:15", &["`origin_host` is empty"]),
        ("origin_strip_prefix = \"/x\"", "7:23", &["cannot be text", "true or false"]),
        ("origin_add_prefix = \"v2\"", "7:21", &["write \"/v2\""]),
        ("origin_add_prefix = \"/a/../b\"", "7:21", &["without //, /./, /../"]),
        ("origin_add_prefix = \"/a?b\"", "7:21", &["without patterns or a query"]),
        ("origin_add_prefix = \"/a<b\"", "7:21", &["as it stands in a URL"]),
    ];
    check(cases);
}

#[test]
fn the_host_and_the_prefixes_for_the_origin_are_read() {
    let config = read(&with_route(
        "origin = \"https://b\"\norigin_host = \"origin\"\norigin_strip_prefix = true\n\
         origin_add_prefix = \"/v2/\"",
    ));
    let site = config.sites.iter().next().expect("it has one");
    let route = site.route(b"/x");
    let host = |authority: &str| {
        let origin = OriginAddress::parse(authority).expect("valid");
        route.settings.origin_host.of(&origin).map(str::to_owned)
    };
    let shown = ["https://b", "https://b:8443", "http://b", "http://b:81", "unix:/s"].map(host);
    let expected = ["b", "b:8443", "b", "b:81", "localhost"].map(|host| Some(host.to_owned()));
    assert_eq!(shown, expected);
    assert_eq!((route.stripped_prefix(), route.settings.origin_add_prefix.get()), ("/x", "/v2"));
    let fallback = site.route(b"/");
    assert_eq!((fallback.stripped_prefix(), fallback.settings.origin_add_prefix.get()), ("", ""));
}
