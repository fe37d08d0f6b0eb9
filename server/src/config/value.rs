//! Types of settings other than plain numbers and booleans.

mod answers;
mod private_file;
mod signed_urls;
mod users;

pub(crate) use answers::{ContentType, FixedAnswer, Redirect, Redirection};
pub(crate) use signed_urls::{SignedUrls, UrlKeys};
pub(crate) use users::{BasicAuth, PasswordHash, Realm, UserFile};

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use forebay_http::policy::cache_status::CacheName;

use super::Config;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::limits::CACHE_NAME_BYTES_MAX;

/// Longest path of a Unix socket: the kernel's structure has 108 bytes, of which the last is a zero
/// byte.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The address of the admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// A Unix socket that the server creates in its runtime directory.
    Auto,
    /// A loopback address and port, which no other machine can reach.
    Loopback(SocketAddr),
    /// A Unix socket with this path.
    Path(PathBuf),
}

/// Destination of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// There is no access log.
    Off,
    /// Standard output.
    Stdout,
    /// Lines are appended to this file.
    File(PathBuf),
}

/// Format of a line of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// One JSON object per line.
    Json,
    /// The combined log format.
    Combined,
}

/// Lowest level of events that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// A failure that needs an operator.
    Error,
    /// An anomaly.
    Warn,
    /// Start, reload, upgrade and stop of the server.
    Info,
    /// Details for finding a fault.
    Debug,
    /// Everything.
    Trace,
}

/// How a response with Set-Cookie is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetCookie {
    /// The response is stored without its cookies.
    Strip,
    /// The response is not stored.
    Refuse,
    /// The response is stored with its cookies.
    Keep,
}

/// The treatment of an origin's response if the connection has further bytes after the end that the
/// response's framing announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginExcess {
    /// The response is used, and its connection is closed.
    Close,
    /// The connection is closed, and the response is refused unless it has already been sent.
    Refuse,
}

/// The treatment of a request whose path an origin may take for a path of another route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmbiguousPath {
    /// The request is refused.
    Refuse,
    /// The normal form of the path decides the route.
    NormalForm,
}

/// Directory for files that exist while the server runs, such as the counter file and the admin
/// socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeDir {
    /// `$XDG_RUNTIME_DIR/forebay`, or `/tmp/forebay-UID` if that variable is not an absolute path.
    Auto,
    /// The directory at this path.
    Path(PathBuf),
}

/// Directory of a cache that outlives the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheDir {
    /// There is no directory: the cache ends with the server.
    None,
    /// The cache is in this directory.
    Path(PathBuf),
}

/// The words of `access_log_format`, in the order of [`AccessLogFormat`].
pub(crate) const FORMAT_WORDS: &[&str] = &["json", "combined"];
/// The words of `set_cookie`, in the order of [`SetCookie`].
pub(crate) const SET_COOKIE_WORDS: &[&str] = &["strip", "refuse", "keep"];
/// The words of `origin_excess`, in the order of [`OriginExcess`].
pub(crate) const ORIGIN_EXCESS_WORDS: &[&str] = &["close", "refuse"];
/// The words of `ambiguous_path`, in the order of [`AmbiguousPath`].
pub(crate) const AMBIGUOUS_PATH_WORDS: &[&str] = &["refuse", "normal-form"];
/// The words of `log_level`, in the order of [`LogLevel`].
pub(crate) const LEVEL_WORDS: &[&str] = &["error", "warn", "info", "debug", "trace"];

impl AdminAddress {
    /// Reads `auto`, `127.0.0.1:9000` or a path, which must contain a `/`.
    ///
    /// # Errors
    /// One sentence that describes the error.
    pub fn parse(text: &str) -> Result<AdminAddress, String> {
        if text == "auto" {
            return Ok(AdminAddress::Auto);
        }
        if text.contains('/') {
            return match text.len() {
                0..=SOCKET_PATH_BYTES_MAX if !text.contains('\0') => {
                    Ok(AdminAddress::Path(text.into()))
                }
                _ => Err(format!("the path of a socket has at most {SOCKET_PATH_BYTES_MAX} bytes")),
            };
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(AdminAddress::Loopback(address)),
            Ok(_) => Err("the admin interface controls the server, so it must listen on loopback \
                          or a Unix socket"
                .to_owned()),
            Err(_) => Err("for a socket in this directory write \"./admin\", for a port \
                           \"127.0.0.1:9000\""
                .to_owned()),
        }
    }
}

