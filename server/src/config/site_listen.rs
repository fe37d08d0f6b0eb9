//! The addresses at which a site is served.

use std::net::SocketAddr;
use std::ops::Range;

use super::Config;
use super::error::ProblemSpan;
use super::listen::read_site_addresses;
use super::read::{Reader, Value, raw};
use super::setting::{RawValue, ValueProblem};
use super::site::{HostPattern, Site};
use super::table::{SITE_LISTEN, ServerSettings};

impl Reader<'_> {
    /// Reads `listen` of a site; the result is empty without it, and `None` if it is invalid.
    pub(super) fn site_listen(
        &mut self,
        value: Option<&Value<'_>>,
        server: &ServerSettings,
    ) -> Option<Vec<SocketAddr>> {
        let Some(value) = value else { return Some(Vec::new()) };
        let raw = raw(value.get_ref());
        let read = read_site_addresses(raw).map_err(|problem| match raw {
            RawValue::Integer(port) => problem.hint(port_hint(port, server)),
            _ => problem,
        });
        let addresses = self.keep_at(value.span(), read)?;
        if self.has_bad_listen {
            // The addresses of the server are not known.
            return None;
        }
        let is_known = |address: &SocketAddr| server.addresses().any(|known| known == *address);
        if let Some(unknown) = addresses.iter().find(|address| !is_known(address)) {
            self.problem(ProblemSpan::Span(value.span()), unknown_address(*unknown, server));
            return None;
        }
        Some(addresses)
    }

    /// Checks that every site is served at some address. Each site has the span of its header.
    pub(super) fn check_served(&mut self, sites: &[(Range<usize>, Site)], server: &ServerSettings) {
        let all = || sites.iter().map(|(_, site)| site);
        if self.has_bad_listen || all().all(|site| site.listen.is_empty()) {
            return;
        }
        let taken: Vec<Vec<_>> =
            server.addresses().map(|address| names_before(address, all())).collect();
        // A site whose names are invalid seems to have none.
        for (header, site) in sites.iter().filter(|(_, site)| !site.names.is_empty()) {
            let is_left = |taken: &Vec<&HostPattern>| has_name_beside(site, taken);
            // An address in the `listen` of a site is one of the server.
            if site.listen.is_empty() && !taken.iter().any(is_left) {
                let text = format!("the site {:?} is served at no address", site.name);
                let hint = "sites with `listen` serve its names at every address: give this site \
                            a `listen` too, or take an address out of theirs";
                self.problem(ProblemSpan::Span(header.clone()), ValueProblem::new(text).hint(hint));
            }
        }
    }
}

impl Site {
    /// Whether `listen` of the site has `address`.
    pub(crate) fn names_address(&self, address: SocketAddr) -> bool {
        self.listen.contains(&address)
    }

    /// Whether the site serves any host at `address`. `sites` are all sites: at an address that
    /// some of them name, they come before a site without `listen`.
    pub(super) fn is_served_at<'a>(
        &self,
        address: SocketAddr,
        sites: impl Iterator<Item = &'a Site>,
    ) -> bool {
        if !self.listen.is_empty() {
            return self.names_address(address);
        }
        has_name_beside(self, &names_before(address, sites))
    }

    /// Whether the site serves hosts of `other`, too, and has one of its origins.
    fn may_stand_in_for(&self, other: &Site) -> bool {
        let has_host = self.names.iter().any(|own| other.names.iter().any(|it| own.covers(it)));
        let origins = |site: &Site| -> Vec<String> {
            let addresses = site.routes().iter().flat_map(|route| route.origins.addresses());
            addresses.map(|address| address.authority.clone()).collect()
        };
        has_host && {
            let own = origins(self);
            origins(other).iter().any(|authority| own.contains(authority))
        }
    }
}

impl Config {
    /// Returns warnings about sites with `listen` whose hosts are served at the other addresses by
    /// a site that has the same origin, but not their restrictions.
    pub(super) fn listen_warnings(&self) -> Vec<String> {
        let (own, general): (Vec<_>, Vec<_>) =
            self.sites.iter().partition(|site| !site.listen.is_empty());
        let warning = |site: &&Site| {
            let other = general.iter().find(|other| other.may_stand_in_for(site))?;
            Some(format!(
                "site {:?}: at other addresses, site {:?} serves its hosts from the same origin",
                site.name, other.name
            ))
        };
        own.iter().filter_map(warning).collect()
    }
}

/// Returns the names of the sites that come before others at `address`.
fn names_before<'a>(
    address: SocketAddr,
    sites: impl Iterator<Item = &'a Site>,
) -> Vec<&'a HostPattern> {
    sites.filter(|site| site.names_address(address)).flat_map(|site| &site.names).collect()
}

/// Whether a name of the site has hosts that none of `taken` has.
fn has_name_beside(site: &Site, taken: &[&HostPattern]) -> bool {
    site.names.iter().any(|name| !taken.iter().any(|other| other.covers(name)))
}

impl HostPattern {
    /// Whether every host that matches `other` matches this pattern.
    fn covers(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (HostPattern::Any, _) => true,
            // No host that matches a pattern with `*.` is above the pattern.
            (HostPattern::Below(_), HostPattern::Exact(_)) => self.meets(other),
            (HostPattern::Below(above), HostPattern::Below(host)) => {
                host == above || self.meets(&HostPattern::Exact(host.clone()))
            }
            (one, other) => one == other,
        }
    }
}

/// Returns the hint for a site whose `listen` is only a port.
fn port_hint(port: i128, server: &ServerSettings) -> String {
    let quoted = |addresses: &mut dyn Iterator<Item = SocketAddr>| {
        addresses.map(|address| format!("\"{address}\"")).collect::<Vec<_>>().join(" or ")
    };
    let same = quoted(&mut server.addresses().filter(|it| i128::from(it.port()) == port));
    match same.is_empty() {
        false => format!("write {same}, as in the `listen` of the server"),
        true => format!(
            "write {}, or add an address with this port to the `listen` of the server first",
            quoted(&mut server.addresses())
        ),
    }
}

/// Returns the problem with an address of a site at which the server does not listen.
fn unknown_address(address: SocketAddr, server: &ServerSettings) -> ValueProblem {
    let known: Vec<_> = server.addresses().collect();
    let problem =
        SITE_LISTEN.problem(format_args!("has {address}, where the server does not listen"));
    let wide = known.iter().find(|known| {
        // `[::]` takes IPv4 clients, too, unless another socket is there for them.
        let is_same_kind = known.is_ipv4() == address.is_ipv4() || known.is_ipv6();
        is_same_kind && known.port() == address.port() && known.ip().is_unspecified()
    });
    problem.hint(match wide {
        Some(wide) => format!(
            "the server's address for this port is \"{wide}\"; for a site that not all clients of \
             this port may reach, add another port to `listen` before the first section, and \
             write it here"
        ),
        None => {
            let known: Vec<_> = known.iter().map(SocketAddr::to_string).collect();
            format!(
                "add \"{address}\" to `listen` or `listen_tls` before the first section, even if a \
                 flag such as --listen has it; there are {}",
                known.join(", ")
            )
        }
    })
}
