//! Rules and settings, each in a configuration of its own.

use std::fs;

use super::trafficserver;
use crate::{Import, ImportError, ImportOptions};

fn import_with(files: &[(&str, &str)], options: &ImportOptions) -> Result<Import, ImportError> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    trafficserver(&[folder.path().to_owned()], options)
}

fn import(files: &[(&str, &str)]) -> Import {
    import_with(files, &ImportOptions::default()).expect("valid syntax")
}

fn mapped(text: &str) -> Import {
    import(&[("remap.config", text)])
}

/// A map of one host.
const MAP: &str = "map http://a.test/ http://127.0.0.1:9/";

#[test]
fn restrictions_that_cannot_be_carried_over_close_the_site() {
    for (name, text) in [
        ("remap.config", "map http://a.test/ http://b.test/ @plugin=access_control.so"),
        ("remap.config", "map http://a.test/ http://b.test/ @plugin=/opt/own.so"),
        ("remap.config", "map http://a.test/ http://b.test/ @plugin=header_rewrite.so @pparam=no"),
        ("remap.config", "map http://a.test/ http://b.test/ @action=allow @in_ip=10.0.0.1"),
        ("remap.config", "map http://a.test/ http://b.test/ @action=set_allow @method=GET"),
        ("remap.config", "map http://a.test/ http://b.test/ @action=deny @method=BREW"),
        ("remap.config", "map http://a.test/ http://b.test/ @action=deny @src_ip=~10.0.0.1,10.1"),
        ("remap.config", "map_with_referer http://a.test/ http://b.test/ http://c.test/ a.test"),
        ("plugin.config", "authproxy.so"),
        ("records.config", "CONFIG proxy.config.ssl.client.certification_level INT 2"),
        ("sni.yaml", "sni:\n- fqdn: a.test\n  verify_client: STRICT"),
        ("sni.yaml", "sni:\n- fqdn: '*.test'\n  ip_allow: 10.0.0.1"),
    ] {
        let mut files = vec![(name, text)];
        if name != "remap.config" {
            files.push(("remap.config", MAP));
        }
        let found = import(&files);
        let site = found.toml.split("[[site]]").nth(1).expect("a site");
        assert!(site.contains("respond = \"403\""), "{text}:\n{}", found.toml);
        assert!(!site.contains("origin ="), "{text}:\n{}", found.toml);
        assert!(found.notes.iter().any(|note| note.message.contains("403")), "{text}");
        let options = ImportOptions { drop_access_rules: true, ..ImportOptions::default() };
        let open = import_with(&files, &options).expect("valid syntax");
        assert!(!open.toml.contains("\"403\""), "{text}:\n{}", open.toml);
    }
}

#[test]
fn filters_become_addresses_or_header_rules() {
    for (filter, toml, rules) in [
        ("@action=allow @src_ip=10.0.0.0/8", "allow_from = [\"10.0.0.0/8\"]", ""),
        ("@action=deny @src_ip=10.0.0.7", "deny_from = [\"10.0.0.7\"]", ""),
        ("@action=deny @method=put", "rules = ", "cond %{METHOD} (PUT)\nset-status 403"),
        ("@action=allow @method=get", "rules = ", "cond %{METHOD} (GET) [NOT]\nset-status 403"),
        (
            "@action=allow @src_ip=10.0.0.1-10.0.0.9",
            "rules = ",
            "cond %{IP:CLIENT} {10.0.0.1-10.0.0.9} [NOT]\nset-status 403",
        ),
        (
            "@action=allow @src_ip=~10.0.0.1",
            "rules = ",
            "cond %{IP:CLIENT} {10.0.0.1}\nset-status 403",
        ),
        (
            "@action=deny @src_ip=~10.0.0.1 @method=put",
            "rules = ",
            "cond %{METHOD} (PUT)\ncond %{IP:CLIENT} {10.0.0.1} [NOT]\nset-status 403",
        ),
        (
            "@action=allow @src_ip=10.0.0.1 @method=get @method=head",
            "rules = ",
            "cond %{METHOD} (GET,HEAD) [NOT,OR]\ncond %{IP:CLIENT} {10.0.0.1} [NOT]\nset-status",
        ),
    ] {
        let found = mapped(&format!("{MAP} {filter}"));
        assert!(found.toml.contains(toml), "{filter}:\n{}", found.toml);
        let text: String = found.rule_files.iter().map(|file| file.text.as_str()).collect();
        assert!(text.contains(rules), "{filter}:\n{text}");
    }
}

