//! Nothing is served or stored that Varnish refuses or does not store.

use super::{import, rules_of, whole};

/// The configuration and rules of a VCL.
fn translated(vcl: &str) -> String {
    let import = import(vcl, false);
    format!("{}{}", whole(&import), rules_of(&import))
}

/// The section of a site or of a route with this line.
fn section<'t>(text: &'t str, start: &str) -> &'t str {
    let found = text.split("\n\n").find(|part| part.contains(start));
    found.unwrap_or_else(|| panic!("no {start} in\n{text}"))
}

#[test]
fn a_key_of_a_computed_field_is_not_the_clients() {
    for (vcl, is_cached) in [
        ("sub vcl_recv { set req.http.X = regsub(req.http.Cookie, \"a\", \"b\"); }", false),
        ("sub vcl_recv { if (req.http.Y) { set req.http.X = \"1\"; } }", false),
        ("sub other { set req.http.X = \"1\"; } sub vcl_recv { call other; }", false),
        ("sub vcl_hash { set req.http.X = \"1\"; }", false),
        ("sub vcl_recv { module.fill(req.http.X); }", false),
        ("sub vcl_recv { set req.http.Y = \"1\"; }", true),
        ("sub vcl_recv { unset req.http.X; }", true),
    ] {
        let found = translated(&format!("{vcl} sub vcl_hash {{ hash_data(req.http.X); }}"));
        assert_eq!(!found.contains("cache = false"), is_cached, "{vcl}\n{found}");
        assert_eq!(found.contains("key_fields = [\"x\"]"), is_cached, "{vcl}\n{found}");
    }
}

#[test]
fn responses_that_varnish_does_not_store_are_not_stored() {
    const NO: &str = "set beresp.uncacheable = true;";
    const OFF: &str = "\ncache = false";
    for (statements, part) in [
        // Other statements follow.
        (format!("if (beresp.http.X) {{ {NO} }} set beresp.ttl = 1h;"), "/./\nset-http-cntl"),
        (
            "if (beresp.http.X) { set beresp.ttl = 0s; } set beresp.grace = 1h;".to_owned(),
            "cond %{HEADER:x} /./\nset-http-cntl SERVER_NO_STORE on",
        ),
        (
            "if (beresp.http.X) { set beresp.ttl = 0s; return (deliver); } set beresp.ttl = 1h;"
                .to_owned(),
            "cond %{HEADER:x} /./\nset-http-cntl SERVER_NO_STORE on",
        ),
        (
            "if (beresp.http.X) { set beresp.ttl = 5s; return (deliver); } set beresp.ttl = 1h;"
                .to_owned(),
            "cond %{HEADER:x} /./ [NOT]\ncond %{HEADER:Cache-Control} \
             /no-cache|no-store|private/ [NOT,NOCASE]\nset-header forebay-cache-control \
             \"max-age=3600\"",
        ),
        // Nested conditions.
        (
            format!("if (beresp.http.X) {{ if (beresp.http.Y) {{ {NO} }} }}"),
            "cond %{HEADER:x} /./\ncond %{HEADER:y} /./\nset-http-cntl SERVER_NO_STORE on",
        ),
        (
            format!("if (beresp.age > 1s) {{ if (beresp.http.Y) {{ {NO} }} }}"),
            "cond %{READ_RESPONSE_HDR_HOOK}\ncond %{HEADER:y} /./\nset-http-cntl",
        ),
        (
            format!("if (beresp.http.Y) {{ if (beresp.age > 1s) {{ {NO} }} }}"),
            "cond %{READ_RESPONSE_HDR_HOOK}\ncond %{HEADER:y} /./\nset-http-cntl",
        ),
        // Chains.
        (format!("if (beresp.age > 1s) {{ set beresp.grace = 1s; }} else {{ {NO} }}"), OFF),
        (
            format!(
                "if (beresp.age > 1s) {{ unset beresp.http.Z; }} elsif (beresp.http.X) {{ {NO} }}"
            ),
            "cond %{HEADER:x} /./\nset-http-cntl SERVER_NO_STORE on",
        ),
        (
            format!("if (beresp.http.X || beresp.http.Y ~ \"a\") {{ {NO} }}"),
            "cond %{HEADER:y} /a/\nset-http-cntl SERVER_NO_STORE on",
        ),
    ] {
        let found = translated(&format!("sub vcl_backend_response {{ {statements} }}"));
        assert!(found.contains(part), "{statements}: no {part}\n{found}");
    }
}

