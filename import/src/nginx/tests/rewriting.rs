//! The host, the path and the fields that origins and clients get.

use forebay_rules::ast::RuleScope;

use super::import;

/// Each row has directives of a location, its path, and lines of its route.
#[test]
fn origins_get_the_host_and_the_path_of_nginx() {
    for (path, inside, wanted) in [
        ("/", "proxy_pass http://a;", &["origin_host = \"origin\""][..]),
        ("/", "proxy_pass http://pool;", &["origin_host = \"pool\""]),
        ("/", "proxy_set_header Host b:81; proxy_pass http://a;", &["origin_host = \"b:81\""]),
        (
            "/",
            "proxy_set_header Host $server_name; proxy_pass http://a;",
            &["origin_host = \"a.example\""],
        ),
        (
            "/a/",
            "proxy_pass http://a/;",
            &["origin_host = \"origin\"", "origin_strip_prefix = true"],
        ),
        (
            "/a/",
            "proxy_pass http://a/b/;",
            &["origin_strip_prefix = true", "origin_add_prefix = \"/b\""],
        ),
        ("/a", "proxy_pass http://a/b;", &["origin_strip_prefix", "origin_add_prefix = \"/b\""]),
        ("/a", "proxy_pass http://a/;", &["origin_strip_prefix = true"]),
        ("/", "proxy_pass http://a/b/;", &["origin_add_prefix = \"/b\""]),
        ("= /a", "proxy_pass http://a/b/a;", &["origin_add_prefix = \"/b\""]),
        ("/a/", "proxy_pass http://a/b;", &["respond = \"503"]),
        ("= /a", "proxy_pass http://a/b;", &["respond = \"503"]),
        ("/a/", "proxy_pass http://a/../b/;", &["respond = \"503"]),
        ("~ ^/a/", "proxy_pass http://a/b/;", &["respond = \"503"]),
    ] {
        let text = format!(
            "upstream pool {{ server c; }} \
             server {{ server_name a.example; location {path} {{ {inside} }} }}"
        );
        let found = import(&text).toml;
        for wanted in wanted {
            assert!(found.contains(wanted), "{text}: no {wanted}:\n{found}");
        }
        let strips = path.starts_with("/a") && !wanted[0].starts_with("respond");
        assert_eq!(found.contains("origin_strip_prefix"), strips, "{text}:\n{found}");
    }
}

#[test]
fn fields_of_requests_become_header_rules() {
    for (inside, wanted, notes) in [
        ("proxy_set_header Host $host;", String::new(), 0),
        ("proxy_set_header X-Forwarded-For $remote_addr;", String::new(), 0),
        (
            "proxy_set_header X-Real-IP $remote_addr;",
            "cond %{SEND_REQUEST_HDR_HOOK}\n  rm-header X-Real-IP\n  \
             rm-header X_Real-IP\n  rm-header X-Real_IP\n  rm-header X_Real_IP\n  \
             set-header X-Real-IP \"%{IP:CLIENT}\"\n"
                .to_owned(),
            0,
        ),
        (
            "proxy_set_header X-Own 'a \"b\" ${scheme}s $http_x_y';",
            "cond %{SEND_REQUEST_HDR_HOOK}\n  rm-header X-Own\n  rm-header X_Own\n  \
             set-header X-Own \"a \\\"b\\\" \
             %{CLIENT-URL:SCHEME}s %{CLIENT-HEADER:x-y}\"\n"
                .to_owned(),
            0,
        ),
        (
            "proxy_set_header X-Remote-User \"\";",
            "cond %{SEND_REQUEST_HDR_HOOK}\n  rm-header X-Remote-User\n  \
             rm-header X_Remote-User\n  rm-header X-Remote_User\n  rm-header X_Remote_User\n"
                .to_owned(),
            0,
        ),
        ("proxy_set_header X-A-B-C-D-E f;", String::new(), 1),
        ("proxy_set_header X-Time $msec;", String::new(), 1),
        ("proxy_set_header Range \"\";", String::new(), 1),
        ("proxy_set_header X-Own '%{HEADER:Cookie}';", String::new(), 1),
    ] {
        assert_rules(inside, &wanted, notes);
    }
}

#[test]
fn fields_of_responses_become_header_rules() {
    let successes = "cond %{STATUS} (200,201,204,206,301,302,303,304,307,308)";
    for (inside, wanted, notes) in [
        (
            "proxy_hide_header X-Powered-By;",
            "cond %{SEND_RESPONSE_HDR_HOOK}\n  rm-header X-Powered-By\n".to_owned(),
            0,
        ),
        (
            "add_header X-A b; add_header X-C d always; add_header X-E \"\";",
            format!(
                "cond %{{SEND_RESPONSE_HDR_HOOK}}\n{successes}\n  add-header X-A \"b\"\n\n\
                 cond %{{SEND_RESPONSE_HDR_HOOK}}\n  add-header X-C \"d\"\n"
            ),
            0,
        ),
        ("add_header X-Cache-Status $upstream_cache_status;", String::new(), 0),
        ("add_header Content-Length 5;", String::new(), 1),
        ("add_header X-A $upstream_addr;", String::new(), 1),
        (
            "expires 1h;",
            format!(
                "cond %{{SEND_RESPONSE_HDR_HOOK}}\n{successes}\n  rm-header Expires\n  \
                 rm-header Cache-Control\n  set-header Cache-Control \"max-age=3600\"\n"
            ),
            0,
        ),
        ("expires off;", String::new(), 0),
        ("expires modified +1h;", String::new(), 1),
    ] {
        assert_rules(inside, &wanted, notes);
    }
}

