//! The origins of a site or of a route: their addresses, their shares, and how one of them is
//! chosen for a request.

use std::fmt;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::health::HealthCheck;
use super::origin_address::OriginAddress;
use super::outliers::OutlierLimits;
use super::read::{Reader, Value, raw};
use super::route::read_prefix;
use super::service::TARGETS_DEFAULT;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::table::{
    BACKUP, ORIGIN, ORIGIN_TABLE, ORIGIN_ZONE, SiteSettings, TARGETS_MAX, URL, WEIGHT,
};
use super::tls::PlaceOf;
use super::zone::Zone;
use crate::limits::{ADDED_PREFIX_BYTES_MAX, GROUP_ORIGINS_MAX, ORIGINS_PER_SITE_MAX};

/// The origins that serve a site, or a route that has origins of its own. All of them serve the
/// same resources. A site has none only if its routes answer all requests themselves, from files or
/// from origins of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginGroup {
    pub(super) members: Vec<OriginMember>,
    /// The origins as they are configured, if targets of services take the place of some of them.
    pub(super) configured: Option<Arc<[OriginMember]>>,
    /// How an origin is chosen for a request.
    pub balance: Balance,
    /// The active health check of the origins, if there is one.
    pub(crate) health: Option<HealthCheck>,
    /// The times to the first byte at which an origin is left out, if there are any.
    pub(crate) outliers: Option<OutlierLimits>,
    /// Identifies the group on this server, also after a reload: the name of the site, and for the
    /// group of a route also its path.
    pub(crate) key: Box<str>,
}

/// One origin of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginMember {
    /// The origin's address.
    pub address: OriginAddress,
    /// The origin's share of the requests, relative to the weights of the others. A target of a
    /// service may have the weight 0, which is a hundredth of the weight 1 (RFC 2782).
    pub weight: u32,
    /// Whether the origin gets requests only while no other origin can take them.
    pub is_backup: bool,
    /// Among the targets of a service, the rank of its priority; 0 for other origins.
    pub(crate) priority: u16,
    /// The largest number of targets of the service; 1 for other origins.
    pub(crate) targets_max: usize,
    /// The zone in which the origin runs.
    pub zone: Zone,
}

/// The rank of an origin in its group. A backup has a higher rank than any origin that is no
/// backup, and a target of a higher priority than those of lower ones, whatever their zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OriginRank {
    pub(crate) is_backup: bool,
    pub(crate) priority: u16,
    /// Whether the server has a zone, and the origin is in another one or in none.
    pub(crate) is_out_of_zone: bool,
}

/// How an origin of a group is chosen for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// The origins take turns; each gets a share of the requests in proportion to its weight.
    #[default]
    RoundRobin,
    /// Two origins are drawn by weight; the one with fewer requests in progress, in relation to its
    /// weight, is chosen.
    Least,
    /// The origin that the URL determines. If an origin fails or joins, only its own share of the
    /// URLs moves.
    Hash,
}

/// The value of the setting `origin_host`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OriginHost {
    /// The host that the client sent.
    #[default]
    Client,
    /// The host and port of the origin's URL.
    Origin,
    /// This host.
    Named(Box<str>),
}

/// The value of the setting `origin_add_prefix`: a path without a slash at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedPrefix(Box<str>);

/// The words of `balance`, in the order of [`Balance`].
pub(crate) const BALANCE_WORDS: &[&str] = &["round-robin", "least", "hash"];

impl OriginGroup {
    /// Returns the first origin of the configuration. Its authority stands for the group in a
    /// request without a host.
    pub fn first(&self) -> Option<&OriginAddress> {
        self.configured().first().map(|member| &member.address)
    }

    /// Returns the origins that get requests, in the order of the configuration. If no targets of
    /// any service are known, and there are no other origins, these are the services.
    pub fn members(&self) -> &[OriginMember] {
        &self.members
    }

    /// Returns the origins as they are configured.
    pub fn configured(&self) -> &[OriginMember] {
        self.configured.as_deref().unwrap_or(&self.members)
    }

    /// Returns the group with the key that belongs to a site or to one of its routes.
    pub(super) fn keyed(self, site: &str, path: Option<&str>) -> OriginGroup {
        // The name of a site has no control characters.
        let key = path.map_or_else(|| site.into(), |path| format!("{site}\0{path}").into());
        OriginGroup { key, ..self }
    }