#[test]
fn conditions_of_responses_mean_what_they_mean_in_varnish() {
    const NO: &str = "set beresp.uncacheable = true;";
    const OFF: &str = "\ncache = false";
    for (statements, part) in [
        // They only look like those of Varnish's own end.
        (format!("if (beresp.ttl < 1h) {{ {NO} }}"), OFF),
        (format!("if (!beresp.http.Cache-Control) {{ {NO} }}"), "SERVER_NO_STORE on"),
        (format!("if (beresp.http.Vary ~ \"Cookie\") {{ {NO} }}"), "SERVER_NO_STORE on"),
        (
            format!("if (beresp.http.Set-Cookie) {{ {NO} }} unset beresp.http.Set-Cookie;"),
            "SERVER_NO_STORE on\n\ncond %{READ_RESPONSE_HDR_HOOK}\nrm-header set-cookie",
        ),
        // The value has changed since.
        (
            format!("if (!beresp.http.X) {{ set beresp.http.X = \"1\"; {NO} }}"),
            "cond %{HEADER:x} /./ [NOT]\nset-http-cntl SERVER_NO_STORE on",
        ),
        (format!("set beresp.http.X = beresp.http.Y; if (beresp.http.X ~ \"a\") {{ {NO} }}"), OFF),
        ("if (beresp.http.X) { return (pass(10s)); }".to_owned(), "SERVER_NO_STORE on"),
        ("set beresp.ttl = std.duration(beresp.http.X, 1s);".to_owned(), OFF),
        // A lifetime on an unknown condition might be shorter than the origin's.
        ("if (beresp.age > 1s) { set beresp.ttl = 1s; }".to_owned(), OFF),
        (
            "set beresp.ttl = 1h; if (beresp.age > 1s) { set beresp.ttl = 1s; }".to_owned(),
            "max-age=1\"",
        ),
        // The request may have changed.
        (format!("if (bereq.http.X-Skip) {{ {NO} }}"), OFF),
        (format!("if (bereq.url ~ \"^/(?!a)\") {{ {NO} }}"), OFF),
        (
            format!("if (bereq.url ~ \"\\.json\") {{ {NO} }}"),
            "cond %{CLIENT-URL:QUERY} /./\ncond %{CLIENT-URL:URL} \
             /^[a-z]+:\\/\\/[^\\/]*\\/.*\\.json/\nset-http-cntl SERVER_NO_STORE on",
        ),
    ] {
        let recv = "sub vcl_recv { if (req.http.A) { set req.http.X-Skip = \"1\"; } }";
        let found = translated(&format!("{recv} sub vcl_backend_response {{ {statements} }}"));
        assert!(found.contains(part), "{statements}: no {part}\n{found}");
    }
}

#[test]
fn fields_of_responses_are_changed_only_where_varnish_does() {
    for statements in [
        "if (beresp.http.X) { return (deliver); } unset beresp.http.Set-Cookie;",
        "if (!beresp.http.X) { unset beresp.http.Set-Cookie; }",
    ] {
        let found = translated(&format!("sub vcl_backend_response {{ {statements} }}"));
        let rule =
            "cond %{READ_RESPONSE_HDR_HOOK}\ncond %{HEADER:x} /./ [NOT]\nrm-header set-cookie";
        assert!(found.contains(rule), "{statements}\n{found}");
    }
    for statements in [
        "if (beresp.age > 1s) { return (deliver); } unset beresp.http.Set-Cookie;",
        "if (beresp.age > 1s) { } else { unset beresp.http.Set-Cookie; }",
        "if (beresp.http.Cache-Control !~ \"private\") { unset beresp.http.Set-Cookie; }",
    ] {
        let found = translated(&format!("sub vcl_backend_response {{ {statements} }}"));
        assert!(!found.contains("rm-header set-cookie"), "{statements}\n{found}");
    }
}

