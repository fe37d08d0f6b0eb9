//! The sites of a configuration, and their lookup by listener and host, which does not allocate.
//!
//! At each address, a host is looked up among the sites that name the address in their `listen`,
//! and then among the sites without `listen`.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::listen::ListenerNumber;
use super::origin_address::OriginAddress;
use super::origins::OriginGroup;
use super::route::{Route, RouteNumber};
use super::site::{HostPattern, Site};
use super::table::ServerSettings;
use super::tls::CertificateSet;
use crate::limits::HOST_BYTES_MAX;

/// The sites of a configuration, with an index of their names.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    sites: Vec<Site>,
    /// The sites without `listen`.
    general: HostIndex,
    /// For each listener, the sites that name its address; empty if no site has `listen`.
    own: Box<[HostIndex]>,
    /// The routes that have origins of their own.
    with_origins: Box<[RouteNumber]>,
    /// For each site, the slot in which one worker counts its requests; empty until the
    /// configuration is in use.
    count_slots: Box<[u16]>,
}

/// Indices of sites, by the names of the sites.
#[derive(Clone, Debug, Default)]
struct HostIndex {
    exact: HashMap<Box<[u8]>, usize, RandomState>,
    below: HashMap<Box<[u8]>, usize, RandomState>,
    /// The largest number of labels in a key of `below`; longer suffixes of a host cannot match.
    below_labels_max: usize,
    any: Option<usize>,
}

/// A group of origins, with the site and the route to which it belongs.
#[derive(Clone, Copy, Debug)]
pub struct SiteOrigins<'a> {
    /// The site.
    pub site: &'a Site,
    /// The route, if the group belongs to one route only.
    pub route: Option<&'a Route>,
    /// The group.
    pub group: &'a Arc<OriginGroup>,
}

impl Sites {
    /// Builds the indices for the addresses of a server. If two sites have the same host pattern at
    /// an address, the first site wins; but the reader has already refused such a configuration.
    pub(crate) fn new(mut sites: Vec<Site>, server: &ServerSettings) -> Sites {
        for (number, site) in sites.iter_mut().enumerate() {
            site.set_numbers(number as u32);
        }
        let has_own = sites.iter().any(|site| !site.listen.is_empty());
        let listeners = server.addresses().filter(|_| has_own);
        let own =
            listeners.map(|address| HostIndex::of(&sites, |site| site.names_address(address)));
        let routes = sites.iter().flat_map(Site::routes);
        let with_origins = routes.filter(|route| route.own_origins.is_some());
        Sites {
            general: HostIndex::of(&sites, |site| site.listen.is_empty()),
            own: own.collect(),
            with_origins: with_origins.map(|route| route.number).collect(),
            count_slots: Box::default(),
            sites,
        }
    }

    /// Sets the slots in which a worker counts the requests of the sites.
    pub(crate) fn set_count_slots(&mut self, slots: Vec<u16>) {
        self.count_slots = slots.into();
    }

    /// Returns the slot in which the worker counts the requests of the route's site.
    #[inline]
    pub(crate) fn count_slot(&self, number: RouteNumber) -> u16 {
        self.count_slots.get(number.site as usize).copied().unwrap_or_default()
    }

    /// Whether any route has a rate limit.
    pub(crate) fn have_rate_limits(&self) -> bool {
        let mut routes = self.sites.iter().flat_map(Site::routes);
        routes.any(|route| !route.settings.rate_limit.is_empty())
    }

    /// Whether any route has a limit on requests in progress.
    pub(crate) fn have_concurrency_limits(&self) -> bool {
        let mut routes = self.sites.iter().flat_map(Site::routes);
        routes.any(|route| !route.settings.concurrency_limit.is_empty())
    }

    /// Returns the route with this number, and its site.
    ///
    /// # Panics
    /// The configuration has no route with this number, because the number is from another
    /// configuration.
    pub(crate) fn place(&self, number: RouteNumber) -> (&Site, &Route) {
        let site = self.sites.get(number.site as usize).expect("the site of a route number exists");
        (
            site,
            site.routes().get(number.route as usize).expect("the route of a route number exists"),
        )
    }

    /// Returns the site of a host at an address that no site names.
    pub fn lookup(&self, host: &[u8]) -> Option<&Site> {
        self.sites.get(self.general.lookup(host)?)
    }

    /// Returns the site of a host for a client of `listener`.
    #[inline]
    pub(crate) fn lookup_at(&self, listener: ListenerNumber, host: &[u8]) -> Option<&Site> {
        let own = self.own.get(listener.index()).and_then(|own| own.lookup(host));
        self.sites.get(own.or_else(|| self.general.lookup(host))?)
    }

