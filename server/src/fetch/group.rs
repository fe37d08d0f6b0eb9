//! The origins of a group as one worker sees them: the choice of an origin for a request, and the
//! retry budget.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use super::choose::{Candidate, Chooser, hash_of};
use super::ejection::{Ejection, Standing};
use super::latency::{ComparedOrigin, RecentLatency};
use super::origin_counts::OriginCells;
use super::origins::{ConfiguredMap, OriginPool, Origins};
use super::retry_budget::RetryBudget;
use crate::accept::ClientNetwork;
use crate::clock;
use crate::config::{Balance, OriginAddress, OriginGroup, OriginMember, ServerSettings, Zone};
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::key::RouteMatch;
use crate::worker::Worker;

/// The state of a group of origins.
pub(super) struct GroupState {
    /// The key of the group, which has the names of its site and route.
    key: Box<str>,
    turn: Cell<u64>,
    /// The time of the next health checks, in monotonic milliseconds.
    pub(super) check_due_ms: Cell<u64>,
    /// The retry budget of the site to which the group belongs.
    pub(super) retries: Rc<RetryBudget>,
    /// The states of the origins of the current configuration, by their authorities.
    members: RefCell<ConfiguredMap<Rc<MemberState>>>,
}

/// The state of an origin as a member of a group. Other groups that have the same origin may check
/// it differently.
#[derive(Debug, Default)]
pub(super) struct MemberState {
    /// The failures of the origin, for which it is ejected if the group has others.
    pub(super) ejection: Ejection,
    pub(super) latency: RecentLatency,
    pub(super) counts: OriginCells,
}

/// The origin that was chosen for a request.
#[derive(Clone)]
pub(super) struct OriginChoice<'a> {
    pub(super) address: &'a OriginAddress,
    pub(super) pool: Rc<OriginPool>,
    pub(super) in_group: GroupMember,
    /// Whether the origin is not in the server's zone, although another origin of the group is.
    pub(super) leaves_zone: bool,
}

/// An origin in its group.
#[derive(Clone)]
pub(super) struct GroupMember {
    group: Rc<GroupState>,
    pub(super) state: Rc<MemberState>,
}

/// The terms on which an origin is chosen for a request.
#[derive(Clone, Copy)]
pub(super) struct ChoiceTerms {
    pub(super) network: ClientNetwork,
    /// See [`Chooser::waits_no_more`].
    pub(super) waits_no_more: bool,
}

/// The origins to which a request has been sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TriedOrigins(u32);

impl GroupState {
    pub(super) fn new(group: &OriginGroup, retries: Rc<RetryBudget>) -> GroupState {
        let state = GroupState {
            key: group.key.clone(),
            turn: Cell::new(0),
            check_due_ms: Cell::new(0),
            retries,
            members: RefCell::default(),
        };
        state.retain(group);
        state
    }

    /// Returns the state of an origin of the group. A request from before a reload may still use
    /// an origin that the group has lost: for such an origin, returns a new state that is not kept.
    pub(super) fn member(&self, origin: &OriginAddress) -> Rc<MemberState> {
        let members = self.members.borrow();
        members.get(origin.authority.as_str()).map(Rc::clone).unwrap_or_default()
    }

    /// Whether an origin of the group other than `member` can take its requests.
    pub(super) fn has_other(&self, member: &Rc<MemberState>, now_ms: u64) -> bool {
        let is_other = |one: &Rc<MemberState>| {
            !Rc::ptr_eq(one, member) && one.ejection.standing(now_ms) != Standing::Failing
        };
        self.members.borrow().values().any(is_other)
    }

    /// Returns the name under which an event reports an origin of the group: its site, its route
    /// and its authority.
    pub(super) fn name_of(&self, authority: &str) -> impl fmt::Display {
        let (site, path) = OriginGroup::place(&self.key);
        fmt::from_fn(move |f| {
            write!(f, "site {site:?}, ")?;
            path.map_or(Ok(()), |path| write!(f, "route {path}, "))?;
            write!(f, "origin {authority}")
        })
    }

