//! Values in environment variables and in files.
//!
//! The variables are ones that cargo sets for each test.

use std::fs;

use forebay_testkit::server::Folder;

use super::super::*;

const SITE: &str = "[[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = \"http://a\"\n";

/// Reads a file in the folder. `$` in an error stands for the folder.
fn read(folder: &Folder, text: &str) -> Result<Config, String> {
    let name = folder.path("main.toml").display().to_string();
    let dir = folder.path("").display().to_string();
    let shown = |errors: ConfigErrors| errors.to_string().replace(dir.trim_end_matches('/'), "$");
    Config::from_toml(text, &name).map_err(shown)
}

#[test]
fn a_value_can_stand_in_a_variable_or_in_a_file() {
    let folder = Folder::new();
    fs::write(folder.path("realm"), "members only\r\n").expect("writable");
    fs::write(folder.path("address"), "10.0.0.0/8").expect("writable");
    let text = format!(
        "cache_name = {{ env = \"CARGO_PKG_NAME\" }}\nbasic_auth_realm = {{ file = \"realm\" }}\n\
         allow_from = [\"127.0.0.1\", {{ file = \"address\" }}]\n\
         {SITE}[[site]]\nname = {{ env = \"CARGO_PKG_NAME\" }}\nnames = [\"b.org\"]\n\
         origin = {{ url = \"http://b\", weight = 1 }}\n"
    );
    let literal = text
        .replace("{ env = \"CARGO_PKG_NAME\" }", "\"forebay-server\"")
        .replace("{ file = \"realm\" }", "\"members only\"")
        .replace("{ file = \"address\" }", "\"10.0.0.0/8\"");
    assert_eq!(read(&folder, &text), read(&folder, &literal));
    // Text that only looks like a reference is text.
    let text = format!("basic_auth_realm = \"{{ env = NAME }} ${{NAME}}\"\n{SITE}");
    assert!(read(&folder, &text).is_ok());
}

#[test]
fn a_value_in_a_condition_is_not_shown_to_people() {
    let folder = Folder::new();
    fs::write(folder.path("one"), "X-Key=s3cret-1").expect("writable");
    fs::write(folder.path("two"), "X-Key=s3cret-2").expect("writable");
    let route = |lines: &str| format!("[[site.route]]\npath_prefix = \"/a\"\n{lines}\n");
    let hidden = |file: &str, of: &str| {
        route(&format!("with_{of} = [\"v=1\", {{ file = \"{file}\" }}]\norigin = \"http://b\""))
    };
    let text = [
        SITE,
        &hidden("one", "fields"),
        &hidden("two", "fields"),
        &hidden("one", "query"),
        &hidden("one", "cookies"),
    ]
    .concat();
    let config = read(&folder, &text).unwrap_or_else(|errors| panic!("{errors}"));
    let shown = |config: &Config| {
        let site = config.sites.iter().next().expect("it has one");
        site.routes().iter().map(|route| route.shown_path()).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&config),
        [
            "/a, field v=1, field X-Key=…",
            "/a, field v=1, field X-Key=… (2)",
            "/a, parameter v=1, parameter X-Key=…",
            "/a, cookie v=1, cookie X-Key=…",
            "/",
        ]
    );
    let site = config.sites.iter().next().expect("it has one");
    let keys: Vec<_> = site.routes().iter().map(|route| &*route.origins.key).collect();
    assert!(keys.iter().all(|key| !key.contains("s3cret")), "{keys:?}");
    assert_ne!(keys.first(), keys.get(1));
    // The routes are still told apart, and a message has no value.
    let swapped = [SITE, &hidden("two", "fields"), &hidden("one", "fields")].concat();
    let swapped = read(&folder, &swapped).expect("it is valid");
    let changes = format!("{:?}", config.changes(&swapped));
    assert!(changes.contains("order of the routes"), "{changes}");
    assert!(!changes.contains("s3cret"), "{changes}");
    let twice = [SITE, &hidden("one", "fields"), &hidden("one", "fields")].concat();
    let errors = read(&folder, &twice).expect_err("a route is there twice");
    assert!(errors.contains("two routes for"), "{errors}");
    assert!(!errors.contains("s3cret"), "{errors}");
}