impl std::fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AdminAddress::Auto => f.write_str("auto"),
            AdminAddress::Loopback(address) => address.fmt(f),
            AdminAddress::Path(path) => path.display().fmt(f),
        }
    }
}

impl RuntimeDir {
    /// Returns the path of the directory, given `$XDG_RUNTIME_DIR` and the user's ID.
    pub fn resolve(&self, xdg_runtime_dir: Option<&Path>, uid: u32) -> PathBuf {
        match (self, xdg_runtime_dir) {
            (RuntimeDir::Path(path), _) => path.clone(),
            // The XDG specification says to ignore a relative path.
            (RuntimeDir::Auto, Some(dir)) if dir.is_absolute() => dir.join("forebay"),
            (RuntimeDir::Auto, _) => PathBuf::from(format!("/tmp/forebay-{uid}")),
        }
    }
}

impl Readable for SocketAddr {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        text.parse().map_err(|_| {
            let problem = setting.problem(format_args!("is not an address: {text:?}"));
            problem.hint(listen_hint(text))
        })
    }
}

/// Returns the hint for a text that is not an IP address and a port.
pub(super) fn listen_hint(text: &str) -> String {
    let form = || "write an IP address and a port, such as \"127.0.0.1:8080\"".to_owned();
    let without_scheme = text.split_once("://").map(|(_, rest)| rest.trim_end_matches('/'));
    if let Some(rest) = without_scheme {
        let is_right = rest.parse::<SocketAddr>().is_ok();
        return match is_right {
            // Without TLS, an address that was meant for TLS would be open to all who listen.
            true if text.starts_with("https") => {
                format!("addresses for TLS are in another setting: listen_tls = [\"{rest}\"]")
            }
            true => format!("write \"{rest}\""),
            false => form(),
        };
    }
    if text.parse::<u16>().is_ok_and(|port| port != 0) {
        return format!(
            "write \"127.0.0.1:{text}\" for clients on this machine alone, or \"0.0.0.0:{text}\" \
             for every IPv4 address"
        );
    }
    if text.parse::<Ipv4Addr>().is_ok() {
        return format!("add the port, such as \"{text}:8080\"");
    }
    // The form of nginx and HAProxy, with words behind the port.
    if let Some((address, words)) = text.split_once(' ')
        && address.parse::<SocketAddr>().is_ok()
    {
        return match words.split(' ').any(|word| matches!(word, "ssl" | "quic" | "crt")) {
            true => {
                format!("addresses for TLS are in another setting: listen_tls = [\"{address}\"]")
            }
            false => format!("write \"{address}\""),
        };
    }
    let Some((host, port)) = text.rsplit_once(':') else { return form() };
    let has_port = port.parse::<u16>().is_ok();
    match host {
        "" | "*" if has_port => {
            format!(
                "write \"0.0.0.0:{port}\" for every IPv4 address of this machine, \"[::]:{port}\" \
                 for IPv6 and IPv4, or \"127.0.0.1:{port}\" for this machine alone"
            )
        }
        "localhost" if has_port => format!("write \"127.0.0.1:{port}\""),
        host if has_port && host.parse::<Ipv6Addr>().is_ok() => {
            format!("an IPv6 address is in brackets: \"[{host}]:{port}\"")
        }
        host if has_port
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)) =>
        {
            format!(
                "write the IP address in place of {host:?}; `ip addr` shows those of this machine"
            )
        }
        host if host.parse::<Ipv4Addr>().is_ok() => "a port is a number from 1 to 65535".to_owned(),
        _ => form(),
    }
}

impl Readable for AdminAddress {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        AdminAddress::parse(text)
            .map_err(|why| setting.problem(format_args!("cannot be {text:?}")).hint(why))
    }
}

impl Readable for AccessLog {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        match setting.text(raw)? {
            "off" => Ok(AccessLog::Off),
            "-" => Ok(AccessLog::Stdout),
            text @ ("on" | "true" | "false" | "none" | "stdout" | "stderr") => {
                Err(setting.problem(format_args!("cannot be {text:?}")).hint(
                    "write \"-\" for standard output, \"off\" for no log, or the path of a file",
                ))
            }
            path => Ok(AccessLog::File(path.into())),
        }
    }
}

impl Readable for RuntimeDir {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        match setting.text(raw)? {
            "auto" => Ok(RuntimeDir::Auto),
            path => Ok(RuntimeDir::Path(path.into())),
        }
    }
}

impl Readable for CacheDir {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        match setting.text(raw)? {
            "none" => Ok(CacheDir::None),
            "off" | "false" | "no" => Err(setting
                .problem(format_args!("cannot be {text:?}", text = setting.text(raw)?))
                .hint("write \"none\" for a cache that ends with the server")),
            path => Ok(CacheDir::Path(path.into())),
        }
    }
}