    /// Keeps the states of the origins of `group`, which has the same key, creates those that are
    /// missing, and forgets others. If the group has no health checks, also forgets the failed
    /// checks of its origins.
    pub(super) fn retain(&self, group: &OriginGroup) {
        let is_member = |authority: &str| group.addresses().any(|it| it.authority == authority);
        let mut members = self.members.borrow_mut();
        members.retain(|authority, _| is_member(authority));
        for origin in group.addresses() {
            members.entry(origin.authority.as_str().into()).or_default();
        }
        if group.health.is_none() {
            members.values().for_each(|member| member.ejection.end_checks());
        }
    }
}

impl GroupMember {
    /// Returns the name under which events report the origin.
    pub(super) fn name<'a>(&'a self, authority: &'a str) -> impl fmt::Display + 'a {
        self.group.name_of(authority)
    }

    /// Records a request to which the origin gave no answer because of `fault`. The origin is
    /// ejected after several in a row, or at once if it cannot be reached.
    pub(super) fn note_failed(&self, worker: &Worker, authority: &str, fault: Fault) {
        let now_ms = clock::monotonic_ms();
        let ejected = match fault.is_unreachable() {
            true => self.state.ejection.note_unreachable(now_ms),
            // The reason may be the requests for one URL, which fail at every origin.
            false => {
                let has_other = self.group.has_other(&self.state, now_ms);
                self.state.ejection.note_failed(now_ms, has_other)
            }
        };
        if let Some(for_ms) = ejected {
            self.report_ejection(worker, authority, &fault.reason(), for_ms);
        }
    }

    /// Records an answer with an error status. The origin is ejected after several in a row.
    pub(super) fn note_error_status(&self, worker: &Worker, authority: &str, status: u16) {
        let now_ms = clock::monotonic_ms();
        let has_other = self.group.has_other(&self.state, now_ms);
        if let Some(for_ms) = self.state.ejection.note_error_status(now_ms, has_other) {
            let reason = format_args!("several answers in a row had an error status, now {status}");
            self.report_ejection(worker, authority, &reason, for_ms);
        }
    }

    /// Records a hedged request that another origin answered first. The origin is ejected after
    /// several in a row.
    pub(super) fn note_lost_hedge(&self, worker: &Worker, authority: &str) {
        let now_ms = clock::monotonic_ms();
        let has_other = self.group.has_other(&self.state, now_ms);
        if let Some(for_ms) = self.state.ejection.note_lost_hedge(now_ms, has_other) {
            let reason = "other origins answered several hedged requests in a row first";
            self.report_ejection(worker, authority, &reason, for_ms);
        }
    }

    /// Records a body that broke off because of `fault`. The origin is ejected after several in a
    /// row.
    pub(super) fn note_broken_body(&self, worker: &Worker, authority: &str, fault: Fault) {
        self.state.counts.note_failed(fault);
        // The reason for a malformed answer is more often the resource than the origin.
        if matches!(fault, Fault::OriginAnswer(_)) {
            return;
        }
        let now_ms = clock::monotonic_ms();
        let has_other = self.group.has_other(&self.state, now_ms);
        if let Some(for_ms) = self.state.ejection.note_broken_body(now_ms, has_other) {
            self.report_ejection(worker, authority, &fault.reason(), for_ms);
        }
    }

