//! `allow`, `deny` and `auth_basic`.

use std::fs;

use super::condition::turns_away;
use super::known::{is_own_only, may_refuse, refusal};
use super::real_ip;
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Elements that `allow_from` and `deny_from` may have.
const ADDRESSES_MAX: usize = 256;

/// Hashes that Forebay accepts.
const HASHES: &[&str] = &["$2y$", "$2a$", "$2b$", "$5$", "$6$"];

/// A requirement that cannot be carried over.
pub(super) struct AccessRefusal;

/// Writes lists of addresses and users to a route.
pub(super) fn write(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    route: &mut TomlTable,
) -> Result<(), AccessRefusal> {
    let own = scope.own().iter().filter(|one| is_own_only(&one.name));
    let inherited = scope.everything().filter(|one| !is_own_only(&one.name));
    // Of an inherited directive, the innermost applies.
    let applying = inherited.filter(|one| {
        scope.all(&[one.name.as_str()]).iter().any(|applying| std::ptr::eq(*applying, *one))
    });
    if own.chain(applying).any(may_refuse) {
        refuse(source)?;
    }
    addresses(source, scope, route)?;
    users(source, scope, route)
}

/// Whether this block itself refuses requests in any way.
pub(super) fn refuses(block: &[NginxDirective]) -> bool {
    block.iter().any(|directive| match directive.name.as_str() {
        "deny" | "internal" => true,
        "auth_basic" => directive.arg(0) != "off",
        "return" | "rewrite" => turns_away(directive),
        "location" => refuses(directive.inner()),
        _ => may_refuse(directive),
    })
}

/// A refusal, unless the user wants the requests to be served.
pub(super) fn refuse(source: &NginxSource<'_>) -> Result<(), AccessRefusal> {
    if source.drop_access_rules { Ok(()) } else { Err(AccessRefusal) }
}

/// The first entry that matches decides in nginx; in Forebay `deny_from` takes precedence.
fn addresses(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    route: &mut TomlTable,
) -> Result<(), AccessRefusal> {
    let list = scope.all(&["allow", "deny"]);
    let (mut allowed, mut denied) = (Vec::new(), Vec::new());
    for directive in &list {
        let address = directive.arg(0);
        match (directive.name.as_str(), address) {
            ("deny", "all") if allowed.is_empty() => return Err(AccessRefusal),
            ("deny", "all") => {
                route.texts("allow_from", &allowed);
                break;
            }
            ("allow", "all") => break,
            (_, "unix:") => {}
            ("allow", _) => allowed.push(address),
            (_, _) if !allowed.is_empty() || address.parse_address().is_none() => {
                source.note(directive, refusal(source));
                return refuse(source);
            }
            _ => denied.push(address),
        }
    }
    let usable = allowed.iter().all(|address| address.parse_address().is_some());
    let is_listed = !allowed.is_empty() || !denied.is_empty();
    if is_listed && !real_ip::is_exact(source, scope) {
        route.remove("allow_from");
        list.iter().for_each(|directive| source.note(directive, real_ip::refusal(source)));
        return refuse(source);
    }
    if !usable || allowed.len() > ADDRESSES_MAX || denied.len() > ADDRESSES_MAX {
        route.remove("allow_from");
        list.iter().for_each(|directive| source.note(directive, refusal(source)));
        return refuse(source);
    }
    if !denied.is_empty() {
        route.texts("deny_from", &denied);
    }
    Ok(())
}

/// Addresses and networks.
pub(super) trait ParseAddress {
    /// Whether this is one.
    fn parse_address(&self) -> Option<()>;
}

impl ParseAddress for str {
    fn parse_address(&self) -> Option<()> {
        let (address, bits) = self.split_once('/').unwrap_or((self, "0"));
        let address: std::net::IpAddr = address.parse().ok()?;
        let bits: u32 = bits.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        (bits <= most && has_zero_tail(address, bits, self.contains('/'))).then_some(())
    }
}

/// Whether the bits behind the prefix are zero: otherwise the network may be a mistake.
fn has_zero_tail(address: std::net::IpAddr, bits: u32, is_network: bool) -> bool {
    let tail = match address {
        std::net::IpAddr::V4(address) => {
            u128::from(address.to_bits()) & u128::from(u32::MAX.checked_shr(bits).unwrap_or(0))
        }
        std::net::IpAddr::V6(address) => {
            address.to_bits() & u128::MAX.checked_shr(bits).unwrap_or(0)
        }
    };
    !is_network || tail == 0
}

fn users(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    route: &mut TomlTable,
) -> Result<(), AccessRefusal> {
    let Some(auth) = scope.one("auth_basic") else { return Ok(()) };
    let realm = auth.arg(0);
    if realm == "off" {
        return Ok(());
    }
    let is_plain = |c: char| (' '..='~').contains(&c) && !matches!(c, '"' | '\\' | '$');
    let Some(file) = scope.one("auth_basic_user_file").filter(|file| !file.arg(0).contains('$'))
    else {
        source.note(auth, refusal(source));
        return refuse(source);
    };
    let path = source.path(file.arg(0));
    if let Err(reason) = usable_users(&path) {
        let consequence = match source.drop_access_rules {
            true => "no password is needed now (--drop-access-rules)",
            false => "the requests get 403 until then",
        };
        source.note(file, format!("{path}: {reason}; {consequence}"));
        return refuse(source);
    }
    route.text("basic_auth", &path);
    if !realm.is_empty() && realm.len() <= 255 && realm.chars().all(is_plain) {
        route.text("basic_auth_realm", realm);
    }
    // nginx forwards the password too.
    route.raw("basic_auth_forward", "true");
    Ok(())
}

fn usable_users(path: &str) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read ({error})"))?;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut count = 0;
    for line in lines {
        let (user, hash) = line.split_once(':').unwrap_or((line, ""));
        if !HASHES.iter().any(|kind| hash.starts_with(kind)) {
            return Err(format!(
                "the hash of {user} is of a kind that can be guessed quickly; renew it with \
                 `htpasswd -B {path} {user}`, then import again"
            ));
        }
        count += 1;
    }
    if count == 0 { Err("has no users".to_owned()) } else { Ok(()) }
}