#[test]
fn an_active_filter_applies_to_the_maps_that_follow() {
    let found = mapped(
        ".definefilter near @action=allow @src_ip=10.0.0.1\n\
         map http://a.test/ http://127.0.0.1:9/\n\
         .activatefilter near\n\
         map http://b.test/ http://127.0.0.1:9/\n\
         redirect http://c.test/ http://d.test/\n\
         .deactivatefilter near\n\
         map http://d.test/ http://127.0.0.1:9/\n",
    );
    let restricted: Vec<_> = found
        .toml
        .split("[[site]]")
        .filter(|site| site.contains("allow_from"))
        .filter_map(|site| site.split('"').nth(1))
        .collect();
    assert_eq!(restricted, ["b.test"], "{}", found.toml);
}

/// Traffic Server adds the words of a second definition to those of the first one.
#[test]
fn a_second_definition_of_a_filter_adds_to_the_first() {
    let map = "map http://a.test/ http://127.0.0.1:9/";
    for (lines, wanted) in [
        (".definefilter f @action=deny @method=put", "(GET,PUT)"),
        (".definefilter f @action=allow", "(GET) [NOT]"),
        (".deletefilter f\n.definefilter f @action=deny @method=put\n.activatefilter f", "(PUT)"),
    ] {
        let found = mapped(&format!(
            ".definefilter f @action=deny @method=get\n.activatefilter f\n{lines}\n{map}\n"
        ));
        let text: String = found.rule_files.iter().map(|file| file.text.as_str()).collect();
        assert!(text.contains(&format!("cond %{{METHOD}} {wanted}\n")), "{lines}:\n{text}");
    }
}

#[test]
fn the_first_rule_of_a_path_has_it() {
    let found = mapped(
        "map http://a.test/ http://127.0.0.1:1/\n\
         map http://a.test/late/ http://127.0.0.1:2/\n\
         redirect http://a.test/ http://b.test/\n",
    );
    assert!(!found.toml.contains("127.0.0.1:2"), "{}", found.toml);
    assert!(!found.toml.contains("redirect ="), "{}", found.toml);
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
}

#[test]
fn paths_are_joined_as_traffic_server_joins_them() {
    for (from, to, strip, add) in [
        ("", "", false, None),
        ("", "b/", false, Some("/b")),
        ("a/", "b/", true, Some("/b")),
        ("a/", "", true, None),
        ("a", "b", true, Some("/b")),
        ("a", "", true, None),
        ("a/", "a/", false, None),
    ] {
        let text = format!("map http://a.test/{from} http://127.0.0.1:9/{to}");
        let found = mapped(&text);
        let has = |text: &str| found.toml.contains(text);
        assert!(has("origin = \"http://127.0.0.1:9\""), "{text}:\n{}", found.toml);
        assert_eq!(has("origin_strip_prefix = true"), strip, "{text}:\n{}", found.toml);
        let added = add.map(|add| format!("origin_add_prefix = \"{add}\""));
        assert_eq!(has("origin_add_prefix"), add.is_some(), "{text}:\n{}", found.toml);
        assert!(added.is_none_or(|added| has(&added)), "{text}:\n{}", found.toml);
    }
    // Behind the rule's path, a segment may go on: /abc is /ab/c for the origin.
    let inner = mapped("map http://a.test/ab http://127.0.0.1:9/ab/");
    let routes: Vec<_> = inner.toml.split("[[site.route]]").collect();
    let regex = routes.iter().find(|route| route.contains("'^/ab[^/]'")).expect("a route");
    assert!(regex.contains("respond = \"503"), "{}", inner.toml);
    let joined = mapped("map http://a.test/a/ http://127.0.0.1:9/b");
    assert!(!joined.toml.contains("origin ="), "{}", joined.toml);
}

