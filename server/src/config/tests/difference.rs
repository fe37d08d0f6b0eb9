//! The differences of two configurations.

use super::super::*;

const SITE: &str = "[[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = \"http://a\"\n";

fn read(text: &str) -> Config {
    Config::from_toml(text, "f.toml").unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

/// Returns the changes, each as one line.
fn changes(old: &str, new: &str) -> Vec<String> {
    let shown = |change: ConfigChange| {
        let text = |value: Option<String>| value.unwrap_or("-".to_owned());
        let restart = if change.needs_restart { " restart" } else { "" };
        let (old, new) = (text(change.old), text(change.new));
        let setting = change.setting.unwrap_or("-");
        format!("{setting}: {old} > {new} [{}]{restart}", change.subjects.join("; "))
    };
    read(old).changes(&read(new)).into_iter().map(shown).collect()
}

#[test]
fn equal_values_are_no_difference_however_they_are_written() {
    let old = format!("idle_ms_max = 60000\ncache_size = \"1GiB\"\n{SITE}");
    let new = format!("cache_size = 0x4000_0000 # the same\n{SITE}");
    assert_eq!(changes(&old, &new), Vec::<String>::new());
    assert_eq!(changes(SITE, SITE), Vec::<String>::new());
}

#[test]
fn a_change_has_both_values_and_says_what_applies_it() {
    let site = |lines: &str| format!("{SITE}{lines}");
    let top = |lines: &str| format!("{lines}\n{SITE}");
    let second = SITE.replace("\"a\"", "\"b\"").replace("a.org", "b.org");
    let route = "[[site.route]]\npath_prefix = \"/x\"\n";
    let cases: &[(String, String, &[&str])] = &[
        (
            top("workers = 2"),
            top("workers = 4\nidle_ms_max = \"5s\""),
            &["workers: 2 > 4 [] restart", "idle_ms_max: \"60s\" (default) > \"5s\" []"],
        ),
        (site(""), site(&second), &["-: - > site [site \"b\"]"]),
        (site(&second), site(""), &["-: site > - [site \"b\"]"]),
        (
            top("access_log = \"a.log\""),
            top("access_log = \"b.log\""),
            &["access_log: \"a.log\" > \"b.log\" []"],
        ),
        (
            format!("access_log = \"a.log\"\n{SITE}"),
            format!("access_log = \"-\"\n{SITE}access_log = \"off\""),
            &["access_log: \"a.log\" > \"-\" []", "access_log: \"a.log\" > \"off\" [site \"a\"]"],
        ),
        (
            site("access_log = \"a.log\""),
            site(""),
            &["access_log: \"a.log\" > \"off\" (default) [site \"a\"]"],
        ),
        (site(""), site(route), &["-: - > route [site \"a\", route /x]"]),
        (site(route), site(""), &["-: route > - [site \"a\", route /x]"]),
        (site(""), site("cache = false"), &["cache: true (default) > false [site \"a\", route /]"]),
        (
            format!("{SITE}{route}{second}"),
            format!("cache = false\n{SITE}{route}{second}"),
            &["cache: true (default) > false [site \"a\", route /x; site \"a\", route /; \
               site \"b\", route /]"],
        ),
        (
            site(&format!("{route}redirect = '301 /y'\n")),
            site(&format!("{route}respond = '410'\n")),
            &[
                "redirect: '301 /y' > \"off\" [site \"a\", route /x]",
                "respond: \"off\" > '410' [site \"a\", route /x]",
            ],
        ),
        (
            site(""),
            SITE.replace("[\"a.org\"]", "[\n  \"a.org\",\n  \"c.org\" ]"),
            &["names: [\"a.org\"] > [ \"a.org\", \"c.org\" ] [site \"a\"]"],
        ),
        (
            site(""),
            site("health_path = \"/up\"\nbalance = \"hash\""),
            &[
                "health_path: \"off\" (default) > \"/up\" [site \"a\"]",
                "balance: \"round-robin\" (default) > \"hash\" [site \"a\"]",
            ],
        ),
        (
            top("cache_name = \"x\""),
            top("cache_name = { env = \"CARGO_PKG_NAME\" }"),
            &["cache_name: \"x\" > { env = \"CARGO_PKG_NAME\" } []"],
        ),
    ];
    for (old, new, expected) in cases {
        assert_eq!(changes(old, new), *expected, "{old}\n---\n{new}");
    }
}

#[test]
fn a_change_of_regular_expressions_or_of_their_order_is_a_difference() {
    let site = |lines: &str| format!("{SITE}{lines}");
    let route = "[[site.route]]\npath_prefix = \"/x\"\n";
    let regex = |text: &str| format!("[[site.route]]\npath_regex = '{text}'\n");
    let cases: &[(String, String, &[&str])] = &[
        (
            site("[[site.route]]\npath_regex = '\\.a$'\ncache = false"),
            site("[[site.route]]\npath_regex = '\\.a$'\n[[site.route]]\npath = '/x'"),
            &[
                "cache: false > true (default) [site \"a\", route \\.a$ (regular expression)]",
                "-: - > route [site \"a\", route /x (only this path)]",
            ],
        ),
        (
            site(&format!("{route}methods = ['POST']\nrespond = '200'")),
            site(&format!("{route}methods = ['POST']\n{route}with_fields = ['A=1', 'B']")),
            &[
                "respond: '200' > \"off\" [site \"a\", route /x, method POST]",
                "-: - > route [site \"a\", route /x, field A=1, field B]",
            ],
        ),
        (
            site(&format!("{route}methods = ['POST']\n{route}with_query = ['b']")),
            site(&format!("{route}with_query = ['b']\n{route}methods = ['POST']")),
            &["path_prefix: /x, method POST; /x, parameter b > \
               /x, parameter b; /x, method POST [site \"a\", order of the routes]"],
        ),
        (
            site(&format!("{route}before_regex = false")),
            site(&format!("{route}before_regex = true")),
            &["before_regex: false > true [site \"a\", route /x]"],
        ),
        (
            site(&format!("{}{}{}", regex("a"), regex("b"), regex("c"))),
            site(&format!("{}{}{}", regex("c"), regex("d"), regex("a"))),
            &[
                "-: route > - [site \"a\", route b (regular expression)]",
                "-: - > route [site \"a\", route d (regular expression)]",
                "path_regex: a, c > c, a [site \"a\", order of the routes]",
            ],
        ),
    ];
    for (old, new, expected) in cases {
        assert_eq!(changes(old, new), *expected, "{old}\n---\n{new}");
    }
}
