//! `proxy_pass`, `grpc_pass` and `upstream`.

use super::scope::GRPC_PASS;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::{TomlTable, quote};

/// Origins that a site may have.
const ORIGINS_MAX: usize = 16;

/// Largest weight of an origin.
const WEIGHT_MAX: u32 = 1000;

/// The origins of a location.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct OriginsOfPass {
    urls: Vec<GroupOrigin>,
    balance: Option<&'static str>,
    is_grpc: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct GroupOrigin {
    url: String,
    weight: u32,
    backup: bool,
}

/// The parts of the URL of `proxy_pass` or `grpc_pass`.
pub(super) struct Pass<'s> {
    is_grpc: bool,
    scheme: &'s str,
    authority: &'s str,
    /// The path that replaces the location's prefix.
    pub(super) path: Option<&'s str>,
}

impl<'s> Pass<'s> {
    /// Splits the URL.
    pub(super) fn new(directive: &'s NginxDirective) -> Result<Pass<'s>, &'static str> {
        let (url, is_grpc) = (directive.arg(0), directive.name == GRPC_PASS);
        if url.contains('$') {
            return Err("the URL of the origin has variables");
        }
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) if !is_grpc => (scheme, rest),
            Some(("grpc", rest)) if is_grpc => ("http", rest),
            Some(("grpcs", rest)) if is_grpc => ("https", rest),
            None if is_grpc => ("http", url),
            _ => return Err("the scheme of the origin is unknown"),
        };
        if let Some(socket) = rest.strip_prefix("unix:") {
            // A path of the URL is behind a second colon.
            let (socket, path) = socket.split_once(':').map_or((socket, None), |(socket, path)| {
                (socket, Some(path).filter(|path| !path.is_empty()))
            });
            let authority = &rest[.."unix:".len() + socket.len()];
            return Ok(Pass { is_grpc, scheme, authority, path });
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(&rest[at..])),
            None => (rest, None),
        };
        Ok(Pass { is_grpc, scheme, authority, path })
    }

    /// The name or address of the origin, as nginx sends it in `Host`.
    pub(super) fn authority(&self) -> &'s str {
        self.authority
    }

    /// The origins.
    pub(super) fn origins(&self, source: &NginxSource<'_>) -> Result<OriginsOfPass, &'static str> {
        let Some(group) = source.groups.get(self.authority) else {
            let url = origin_url(self.scheme, self.authority, self.scheme)?;
            let urls = vec![GroupOrigin { url, weight: 1, backup: false }];
            return Ok(OriginsOfPass { urls, balance: None, is_grpc: self.is_grpc });
        };
        let mut origins = OriginsOfPass { urls: Vec::new(), balance: None, is_grpc: self.is_grpc };
        for directive in group.inner() {
            match directive.name.as_str() {
                "server" => {
                    let found = server(source, directive, self.scheme)?;
                    found.into_iter().for_each(|origin| origins.add(origin));
                }
                "least_conn" => origins.balance = Some("least"),
                "hash" if directive.arg(0) == "$request_uri" => origins.balance = Some("hash"),
                "keepalive" | "keepalive_timeout" | "keepalive_requests" | "zone" => {}
                _ => {
                    let advice = "left out: `balance` has no such choice (docs/origins.md)";
                    source.note(directive, advice);
                }
            }
        }
        match origins.urls.len() {
            0 => Err("the upstream has no server that is up"),
            1..=ORIGINS_MAX => Ok(origins),
            _ => Err("the upstream has more than 16 servers"),
        }
    }
}

fn server(
    source: &NginxSource<'_>,
    directive: &NginxDirective,
    scheme: &str,
) -> Result<Option<GroupOrigin>, &'static str> {
    if directive.args.iter().any(|arg| arg == "down") {
        return Ok(None);
    }
    // An upstream's server has port 80, whatever the scheme of `proxy_pass`.
    let mut origin = GroupOrigin {
        url: origin_url(scheme, directive.arg(0), "http")?,
        weight: 1,
        backup: false,
    };
    for arg in directive.args.iter().skip(1) {
        match arg.split_once('=') {
            Some(("weight", weight)) => match weight.parse() {
                Ok(weight @ 1..=WEIGHT_MAX) => origin.weight = weight,
                _ => source.note(directive, "left out: a weight is from 1 to 1000"),
            },
            None if arg == "backup" => origin.backup = true,
            Some(("max_fails" | "fail_timeout", _)) => source.note(
                directive,
                "max_fails and fail_timeout are left out: docs/origins.md says when an origin is \
                 left out",
            ),
            _ => source.note(directive, format!("left out: {arg} has no counterpart")),
        }
    }
    Ok(Some(origin))
}

fn origin_url(scheme: &str, authority: &str, default: &str) -> Result<String, &'static str> {
    if let Some(socket) = authority.strip_prefix("unix:") {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "/.-_".contains(c);
        return match scheme == "http" && socket.starts_with('/') && socket.chars().all(is_path) {
            true => Ok(authority.to_owned()),
            false => Err("the origin is a Unix socket with TLS or an unusual path"),
        };
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    if authority.is_empty() || !authority.chars().all(is_part) {
        return Err("the origin has no valid host");
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    let port = match (has_port, default, scheme) {
        (false, "http", "https") => ":80",
        _ => "",
    };
    Ok(format!("{scheme}://{authority}{port}"))
}

impl OriginsOfPass {
    /// Adds an origin; one that is there already gets a larger share.
    fn add(&mut self, origin: GroupOrigin) {
        let known = |one: &&mut GroupOrigin| one.url == origin.url;
        match self.urls.iter_mut().find(known) {
            // As a backup, it would take the place of itself.
            Some(known) if origin.backup && !known.backup => {}
            Some(known) if known.backup && !origin.backup => *known = origin,
            Some(known) => known.weight = (known.weight + origin.weight).min(WEIGHT_MAX),
            None => self.urls.push(origin),
        }
    }

    /// Writes the origins: as a list of URLs, or as a list of tables.
    pub(super) fn write(&self, section: &mut TomlTable) {
        if self.is_grpc {
            section.text("origin_http2", "always");
        }
        if let Some(balance) = self.balance {
            section.text("balance", balance);
        }
        if self.urls.iter().all(|origin| origin.weight == 1 && !origin.backup) {
            match self.urls.as_slice() {
                [one] => section.text("origin", &one.url),
                all => section.texts("origin", &all.iter().map(|one| &one.url).collect::<Vec<_>>()),
            }
            return;
        }
        let tables = self.urls.iter().map(|origin| {
            let url = quote(&origin.url);
            let weight = (origin.weight != 1).then(|| format!(", weight = {}", origin.weight));
            let backup = if origin.backup { ", backup = true" } else { "" };
            format!("    {{ url = {url}{}{backup} }},\n", weight.unwrap_or_default())
        });
        section.raw("origin", format!("[\n{}]", tables.collect::<String>()));
    }

    /// Whether the origins speak gRPC.
    pub(super) fn is_grpc(&self) -> bool {
        self.is_grpc
    }

    /// Whether the origins use TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.urls.iter().any(|origin| origin.url.starts_with("https://"))
    }
}