    /// Records an answer whose head arrived `took_us` microseconds after the request was sent. If
    /// the answers of the origin take much longer than those of the other origins of `group` with
    /// the same rank, the origin is ejected.
    pub(super) fn note_latency(
        &self,
        worker: &Worker,
        group: &OriginGroup,
        authority: &str,
        took_us: u64,
    ) {
        let (Some(limits), now_ms) = (group.outliers, clock::monotonic_ms()) else { return };
        let MemberState { ejection, latency, .. } = &*self.state;
        // Answers to requests from before an ejection say nothing about the origin afterwards.
        if group.members().len() < 2 || ejection.until_ms(now_ms) != 0 {
            return;
        }
        latency.note(now_ms, took_us);
        // Medians cost a little, and a fast answer makes no origin an outlier.
        let slow_us = limits.is_slow(took_us).then(|| latency.median_us(now_ms)).flatten();
        let Some(own_us) = slow_us else { return };
        let zone = &worker.config().server.zone;
        let others = self.compared_origins((group, zone), authority, now_ms);
        let Some(typical_us) = limits.exceeded(own_us, &others) else { return };
        if let Some(for_ms) = ejection.note_outlier(now_ms) {
            worker.count(Counter::OriginOutliers);
            let (own_ms, typical_ms) = (own_us / 1000, typical_us / 1000);
            let reason = format_args!(
                "its answers begin after {own_ms} ms (median), those of the other origins after \
                 {typical_ms} ms"
            );
            self.report_ejection(worker, authority, &reason, for_ms);
        }
    }

    /// Returns the other origins of the group that have the same rank for a server in `zone`.
    fn compared_origins(
        &self,
        (group, zone): (&OriginGroup, &Zone),
        authority: &str,
        now_ms: u64,
    ) -> Vec<ComparedOrigin> {
        let is_own = |member: &&OriginMember| member.address.authority == authority;
        let rank = group.members().iter().find(is_own).map(|own| own.rank(zone));
        let is_other = |member: &&OriginMember| Some(member.rank(zone)) == rank && !is_own(member);
        let compared = |member: &OriginMember| {
            let state = self.group.member(&member.address);
            ComparedOrigin {
                is_ejected: state.ejection.until_ms(now_ms) != 0,
                median_us: state.latency.median_us(now_ms),
            }
        };
        group.members().iter().filter(is_other).map(compared).collect()
    }

    /// Counts and reports an ejection of the origin.
    fn report_ejection(
        &self,
        worker: &Worker,
        authority: &str,
        reason: &dyn fmt::Display,
        for_ms: u64,
    ) {
        // Answers from before the ejection say nothing about the origin afterwards.
        self.state.latency.clear();
        worker.count(Counter::OriginEjections);
        self.state.counts.note_ejected();
        let name = self.name(authority);
        let detail = format_args!("{name}: {reason}; the origin gets no requests for {for_ms} ms");
        worker.event(Event::OriginDown, &detail);
    }
}