/// Checks the rules of a location with these directives, and the number of notes.
fn assert_rules(inside: &str, wanted: &str, notes: usize) {
    let text = format!(
        "server {{ server_name a.example; location / {{ {inside} proxy_pass http://a; }} }}"
    );
    let found = import(&text);
    let rules: Vec<_> = found.rule_files.iter().map(|file| file.text.as_str()).collect();
    match wanted.is_empty() {
        true => assert!(rules.is_empty(), "{text}: {rules:?}"),
        false => {
            assert_eq!(rules.len(), 1, "{text}");
            assert!(rules[0].ends_with(&format!("\n\n{wanted}")), "{text}:\n{}", rules[0]);
            assert!(found.toml.contains("rules = [\"forebay.1.rules\"]"), "{}", found.toml);
        }
    }
    assert_eq!(found.notes.len(), notes, "{text}: {:?}", found.notes);
}

#[test]
fn routes_with_the_same_rules_share_a_file() {
    let found = import(
        "server { server_name a.example; add_header X-A b; proxy_pass_header x; \
         location / { proxy_pass http://a; } location /b/ { return 301 /c; } \
         location /d/ { add_header X-D e; proxy_pass http://a; } }",
    );
    assert_eq!(found.rule_files.len(), 2, "{:?}", found.rule_files);
    assert_eq!(found.toml.matches("forebay.1.rules").count(), 2, "{}", found.toml);
}

#[test]
fn paths_that_nginx_answers_by_another_location_are_closed() {
    for (rewrite, closed) in [
        ("rewrite ^/old/ /other.html last;", Some("/old/")),
        ("rewrite ^/old/a$ /other.html;", Some("/old/")),
        ("rewrite ^(.*)$ /index.php?q=$1 last;", Some("/")),
        ("rewrite /secret /other.html break;", Some("/")),
        ("rewrite ^/old/ /new permanent;", None),
    ] {
        let text = format!("server {{ {rewrite} location / {{ proxy_pass http://a; }} }}");
        let found = import(&text);
        let mut routes = found.toml.split("[[site.route]]");
        let path = |path: &str| format!("path_prefix = \"{path}\"\n");
        match closed {
            Some(closed) => {
                let route = routes.find(|route| route.contains(&path(closed)));
                assert!(route.is_some_and(|one| one.contains("respond = \"503")), "{}", found.toml);
                assert!(found.notes.iter().any(|note| note.directive == "rewrite"), "{rewrite}");
            }
            None => assert!(!found.toml.contains("respond"), "{}", found.toml),
        }
    }
}

#[test]
fn responses_that_nginx_does_not_store_are_not_stored() {
    const ZONE: &str = "proxy_cache z; proxy_pass http://a;";
    for (inside, part, is_there) in [
        (
            "proxy_no_cache $upstream_http_x_skip;",
            "cond %{HEADER:x-skip} /./\ncond %{HEADER:x-skip} /^0$/ [NOT]\n  \
             set-http-cntl SERVER_NO_STORE on",
            true,
        ),
        (
            "",
            "cond %{HEADER:X-Accel-Expires} /./\ncond %{HEADER:X-Accel-Expires} \
             /^0*[1-9][0-9]{0,8}$/ [NOT]\n  set-http-cntl SERVER_NO_STORE on",
            true,
        ),
        ("", "\"max-age=%{HEADER:X-Accel-Expires}\"", true),
        ("proxy_ignore_headers X-Accel-Expires;", "X-Accel-Expires", false),
        ("proxy_cache off;", "X-Accel-Expires", false),
    ] {
        let zone = if inside.starts_with("proxy_cache ") { "proxy_pass http://a;" } else { ZONE };
        let text = format!("server {{ location / {{ {zone} {inside} }} }}");
        let found = import(&text);
        let rules: String = found.rule_files.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(rules.contains(part), is_there, "{text}\n{}\n{rules}", found.toml);
        for file in &found.rule_files {
            let read = forebay_rules::read("", &file.text, RuleScope::Route);
            assert!(read.is_usable(), "{}", file.text);
        }
    }
    // A variable that is not of the response: nothing is stored.
    let found =
        import(&format!("server {{ location / {{ {ZONE} proxy_no_cache $upstream_status; }} }}"));
    assert!(found.toml.contains("cache = false"), "{}", found.toml);
}
