//! The origins of a site as one worker sees them: the choice of an origin for a request, and the
//! retry budget.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::choose::{Candidate, Chooser, hash_of};
use super::origin_counts::OriginCells;
use super::origins::{OriginPool, Origins};
use super::retry_budget::RetryBudget;
use crate::clock;
use crate::config::{OriginAddress, OriginGroup, OriginMember, ServerSettings, Site};

/// The state of a site's group of origins.
pub(super) struct GroupState {
    turn: Cell<u64>,
    /// The time of the next health checks, in monotonic milliseconds.
    pub(super) check_due_ms: Cell<u64>,
    pub(super) retries: RetryBudget,
    /// The counts of the origins, by their authorities.
    counts: RefCell<HashMap<Box<str>, Rc<OriginCells>>>,
}

/// The origin that was chosen for a request.
pub(super) struct OriginChoice<'a> {
    pub(super) address: &'a OriginAddress,
    pub(super) pool: Rc<OriginPool>,
}

/// The origins to which a request has been sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TriedOrigins(u32);

impl GroupState {
    pub(super) fn new() -> GroupState {
        GroupState {
            turn: Cell::new(0),
            check_due_ms: Cell::new(0),
            retries: RetryBudget::new(clock::monotonic_ms()),
            counts: RefCell::default(),
        }
    }

    /// Returns the counts of an origin of the group.
    pub(super) fn counts(&self, origin: &OriginAddress) -> Rc<OriginCells> {
        let mut counts = self.counts.borrow_mut();
        if let Some(known) = counts.get(origin.authority.as_str()) {
            return Rc::clone(known);
        }
        let new = Rc::<OriginCells>::default();
        counts.insert(origin.authority.as_str().into(), Rc::clone(&new));
        new
    }
}

impl Origins {
    /// Chooses an origin for a request, and adds it to `tried`; `None` if all have been tried.
    pub(super) fn choose<'a>(
        &self,
        site: &'a Site,
        settings: &ServerSettings,
        url_hash: impl FnOnce() -> u64,
        tried: &mut TriedOrigins,
    ) -> Option<OriginChoice<'a>> {
        let group = &site.origins;
        let index = match group.members() {
            [_] if tried.0 != 0 => return None,
            [_] => 0,
            _ => {
                let state = self.group(site);
                let turn = state.turn.replace(state.turn.get().wrapping_add(1));
                let balance = group.balance;
                let chooser = Chooser { balance, turn, url_hash: url_hash() };
                chooser.choose(&self.candidates(group, settings, *tried))?
            }
        };
        tried.0 |= 1 << index;
        let address = &group.members()[index].address;
        Some(OriginChoice { address, pool: self.pool(address, settings) })
    }

    /// Returns the pool of an origin that can take a request. If all origins are down, returns the
    /// pool of the origin that would be tried first.
    pub(crate) fn likely_pool(&self, site: &Site, settings: &ServerSettings) -> Rc<OriginPool> {
        let group = &site.origins;
        if group.members().len() == 1 {
            return self.pool(group.first(), settings);
        }
        let pools = group.addresses().map(|address| self.pool(address, settings));
        let now_ms = clock::monotonic_ms();
        let rank =
            |pool: &Rc<OriginPool>| (pool.health.is_down(), pool.health.ejection.until_ms(now_ms));
        pools.min_by_key(rank).unwrap_or_else(|| self.pool(group.first(), settings))
    }

    fn candidates(
        &self,
        group: &OriginGroup,
        settings: &ServerSettings,
        tried: TriedOrigins,
    ) -> Vec<Candidate> {
        let now_ms = clock::monotonic_ms();
        let candidate = |(index, member): (usize, &OriginMember)| {
            let pool = self.pool(&member.address, settings);
            let ejection = &pool.health.ejection;
            Candidate {
                weight: ejection.ramped(member.weight, now_ms),
                is_backup: member.is_backup,
                is_tried: tried.0 & (1 << index) != 0,
                ejected_until_ms: ejection.until_ms(now_ms),
                outstanding: pool.exchange_count(),
                hash: hash_of([member.address.authority.as_bytes()]),
            }
        };
        group.members().iter().enumerate().map(candidate).collect()
    }
}
