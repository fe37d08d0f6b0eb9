//! Types of settings that are a list: addresses, and names of fields.

mod compression;
mod concurrency_limits;
mod connect_ports;
mod dns_servers;
mod error_statuses;
mod forwarded_fields;
mod key_parts;
mod normal_forms;
mod rate_limits;
mod upgrade_protocols;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use forebay_http::fields::{Field, FieldId, FieldSet};
use forebay_http::policy::cookies::may_be_named;
use forebay_http::policy::exchange::CacheRules;
use forebay_http::policy::freshness::StatusFreshness;
use forebay_http::policy::stale::StaleRules;
use forebay_http::policy::tags::{SURROGATE_FIELDS, TAG_FIELDS};
use forebay_http::policy::targeted::TargetList;
use http::HeaderName;

pub(crate) use self::compression::ContentCoding;
pub(super) use self::compression::{CompressCodings, MediaTypes};
pub(super) use self::concurrency_limits::ConcurrencyLimits;
pub(crate) use self::connect_ports::ConnectPorts;
pub(super) use self::error_statuses::ErrorStatuses;
pub(crate) use self::forwarded_fields::{ForwardedField, ForwardedFields, REAL_IP};
pub(super) use self::key_parts::{KeyCookies, KeyFields};
pub(super) use self::normal_forms::{LanguageList, ParameterNames};
pub(super) use self::rate_limits::RateLimits;
pub(crate) use self::rate_limits::{LimitScope, RateLimit};
pub(super) use self::upgrade_protocols::UpgradeProtocols;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::suggest::nearest;
use super::table::RouteSettings;
use super::units::parse_duration;
use super::value::SetCookie;
use crate::limits::{
    ADDRESS_RANGES_MAX, FIELD_NAMES_MAX, STATUS_FRESHNESS_S_MAX, TARGETED_FIELDS_MAX,
};

/// A list of single addresses and networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressList(Vec<Network>);

/// All addresses with the same first `bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    /// The lowest address of the network: all bits after the first `bits` are 0.
    address: IpAddr,
    bits: u8,
}

impl AddressList {
    /// Whether the list contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        // A dual-stack socket reports IPv4 addresses in their mapped form.
        let address = address.to_canonical();
        self.0.iter().any(|network| network_of(address, network.bits) == Some(network.address))
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the list has every IPv4 address or every IPv6 address.
    pub(crate) fn has_every_address(&self) -> bool {
        self.0.iter().any(|network| network.bits == 0)
    }
}

impl Network {
    /// Reads `10.0.0.0/8` or an address by itself.
    ///
    /// # Errors
    /// A hint.
    fn parse(text: &str) -> Result<Network, String> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let hint = match text {
            "localhost" => "write an IP address; this machine is \"127.0.0.1\" and \"::1\"",
            _ => "write an IP address without brackets or a port",
        };
        let address: IpAddr = address.parse().map_err(|_| hint.to_owned())?;
        let bits_max: u8 = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let bits = bits.parse().ok().filter(|bits| *bits <= bits_max);
                bits.ok_or_else(|| number_of_bits(bits_max))?
            }
            Some(mask) => {
                return Err(match mask.parse::<Ipv4Addr>().map(Ipv4Addr::to_bits) {
                    Ok(mask) if mask != 0 && mask.leading_ones() == mask.count_ones() => {
                        format!("write \"{address}/{}\"", mask.count_ones())
                    }
                    _ => number_of_bits(bits_max),
                });
            }
        };
        if let IpAddr::V6(mapped) = address
            && let Some(plain) = mapped.to_ipv4_mapped()
        {
            // Client addresses are compared in their IPv4 form, so an IPv4-mapped IPv6 network
            // would match none.
            // A prefix of 32 bits or fewer is meant for the IPv4 address.
            return Err(match (bits, bits.checked_sub(96)) {
                (1..=32, _) => format!(
                    "this is an IPv4 address: write \"{plain}/{bits}\", or \"{plain}\" for this \
                     address alone"
                ),
                (_, Some(bits @ 1..)) => {
                    format!("this is an IPv4 address: write \"{plain}/{bits}\"")
                }
                _ => "write an IPv4 address or network, such as \"10.0.0.0/8\"".to_owned(),
            });
        }
        match network_of(address, bits) {
            Some(first) if first == address => Ok(Network { address, bits }),
            // The corrected network would be every address.
            _ if bits == 0 => Err(format!(
                "/0 is every address, written \"0.0.0.0/0\" and \"::/0\"; for this address alone, \
                 write \"{address}\""
            )),
            Some(first) => Err(format!(
                "for this address alone, write \"{address}\"; for the whole network, \
                 \"{first}/{bits}\""
            )),
            None => Err(hint.to_owned()),
        }
    }
}

