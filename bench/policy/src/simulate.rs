//! Gives the requests of a trace to a policy and counts hits.

use serde::Serialize;

use crate::policies::segments::Costs;
use crate::policies::{Policy, Request};
use crate::traces::Trace;

/// The result of a run.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Score {
    /// The share of the requests whose object was stored, whole and fresh.
    pub(crate) hit_percent: f64,
    /// The share of the requested bytes that were hits.
    pub(crate) byte_hit_percent: f64,
    /// The costs, which only segments have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) costs: Option<Costs>,
}

/// Runs a trace. The first `warm` requests are not counted.
pub(crate) fn simulate(trace: &Trace, warm: usize, policy: &mut dyn Policy) -> Score {
    let mut fresh_until = vec![0_u32; trace.lifetimes.len()];
    let (mut hits, mut asked_bytes, mut hit_bytes) = (0_u64, 0_u64, 0_u64);
    let mut costs_before = None;
    for (index, key) in trace.requests.iter().enumerate() {
        if index == warm {
            costs_before = policy.costs();
        }
        let request = request(trace, index as u32, *key, &fresh_until);
        let found = policy.request(&request);
        let found = if request.is_stale { 0 } else { found };
        let is_hit = found == request.bytes;
        if found == 0
            && let Some(until) = fresh_until.get_mut(*key as usize)
        {
            *until = request.stale_from;
        }
        if index >= warm {
            hits += u64::from(is_hit);
            hit_bytes += u64::from(found);
            asked_bytes += u64::from(request.bytes);
        }
    }
    let counted = trace.requests.len().saturating_sub(warm).max(1);
    let costs = policy.costs().zip(costs_before);
    Score {
        hit_percent: hits as f64 * 100.0 / counted as f64,
        byte_hit_percent: hit_bytes as f64 * 100.0 / asked_bytes.max(1) as f64,
        costs: costs.map(|(costs, before)| costs.since(&before)),
    }
}

fn request(trace: &Trace, now: u32, key: u32, fresh_until: &[u32]) -> Request {
    let lifetime = trace.lifetimes.get(key as usize).copied().unwrap_or(u32::MAX);
    let until = fresh_until.get(key as usize).copied().unwrap_or(u32::MAX);
    Request {
        key,
        bytes: trace.bytes[key as usize],
        now,
        is_stale: until <= now,
        stale_from: now.saturating_add(lifetime),
    }
}

/// A hash of a number (SplitMix64's last step).
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}
