//! The address of an origin, as its URL states it.

use std::path::PathBuf;
use std::sync::Arc;

pub use super::origin_http2::OriginHttp2;
use super::origin_tls::OriginTls;
use super::proxy_protocol::ProxyProtocol;
use super::service::OriginService;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::site::check_host;
use super::table::ORIGIN;
use crate::limits::SOCKET_PATH_BYTES_MAX;

/// The address of an origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OriginAddress {
    /// Host name or IP address, in lower case, without the brackets of an IPv6 address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The host and port as in a URL; the port is left out if it is 80 and the URL is `http`. For a
    /// Unix socket, `unix:` and its path.
    pub authority: String,
    /// The path of the Unix socket; `None` for an origin that is reached over TCP.
    pub socket: Option<PathBuf>,
    /// The terms of TLS to the origin; `None` for an `http` URL.
    pub tls: Option<OriginTls>,
    /// The header with which each connection begins.
    pub proxy_protocol: ProxyProtocol,
    /// Whether requests use HTTP/2.
    pub http2: OriginHttp2,
    /// The service of which the origin is a target; `None` for an origin that the URL names itself.
    /// The address of the service as a whole, which stands for its targets, has the name of the
    /// service as its authority.
    pub service: Option<Arc<OriginService>>,
}

impl OriginAddress {
    /// Reads `http://HOST[:PORT]`, `https://HOST[:PORT]`, `srv+http://NAME`, `srv+https://NAME` or
    /// `unix:/PATH`; the port is 80 or 443 if not given.
    pub(crate) fn parse(url: &str) -> Result<OriginAddress, ValueProblem> {
        let refused = |hint: String| ORIGIN.problem(format_args!("cannot be {url:?}")).hint(hint);
        if url.contains('@') {
            let problem = ORIGIN.problem("cannot have a user name and a password").secret();
            return Err(problem.hint(
                "leave out user name, password and @; to send a password, set the field \
                 Authorization with a rule (see docs/rules.md)",
            ));
        }
        if let Some(path) = url.strip_prefix("unix:") {
            return OriginAddress::of_socket(path).map_err(refused);
        }
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None if [":443", ":8443"].iter().any(|port| url.ends_with(port)) => {
                return Err(refused(format!(
                    "write \"https://{url}\", or \"http://{url}\" if the origin has no TLS there"
                )));
            }
            None => {
                let bare = ["https:", "http:"].iter().find_map(|scheme| {
                    Some((scheme, url.strip_prefix(scheme)?.trim_start_matches('/')))
                });
                let (scheme, rest) = bare.unwrap_or((&"http:", url));
                return Err(refused(format!("write \"{scheme}//{rest}\"")));
            }
        };
        let several: Vec<_> = url.split([',', ' ']).filter(|part| !part.is_empty()).collect();
        if several.len() > 1 {
            return Err(refused(format!("for several origins, write {several:?}")));
        }
        if let Some(scheme) = scheme.strip_prefix("srv+") {
            return OriginAddress::of_service(scheme, rest).map_err(refused);
        }
        if scheme != "http" && scheme != "https" {
            return Err(refused(match scheme.as_str() {
                "ws" | "wss" => format!(
                    "write \"{}://{rest}\"; upgrade_protocols = [\"websocket\"] lets WebSockets \
                     pass",
                    scheme.replace("ws", "http")
                ),
                "srv" | "srv-http" | "http+srv" => format!("write \"srv+http://{rest}\""),
                "fastcgi" | "fcgi" | "uwsgi" | "scgi" | "ajp" => {
                    "origins get HTTP; put a web server in between that speaks both".to_owned()
                }
                _ => "the scheme of the URL has to be http or https".to_owned(),
            }));
        }
        if let Some(path) = rest.strip_prefix("unix:") {
            let path = path.split(':').next().unwrap_or_default();
            return Err(refused(format!("write \"unix:{path}\"")));
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(refused(
                "leave out the path: each request is forwarded with its own path; \
                 `origin_add_prefix` puts another one in front of it"
                    .into(),
            ));
        }
        let is_tls = scheme == "https";
        OriginAddress::of_authority(authority, is_tls).map_err(refused)
    }

    /// Creates the address of the Unix socket at `path`. Its host is that of requests without a
    /// host, and of health checks.
    fn of_socket(path: &str) -> Result<OriginAddress, String> {
        if path.starts_with("//") {
            return Err(format!("write \"unix:/{}\"", path.trim_start_matches('/')));
        }
        if !path.starts_with('/') {
            return Err(
                "the path of a Unix socket is absolute, as in \"unix:/run/app.sock\"".into()
            );
        }
        if path.len() > SOCKET_PATH_BYTES_MAX {
            return Err(format!(
                "the path of a Unix socket has at most {SOCKET_PATH_BYTES_MAX} bytes"
            ));
        }
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) || path.ends_with('/') {
            return Err("write the path of a socket, in printable ASCII without spaces".to_owned());
        }
        Ok(OriginAddress {
            host: "localhost".to_owned(),
            port: 80,
            authority: format!("unix:{path}"),
            socket: Some(path.into()),
            tls: None,
            proxy_protocol: ProxyProtocol::Off,
            http2: OriginHttp2::Never,
            service: None,
        })
    }

    /// Returns the field value `Host` for requests to this origin, without a default port.
    pub(super) fn host_field(&self) -> &str {
        let host = self.own_host();
        // `authority` has no port 80 for an `http` URL, but has 443 for an `https` URL.
        match self.port == 443 && self.tls.is_some() {
            true => host.strip_suffix(":443").unwrap_or(host),
            false => host,
        }
    }

    /// Returns the host for requests that have none. The name of a socket is no host, and all
    /// targets of a service have the same one.
    pub(crate) fn own_host(&self) -> &str {
        match &self.service {
            Some(service) => &service.domain,
            None if self.socket.is_some() => &self.host,
            None => &self.authority,
        }
    }

    pub(super) fn of_authority(authority: &str, is_tls: bool) -> Result<OriginAddress, String> {
        let behind_address = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[behind_address..].rfind(':') {
            Some(at) => authority.split_at(behind_address + at),
            None => (authority, ""),
        };
        check_host(host)?;
        let port = match port.strip_prefix(':') {
            None if is_tls => 443,
            None => 80,
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if port != 0 && !digits.starts_with('+') => port,
                _ => return Err("a port is a number from 1 to 65535".to_owned()),
            },
        };
        let in_url = host.to_ascii_lowercase();
        let host = in_url.trim_start_matches('[').trim_end_matches(']').to_owned();
        let authority = if port == 80 && !is_tls { in_url } else { format!("{in_url}:{port}") };
        let tls = is_tls.then(|| OriginTls::unverified(&host));
        let (proxy_protocol, http2) = (ProxyProtocol::Off, OriginHttp2::Never);
        let (socket, service) = (None, None);
        Ok(OriginAddress { host, port, authority, socket, tls, proxy_protocol, http2, service })
    }
}

impl Readable for OriginAddress {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        OriginAddress::parse(setting.text(raw)?)
    }
}