#[test]
fn refusals_behind_vcl_recv_are_refusals() {
    for (vcl, part) in [
        ("sub vcl_deliver { return (synth(403)); }", "respond = \"403\""),
        ("sub vcl_hash { if (client.ip == \"1\") { return (fail); } }", "respond = \"403\""),
        (
            "sub vcl_deliver { if (req.http.X) { return (synth(403)); } }",
            "cond %{CLIENT-HEADER:x} /./\nset-status 403",
        ),
        (
            "sub vcl_deliver { if (req.http.X && resp.http.Y) { set resp.status = 403; } }",
            "cond %{CLIENT-HEADER:x} /./\nset-status 403",
        ),
        ("sub vcl_deliver { if (resp.http.Y) { set resp.status = 404; } }", "respond = \"403\""),
        ("sub vcl_miss { if (!req.http.X) { return (synth(401)); } }", "[NOT]\nset-status 403"),
        (
            "sub vcl_pass { if (req.method == \"POST\") { return (synth(403)); } }",
            "(POST)\nset-status",
        ),
        ("sub vcl_hit { return (restart); }", "respond = \"403\""),
        ("sub vcl_backend_fetch { return (abandon); }", "respond = \"403\""),
        ("sub vcl_backend_fetch { set bereq.url = \"/x\"; }", "respond = \"503\""),
        (
            "sub vcl_backend_response { if (beresp.http.X) { return (abandon); } }",
            "respond = \"403\"",
        ),
        (
            "sub vcl_backend_response { if (beresp.http.X) { set beresp.status = 403; } }",
            "respond = \"403\"",
        ),
        ("sub vcl_backend_response { return (error(403)); }", "respond = \"403\""),
        ("sub deny { return (synth(403)); } sub vcl_miss { call deny; }", "respond = \"403\""),
        (
            "sub vcl_miss { if (req.http.X) { return (pass); } }",
            "bypass_fields = [\"authorization\", \"cookie\", \"x\"]",
        ),
        // The field is not the client's.
        (
            "sub vcl_recv { set req.http.X = \"1\"; } \
             sub vcl_deliver { if (req.http.X) { return (synth(403)); } }",
            "respond = \"403\"",
        ),
        ("sub vcl_deliver { if (resp.status >= 500) { return (restart); } }", "bypass_fields"),
    ] {
        let found = translated(vcl);
        assert!(found.contains(part), "{vcl}: no {part}\n{found}");
    }
    let vcl = "sub vcl_deliver { if (req.url ~ \"^/a/\") { return (synth(403)); } }";
    let found = translated(vcl);
    assert!(section(&found, "path_regex = '^/a/'").contains("respond = \"403\""), "{found}");
    assert!(!section(&found, "path_prefix = \"/\"").contains("respond"), "{found}");
}

#[test]
fn chains_of_unknown_conditions_are_followed_one_by_one() {
    for statements in [
        "if (now > x) { set req.http.A = \"1\"; } else if (now > y) { return (synth(403)); }",
        "if (std.ip(a) ~ x) { } elsif (std.ip(b) ~ y) { return (synth(403)); }",
        "if (now > x) { } else if (now > y) { } else { return (synth(403)); }",
        "if (now > x || now > y) { return (synth(403)); }",
        "if (now > x && now > y) { return (synth(403)); }",
        "if (now > x) { unset req.http.B; } if (now > x) { return (synth(403)); }",
    ] {
        let found = translated(&format!("sub vcl_recv {{ {statements} }}"));
        assert!(found.contains("respond = \"403\""), "{statements}\n{found}");
    }
    let pass = "if (now > x) { } elsif (now > y) { return (pass); }";
    let found = translated(&format!("sub vcl_recv {{ {pass} return (hash); }}"));
    assert!(found.contains("\ncache = false"), "{found}");
}

