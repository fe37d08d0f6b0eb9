//! URLs: turns one that an operator has typed into a key, and a request into its `https` URL.

use std::borrow::Cow;

use forebay_http::authority::Authority;
use forebay_http::target::{Scheme, TargetForm};

use super::{route_of_url, write_host_of, write_key};
use crate::config::value::Redirection;
use crate::config::{Config, mask_users};
use crate::fault::Fault;
use crate::parse::Request;

/// The parts of a URL.
#[derive(Clone, Copy)]
pub(crate) struct SplitUrl<'a> {
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority<'a>,
    pub(crate) path_query: &'a [u8],
}

/// Writes into `key` the key under which a URL's site stores its response, if no rule changes the
/// URL.
///
/// # Errors
/// A sentence with the reason: the URL is malformed, or no site serves it.
pub fn url_key(config: &Config, url: &[u8], key: &mut Vec<u8>) -> Result<(), &'static str> {
    let SplitUrl { scheme, authority, path_query } = split_url(url)?;
    let site = config.sites.lookup(authority.host).ok_or("no site serves this host")?;
    write_key(key, route_of_url(site, scheme, path_query), Some(authority), path_query);
    Ok(())
}

/// Writes into `key` the key of a URL in the site with this name, which need not be configured. It
/// is meant for tools that read a cache.
///
/// # Errors
/// A sentence that names the malformed part of the URL.
pub fn site_url_key(site_name: &str, url: &[u8], key: &mut Vec<u8>) -> Result<(), &'static str> {
    write_key_of(key, site_name, split_url(url)?);
    Ok(())
}

/// Writes the key of a URL in its normal form.
pub(super) fn write_key_of(key: &mut Vec<u8>, site_name: &str, url: SplitUrl<'_>) {
    write_host_of(key, site_name, url.scheme, Some(url.authority));
    key.extend_from_slice(url.path_query);
}

/// Splits an `http` or `https` URL into its scheme, its authority and its path with query.
///
/// # Errors
/// A sentence that names the malformed part of the URL.
pub(crate) fn split_url(url: &[u8]) -> Result<SplitUrl<'_>, &'static str> {
    let (scheme, rest) = strip_scheme(url).ok_or("a URL begins with http:// or https://")?;
    let path_at = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
    let (authority, path_query) = rest.split_at(path_at.unwrap_or(rest.len()));
    let authority = Authority::parse(authority).ok_or(match rest.contains(&b'@') {
        true => "a URL cannot have a user name; leave out the part before @",
        false => "the URL's host or port is malformed",
    })?;
    let path_query = match path_query {
        b"" => b"/",
        path if is_path_query(path) => path,
        _ => return Err("the URL's path has bytes that a request cannot have"),
    };
    Ok(SplitUrl { scheme, authority, path_query })
}

/// Returns a URL for a message. In a malformed URL, a user name and a password are hidden.
pub fn shown_url(url: &str) -> Cow<'_, str> {
    match split_url(url.as_bytes()) {
        Ok(_) => Cow::Borrowed(url),
        Err(_) => Cow::Owned(mask_users(url)),
    }
}

fn strip_scheme(url: &[u8]) -> Option<(Scheme, &[u8])> {
    let schemes = [(Scheme::Http, &b"http://"[..]), (Scheme::Https, b"https://")];
    schemes.into_iter().find_map(|(scheme, prefix)| {
        let (front, rest) = url.split_at_checked(prefix.len())?;
        front.eq_ignore_ascii_case(prefix).then_some((scheme, rest))
    })
}

/// Whether `path` is valid as the path and query of a request.
pub(crate) fn is_path_query(path: &[u8]) -> bool {
    path.first() == Some(&b'/') && path.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#')
}

/// Returns the `https` URL of a request that a client sent without TLS.
///
/// # Errors
/// [`Fault::NoSite`]: the request names no host, or its target is no path.
pub(crate) fn https_url(request: &Request<'_>, port: u16) -> Result<Vec<u8>, Fault> {
    let target = request.target;
    let authority = target.authority.filter(|_| target.path_query.starts_with(b"/"));
    let host = authority.ok_or(Fault::NoSite)?.host;
    let mut url = b"https://".to_vec();
    url.extend(host.iter().map(u8::to_ascii_lowercase));
    if port != Scheme::Https.default_port() {
        url.push(b':');
        forebay_http::write::decimal(&mut url, u64::from(port));
    }
    url.extend_from_slice(target.path_query);
    Ok(url)
}

/// Returns the URL to which a redirect leads for a request. A target that is no path stands for the
/// whole site.
///
/// # Errors
/// - [`Fault::NoSite`]: the redirect needs a host, and the request has none.
/// - [`Fault::TargetNotForwardable`]: the path has bytes that a URI cannot have.
pub(crate) fn redirect_url(
    redirection: &Redirection,
    request: &Request<'_>,
) -> Result<Vec<u8>, Fault> {
    let target = request.target;
    let path_query = match target.form {
        TargetForm::Asterisk => b"/",
        _ => target.path_query,
    };
    if !is_path_query(path_query) {
        return Err(Fault::TargetNotForwardable);
    }
    let host = target.authority.map(|authority| authority.host);
    redirection.url(host, path_query).ok_or(Fault::NoSite)
}
