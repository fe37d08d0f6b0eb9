//! Turns an operator's selection (a site, a host or a URL prefix) into key prefixes.
//!
//! A key begins with the name of its site. So a selection has one prefix for each site that could
//! have stored the responses, or two if a port may follow the host.

use std::net::Ipv6Addr;

use forebay_http::authority::Authority;
use forebay_http::target::Scheme;
use forebay_rules::ast::Hook;

use super::text::is_address;
use super::url::{SplitUrl, split_url, write_key_of};
use super::{
    RouteMatch, resource_keys, route_of_url, write_authority, write_normal_key, write_reversed_host,
};
use crate::config::{Config, HostPattern, Site};
use crate::limits::SELECTIONS_MAX;

/// Key prefixes, none of which is a prefix of another; or the reason why there are no prefixes.
type KeyPrefixes = Result<Vec<Vec<u8>>, &'static str>;

/// Key prefixes without the name of the site: for each, the scheme and the text that follows it.
type KeyBeginnings = Vec<(Scheme, Vec<u8>)>;

/// Returns the key prefix of all stored responses of `site`; without a site, the empty prefix,
/// which covers all sites.
///
/// # Errors
/// A sentence with the reason, for instance that no site has this name.
pub(crate) fn site_prefixes(config: &Config, site: Option<&str>) -> KeyPrefixes {
    match site {
        None => Ok(vec![Vec::new()]),
        Some(name) => Ok(vec![site_prefix(&named(config, name)?.name)]),
    }
}

/// Returns the key prefixes of all stored responses of a host: `example.org` for every port,
/// `example.org:8080`, `*.example.org` for every name below it, or `*` for every host.
///
/// # Errors
/// A sentence with the reason, for instance that no site serves the host.
pub(crate) fn host_prefixes(config: &Config, host: &str, site: Option<&str>) -> KeyPrefixes {
    if host == "*" {
        return site_prefixes(config, site);
    }
    let (pattern, endings) = read_host(host)?;
    let sites = sites(config, &pattern, site)?;
    let prefixes = sites.iter().flat_map(|site| {
        endings.iter().map(|(scheme, ending)| {
            let mut key = site_prefix(&site.name);
            key.extend_from_slice(scheme.as_str().as_bytes());
            key.push(0);
            key.extend_from_slice(ending);
            key
        })
    });
    limited(prefixes.collect())
}

/// Returns the key prefixes of all stored responses whose URLs, with normalised queries, begin with
/// `url`.
///
/// # Errors
/// See [`host_prefixes`].
pub(crate) fn url_prefixes(config: &Config, url: &[u8], site: Option<&str>) -> KeyPrefixes {
    let UrlOfSites { url, sites } = UrlOfSites::parse(config, url, site)?;
    let prefixes = sites.iter().map(|site| {
        let mut key = Vec::new();
        write_key_of(&mut key, &site.name, url);
        key
    });
    limited(prefixes.collect())
}

/// Returns the keys of a URL on each site that could have stored its response.
///
/// # Errors
/// See [`host_prefixes`].
pub(crate) fn url_keys(config: &Config, url: &[u8], site: Option<&str>) -> KeyPrefixes {
    let UrlOfSites { url, sites } = UrlOfSites::parse(config, url, site)?;
    let SplitUrl { scheme, authority, path_query } = url;
    let mut keys = Vec::new();
    for site in sites {
        let routes = match changes_urls(config, site) {
            // A rule may have changed any path to this one.
            true => {
                let routes = site.routes().iter();
                routes.map(|route| RouteMatch { site, route, scheme }).collect()
            }
            false => vec![route_of_url(site, scheme, path_query)],
        };
        for route in routes {
            keys.extend(resource_keys(route, Some(authority), path_query));
        }
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// A URL, and the sites that could have stored its responses.
struct UrlOfSites<'a> {
    url: SplitUrl<'a>,
    sites: Vec<&'a Site>,
}

impl<'a> UrlOfSites<'a> {
    fn parse(config: &'a Config, url: &'a [u8], site: Option<&str>) -> Result<Self, &'static str> {
        let url = split_url(url)?;
        let host = String::from_utf8_lossy(url.authority.host).to_ascii_lowercase();
        let sites = sites(config, &HostPattern::Exact(host), site)?;
        Ok(UrlOfSites { url, sites })
    }
}

