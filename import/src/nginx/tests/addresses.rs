//! Servers with different addresses.

use super::import;

/// A server with a location of its own.
fn server(name: &str, listen: &str) -> String {
    let proxy = format!("proxy_set_header Host $host; proxy_pass http://{name};");
    format!("server {{ {listen} server_name {name}; location / {{ {proxy} }} }}")
}

/// The `names` and the `listen` of each site that is written.
fn sites(found: &str) -> Vec<(String, String)> {
    let value = |site: &str, name: &str| {
        let line = site.lines().find_map(|line| line.strip_prefix(&format!("{name} = ")));
        let line = line.unwrap_or_default().replace('"', "");
        let inner = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        inner.unwrap_or_default().to_owned()
    };
    let sites = found.split("[[site]]").skip(1);
    let first = |site: &str| site.split("[[site.route]]").next().unwrap_or_default().to_owned();
    sites.map(first).map(|site| (value(&site, "names"), value(&site, "listen"))).collect()
}

/// The servers with their `listen`, and the sites that they become: names, and `listen`.
type AddressCase<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)]);

const CASES: &[AddressCase<'_>] = &[
    (
        &[("a.example", "listen 80;"), ("b.example", "listen 8080;")],
        &[("a.example, *", "0.0.0.0:80"), ("b.example, *", "0.0.0.0:8080")],
    ),
    (
        &[("a.example", "listen 80;"), ("a.example", "listen 127.0.0.1:8080;")],
        &[("a.example, *", "0.0.0.0:80"), ("a.example, *", "127.0.0.1:8080")],
    ),
    // Another server is the default one by its own word, or at one of the addresses.
    (
        &[
            ("a.example", "listen 80;"),
            ("b.example", "listen 80 default_server; listen [::]:80;"),
            ("c.example", "listen [::]:80;"),
        ],
        &[
            ("a.example", "0.0.0.0:80"),
            ("b.example, *", "0.0.0.0:80, [::]:80"),
            ("c.example", "[::]:80"),
        ],
    ),
    (
        &[("a.example", "listen 80;"), ("b.example", "listen 80; listen 81;")],
        &[("a.example, *", "0.0.0.0:80"), ("b.example", "0.0.0.0:80, 0.0.0.0:81")],
    ),
    // All servers have the same addresses.
    (
        &[("a.example", "listen 80; listen 81;"), ("b.example", "listen 80; listen 81;")],
        &[("a.example, *", ""), ("b.example", "")],
    ),
    (
        &[("a.example", "listen 80; listen [::]:80;"), ("b.example", "listen [::]:80; listen 80;")],
        &[("a.example, *", ""), ("b.example", "")],
    ),
    (
        &[("a.example", "listen 80;"), ("b.example", "listen 443 ssl;")],
        &[("a.example", ""), ("b.example", "")],
    ),
    // The addresses overlap, so a connection to the smaller one belongs to one server in nginx.
    (
        &[("a.example", "listen 80;"), ("b.example", "listen 192.0.2.1:80;")],
        &[("a.example, *", ""), ("b.example", "")],
    ),
    // The second server of a host at one address has the host at the other one.
    (
        &[("a.example", "listen 80;"), ("a.example", "listen 80; listen 81;")],
        &[("a.example, *", "")],
    ),
    // Too many addresses.
    (
        &[
            ("a.example", "listen 80; listen 81; listen 82; listen 83;"),
            ("b.example", "listen 84;"),
        ],
        &[("a.example, *", "")],
    ),
];

#[test]
fn servers_with_different_addresses_become_sites_with_listen() {
    for (servers, expected) in CASES {
        let text: String = servers.iter().map(|(name, listen)| server(name, listen)).collect();
        let found = import(&text);
        let expected: Vec<_> = expected
            .iter()
            .map(|(names, listen)| (names.to_string(), listen.to_string()))
            .collect();
        assert_eq!(sites(&found.toml), expected, "{text}:\n{}\n{:?}", found.toml, found.notes);
    }
}

#[test]
fn a_default_server_beside_a_restricted_one_does_not_get_every_host() {
    let open = "server { listen 80; server_name a; location / { proxy_pass http://a; } }";
    let closed = "server_name b; deny all; location / { proxy_pass http://b; }";
    for (listen, names) in [("listen 81;", "a, *"), ("listen 80; listen 81;", "a")] {
        let found = import(&format!("{open} server {{ {listen} {closed} }}"));
        assert_eq!(sites(&found.toml)[0].0, names, "{listen}:\n{}", found.toml);
        let is_noted = found.notes.iter().any(|note| note.message.contains("every unknown host"));
        assert_eq!(is_noted, names == "a", "{listen}: {:?}", found.notes);
    }
}