#[test]
fn expressions_for_urls_also_match_in_the_query() {
    const ANY: &str = "cond %{CLIENT-URL:URL} /^[a-z]+:\\/\\/[^\\/]*";
    const QUERY: &str = "cond %{CLIENT-URL:QUERY} /./\n";
    for (pattern, route, part) in [
        ("\\.php", "\\.php", format!("{QUERY}{ANY}\\/.*\\.php/\nset-status 403")),
        ("^/a.*b", "^/a.*b", format!("{QUERY}{ANY}\\/a.*b/\nset-status 403")),
        // With `$`, a query may decide in either way.
        ("^/a(/|$)", "^/a(/|$)", format!("{ANY}\\/a(\\/|$)/\nset-status 403")),
        ("^/a$|^/b/", "^/a$|^/b/", format!("{ANY}(?:\\/a$|\\/b\\/)/\nset-status 403")),
        ("\\.p$", "\\.p$", format!("{QUERY}{ANY}\\/.*\\.p$/\nset-status 403")),
        // The end may be any text.
        ("^/a/.*$", "^/a/", "respond = \"403\"".to_owned()),
        ("^/a(\\?.*)?", "^/a", "respond = \"403\"".to_owned()),
    ] {
        let found = translated(&format!(
            "sub vcl_recv {{ if (req.url ~ \"{pattern}\") {{ return (synth(403)); }} }}"
        ));
        assert!(found.contains(&format!("path_regex = '{route}'")), "{pattern}\n{found}");
        assert!(found.contains(&part), "{pattern}: no {part}\n{found}");
    }
    for pattern in ["token=", "[?&]a=.+", "\\?(a|b)"] {
        let found = translated(&format!(
            "sub vcl_recv {{ if (req.url ~ \"{pattern}\") {{ return (synth(403)); }} }}"
        ));
        assert!(found.contains("cond %{CLIENT-URL:URL} /^[a-z]+:"), "{pattern}\n{found}");
        assert!(found.contains("set-status 403"), "{pattern}\n{found}");
    }
    // Rules see the query before the VCL sorts it.
    let found = translated(
        "sub vcl_recv { set req.url = std.querysort(req.url); \
         if (req.url ~ \"\\?a=\") { return (synth(403)); } }",
    );
    assert!(found.contains("respond = \"403\""), "{found}");
    // An expression that may match anywhere closes everything.
    let found = translated("sub vcl_recv { if (req.url ~ \"(?<!a)b\") { return (synth(403)); } }");
    assert!(found.contains("respond = \"403\""), "{found}");
}

#[test]
fn three_expressions_that_hold_at_once_are_followed_together() {
    let found = translated(
        "sub vcl_recv { if (req.url ~ \"^/a/\" && req.url ~ \"b\" && req.url ~ \"c\") \
         { return (synth(403)); } }",
    );
    const URL: &str = "cond %{CLIENT-URL:URL} /^[a-z]+:\\/\\/[^\\/]*\\/.*";
    let rule = format!("cond %{{REMAP_PSEUDO_HOOK}}\n{URL}b/\n{URL}c/\nset-status 403");
    assert!(found.contains(&rule), "{found}");
}

#[test]
fn a_field_that_the_vcl_computes_is_not_compared_with_the_clients() {
    for statements in [
        "set req.http.X = regsub(req.http.Y, \"a\", \"b\"); \
         if (req.http.X != \"ok\") { return (synth(403)); }",
        "set req.http.X = req.http.Y; if (!req.http.X) { return (synth(403)); }",
        "set req.http.X = \"\"; if (req.http.X) { return (synth(403)); }",
        "set req.http.X = std.tolower(req.http.Y); if (!req.http.X) { return (synth(403)); }",
        "set req.http.Cookie = req.http.X; if (req.http.Cookie !~ \"a=\") { return (synth(403)); }",
    ] {
        let found = translated(&format!("sub vcl_recv {{ {statements} }}"));
        assert!(found.contains("respond = \"403\""), "{statements}\n{found}");
    }
    // A client must not write a field that the VCL writes, or one that it removes.
    let vcl = "sub vcl_recv { set req.http.X-User = std.tolower(req.http.Y); }";
    assert!(translated(vcl).contains("rm-header x-user"));
    let vcl = "sub vcl_recv { if (now > x) { set req.http.X-User = \"1\"; } }";
    assert!(translated(vcl).contains("rm-header x-user"));
    let vcl = "sub vcl_recv { if (client.ip ~ lan) { set req.http.X-User = \"1\"; } } \
               acl lan { \"192.0.2.1\"; }";
    let rule = "cond %{IP:CLIENT} {192.0.2.1}\nset-header x-user \"1\"";
    assert!(translated(vcl).contains(rule), "{}", translated(vcl));
    let vcl = "sub vcl_backend_fetch { set bereq.http.X-User = std.tolower(bereq.http.Y); }";
    assert!(translated(vcl).contains("rm-header x-user"));
    // Of cookies, a filter leaves some.
    let vcl = "sub vcl_recv { set req.http.Cookie = regsub(req.http.Cookie, \"a=[^;]*\", \"\"); \
               if (!req.http.Cookie) { return (synth(403)); } return (hash); }";
    assert!(translated(vcl).contains("respond = \"403\""), "{}", translated(vcl));
}