fn limited(mut prefixes: Vec<Vec<u8>>) -> KeyPrefixes {
    if prefixes.len() > SELECTIONS_MAX {
        return Err("too many sites could serve this host; select one site");
    }
    prefixes.sort_unstable();
    Ok(prefixes)
}

/// Returns the key prefix of all responses of a site.
pub(crate) fn site_prefix(name: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0"].concat()
}

/// Returns the key prefix of the resources that `authority` serves and whose path and query begin
/// with `prefix`.
pub(crate) fn path_prefix(
    route: RouteMatch<'_>,
    authority: Option<Authority<'_>>,
    prefix: &[u8],
) -> Vec<u8> {
    let mut key = Vec::new();
    write_normal_key(&mut key, route, authority, prefix);
    key
}

fn named<'c>(config: &'c Config, name: &str) -> Result<&'c Site, &'static str> {
    config.sites.iter().find(|site| site.name == name).ok_or("there is no site with this name")
}

/// Returns the site with the given name, or else all sites that can have keys of these hosts.
fn sites<'c>(
    config: &'c Config,
    hosts: &HostPattern,
    site: Option<&str>,
) -> Result<Vec<&'c Site>, &'static str> {
    if let Some(name) = site {
        return Ok(vec![named(config, name)?]);
    }
    let could = |site: &&Site| {
        site.names.iter().any(|name| name.meets(hosts)) || changes_urls(config, site)
    };
    let sites: Vec<_> = config.sites.iter().filter(could).collect();
    if sites.is_empty() { Err("no site serves this host") } else { Ok(sites) }
}

/// Whether rules can store the site's responses under any URL. Rules of the hook `Remap` can: they
/// run after routing, and can change host, path and query.
fn changes_urls(config: &Config, site: &Site) -> bool {
    site.routes().iter().any(|route| config.rules_of(Some(route)).program.has(Hook::Remap))
}