    /// Returns the name of the site, and the path of the route, to which a group with this key
    /// belongs. The group of a site has no path.
    pub(crate) fn place(key: &str) -> (&str, Option<&str>) {
        key.split_once('\0').map_or((key, None), |(site, path)| (site, Some(path)))
    }

    /// Returns the addresses of the origins.
    pub fn addresses(&self) -> impl Iterator<Item = &OriginAddress> {
        self.members.iter().map(|member| &member.address)
    }
}

impl OriginMember {
    /// Returns an origin without settings of its own.
    fn alone(address: OriginAddress) -> OriginMember {
        let targets_max = address.service.as_ref().map_or(1, |_| TARGETS_DEFAULT);
        let (zone, priority) = (Zone::default(), 0);
        OriginMember { address, weight: 1, is_backup: false, priority, targets_max, zone }
    }

    /// Returns the rank of the origin for a server in `server_zone`: an origin gets requests only
    /// while no origin of a lower rank can take them.
    pub(crate) fn rank(&self, server_zone: &Zone) -> OriginRank {
        let OriginMember { is_backup, priority, .. } = *self;
        OriginRank { is_backup, priority, is_out_of_zone: server_zone.is_left_by(&self.zone) }
    }
}

impl fmt::Display for OriginGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, address) in self.addresses().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            f.write_str(match address.whole_service() {
                Some(_) => "no known target",
                None => &address.authority,
            })?;
        }
        for service in self.services() {
            write!(f, " (targets of {})", service.name)?;
        }
        Ok(())
    }
}

impl OriginHost {
    /// Returns the host that a request to `origin` has in place of the client's; `None` if it has
    /// the client's.
    pub(crate) fn of<'a>(&'a self, origin: &'a OriginAddress) -> Option<&'a str> {
        match self {
            OriginHost::Client => None,
            OriginHost::Origin => Some(origin.host_field()),
            OriginHost::Named(host) => Some(host),
        }
    }
}

impl Readable for OriginHost {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        match text {
            "client" => return Ok(OriginHost::Client),
            "origin" => return Ok(OriginHost::Origin),
            _ => {}
        }
        let refused = |hint| setting.problem(format_args!("cannot be {text:?}")).hint(hint);
        match text.contains("://") || text.contains('/') {
            true => Err(refused("write only the host, without a scheme or a path".to_owned())),
            false => {
                OriginAddress::of_authority(text, false).map_err(refused)?;
                Ok(OriginHost::Named(text.into()))
            }
        }
    }
}

impl AddedPrefix {
    /// Returns the path; empty if no path is added.
    pub(crate) fn get(&self) -> &str {
        &self.0
    }
}

impl Readable for AddedPrefix {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let path = read_prefix(raw, setting)?;
        let is_usable = http::Uri::try_from(&path).is_ok();
        if !is_usable || path.len() > ADDED_PREFIX_BYTES_MAX {
            let problem = setting.problem(format_args!("cannot be {path:?}"));
            return Err(problem.hint(format!(
                "write a path of at most {ADDED_PREFIX_BYTES_MAX} bytes as it stands in a URL, \
                 with percent-encoding for special characters"
            )));
        }
        Ok(AddedPrefix(path.trim_end_matches('/').into()))
    }
}

impl Readable for Balance {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => Balance::RoundRobin,
            1 => Balance::Least,
            _ => Balance::Hash,
        })
    }
}

/// Returns the problem with adding `member` to `members`, if there is one.
fn refusal(members: &[OriginMember], member: &OriginMember) -> Option<ValueProblem> {
    let authority = &member.address.authority;
    if members.iter().any(|other| other.address.authority == *authority) {
        let hint = "correct one of the two, or leave it out; for a larger share of the requests, \
                    give the origin a larger `weight`";
        let problem = ORIGIN.problem(format_args!("repeats {authority:?}"));
        return Some(problem.hint(hint));
    }
    if members.len() >= ORIGINS_PER_SITE_MAX {
        return Some(ORIGIN.problem(format_args!("has more than {ORIGINS_PER_SITE_MAX} origins")));
    }
    let targets = members.iter().chain([member]).map(|one| one.targets_max);
    (targets.sum::<usize>() > GROUP_ORIGINS_MAX).then(|| {
        let text = format_args!("may have more than {GROUP_ORIGINS_MAX} origins and targets");
        ORIGIN.problem(text).hint("give the origins with SRV records a smaller `targets_max`")
    })
}

