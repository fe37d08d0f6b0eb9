//! The addresses at which a site is served.

use std::net::SocketAddr;
use std::ops::Range;

use super::error::ProblemSpan;
use super::listen::read_site_addresses;
use super::read::{Reader, Value, raw};
use super::setting::ValueProblem;
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
        let read = read_site_addresses(raw(value.get_ref()));
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
        if self.has_bad_listen {
            return;
        }
        let all = || sites.iter().map(|(_, site)| site);
        // A site whose names are invalid seems to have none.
        for (header, site) in sites.iter().filter(|(_, site)| !site.names.is_empty()) {
            if !server.addresses().any(|at| site.is_served_at(at, all())) {
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
        let before = sites.filter(|site| site.names_address(address));
        let taken: Vec<_> = before.flat_map(|site| &site.names).collect();
        self.names.iter().any(|name| !taken.iter().any(|other| other.covers(name)))
    }
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

/// Returns the problem with an address of a site at which the server does not listen.
fn unknown_address(address: SocketAddr, server: &ServerSettings) -> ValueProblem {
    let known: Vec<_> = server.addresses().collect();
    let problem =
        SITE_LISTEN.problem(format_args!("has {address}, where the server does not listen"));
    let wide = known.iter().find(|known| {
        let is_same_kind = known.is_ipv4() == address.is_ipv4();
        is_same_kind && known.port() == address.port() && known.ip().is_unspecified()
    });
    problem.hint(match wide {
        Some(wide) => format!("write \"{wide}\", which is the server's address for this port"),
        None => {
            let known: Vec<_> = known.iter().map(SocketAddr::to_string).collect();
            format!(
                "the server listens at {}; this list is `listen` and `listen_tls` before the first \
                 section",
                known.join(", ")
            )
        }
    })
}