impl CacheDir {
    /// Returns the directory, if one is configured.
    pub fn path(&self) -> Option<&Path> {
        match self {
            CacheDir::None => None,
            CacheDir::Path(path) => Some(path),
        }
    }
}

impl Readable for CacheName {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        let name = CacheName::new(text).filter(|_| text.len() <= CACHE_NAME_BYTES_MAX);
        name.ok_or_else(|| setting.problem(format_args!("cannot be {text:?}")))
    }
}

impl Readable for AccessLogFormat {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => AccessLogFormat::Json,
            _ => AccessLogFormat::Combined,
        })
    }
}

impl Readable for SetCookie {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => SetCookie::Strip,
            1 => SetCookie::Refuse,
            _ => SetCookie::Keep,
        })
    }
}

impl Readable for OriginExcess {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => OriginExcess::Close,
            _ => OriginExcess::Refuse,
        })
    }
}

impl Readable for AmbiguousPath {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => AmbiguousPath::Refuse,
            _ => AmbiguousPath::NormalForm,
        })
    }
}

impl Readable for LogLevel {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => LogLevel::Error,
            1 => LogLevel::Warn,
            2 => LogLevel::Info,
            3 => LogLevel::Debug,
            _ => LogLevel::Trace,
        })
    }
}

impl Config {
    /// Returns the warnings about lists that have every address, and about sites that are served
    /// at some addresses only, each a sentence.
    pub fn address_warnings(&self) -> Vec<String> {
        let mut warnings = self.listen_warnings();
        if self.server.trusted_proxies.has_every_address() {
            warnings.push(
                "`trusted_proxies` has every address: any client can pretend to have any address"
                    .to_owned(),
            );
        }
        for site in self.sites.iter() {
            let routes = || site.routes().iter().map(|route| &route.settings);
            if routes().any(|settings| settings.purge_from.has_every_address()) {
                warnings.push(format!("site {:?}: any client may purge (`purge_from`)", site.name));
            }
            if routes().any(|settings| {
                settings.deny_from.has_every_address() && !settings.allow_from.is_empty()
            }) {
                warnings.push(format!(
                    "site {:?}: `deny_from` has every address, so `allow_from` has no effect",
                    site.name
                ));
            }
        }
        warnings
    }

    /// Returns the warnings about files with passwords or keys, each a sentence that names the
    /// file.
    pub fn private_file_warnings(&self) -> Vec<&str> {
        let routes = self.sites.iter().flat_map(|site| site.routes());
        let warnings = routes.flat_map(|route| {
            let users = route.settings.basic_auth.users().and_then(|file| file.warning());
            let keys = route.settings.signed_urls.keys().and_then(UrlKeys::warning);
            [users, keys].into_iter().flatten()
        });
        let mut warnings: Vec<_> = warnings.collect();
        warnings.sort_unstable();
        warnings.dedup();
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_directory_is_the_users_own() {
        let cases = [
            (RuntimeDir::Auto, Some("/run/user/7"), "/run/user/7/forebay"),
            (RuntimeDir::Auto, Some("relative"), "/tmp/forebay-7"),
            (RuntimeDir::Auto, None, "/tmp/forebay-7"),
            (RuntimeDir::Path("/srv/run".into()), Some("/run/user/7"), "/srv/run"),
        ];
        for (dir, xdg, expected) in cases {
            assert_eq!(dir.resolve(xdg.map(Path::new), 7), Path::new(expected), "{dir:?} {xdg:?}");
        }
    }

    #[test]
    fn admin_addresses_are_paths_or_ports_of_this_machine() {
        let long = format!("/{}", "a".repeat(107));
        let cases = [
            ("auto", Ok(AdminAddress::Auto)),
            ("/run/forebay/admin", Ok(AdminAddress::Path("/run/forebay/admin".into()))),
            ("127.0.0.1:9000", Ok(AdminAddress::Loopback(([127, 0, 0, 1], 9000).into()))),
            ("[::1]:0", Ok(AdminAddress::Loopback("[::1]:0".parse().unwrap()))),
            ("0.0.0.0:9000", Err("loopback or a Unix socket")),
            ("admin", Err("./admin")),
            ("localhost:9000", Err("127.0.0.1:9000")),
            (&long, Err("at most 107 bytes")),
        ];
        for (text, expected) in cases {
            match (AdminAddress::parse(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
