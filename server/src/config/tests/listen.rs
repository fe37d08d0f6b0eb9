//! Invalid addresses for clients.

use super::bad::{Case, SITE, check};

/// Lines that stand before a valid site.
const CASES: &[Case] = &[
    ("listen = \":8080\"", "1:10", &["write \"0.0.0.0:8080\""]),
    ("listen = \"localhost:8080\"", "1:10", &["write \"127.0.0.1:8080\""]),
    ("listen = \"8080\"", "1:10", &["\"127.0.0.1:8080\" for clients on this machine"]),
    ("listen = \"127.0.0.1\"", "1:10", &["add the port", "\"127.0.0.1:8080\""]),
    ("listen = 8080", "1:10", &["cannot be a number", "write \"127.0.0.1:8080\""]),
    ("listen = \"::1:80\"", "1:10", &["in brackets: \"[::1]:80\""]),
    ("listen = \"http://0.0.0.0:80/\"", "1:10", &["write \"0.0.0.0:80\""]),
    ("listen = \"0.0.0.0:65536\"", "1:10", &["from 1 to 65535"]),
    ("listen = \"a.org:80\"", "1:10", &["in place of \"a.org\""]),
    ("listen = \"\"", "1:10", &["is empty"]),
    ("listen = []", "1:10", &["has no address"]),
    ("listen = [\"[::]:80\", \":80\"]", "1:10", &["write \"0.0.0.0:80\""]),
    ("listen = [\"[::]:80\", \"[::]:80\"]", "1:10", &["has [::]:80 twice"]),
    ("listen = [\"[::1]:80\", \"[::]:80\"]", "1:10", &["[::]:80 is for every IPv6 address"]),
    (
        "listen = [\"0.0.0.0:80\", \"127.0.0.1:80\"]",
        "1:10",
        &["0.0.0.0:80 is for every IPv4 address"],
    ),
    (
        "listen = [\"[::]:1\", \"[::]:2\", \"[::]:3\", \"[::]:4\", \"[::]:5\"]",
        "1:10",
        &["more than 4"],
    ),
    ("listen = [\"[::]:80\", \"[::1]:9\"]\nadmin = \"[::1]:9\"", "2:9", &["same address and port"]),
];

#[test]
fn a_bad_address_is_refused_with_its_place_and_a_hint() {
    for (lines, place, parts) in CASES {
        check(&format!("{lines}\n{SITE}"), place, parts);
    }
}
