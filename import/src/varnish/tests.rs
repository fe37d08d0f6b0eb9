//! Decisions of the translation, each with the VCL that asks for it.

use std::fs;

use forebay_rules::ast::RuleScope;

use super::regex::{cookie_names, in_rules};
use super::url::{PathTest, QueryEffect, path_test, whole_url};
use super::varnish;
use crate::{Import, ImportOptions};

mod strict;

const ORIGIN: &str = "vcl 4.1; backend default { .host = \"192.0.2.1\"; }\n";

fn import(vcl: &str, drop_access_rules: bool) -> Import {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("test.vcl");
    fs::write(&path, format!("{ORIGIN}{vcl}")).expect("a file");
    let options = ImportOptions { drop_access_rules, ..ImportOptions::default() };
    let import = varnish(&[path], &options).expect("valid syntax");
    for file in &import.rule_files {
        let read = forebay_rules::read("", &file.text, RuleScope::Route);
        assert!(read.is_usable(), "{vcl}\n{}", file.text);
    }
    import
}

/// The sites.
fn whole(import: &Import) -> &str {
    import.toml.split_once("[[site]]").map_or("", |(_, sites)| sites)
}

fn rules_of(import: &Import) -> String {
    import.rule_files.iter().map(|file| file.text.as_str()).collect()
}

/// The configuration and its rules in one text, without the settings at the top.
fn recv(statements: &str) -> String {
    let import = import(&format!("sub vcl_recv {{ {statements} }}"), false);
    format!("{}{}", whole(&import), rules_of(&import))
}

#[test]
fn cookies_and_authorization_bypass_the_cache_as_in_varnish() {
    assert!(recv("").contains("bypass_fields = [\"authorization\", \"cookie\"]"));
    let hash = recv("return (hash);");
    assert!(!hash.contains("bypass_fields"), "{hash}");
}

#[test]
fn statements_of_vcl_recv_become_settings() {
    for (statements, setting) in [
        ("unset req.http.Cookie;", "keep_cookies = []"),
        ("return (pass);", "cache = false"),
        ("set req.url = std.querysort(req.url);", "sort_query = true"),
        (
            "set req.url = regsuball(req.url, \"[?&](utm_[a-z]+|gclid)=[^&]+\", \"\");",
            "drop_query = [\"gclid\", \"utm_*\"]",
        ),
        ("if (req.http.X-Preview) { return (pass); }", "\"x-preview\""),
        (
            "if (req.http.Cookie ~ \"(^|;\\s*)(session|id_[^=]*)=\") { return (pass); } \
             unset req.http.Cookie;",
            "bypass_cookies = [\"id_*\", \"session\"]",
        ),
        (
            "if (req.http.Upgrade ~ \"(?i)websocket\") { return (pipe); }",
            "upgrade_protocols = [\"websocket\"]",
        ),
        ("if (req.url ~ \"^/gone/\") { return (synth(410, \"Gone\")); }", "respond = \"410 Gone\""),
        ("if (req.url == \"/a.b\") { return (pass); }", "path_regex = '^/a\\.b$'"),
        ("if (req.http.host == \"A.test\") { return (pass); }", "names = [\"a.test\"]"),
        (
            "if (req.http.host ~ \"^(www\\.)?b\\.test(:[0-9]+)?$\") { return (pass); }",
            "names = [\"b.test\", \"www.b.test\"]",
        ),
        ("if (req.http.host ~ \"\\.c\\.test$\") { return (pass); }", "names = [\"*.c.test\"]"),
    ] {
        let found = recv(statements);
        assert!(found.contains(setting), "{statements}: {setting}\n{found}");
    }
}

#[test]
fn an_access_rule_is_never_weaker_than_in_varnish() {
    for (statements, part) in [
        // Conditions that Forebay cannot check close the path.
        (
            "if (req.url ~ \"^/a/\" && std.ip(req.http.X, \"::\") !~ x) { return (synth(403)); }",
            "respond = \"403\"",
        ),
        (
            "if (req.http.X-Forwarded-For !~ \"^192.0.2.1$\") { return (synth(403)); }",
            "respond = \"403\"",
        ),
        ("if (now > x) { return (synth(403)); }", "respond = \"403\""),
        ("C{ check(); }C", "respond = \"403\""),
        // Fields and methods are checked by rules.
        (
            "if (req.http.X-Key != \"a b\") { return (synth(403)); }",
            "cond %{CLIENT-HEADER:x-key} /^a\\x20b$/ [NOT]\nset-status 403 [L]",
        ),
        (
            "if (req.method == \"DELETE\") { return (synth(403)); }",
            "cond %{METHOD} (DELETE)\nset-status 403 [L]",
        ),
        // A path that has two expressions gets the rules of both.
        (
            "if (req.url ~ \"^/a/\" && !req.http.X) { return (synth(403)); } \
             if (req.url ~ \"\\.php\" && !req.http.Y) { return (synth(404)); }",
            "/.*\\.php/\ncond %{CLIENT-HEADER:y} /./ [NOT]\nset-status 404",
        ),
        // Another URL for the origin may be another page.
        ("set req.url = regsub(req.url, \"^/a\", \"/b\");", "respond = \"503\""),
        ("return (restart);", "respond = \"503\""),
    ] {
        let found = recv(statements);
        assert!(found.contains(part), "{statements}: {part}\n{found}");
    }
}