/// Returns a group of the origins with these URLs, from the flag `--origin`.
pub(super) fn read_urls(urls: &[&str]) -> Result<OriginGroup, ValueProblem> {
    let mut members = Vec::new();
    for url in urls {
        let address = OriginAddress::read(RawValue::Flag(url), &ORIGIN)?;
        let member = OriginMember::alone(address);
        match refusal(&members, &member) {
            Some(problem) => return Err(problem),
            None => members.push(member),
        }
    }
    match members.is_empty() {
        true => Err(ORIGIN.problem("is empty")),
        false => Ok(OriginGroup { members, ..OriginGroup::default() }),
    }
}

impl Reader<'_> {
    /// Adds the health check, the limits of outliers, the versions of HTTP and the PROXY protocol,
    /// and the terms of TLS to those origins whose URLs are `https`. `at` returns the positions of
    /// the settings.
    pub(super) fn equip_origins(
        &mut self,
        mut group: OriginGroup,
        settings: &SiteSettings,
        at: PlaceOf<'_>,
    ) -> Option<OriginGroup> {
        group.health = HealthCheck::of(settings);
        group.outliers = OutlierLimits::of(settings);
        for member in &mut group.members {
            member.address.proxy_protocol = settings.origin_proxy_protocol;
            member.address.http2 = settings.origin_http2;
            member.address = self.origin_tls(member.address.clone(), settings, at)?;
        }
        Some(group)
    }

    /// Reads `origin`: one origin, or an array of them.
    pub(super) fn origins(&mut self, value: &Value<'_>, balance: Balance) -> Option<OriginGroup> {
        let DeValue::Array(array) = value.get_ref() else {
            let members = vec![self.member(value)?];
            return Some(OriginGroup { members, balance, ..OriginGroup::default() });
        };
        let (mut members, mut is_whole) = (Vec::new(), true);
        for element in array.iter() {
            let Some(member) = self.member(element) else {
                is_whole = false;
                continue;
            };
            match refusal(&members, &member) {
                Some(problem) => _ = self.keep_at::<()>(element.span(), Err(problem)),
                None => members.push(member),
            }
        }
        if is_whole && members.iter().all(|member| member.is_backup) {
            let problem = match members.is_empty() {
                true => ORIGIN.problem("is empty"),
                false => ORIGIN
                    .problem("has only backups")
                    .hint("leave `backup` out for the origin that usually answers"),
            };
            self.keep_at::<()>(value.span(), Err(problem));
        }
        let is_empty = members.is_empty();
        (!is_empty).then_some(OriginGroup { members, balance, ..OriginGroup::default() })
    }

    fn member(&mut self, value: &Value<'_>) -> Option<OriginMember> {
        let DeValue::Table(table) = value.get_ref() else {
            let read = OriginAddress::read(raw(value.get_ref()), &ORIGIN);
            let address = self.keep_at(value.span(), read)?;
            return Some(OriginMember::alone(address));
        };
        for (key, value) in table.iter() {
            let own = ORIGIN_TABLE.iter().map(|setting| setting.name);
            if key.get_ref() == "srv" {
                self.report_srv_key(key, value);
                return None;
            }
            if own.clone().all(|name| key.get_ref() != name) {
                self.unknown(key, value, "of an origin", own);
            }
        }
        let url = self.needed(table, &URL, &value.span())?;
        let address = OriginAddress::read(raw(url.get_ref()), &URL);
        let address = self.keep_at(url.span(), address);
        let is_service = address.as_ref().is_some_and(|address| address.service.is_some());
        if address.is_some() {
            self.check_service_keys(table, is_service);
        }
        let weight = self.of_table(table, &WEIGHT, 1);
        let is_backup = self.of_table(table, &BACKUP, false);
        let zone = self.of_table(table, &ORIGIN_ZONE, Zone::default());
        let targets_max = self.of_table(table, &TARGETS_MAX, TARGETS_DEFAULT);
        Some(OriginMember {
            address: address?,
            weight: weight?,
            is_backup: is_backup?,
            priority: 0,
            targets_max: targets_max.map(|max| if is_service { max } else { 1 })?,
            zone: zone?,
        })
    }

    /// Returns a value of a table, or its default; reports an invalid value.
    pub(super) fn of_table<T: Readable>(
        &mut self,
        table: &DeTable<'_>,
        setting: &Setting,
        default: T,
    ) -> Option<T> {
        let Some(value) = table.get(setting.name) else { return Some(default) };
        self.keep_at(value.span(), T::read(raw(value.get_ref()), setting))
    }
}