impl Origins {
    /// Chooses an origin for a request, and adds it to `tried`; `None` if none is left to try.
    pub(super) fn choose<'a>(
        &self,
        group: &'a OriginGroup,
        settings: &ServerSettings,
        terms: ChoiceTerms,
        url_hash: impl FnOnce() -> u64,
        tried: &mut TriedOrigins,
    ) -> Option<OriginChoice<'a>> {
        let state = self.group(group);
        let index = match group.members() {
            [_] if tried.0 != 0 => return None,
            [_] => 0,
            _ => {
                let turn = state.turn.replace(state.turn.get().wrapping_add(1));
                let (balance, ChoiceTerms { network, waits_no_more }) = (group.balance, terms);
                let url_hash = if balance == Balance::Hash { url_hash() } else { 0 };
                let chooser = Chooser { balance, turn, url_hash, waits_no_more };
                chooser.choose(&self.candidates(group, settings, network, *tried))?
            }
        };
        tried.0 |= 1 << index;
        let (chosen, zone) = (&group.members()[index], &settings.zone);
        let in_zone = |one: &OriginMember| !one.rank(zone).is_out_of_zone;
        let leaves_zone = !in_zone(chosen) && group.members().iter().any(in_zone);
        let address = &chosen.address;
        let (pool, member) = (self.pool(address, settings), state.member(address));
        let in_group = GroupMember { group: state, state: member };
        Some(OriginChoice { address, pool, in_group, leaves_zone })
    }

    /// Returns the origins that get requests and are not in `tried`.
    pub(super) fn usable(
        &self,
        group: &OriginGroup,
        settings: &ServerSettings,
        network: ClientNetwork,
        tried: TriedOrigins,
    ) -> Vec<Candidate> {
        let mut candidates = self.candidates(group, settings, network, tried);
        candidates.retain(|one| !one.is_tried && one.standing == Standing::Available);
        candidates
    }

    /// Whether an untried origin of a group is not ejected because it fails.
    pub(super) fn has_answering(
        &self,
        group: &OriginGroup,
        settings: &ServerSettings,
        network: ClientNetwork,
        tried: TriedOrigins,
    ) -> bool {
        let candidates = self.candidates(group, settings, network, tried);
        candidates.iter().any(|one| !one.is_tried && one.standing != Standing::Failing)
    }

    /// Returns the pool of the directory of a route or, if it has none, of the origin that would
    /// likely get a request: the best one by standing and rank of those that are not down, or of
    /// all if all are down.
    pub(crate) fn likely_pool(
        &self,
        route: RouteMatch<'_>,
        settings: &ServerSettings,
    ) -> Rc<OriginPool> {
        if let Some(directory) = route.route.settings.files.get() {
            return self.files_pool(directory, settings);
        }
        let group = &*route.route.origins;
        if let [only] = group.members() {
            return self.pool(&only.address, settings);
        }
        let (state, now_ms) = (self.group(group), clock::monotonic_ms());
        let order = |member: &&OriginMember| {
            let is_down = self.pool(&member.address, settings).health.is_down();
            let standing = state.member(&member.address).ejection.standing(now_ms);
            (is_down, standing, member.rank(&settings.zone))
        };
        let likely = group.members().iter().min_by_key(order);
        let likely = likely.expect("a site whose requests are forwarded has an origin");
        self.pool(&likely.address, settings)
    }

    fn candidates(
        &self,
        group: &OriginGroup,
        settings: &ServerSettings,
        network: ClientNetwork,
        tried: TriedOrigins,
    ) -> Vec<Candidate> {
        let (state, now_ms) = (self.group(group), clock::monotonic_ms());
        let candidate = |(index, member): (usize, &OriginMember)| {
            let pool = self.pool(&member.address, settings);
            let ejection = &state.member(&member.address).ejection;
            Candidate {
                weight: ejection.ramped(member.weight, now_ms),
                rank: member.rank(&settings.zone),
                is_tried: tried.0 & (1 << index) != 0,
                standing: ejection.standing(now_ms),
                is_full: !pool.has_turn(network),
                outstanding: pool.exchange_count(),
                hash: match group.balance {
                    Balance::Hash => hash_of([member.address.authority.as_bytes()]),
                    Balance::RoundRobin | Balance::Least => 0,
                },
            }
        };
        group.members().iter().enumerate().map(candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use forebay_http::target::Scheme;

    use super::*;
    use crate::config::Config;

    #[test]
    fn the_likely_origin_is_the_one_that_a_request_would_get() {
        let text = "[[site]]\nname = 'a'\nnames = ['a']\n\
                    origin = ['http://10.0.0.1', 'http://10.0.0.2']\n";
        let config = Config::from_toml(text, "f.toml").expect("valid");
        let site = config.sites.iter().next().expect("it has one");
        let route = site.routes().first().expect("it has one");
        let origins = Origins::default();
        let addresses: Vec<_> = site.origins.addresses().collect();
        let (state, now_ms) = (origins.group(&site.origins), clock::monotonic_ms());
        // The pause of the origin that fails is shorter, but the slow one answers.
        state.member(addresses[0]).ejection.note_unreachable(now_ms);
        state.member(addresses[1]).ejection.note_outlier(now_ms);
        let route = RouteMatch { site, route, scheme: Scheme::Http };
        let likely = origins.likely_pool(route, &config.server);
        assert!(Rc::ptr_eq(&likely, &origins.pool(addresses[1], &config.server)));
    }
}