#[test]
fn records_that_matter_for_the_cache_are_settings() {
    for (record, wanted) in [
        ("http.cache.http INT 0", "cache = false"),
        ("http.cache.required_headers INT 2", "heuristic_percent = 0"),
        ("http.cache.required_headers INT 1", "heuristic_percent = 10"),
        ("http.cache.required_headers INT 0", "default_freshness_s = \"1h\""),
        ("http.cache.when_to_revalidate INT 2", "cache = false"),
        ("http.cache.cache_responses_to_cookies INT 0", "bypass_fields = [\"Cookie\"]"),
        ("http.cache.max_stale_age INT 60", "stale_if_error_s = \"1m\""),
        ("http.negative_caching_enabled INT 1", "\"404=30m\""),
        ("http.connect_attempts_timeout INT 5", "origin_connect_ms_max = \"5s\""),
        ("http.transaction_no_activity_timeout_out INT 0", "origin_idle_ms_max = \"1d\""),
        ("cache.ram_cache.size INT 2G", "cache_size = \"2GiB\""),
        ("url_remap.pristine_host_hdr INT 0", "origin_host = \"origin\""),
        ("http.server_ports STRING 80:ip-in=10.0.0.1", "listen = \"10.0.0.1:80\""),
        ("http.server_ports STRING 80 80:ipv6", "listen = [\"0.0.0.0:80\", \"[::]:80\"]"),
    ] {
        let text = format!("CONFIG proxy.config.{record}\n");
        let found = import(&[("records.config", &text), ("remap.config", MAP)]);
        assert!(found.toml.contains(wanted), "{record}:\n{}", found.toml);
    }
    let found = import(&[
        ("records.yaml", "records:\n  url_remap: {pristine_host_hdr: 1}\n"),
        ("remap.config", MAP),
    ]);
    assert!(!found.toml.contains("origin_host"), "{}", found.toml);
}

#[test]
fn hosts_of_expressions_are_enumerated_or_left_out() {
    for (host, names) in [
        (r"(www\.)?a\.test", Some("[\"a.test\", \"www.a.test\"]")),
        (r"^(?:x|y)\.test$", Some("[\"x.test\", \"y.test\"]")),
        (r"(.*)\.a\.test", Some("[\"*.a.test\"]")),
        ("(.*)", Some("[\"*\"]")),
        (r"a[0-9]\.test", None),
        (r"(a|b)+\.test", None),
    ] {
        let found = mapped(&format!("regex_map http://{host}/ http://127.0.0.1:9/"));
        let is_closed = found.toml.contains("respond = \"503");
        assert_eq!(is_closed, names.is_none(), "{host}:\n{}", found.toml);
        let is_mapped = found.toml.contains("http://127.0.0.1:9");
        assert_eq!(is_mapped, names.is_some(), "{host}:\n{}", found.toml);
        let wanted = names.map(|names| format!("names = {names}"));
        assert!(wanted.is_none_or(|wanted| found.toml.contains(&wanted)), "{}", found.toml);
    }
}

#[test]
fn hosts_that_cannot_be_listed_do_not_get_the_rules_of_others() {
    // The second host may match, the third one cannot.
    let found = mapped(
        "regex_map http://a[0-9]\\.test/private/ http://10.0.0.1/ @action=deny\n\
         map http://a7.test/ http://10.0.0.7/\n\
         map http://b.test/ http://10.0.0.8/\n\
         map / http://10.0.0.9/\n",
    );
    for (name, is_closed) in [("a7.test", true), ("b.test", false), ("*", true)] {
        let mut sites = found.toml.split("[[site]]");
        let site = sites.find(|site| site.contains(&format!("names = [\"{name}\"]")));
        let site = site.unwrap_or_else(|| panic!("no {name}\n{}", found.toml));
        let routes: Vec<_> = site.split("[[site.route]]").collect();
        let private = routes.iter().find(|route| route.contains("path_prefix = \"/private/\""));
        let closed = private.is_some_and(|route| route.contains("respond = \"503"));
        assert_eq!(closed, is_closed, "{name}\n{}", found.toml);
    }
}

