//! Limits on requests in progress, and the routes that have them.

use super::import;

const ZONES: &str = "limit_conn_zone $binary_remote_addr zone=client:1m; \
                     limit_conn_zone $server_name zone=server:1m; \
                     limit_conn_zone $http_x_key zone=key:1m; \
                     limit_conn_zone $cookie_a zone=cookie:1m; \
                     limit_req_zone $binary_remote_addr zone=rate:1m rate=1r/s;";

/// Each row has directives of a server, the limits in the order of the translation, and a part of
/// the only note, if there is one.
#[test]
fn limits_of_connections_become_limits_of_requests_in_progress() {
    let pass = "location / { proxy_pass http://a; }";
    for (server, wanted, note) in [
        (format!("limit_conn client 5; {pass}"), vec!["[\"5 by=address\"]"], ""),
        (
            format!("limit_conn client 5; limit_conn server 50; limit_conn key 2; {pass}"),
            vec!["[\"5 by=address\", \"50 by=route\", \"2 by=field:x-key\"]"],
            "",
        ),
        // A setting has one limit for the same requests.
        (
            format!("limit_conn client 9; limit_conn client 5; {pass}"),
            vec!["[\"5 by=address\"]"],
            "",
        ),
        (format!("limit_conn cookie 5; {pass}"), vec![], "counted by $cookie_a"),
        (format!("limit_conn other 5; {pass}"), vec![], "no limit_conn_zone \"other\""),
        (format!("limit_conn client 0; {pass}"), vec![], "between 1 and 65535"),
        (format!("limit_conn client 5; limit_conn_dry_run on; {pass}"), vec![], "dry_run is on"),
        (
            format!("limit_conn client 5; limit_conn_status 429; {pass}"),
            vec!["[\"5 by=address\"]"],
            "",
        ),
        (
            format!("limit_conn client 5; limit_conn_status 503; {pass}"),
            vec!["[\"5 by=address\"]"],
            "concurrency_limit by=address gets 429",
        ),
        (
            format!("limit_conn server 5; limit_conn_status 429; {pass}"),
            vec!["[\"5 by=route\"]"],
            "concurrency_limit by=route gets 503",
        ),
        (
            format!("set_real_ip_from 10.0.0.1; limit_conn client 5; {pass}"),
            vec!["[\"5 by=address\"]"],
            "together",
        ),
        // The list of a location replaces that of its server, for the locations inside, too.
        (
            "limit_conn client 5; location / { limit_conn client 2; proxy_pass http://a; \
             location /b/ { proxy_pass http://a; } }"
                .to_owned(),
            vec!["[\"5 by=address\"]", "[\"2 by=address\"]", "[\"2 by=address\"]"],
            "",
        ),
        (
            "limit_conn client 5; location / { limit_conn cookie 2; proxy_pass http://a; }"
                .to_owned(),
            vec!["[\"5 by=address\"]", "[]"],
            "counted by $cookie_a",
        ),
    ] {
        let found = import(&format!("{ZONES} server {{ server_name a.example; {server} }}"));
        let lines = found.toml.lines();
        let limits: Vec<_> =
            lines.filter_map(|line| line.strip_prefix("concurrency_limit = ")).collect();
        assert_eq!(limits, wanted, "{server}:\n{}", found.toml);
        let notes: Vec<_> = found.notes.iter().map(ToString::to_string).collect();
        let notes: Vec<_> = notes.iter().filter(|note| note.contains("limit_conn")).collect();
        let is_told = notes.len() == 1 && notes[0].contains(note);
        assert!(if note.is_empty() { notes.is_empty() } else { is_told }, "{server}: {notes:?}");
    }
}

#[test]
fn locations_inside_have_the_rate_limit_of_their_location() {
    let found = import(&format!(
        "{ZONES} server {{ server_name a.example; location / {{ limit_req zone=rate; \
         proxy_pass http://a; location /b/ {{ proxy_pass http://a; }} }} }}"
    ));
    assert_eq!(found.toml.matches("rate_limit = ").count(), 2, "{}", found.toml);
}