    /// Whether a site has `listen`, so that the site of a host can depend on the listener.
    pub(crate) fn depend_on_listener(&self) -> bool {
        !self.own.is_empty()
    }

    /// Returns the index of the share of memory to which the arriving responses of the route's site
    /// are charged; `None` if there is only one site, which needs no share.
    pub(crate) fn share_of(&self, number: RouteNumber) -> Option<u16> {
        (self.sites.len() > 1).then_some(number.site as u16)
    }

    /// Returns every group of origins: first those of the sites, then those of the routes.
    pub fn origin_groups(&self) -> impl Iterator<Item = SiteOrigins<'_>> {
        let of_sites =
            self.iter().map(|site| SiteOrigins { site, route: None, group: &site.origins });
        let of_routes = self.with_origins.iter().map(|number| {
            let (site, route) = self.place(*number);
            SiteOrigins { site, route: Some(route), group: &route.origins }
        });
        of_sites.chain(of_routes)
    }

    /// Returns the addresses of the origins of all groups. An address may occur more than once.
    pub(crate) fn origin_addresses(&self) -> impl Iterator<Item = &OriginAddress> {
        self.origin_groups().flat_map(|origins| origins.group.addresses())
    }

    /// Returns the site that has the name of `other`, a site of another configuration.
    pub(crate) fn same_site(&self, other: &Site) -> Option<&Site> {
        // Most often the site has kept its place.
        let number = other.routes().last().map_or(0, |route| route.number.site as usize);
        let is_same = |site: &&Site| site.name == other.name;
        self.sites.get(number).filter(is_same).or_else(|| self.sites.iter().find(is_same))
    }

    /// Returns the sites for changes that no index depends on.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Site> {
        self.sites.iter_mut()
    }

    /// Returns the sites in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Site> {
        self.sites.iter()
    }

    /// Calls `change` with the certificates of each site that has its own.
    pub(super) fn change_certificates(&mut self, change: impl FnMut(&mut Arc<CertificateSet>)) {
        self.sites.iter_mut().filter_map(|site| site.certificates.as_mut()).for_each(change);
    }
}

impl HostIndex {
    /// Returns the index of those sites for which `has` is true.
    fn of(sites: &[Site], has: impl Fn(&Site) -> bool) -> HostIndex {
        let mut index = HostIndex::default();
        for (number, site) in sites.iter().enumerate().filter(|(_, site)| has(site)) {
            for name in &site.names {
                index.put(name, number);
            }
        }
        index
    }

    fn put(&mut self, name: &HostPattern, number: usize) {
        match name {
            HostPattern::Exact(host) => {
                self.exact.entry(host.as_bytes().into()).or_insert(number);
            }
            HostPattern::Below(host) => {
                self.below.entry(host.as_bytes().into()).or_insert(number);
                self.below_labels_max = self.below_labels_max.max(host.split('.').count());
            }
            HostPattern::Any => {
                self.any.get_or_insert(number);
            }
        }
    }

    /// Returns the site of a host, which is compared without regard to case and has no port: the
    /// site with exactly that name, else the site with the longest matching `*.` name, else the
    /// site with `*`.
    fn lookup(&self, host: &[u8]) -> Option<usize> {
        let named = match self.exact.is_empty() && self.below.is_empty() {
            true => None,
            false => self.lookup_named(host),
        };
        named.or(self.any)
    }

    fn lookup_named(&self, host: &[u8]) -> Option<usize> {
        let mut lower = [0; HOST_BYTES_MAX];
        let lower = lower.get_mut(..host.len())?;
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        self.exact.get(&*lower).copied().or_else(|| self.lookup_below(lower))
    }

    /// Returns the site with the longest matching `*.` name. The search begins at the last label
    /// and looks at as many labels as the longest configured name has, however long the host is.
    fn lookup_below(&self, lower: &[u8]) -> Option<usize> {
        let mut found = None;
        let mut rest = lower;
        for _ in 0..self.below_labels_max {
            let Some(dot) = rest.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0)
            else {
                break;
            };
            let (front, _) = rest.split_at(dot);
            let suffix = lower.get(dot + 1..).unwrap_or_default();
            found = self.below.get(suffix).copied().or(found);
            rest = front;
        }
        found
    }
}

impl PartialEq for Sites {
    fn eq(&self, other: &Sites) -> bool {
        self.sites == other.sites
    }
}

impl<'a> IntoIterator for &'a Sites {
    type Item = &'a Site;
    type IntoIter = std::slice::Iter<'a, Site>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