#[test]
fn a_missing_value_is_refused_with_its_place_and_a_hint() {
    let folder = Folder::new();
    fs::write(folder.path("empty"), "\n").expect("writable");
    fs::write(folder.path("latin"), b"\xff").expect("writable");
    fs::write(folder.path("large"), vec![b'x'; 70_000]).expect("writable");
    let cases = [
        (
            "cache_name = { env = \"FOREBAY_NO_SUCH_NAME\" }",
            "$/main.toml:1:22: the environment variable `FOREBAY_NO_SUCH_NAME` is not set
  1 | cache_name = { env = \"FOREBAY_NO_SUCH_NAME\" }
    |                      ^^^^^^^^^^^^^^^^^^^^^^
  hint: set it where the server is started (for systemd: Environment= or EnvironmentFile=), and \
                in front of this command too; a running server keeps the variables with which it \
                was started

1 error",
        ),
        (
            "cache_name = { file = \"none\" }",
            "$/main.toml:1:23: cannot read $/none: No such file or directory (os error 2)
  1 | cache_name = { file = \"none\" }
    |                       ^^^^^^
  hint: a path is relative to the directory of the configuration file that has it

1 error",
        ),
        ("cache_name = { env = \"\" }", "$/main.toml:1:22: \"\" is not the name of an"),
        ("cache_name = { env = 1 }", "$/main.toml:1:22: `env` is not text"),
        ("cache_name = { file = 1 }", "$/main.toml:1:23: `file` is not text"),
        ("cache_name = { file = \".\" }", "$/main.toml:1:23: cannot read $/.: it is not a regular"),
        ("cache_name = { file = \"empty\" }", "$/main.toml:1:23: $/empty is empty"),
        ("cache_name = { file = \"latin\" }", "$/main.toml:1:23: $/latin is not UTF-8"),
        ("cache_name = { file = \"large\" }", "$/main.toml:1:23: $/large is larger than 65536"),
        (
            "cache_name = { file = \"empty\", env = \"HOME\" }",
            "$/main.toml:1:14: `cache_name` cannot be a table",
        ),
        (
            "include = [{ env = \"HOME\" }]",
            "$/main.toml:1:12: `include` has an element that is not text",
        ),
    ];
    for (line, expected) in cases {
        let error = read(&folder, &format!("{line}\n{SITE}")).expect_err(line);
        assert!(error.starts_with(expected), "{line}\n{error}");
        assert!(error.ends_with("\n1 error"), "{line}\n{error}");
    }
    let section = "[[site]]\nfile = \"empty\"\n";
    let error = read(&folder, section).expect_err("a section is no reference");
    assert!(error.contains("`file` is not a setting of a site"), "{error}");
}

#[test]
fn no_error_shows_the_value() {
    let folder = Folder::new();
    fs::write(folder.path("secret"), "Ab\\cret \"x\"").expect("writable");
    let lines = [
        "listen = { file = \"secret\" }",
        "log_level = { file = \"secret\" }",
        "workers = { file = \"secret\" }",
        "cache_size = { file = \"secret\" }",
        "cache = { file = \"secret\" }",
        "admin = { file = \"secret\" }",
        "allow_from = [\"::1\", { file = \"secret\" }]",
        "allow_from = { file = \"secret\" }",
        "rate_limit = [{ file = \"secret\" }]",
        "basic_auth = { file = \"secret\" }",
        "error_pages = [{ file = \"secret\" }]",
        "redirect = { file = \"secret\" }",
        "hsts = { file = \"secret\" }",
        "rules = { file = \"secret\" }",
        "rules = [\"none\", { file = \"secret\" }]",
        "health_path = { file = \"secret\" }",
        "key_cookies = [{ file = \"secret\" }]",
    ];
    let sites = [
        "[[site]]\nname = { file = \"secret\" }\nnames = [\"b.org\"]\norigin = \"http://b\"",
        "[[site]]\nname = \"b\"\nnames = [{ file = \"secret\" }]\norigin = \"http://b\"",
        "[[site]]\nname = \"b\"\nnames = { file = \"secret\" }\norigin = \"http://b\"",
        "[[site]]\nname = \"b\"\nnames = [\"b.org\"]\norigin = { file = \"secret\" }",
        "[[site]]\nname = \"b\"\nnames = [\"b.org\"]\norigin = [{ url = { file = \"secret\" } }]",
        "[[site.route]]\npath_prefix = { file = \"secret\" }",
    ];
    let texts = lines.map(|line| format!("{line}\n{SITE}"));
    for text in texts.into_iter().chain(sites.map(|lines| format!("{SITE}{lines}\n"))) {
        let error = read(&folder, &text).expect_err(&text);
        let lower = error.to_lowercase();
        assert!(!lower.contains("ab\\") && !lower.contains("cret \\"), "{text}\n{error}");
        assert!(error.contains("the content of $/secret is not valid here"), "{text}\n{error}");
    }
    // An error of a section is not an error of the values in it.
    let text =
        format!("{SITE}[[site]]\nname = {{ env = \"CARGO_PKG_NAME\" }}\nnames = [\"b.org\"]");
    let error = read(&folder, &text).expect_err("it has no origin");
    assert!(error.contains("main.toml:5:1: `origin` is missing here"), "{error}");
}