#[test]
fn acls_become_lists_of_addresses() {
    let acl = "acl lan { \"192.0.2.9\"/24; \"localhost\"; }";
    for (statements, setting) in [
        ("if (!client.ip ~ lan) { return (synth(403)); }", "allow_from = ["),
        ("if (client.ip ~ lan) { return (synth(403)); }", "deny_from = ["),
        (
            "if (req.method == \"PURGE\") { if (client.ip !~ lan) { return (synth(405)); } \
             return (purge); }",
            "purge_from = [\"127.0.0.1\", \"192.0.2.0/24\", \"::1\"]",
        ),
        (
            "if (req.method == \"PURGE\" && client.ip ~ lan) { return (purge); }",
            "purge_from = [\"127.0.0.1\", \"192.0.2.0/24\", \"::1\"]",
        ),
    ] {
        let import = import(&format!("{acl} sub vcl_recv {{ {statements} }}"), false);
        assert!(import.toml.contains(setting), "{statements}: {setting}\n{}", import.toml);
        assert_eq!(import.notes, [], "{statements}");
    }
}

#[test]
fn lifetimes_of_responses_become_settings() {
    for (statements, part) in [
        ("set beresp.ttl = 1h;", "override_freshness_s = \"3600s\""),
        ("set beresp.uncacheable = true;", "cache = false"),
        ("set beresp.ttl = 0s;", "cache = false"),
        ("set beresp.grace = 2m;", "stale_while_revalidate_s = \"120s\""),
        ("set beresp.do_gzip = true;", "compress = [\"gzip\"]"),
        ("if (beresp.status == 404) { set beresp.ttl = 9s; }", "\"max-age=9\""),
        ("if (beresp.http.X ~ \"a\") { set beresp.uncacheable = true; }", "SERVER_NO_STORE on"),
        ("if (beresp.age > 1s) { set beresp.uncacheable = true; }", "cache = false"),
    ] {
        let import = import(&format!("sub vcl_backend_response {{ {statements} }}"), false);
        let found = format!("{}{}", import.toml, rules_of(&import));
        assert!(found.contains(part), "{statements}: {part}\n{found}");
    }
}

#[test]
fn a_part_of_the_key_that_is_not_known_switches_the_cache_off() {
    let known = import("sub vcl_hash { hash_data(req.http.X-Device); }", false);
    assert!(known.toml.contains("key_fields = [\"x-device\"]"), "{}", known.toml);
    let unknown = import("sub vcl_hash { hash_data(client.ip); }", false);
    assert!(unknown.toml.contains("cache = false"), "{}", unknown.toml);
    assert_eq!(unknown.notes.len(), 1);
}

#[test]
fn a_long_chain_of_conditions_ends() {
    let chain: String =
        (0..60).map(|n| format!("if (req.http.A{n}) {{ set req.http.B{n} = \"1\"; }}\n")).collect();
    let found = recv(&chain);
    assert!(found.contains("respond = \"403\""), "{found}");
    let known = "if (req.method == \"X\") { return (pass); }\n".repeat(5000);
    let found = recv(&known);
    assert!(found.contains("cond %{METHOD} (X) [NOT]\nset-status 403 [L]"), "{found}");
}

#[test]
fn expressions_are_read_as_varnish_reads_them() {
    for (pattern, regex, unless, also) in [
        ("^/a/", "^/a/", false, false),
        ("^/a/.*$", "^/a/", false, false),
        ("^/a(\\?.*)?", "^/a", false, false),
        ("\\.php", "\\.php", false, true),
        ("\\.png$", "\\.png$", true, true),
        ("\\.png(\\?.*)?$", "\\.png$", false, true),
        ("^/a(/|\\?|$)", "^/a(/|$)", false, false),
        ("^/a(/|$)", "^/a(/|$)", true, false),
        ("^/a$|^/b/", "^/a$|^/b/", true, false),
        ("^/a.*b", "^/a.*b", false, true),
        ("^/a[^/]*b", "^/a[^/]*b", false, true),
        ("\\.css(\\?[a-z]+)?$", "\\.css$", true, true),
    ] {
        let found = path_test(pattern, true).map(|test| (test.regex, test.query));
        let query = match (unless, also) {
            (false, false) => QueryEffect::None,
            _ => {
                let whole = whole_url(pattern, true);
                assert!(whole.is_some(), "{pattern}");
                let is_named = pattern.contains('?');
                QueryEffect::Decides { unless, also, whole, is_named }
            }
        };
        assert_eq!(found, Some((regex.to_owned(), query)), "{pattern}");
    }
    let exact = PathTest { regex: "^/a$".to_owned(), query: QueryEffect::Never };
    assert_eq!(path_test("^/a$", true), Some(exact));
    const HOST: &str = "^[a-z]+://[^/]*";
    for (pattern, whole) in [
        ("[?&]a=", Some("/.*[?&]a=")),
        ("^/a\\?b", Some("/a\\?b")),
        ("/ajax/", Some("(?:/.*)?/ajax/")),
        ("^/a$|\\.b", Some("(?:/a$|/.*\\.b)")),
        ("(utm_a|b)=", Some("/.*(utm_a|b)=")),
        // These could match in the host.
        ("^(/a|.*b)", None),
        ("[^a]b", None),
        ("(^|/)b", None),
        ("x?/b", None),
        ("^/(?!a)", None),
    ] {
        let whole = whole.map(|rest| format!("{HOST}{rest}"));
        assert_eq!(whole_url(pattern, true), whole, "{pattern}");
    }
    assert_eq!(cookie_names("SESS"), None);
    assert_eq!(cookie_names("(^|;\\s*)(a|b[a-z0-9]+)="), Some(vec!["a".into(), "b*".into()]));
    assert_eq!(in_rules("a b/c\\/d=\"%"), "/a\\x20b\\/c\\/d\\x3D\\x22\\x25/");
}
