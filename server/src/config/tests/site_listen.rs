//! Sites that are served at some addresses only.

use super::super::*;
use super::bad::check;

const LISTEN: &str =
    "listen = ['127.0.0.1:80', '127.0.0.1:81', '[::1]:80']\nlisten_tls = ['127.0.0.1:443']\n";

fn site(name: &str, names: &[&str], listen: &str) -> String {
    let listen = if listen.is_empty() { String::new() } else { format!("listen = {listen}\n") };
    format!("[[site]]\nname = '{name}'\nnames = {names:?}\norigin = 'http://o'\n{listen}")
}

fn found<'a>(config: &'a Config, address: &str, host: &str) -> Option<&'a str> {
    let is_at = |at: &std::net::SocketAddr| at.to_string() == address;
    let mut listeners = config.server.listeners();
    let (number, ..) = listeners.find(|(_, at, _)| is_at(at)).expect("the server has the address");
    config.sites.lookup_at(number, host.as_bytes()).map(|site| &*site.name)
}

#[test]
fn a_host_is_looked_up_at_its_address_first() {
    let text = LISTEN.replace("listen_tls = ['127.0.0.1:443']\n", "")
        + &site("general", &["a.org", "*.b.org", "*"], "")
        + &site("own", &["a.org", "*.org"], "'127.0.0.1:81'")
        + &site("both", &["c.org"], "['127.0.0.1:80', '[::1]:80']")
        + &site("all", &["*"], "'[::1]:80'");
    let config = Config::from_toml(&text, "t").unwrap_or_else(|errors| panic!("{errors}"));
    for (address, host, expected) in [
        ("127.0.0.1:80", "a.org", "general"),
        ("127.0.0.1:80", "x.org", "general"),
        ("127.0.0.1:80", "C.org", "both"),
        ("127.0.0.1:81", "a.org", "own"),
        ("127.0.0.1:81", "x.b.org", "own"),
        ("127.0.0.1:81", "c.org", "own"),
        ("127.0.0.1:81", "a.com", "general"),
        ("[::1]:80", "a.org", "all"),
        ("[::1]:80", "c.org", "both"),
    ] {
        assert_eq!(found(&config, address, host), Some(expected), "{host} at {address}");
    }
}

#[test]
fn a_site_is_not_served_at_other_addresses() {
    let text = "listen = ['127.0.0.1:80', '127.0.0.1:81']\n".to_owned()
        + &site("own", &["*"], "'127.0.0.1:81'")
        + &site("other", &["b.org"], "['127.0.0.1:80']");
    let config = Config::from_toml(&text, "t").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(found(&config, "127.0.0.1:80", "a.org"), None);
    assert_eq!(found(&config, "127.0.0.1:80", "b.org"), Some("other"));
    assert_eq!(found(&config, "127.0.0.1:81", "b.org"), Some("own"));
    let names = |text: &str| Config::from_toml(text, "t").expect("it is right").sites;
    assert!(names(&text).depend_on_listener());
    assert!(!names(&site("a", &["*"], "[]")).depend_on_listener());
}

#[test]
fn a_bad_address_of_a_site_is_refused_with_its_place_and_a_hint() {
    let top = "listen = ['127.0.0.1:80', '[::]:81', '127.0.0.1:0']\n";
    for (listen, parts) in [
        ("'127.0.0.1:8080'", &["has 127.0.0.1:8080, where", "there are 127.0.0.1:80, [::]:81"][..]),
        ("'[::1]:81'", &["for this port is \"[::]:81\""]),
        ("'127.0.0.1:0'", &["port 0", "any free port"]),
        ("['127.0.0.1:80', '127.0.0.1:80']", &["twice"]),
        ("80", &["cannot be a number", "\"127.0.0.1:80\""]),
        ("''", &["is not an array"]),
        ("'localhost:80'", &["write \"127.0.0.1:80\""]),
        ("true", &["not an array"]),
    ] {
        check(&format!("{top}{}", site("a", &["a"], listen)), "6:10", parts);
    }
    let route = "[[site.route]]\npath = '/'\nlisten = '127.0.0.1:80'\n";
    let text = format!("{top}{}{route}", site("a", &["a"], ""));
    check(&text, "8:1", &["before the first section or in [[site]]"]);
    // The addresses of the server are not known, so those of sites are not to blame.
    let text = format!("listen = '80'\n{}", site("a", &["a"], "'127.0.0.1:80'"));
    check(&text, "1:10", &["\"127.0.0.1:80\""]);
}

#[test]
fn names_must_differ_only_at_the_same_address() {
    let (one, all) = ("'127.0.0.1:80'", "['127.0.0.1:80', '127.0.0.1:81', '[::1]:80']");
    let plain = LISTEN.replace("listen_tls = ['127.0.0.1:443']\n", "");
    let text = plain.clone() + &site("a", &["*"], one) + &site("b", &["*"], "");
    assert!(Config::from_toml(&text, "t").is_ok());
    let text = plain.clone() + &site("a", &["a"], one) + &site("b", &["b", "a"], one);
    check(&text, "9:15", &["already serves `a` at 127.0.0.1:80", "first use is at f.toml:4:10"]);
    // `a.b` is left to the second site only at addresses that the first one does not name.
    let text = plain.clone() + &site("a", &["*.b"], all) + &site("b", &["a.b", "*.c.b"], "");
    check(&text, "7:1", &["\"b\" is served at no address", "give this site a `listen` too"]);
    for served in ["b", "*.c", "*"] {
        let text = plain.clone() + &site("a", &["*.b"], all) + &site("b", &["a.b", served], "");
        assert!(Config::from_toml(&text, "t").is_ok(), "{served}");
    }
}

#[test]
fn only_sites_at_addresses_with_tls_need_a_certificate() {
    let plain = site("plain", &["a"], "'127.0.0.1:80'");
    assert!(Config::from_toml(&(LISTEN.to_owned() + &plain), "t").is_ok());
    for listen in ["", "['127.0.0.1:80', '127.0.0.1:443']"] {
        let text = LISTEN.to_owned() + &plain + &site("tls", &["b"], listen);
        check(&text, "2:14", &["the site \"tls\" has no certificate"]);
    }
}

#[test]
fn a_site_that_serves_the_hosts_of_another_from_its_origin_gets_a_warning() {
    let (wide, own) = (site("all", &["*"], ""), site("admin", &["admin.test"], "'127.0.0.1:80'"));
    let listen = "listen = ['127.0.0.1:80', '127.0.0.1:81']\n";
    let warnings = |text: &str| Config::from_toml(text, "t").expect(text).address_warnings();
    let both = format!("{listen}{wide}{own}");
    let found = warnings(&both);
    assert!(found.len() == 1 && found[0].contains("site \"admin\""), "{found:?}");
    assert!(found[0].contains("site \"all\" serves its hosts"), "{found:?}");
    // Another host, another origin, or no addresses left out.
    assert_eq!(warnings(&both.replace("\"*\"", "\"*.example\"")), Vec::<String>::new());
    let (first, second) = both.rsplit_once("http://").expect("two origins");
    assert_eq!(warnings(&format!("{first}http://other.{second}")), Vec::<String>::new());
}