/// Returns the lowest address with the same first `bits`; `None` if the family has fewer bits.
fn network_of(address: IpAddr, bits: u8) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            let dropped = 32_u32.checked_sub(bits.into())?;
            let mask = u32::MAX.checked_shl(dropped).unwrap_or(0);
            Some(Ipv4Addr::from_bits(address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let dropped = 128_u32.checked_sub(bits.into())?;
            let mask = u128::MAX.checked_shl(dropped).unwrap_or(0);
            Some(Ipv6Addr::from_bits(address.to_bits() & mask).into())
        }
    }
}

fn number_of_bits(bits_max: u8) -> String {
    format!("write a number from 1 to {bits_max} after the /; {bits_max} is one address")
}

/// Returns the hint for a list that is meant to have every address.
fn instead_of_all(setting: &str) -> &'static str {
    match setting {
        "allow_from" => {
            "name the addresses to serve; without `allow_from`, every address is served"
        }
        "deny_from" => {
            "to refuse every address, write \"0.0.0.0/0\", \"::/0\"; to serve only some, name them \
             in `allow_from`, and leave this out: all others get 403"
        }
        "purge_from" => "name the addresses that may purge, such as \"127.0.0.1\"",
        _ => {
            "name the addresses of your own proxies; a client with a trusted address can pretend \
             to have any address"
        }
    }
}

impl Readable for AddressList {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > ADDRESS_RANGES_MAX {
            return Err(
                setting.problem(format_args!("has more than {ADDRESS_RANGES_MAX} elements"))
            );
        }
        let network = |text: &str| {
            let read = match text {
                "all" | "any" | "*" => Err(instead_of_all(setting.name).to_owned()),
                _ => Network::parse(text),
            };
            read.map_err(|why| setting.problem(format_args!("cannot contain {text:?}")).hint(why))
        };
        Ok(AddressList(texts.into_iter().map(network).collect::<Result<_, _>>()?))
    }
}

/// A list of field names. It may also cover every name that contains an underscore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldNameList {
    names: Vec<Box<str>>,
    /// Whether the list covers every name that contains an underscore.
    has_underscores: bool,
}

impl FieldNameList {
    /// Whether the list covers the name, ignoring case.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.has_underscores && name.contains(&b'_')
            || self.names.iter().any(|listed| listed.as_bytes().eq_ignore_ascii_case(name))
    }
}

impl Readable for FieldNameList {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > FIELD_NAMES_MAX {
            return Err(setting.problem(format_args!("has more than {FIELD_NAMES_MAX} elements")));
        }
        let mut list = FieldNameList::default();
        for text in texts {
            match text {
                "_" => list.has_underscores = true,
                name if HeaderName::try_from(name).is_ok() => list.names.push(name.into()),
                _ => {
                    let problem = setting.problem(format_args!("cannot contain {text:?}"));
                    return Err(problem.hint("write the name of a field".to_owned()));
                }
            }
        }
        Ok(list)
    }
}

/// A list of names of cookies, fields or parameters. A name that ends in `*` covers every name that
/// begins with the text before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamePatterns(Vec<NamePattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct NamePattern {
    text: Box<str>,
    /// Whether the pattern covers every name that begins with `text`, and not only `text` itself.
    is_prefix: bool,
}

impl NamePatterns {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the list covers this name; upper and lower case differ.
    pub fn has(&self, name: &[u8]) -> bool {
        self.has_by(name, <[u8]>::eq)
    }