#[test]
fn hosts_of_comparisons_have_sites_of_their_own() {
    const DENY: &str = "{ return (synth(403)); }";
    for (statements, name, is_closed) in [
        (
            "set req.http.host = regsub(req.http.host, \"^www\\.\", \"\"); \
             if (req.http.host == \"a.test\") DENY",
            "\"www.a.test\"",
            true,
        ),
        ("if (req.http.host == \"a_b.test\") DENY", "\"*\"", true),
        ("if (req.http.host == \"a.test:8080\") DENY", "\"*\"", true),
        ("if (req.http.host ~ \"^a\") DENY", "\"*\"", true),
        ("if (req.http.host ~ \"[0-9]+\\.test$\") DENY", "\"*\"", true),
        ("if (req.http.host ~ \"\\.test$\") DENY", "\"*\"", true),
        ("if (req.http.host == \"a.test\") DENY", "\"*\"", false),
        ("if (req.http.host != \"a.test\") DENY", "\"a.test\"", false),
        ("set req.http.host = \"b.test\"; if (req.http.host != \"b.test\") DENY", "\"*\"", false),
        (
            "if (req.http.host ~ \"^www\\.\") { set req.http.host = req.http.X; } \
             if (req.http.host == \"a.test\") DENY",
            "\"*\"",
            true,
        ),
    ] {
        let found = translated(&format!("sub vcl_recv {{ {} }}", statements.replace("DENY", DENY)));
        let site = found.split("[[site]]").find(|site| {
            site.lines().any(|line| line.starts_with("names = ") && line.contains(name))
        });
        let site = site.unwrap_or_else(|| panic!("{statements}: no {name}\n{found}"));
        let is_found = site.contains("respond = \"40") || site.contains("respond = \"50");
        assert_eq!(is_found, is_closed, "{statements}: {name}\n{found}");
    }
}

#[test]
fn other_methods_are_told_apart() {
    for (statements, part) in [
        ("if (req.method == \"PROPFIND\") { return (synth(403)); }", "(PROPFIND)\nset-status 403"),
        (
            "if (req.method ~ \"^(LOCK|MKCOL)$\") { return (synth(403)); }",
            "(LOCK,MKCOL)\nset-status",
        ),
        (
            "if (req.method ~ \"^P\") { return (synth(403)); }",
            "(GET,BAN,DELETE,HEAD,OPTIONS,TRACE) [NOT]\nset-status 403",
        ),
        ("if (req.method == \"HEAD\") { return (synth(403)); }", "(HEAD)\nset-status 403"),
        ("if (req.method == \"PURGE\") { return (synth(405)); }", "(PURGE)\nset-status 405"),
        ("if (req.method != \"GET\") { return (synth(405)); }", "(GET) [NOT]\nset-status 405"),
    ] {
        let found = translated(&format!("sub vcl_recv {{ {statements} }}"));
        assert!(found.contains(part), "{statements}: no {part}\n{found}");
    }
}

#[test]
fn not_everybody_may_purge() {
    const LAN: &str = "acl lan { \"192.0.2.1\"; }";
    for (statements, purge_from, notes) in [
        ("return (purge);", Some("[\"127.0.0.1\", \"::1\"]"), 1),
        (
            "if (client.ip !~ lan) { return (synth(405)); } return (purge);",
            Some("[\"192.0.2.1\"]"),
            0,
        ),
        ("if (req.http.X != \"secret\") { return (synth(405)); } return (purge);", None, 1),
        (
            "if (client.ip !~ lan) { return (synth(405)); } \
             if (!req.http.X) { return (synth(405)); } return (purge);",
            None,
            1,
        ),
        (
            "if (std.ip(req.http.X, \"::\") !~ lan) { return (synth(405)); } return (purge);",
            None,
            1,
        ),
    ] {
        let vcl =
            format!("{LAN} sub vcl_recv {{ if (req.method == \"PURGE\") {{ {statements} }} }}");
        let import = import(&vcl, false);
        let found = format!("{}{}", import.toml, rules_of(&import));
        match purge_from {
            Some(list) => assert!(found.contains(&format!("purge_from = {list}")), "{found}"),
            None => {
                assert!(!found.contains("purge_from"), "{statements}\n{found}");
                assert!(found.contains("(PURGE)"), "{statements}\n{found}");
                assert!(found.contains("set-status 40"), "{statements}\n{found}");
            }
        }
        assert!(import.notes.len() >= notes, "{statements}\n{:?}", import.notes);
    }
}
