//! Origins from SRV records (RFC 2782): the targets of a service take the place of the configured
//! origin, and change while the server runs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use toml::Spanned;
use toml::de::DeTable;

use super::error::ProblemSpan;
use super::origin_address::OriginAddress;
use super::origin_http2::OriginHttp2;
use super::origin_tls::OriginTls;
use super::origins::{OriginGroup, OriginMember};
use super::proxy_protocol::ProxyProtocol;
use super::read::{Reader, Value};
use super::setting::{Setting, ValueProblem};
use super::site::check_host;
use super::sites::Sites;
use super::table::{TARGETS_MAX, WEIGHT};
use crate::dns::ServiceTarget;

/// A service: the owner of SRV records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OriginService {
    /// The name of the records, in lower case.
    pub name: Box<str>,
    /// The name without its first labels that begin with an underscore. This is the name that a
    /// certificate must have: DNS names the targets, and may be forged (RFC 6125 §6.2.1). It is
    /// also the host for requests that have none.
    pub domain: Box<str>,
}

/// The default of `targets_max`.
pub(super) const TARGETS_DEFAULT: usize = 16;

impl OriginAddress {
    /// Creates the address that stands for the targets of a service, from the parts of a URL such
    /// as `srv+https://_http._tcp.example.org`.
    ///
    /// # Errors
    /// A hint.
    pub(super) fn of_service(scheme: &str, rest: &str) -> Result<OriginAddress, String> {
        let is_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(format!("write \"srv+http://{rest}\", or \"srv+https://{rest}\"")),
        };
        let name = rest.strip_suffix('/').unwrap_or(rest);
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if name.contains(['/', '?', '#']) {
            return Err(
                "leave out the path: each request is forwarded with its own path".to_owned()
            );
        }
        if let Some((name, _)) = name.split_once(':') {
            let hint = "the SRV records have the ports of the targets";
            return Err(format!("write \"srv+{scheme}://{name}\": {hint}"));
        }
        check_host(&name)?;
        if name.parse::<IpAddr>().is_ok() {
            return Err("write the name of SRV records, such as _http._tcp.example.org".to_owned());
        }
        let labels = name.split('.').skip_while(|label| label.starts_with('_'));
        let domain = labels.collect::<Vec<_>>().join(".");
        if domain.is_empty() {
            return Err("after the labels with an underscore, the name goes on with that of a \
                        domain, as in _http._tcp.example.org"
                .to_owned());
        }
        let tls = is_tls.then(|| OriginTls::unverified(&domain));
        let service = OriginService { name: name.as_str().into(), domain: domain.as_str().into() };
        Ok(OriginAddress {
            host: domain,
            port: if is_tls { 443 } else { 80 },
            authority: name,
            socket: None,
            tls,
            proxy_protocol: ProxyProtocol::Off,
            http2: OriginHttp2::Never,
            service: Some(Arc::new(service)),
        })
    }

    /// Returns the service for whose targets the address stands, if it is not the address of one of
    /// them. No connection to it can be opened.
    pub fn whole_service(&self) -> Option<&OriginService> {
        // The authority of a target has a port, and the name of a service has none.
        self.service.as_deref().filter(|service| *service.name == *self.authority)
    }

    /// Returns the address of a target of this service.
    pub fn of_target(&self, target: &ServiceTarget) -> OriginAddress {
        let ServiceTarget { host, port, .. } = target;
        let authority = target.authority();
        OriginAddress { host: host.clone(), port: *port, authority, ..self.clone() }
    }
}

impl OriginMember {
    /// Returns the service, if the origin is one or is a target of one.
    pub(crate) fn service(&self) -> Option<&OriginService> {
        self.address.service.as_deref()
    }

    /// Returns the targets of this service that get requests: at most `targets_max`, those with the
    /// smallest priority.
    fn chosen(&self, targets: &[ServiceTarget]) -> Vec<OriginMember> {
        let mut targets: Vec<_> = targets.iter().collect();
        // A stable sort: of equal targets, the first ones are chosen.
        targets.sort_by_key(|target| target.priority);
        targets.truncate(self.targets_max);
        let (mut chosen, mut priority, mut last) = (Vec::new(), 0, None);
        for target in targets {
            if last.is_some_and(|last| last != target.priority) {
                priority += 1;
            }
            last = Some(target.priority);
            let (address, weight) = (self.address.of_target(target), target.weight.into());
            chosen.push(OriginMember { address, weight, priority, ..self.clone() });
        }
        chosen
    }
}

impl OriginGroup {
    /// Returns the services of the group.
    pub fn services(&self) -> impl Iterator<Item = &OriginService> {
        self.configured().iter().filter_map(OriginMember::service)
    }

    /// Returns the group with these targets of its services; `None` if it has them already. A
    /// service whose targets are not known has none.
    fn with_targets(&self, targets: &dyn Fn(&str) -> Option<Arc<[ServiceTarget]>>) -> Option<Self> {
        self.services().next()?;
        let mut members = Vec::<OriginMember>::new();
        for member in self.configured() {
            let chosen = match member.service() {
                None => vec![member.clone()],
                Some(service) => match targets(&service.name) {
                    Some(targets) => member.chosen(&targets),
                    None => Vec::new(),
                },
            };
            for member in chosen {
                let is_same =
                    |one: &OriginMember| one.address.authority == member.address.authority;
                if !members.iter().any(is_same) {
                    members.push(member);
                }
            }
        }
        if members.is_empty() {
            members = self.configured().to_vec();
        }
        if members == self.members {
            return None;
        }
        let configured = Some(Arc::from(self.configured()));
        Some(OriginGroup { members, configured, ..self.clone() })
    }
}

impl Sites {
    /// Returns the names of all services.
    pub(crate) fn services(&self) -> BTreeSet<&str> {
        let services = self.origin_groups().flat_map(|of| of.group.services());
        services.map(|service| &*service.name).collect()
    }

    /// Replaces the targets of services; returns whether any have changed.
    pub(crate) fn set_targets(
        &mut self,
        targets: &dyn Fn(&str) -> Option<Arc<[ServiceTarget]>>,
    ) -> bool {
        let changes = self
            .iter_mut()
            .map(|site| site.change_origins(|group: &OriginGroup| group.with_targets(targets)));
        changes.fold(false, |any, has_changed| any | has_changed)
    }
}

impl Reader<'_> {
    /// Reports the key `srv` in the table of an origin.
    pub(super) fn report_srv_key(&mut self, key: &Spanned<Cow<'_, str>>, value: &Value<'_>) {
        let name = value.get_ref().as_str().unwrap_or("_http._tcp.example.org");
        let problem = ValueProblem::new("`srv` is not a setting of an origin");
        let hint = format!("for the targets of SRV records, write url = \"srv+http://{name}\"");
        self.problem(ProblemSpan::Span(key.span()), problem.hint(hint));
    }

    /// Reports keys in the table of an origin that only a service has, or only another origin.
    pub(super) fn check_service_keys(&mut self, table: &DeTable<'_>, is_service: bool) {
        let (key, why): (&Setting, _) = match is_service {
            true => (&WEIGHT, "the weights of the targets are in the SRV records"),
            false => (&TARGETS_MAX, "only an origin with a URL srv+http or srv+https has targets"),
        };
        if let Some(value) = table.get(key.name) {
            let problem = key.problem("cannot be set for this origin").hint(why);
            self.keep_at::<()>(value.span(), Err(problem));
        }
    }
}