    /// Whether the list covers a field of this name, ignoring case.
    pub fn has_field(&self, name: &[u8]) -> bool {
        self.has_by(name, <[u8]>::eq_ignore_ascii_case)
    }

    /// Whether an origin may take a cookie of this name for a cookie that the list covers.
    pub fn may_have_cookie(&self, name: &[u8]) -> bool {
        let is_named =
            |pattern: &NamePattern| may_be_named(name, pattern.text.as_bytes(), pattern.is_prefix);
        self.0.iter().any(is_named)
    }

    fn has_by(&self, name: &[u8], is_equal: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        self.0.iter().any(|pattern| {
            let text = pattern.text.as_bytes();
            let compared = if pattern.is_prefix { name.get(..text.len()) } else { Some(name) };
            compared.is_some_and(|compared| is_equal(compared, text))
        })
    }

    /// Reads patterns; `is_name` checks the syntax of a name, or of a prefix of names.
    pub(super) fn of(
        texts: Vec<&str>,
        setting: &Setting,
        is_name: impl Fn(&str) -> bool,
    ) -> Result<NamePatterns, ValueProblem> {
        if texts.len() > FIELD_NAMES_MAX {
            return Err(setting.problem(format_args!("has more than {FIELD_NAMES_MAX} elements")));
        }
        let pattern = |text: &str| {
            let problem = setting.problem(format_args!("cannot contain {text:?}"));
            let (name, is_prefix) = match text.strip_suffix('*') {
                Some(beginning) => (beginning, true),
                None => (text, false),
            };
            if name.contains('*') {
                return Err(problem.hint(
                    "write each name in full, or its beginning with * at the end, such as \
                                         \"session*\"",
                ));
            }
            match is_name(name) {
                true => Ok(NamePattern { text: name.into(), is_prefix }),
                false => Err(problem.hint("write a name, or the beginning of names followed by *")),
            }
        };
        Ok(NamePatterns(texts.into_iter().map(pattern).collect::<Result<_, _>>()?))
    }
}

impl Readable for NamePatterns {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let is_name = |name: &str| HeaderName::try_from(name).is_ok();
        NamePatterns::of(setting.texts(raw)?, setting, is_name)
    }
}

impl Readable for StatusFreshness {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let mut lifetimes: Vec<(u16, u32)> = Vec::new();
        for text in setting.texts(raw)? {
            let refused =
                |why: &str| setting.problem(format_args!("cannot contain {text:?}")).hint(why);
            let Some((status, lifetime)) = text.split_once('=') else {
                return Err(refused("write a status and a duration, such as \"404=1m\""));
            };
            let status = match status.parse::<u16>() {
                Ok(206 | 304 | 412 | 416) => {
                    return Err(refused("responses with this status are not stored"));
                }
                Ok(known @ 200..=599) => known,
                _ => return Err(refused("a status is a number from 200 to 599")),
            };
            if lifetimes.iter().any(|(earlier, _)| *earlier == status) {
                return Err(refused("the status is already in the list"));
            }
            let seconds = match parse_duration(lifetime, "s") {
                Ok(ms) if ms % 1000 == 0 => u32::try_from(ms / 1000).ok(),
                _ => None,
            };
            let seconds = seconds.filter(|seconds| *seconds <= STATUS_FRESHNESS_S_MAX);
            let hint = "a lifetime is a whole number and s, m, h or d, such as 5m, up to a year";
            lifetimes.push((status, seconds.ok_or_else(|| refused(hint))?));
        }
        Ok(StatusFreshness::new(lifetimes))
    }
}

/// The response fields from which tags are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagFields(FieldSet);

impl TagFields {
    /// Returns the fields as a set.
    pub fn set(self) -> FieldSet {
        self.0
    }
}

impl Readable for TagFields {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let mut set = FieldSet::EMPTY;
        for text in setting.texts(raw)? {
            let known = TAG_FIELDS.map(|id| id.name());
            let named = TAG_FIELDS.iter().find(|id| id.name().eq_ignore_ascii_case(text));
            let Some(id) = named else {
                let problem = setting.problem(format_args!("cannot contain {text:?}"));
                return Err(match nearest(&text.to_ascii_lowercase(), known) {
                    Some(near) => problem.hint(format!("did you mean {near:?}?")),
                    None => problem,
                });
            };
            set.insert(*id);
        }
        Ok(TagFields(set))
    }
}