/// Parses a host as the operator wrote it. Returns its pattern, and the prefixes of its keys
/// without the name of the site.
fn read_host(text: &str) -> Result<(HostPattern, KeyBeginnings), &'static str> {
    const SCHEMES: [Scheme; 2] = [Scheme::Http, Scheme::Https];
    const MALFORMED: &str = "not a host; write example.org, example.org:8080 or *.example.org";
    if text.starts_with("*.") {
        return match HostPattern::parse(text) {
            Ok(HostPattern::Below(host)) if !is_address(host.as_bytes()) => {
                let mut ending = Vec::new();
                write_reversed_host(&mut ending, host.as_bytes());
                ending.push(b'.');
                let endings = SCHEMES.map(|scheme| (scheme, ending.clone()));
                Ok((HostPattern::Below(host), endings.into()))
            }
            _ => Err(MALFORMED),
        };
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err("write an IPv6 address in brackets: [::1] or [::1]:8080");
    }
    let authority = Authority::parse(text.as_bytes()).ok_or(MALFORMED)?;
    let mut endings = Vec::new();
    for scheme in SCHEMES {
        let mut ending = Vec::new();
        write_authority(&mut ending, scheme, authority);
        endings.push((scheme, [&*ending, b"\0"].concat()));
        if authority.port.is_none() {
            endings.push((scheme, [&*ending, b":"].concat()));
        }
    }
    let host = String::from_utf8_lossy(authority.host).to_ascii_lowercase();
    Ok((HostPattern::Exact(host), endings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let site = |name: &str, names: &str| {
            format!("[[site]]\nname = \"{name}\"\nnames = {names}\norigin = \"http://o\"\n")
        };
        let text = site("a", "['a.org', 'www.a.org']")
            + &site("below", "['*.a.org']")
            + &site("b", "['b.org', '[::1]', '10.0.0.1']");
        Config::from_toml(&text, "test.toml").expect("it is right")
    }

    fn shown(prefixes: KeyPrefixes) -> Result<Vec<String>, &'static str> {
        let shown = |key: &Vec<u8>| String::from_utf8_lossy(key).replace('\0', "|");
        prefixes.map(|keys| keys.iter().map(shown).collect())
    }

    /// Adds an `https` prefix for each `http` prefix, unless the list already has `https` prefixes.
    fn both_schemes(prefixes: &[&str]) -> Vec<String> {
        let mut all: Vec<_> = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        if !prefixes.iter().any(|prefix| prefix.contains("|https|")) {
            let http = prefixes.iter().filter(|prefix| prefix.contains("|http|"));
            all.extend(http.map(|prefix| prefix.replace("|http|", "|https|")));
        }
        all.sort_unstable_by_key(|prefix| prefix.replace('|', "\0"));
        all
    }

    #[test]
    fn a_host_is_all_its_ports_or_one_or_all_names_below_it() {
        let config = config();
        let cases: &[(&str, Result<&[&str], &str>)] = &[
            ("b.org", Ok(&["b|http|org.b|", "b|http|org.b:"])),
            ("B.Org", Ok(&["b|http|org.b|", "b|http|org.b:"])),
            ("b.org:80", Ok(&["b|http|org.b|", "b|https|org.b:80|"])),
            ("b.org:443", Ok(&["b|http|org.b:443|", "b|https|org.b|"])),
            ("b.org:8080", Ok(&["b|http|org.b:8080|"])),
            ("[::1]", Ok(&["b|http|[::1]|", "b|http|[::1]:"])),
            ("10.0.0.1", Ok(&["b|http|10.0.0.1|", "b|http|10.0.0.1:"])),
            ("a.org", Ok(&["a|http|org.a|", "a|http|org.a:"])),
            (
                "www.a.org",
                Ok(&[
                    "a|http|org.a.www|",
                    "a|http|org.a.www:",
                    "below|http|org.a.www|",
                    "below|http|org.a.www:",
                ]),
            ),
            ("*.a.org", Ok(&["a|http|org.a.", "below|http|org.a."])),
            ("*.x.a.org", Ok(&["below|http|org.a.x."])),
            ("*.org", Ok(&["a|http|org.", "b|http|org.", "below|http|org."])),
            ("*", Ok(&[""])),
            ("c.org", Err("no site")),
            ("*.c.org", Err("no site")),
            ("", Err("not a host")),
            ("::1", Err("in brackets")),
            ("*.", Err("not a host")),
            ("*.0.0.1", Err("not a host")),
            ("http://a.org", Err("not a host")),
            ("a.org/x", Err("not a host")),
            ("*.a.org:80", Err("not a host")),
        ];
        for (host, expected) in cases {
            match (shown(host_prefixes(&config, host, None)), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, both_schemes(expected), "{host}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{host}: {why}"),
                (found, _) => panic!("{host}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_site_that_is_named_is_the_only_one() {
        let config = config();
        let of = |host| shown(host_prefixes(&config, host, Some("below")));
        assert_eq!(of("c.org"), Ok(both_schemes(&["below|http|org.c|", "below|http|org.c:"])));
        assert_eq!(of("*"), Ok(vec!["below|".into()]));
        assert_eq!(shown(site_prefixes(&config, Some("a"))), Ok(vec!["a|".into()]));
        assert_eq!(shown(site_prefixes(&config, None)), Ok(vec![String::new()]));
        for prefixes in [
            host_prefixes(&config, "a.org", Some("c")),
            url_prefixes(&config, b"http://a.org/", Some("c")),
            site_prefixes(&config, Some("c")),
        ] {
            assert_eq!(prefixes, Err("there is no site with this name"));
        }
    }

    #[test]
    fn a_url_prefix_is_a_key_prefix() {
        let config = config();
        let of = |url: &str| shown(url_prefixes(&config, url.as_bytes(), None));
        assert_eq!(of("http://B.org/News?a"), Ok(vec!["b|http|org.b|/News?a".into()]));
        assert_eq!(of("http://b.org:81"), Ok(vec!["b|http|org.b:81|/".into()]));
        let both = ["a|http|org.a.www|/x", "below|http|org.a.www|/x"].map(String::from).to_vec();
        assert_eq!(of("http://www.a.org/x"), Ok(both));
        assert_eq!(of("http://c.org/"), Err("no site serves this host"));
        assert!(of("b.org/").is_err_and(|why| why.contains("begins with http://")));
    }
}