#[test]
fn what_one_line_of_cache_config_forbids_to_store_no_other_line_stores() {
    const NEVER: &str = "action=never-cache";
    for (lines, stored) in [
        // Beginnings within each other, in either order.
        (
            format!(
                "dest_host=b.test prefix=a {NEVER}\ndest_host=b.test prefix=a/b/ ttl-in-cache=1d"
            ),
            1,
        ),
        (
            format!(
                "dest_host=b.test prefix=a/b/ ttl-in-cache=1d\ndest_host=b.test prefix=a {NEVER}"
            ),
            1,
        ),
        (
            format!(
                "dest_host=b.test prefix=a/ ttl-in-cache=1d\ndest_host=b.test prefix=a/b/ {NEVER}"
            ),
            2,
        ),
        // Ends.
        (
            format!(
                "dest_host=b.test suffix=php {NEVER}\ndest_host=b.test prefix=a/ ttl-in-cache=1d"
            ),
            1,
        ),
        (
            format!(
                "dest_host=b.test suffix=php ttl-in-cache=1d\ndest_host=b.test prefix=a/ {NEVER}"
            ),
            1,
        ),
        // Expressions for the host, and for more than the path.
        (format!("host_regex=\\.test$ {NEVER}"), 0),
        (format!("host_regex=\\.org$ {NEVER}"), 1),
        (format!("url_regex=^http://b.*/secret/ {NEVER}"), 0),
        (format!("url_regex=^http://b {NEVER}"), 0),
        (format!("url_regex=^http://b\\.test/.*session= {NEVER}"), 0),
        (format!("url_regex=^http://c\\.test/ {NEVER}"), 1),
        (format!("dest_ip=10.0.0.1 {NEVER}"), 0),
    ] {
        let found = import(&[
            ("remap.config", "map http://a.test/ http://b.test/"),
            ("cache.config", &lines),
        ]);
        let sites = found.toml.split_once("[[site]]").map_or("", |(_, sites)| sites);
        let mut parts = sites.split("[[site.route]]").filter(|part| part.contains("origin = "));
        let is_stored = |part: &&str| !part.contains("cache = false");
        let count = parts.clone().filter(is_stored).count();
        assert_eq!(count, stored, "{lines}\n{}", found.toml);
        assert!(parts.next().is_some(), "{lines}\n{}", found.toml);
    }
}

#[test]
fn mutated_files_end_with_an_error_or_a_translation() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/trafficserver");
    let mut state = 7_u64;
    let mut random = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap_or_default() % limit.max(1)
    };
    let marks = [" ", "\n", "\"", "@", ":", "/", "&a", "*a", "[", "{", "-", "=", "\u{0}", "~", "%"];
    for name in ["sites", "cache", "parents", "ten", "debian-default"] {
        for entry in fs::read_dir(folder.join(name)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let file = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
            let text = fs::read_to_string(&path).expect("a file");
            if file.ends_with(".rules") {
                continue;
            }
            for _ in 0..40 {
                let mut chars: Vec<_> = text.chars().collect();
                for _ in 0..=random(3) {
                    let at = random(chars.len());
                    match random(3) {
                        0 => drop(chars.drain(at..(at + random(9)).min(chars.len()))),
                        _ => {
                            let mark = marks[random(marks.len())];
                            chars.splice(at..at, mark.chars()).for_each(drop);
                        }
                    }
                }
                let text: String = chars.into_iter().collect();
                let _ = import_with(&[(&file, &text)], &ImportOptions::default());
            }
        }
    }
}