impl Readable for TargetList {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > TARGETED_FIELDS_MAX {
            let problem = format_args!("has more than {TARGETED_FIELDS_MAX} elements");
            return Err(setting.problem(problem));
        }
        for (index, text) in texts.iter().enumerate() {
            let problem = setting.problem(format_args!("cannot contain {text:?}"));
            if HeaderName::try_from(*text).is_err() {
                return Err(problem.hint("write the name of a field"));
            }
            if texts.iter().take(index).any(|earlier| earlier.eq_ignore_ascii_case(text)) {
                return Err(problem.hint("the name is already in the list"));
            }
            match FieldId::of(text.as_bytes()) {
                FieldId::Other | FieldId::CdnCacheControl => {}
                FieldId::CacheControl => {
                    return Err(problem
                        .hint("leave Cache-Control out; it applies if no field of the list does"));
                }
                _ => return Err(problem.hint("this field cannot contain cache directives")),
            }
        }
        Ok(TargetList::new(texts))
    }
}

impl RouteSettings {
    /// Returns the times for which stale responses are served.
    pub(crate) fn stale_rules(&self) -> StaleRules {
        StaleRules {
            stale_while_revalidate_s: self.stale_while_revalidate_s,
            stale_if_error_s: self.stale_if_error_s,
            stale_if_unreachable_s: self.stale_if_unreachable_s,
        }
    }

    /// Returns the settings for storing and freshness. `has_cookie` says whether the request has a
    /// cookie.
    pub(crate) fn cache_rules(&self, has_cookie: bool) -> CacheRules<'_> {
        CacheRules {
            targets: &self.targeted_cache_control,
            // A cookie suggests that the response is meant for one client, so the heuristic does
            // not apply.
            heuristic_percent: if has_cookie { 0 } else { self.heuristic_percent },
            heuristic_s_max: self.heuristic_s_max,
            heuristic_error_s_max: self.heuristic_error_s_max,
            override_freshness_s: self.override_freshness_s,
            status_freshness: &self.status_freshness,
            default_freshness_s: self.default_freshness_s,
            set_cookie_is_storable: self.set_cookie != SetCookie::Refuse,
        }
    }

    /// Whether a response field is hidden from clients: it holds tags, or is addressed only to this
    /// cache.
    pub(crate) fn hides(&self, field: &Field<'_>) -> bool {
        self.hidden_fields().contains(field.id) || self.targeted_cache_control.is_own(field.name)
    }

    /// Returns the tag fields that are removed from responses to clients: none if `tags_shown` is
    /// set. `Cache-Groups` is never removed, because it is also meant for the client's own cache
    /// (RFC 9875 §1).
    pub(crate) fn hidden_fields(&self) -> FieldSet {
        match self.tags_shown {
            true => FieldSet::EMPTY,
            false => self.tag_fields.set().intersection(SURROGATE_FIELDS),
        }
    }
}

/// Returns the list of these addresses and networks, which commas separate.
#[cfg(test)]
pub(crate) fn trusted_for_tests(text: &str) -> AddressList {
    AddressList(text.split(',').map(|text| Network::parse(text).expect(text)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_the_addresses_with_its_first_bits() {
        let cases = [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("10.0.0.0/8", "10.255.255.255", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::10.1.1.1", false),
            ("192.0.2.128/25", "192.0.2.128", true),
            ("192.0.2.128/25", "192.0.2.127", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "203.0.113.9", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::", false),
            ("::1", "::1", true),
        ];
        for (network, address, expected) in cases {
            let list = AddressList(vec![Network::parse(network).expect(network)]);
            let address: IpAddr = address.parse().expect(address);
            assert_eq!(list.contains(address), expected, "{network} {address}");
        }
        assert!(!AddressList::default().contains(Ipv4Addr::LOCALHOST.into()));
    }
}
