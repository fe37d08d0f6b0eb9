//! The choice of an origin of a group: a pure function of the origins' state.

use super::ejection::Standing;
use crate::config::{Balance, OriginRank};

/// The state of an origin of a group at the time of a choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The origin's share of the requests. More than zero.
    pub(super) weight: u64,
    pub(super) rank: OriginRank,
    /// Whether the request has been sent to this origin already.
    pub(super) is_tried: bool,
    pub(super) standing: Standing,
    /// Whether the request would have to wait for a permit of the origin.
    pub(super) is_full: bool,
    /// Requests in progress.
    pub(super) outstanding: u32,
    /// A hash of the origin's authority for [`Balance::Hash`]; otherwise 0.
    pub(super) hash: u64,
}

/// The request for which an origin is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chooser {
    pub(super) balance: Balance,
    /// How often the worker has chosen an origin of this group before.
    pub(super) turn: u64,
    /// A hash of the URL for [`Balance::Hash`]; otherwise 0.
    pub(super) url_hash: u64,
    /// Whether the request has waited for a permit already, and goes only to an origin for whose
    /// permits it would not have to wait.
    pub(super) waits_no_more: bool,
}

impl Chooser {
    /// Returns the index of the chosen origin; `None` if no origin is left to try. The origin
    /// has the lowest rank of those that are available. An origin for whose permits the request
    /// would have to wait is chosen only if this is so for each available origin of this rank. If
    /// no origin is available, the same holds for those that are slow. If all origins fail, chooses
    /// as if none did, so that none of them gets the requests for all; but then a full origin is
    /// not passed over, because another one may have permits free only because it fails at once.
    pub(super) fn choose(self, candidates: &[Candidate]) -> Option<usize> {
        let is_left = |one: &Candidate| !(one.is_tried || self.waits_no_more && one.is_full);
        let untried = candidates.iter().enumerate().filter(|(_, one)| is_left(one));
        let place = |one: &Candidate| (one.standing, one.rank);
        let first = untried.clone().map(|(_, one)| place(one)).min()?;
        let tier = untried.filter(|(_, one)| place(one) == first);
        let mut tier: Vec<usize> = tier.map(|(index, _)| index).collect();
        let (standing, _) = first;
        if standing != Standing::Failing && tier.iter().any(|index| !candidates[*index].is_full) {
            tier.retain(|index| !candidates[*index].is_full);
        }
        match self.balance {
            Balance::RoundRobin => in_turn(candidates, &tier, self.turn),
            Balance::Least => {
                let one = in_turn(candidates, &tier, self.turn)?;
                let other = in_turn(candidates, &tier, mixed(self.turn))?;
                // Of two fractions `outstanding / weight`, each by the denominator of the other.
                let load = |of: usize, beside: usize| {
                    u128::from(candidates[of].outstanding) * u128::from(candidates[beside].weight)
                };
                Some(if load(other, one) < load(one, other) { other } else { one })
            }
            Balance::Hash => {
                let score = |index: &usize| score(candidates[*index], self.url_hash);
                tier.into_iter().min_by(|one, other| score(one).total_cmp(&score(other)))
            }
        }
    }
}

/// Returns the origin whose turn it is. The multiples of the golden ratio divide a circle evenly,
/// so each origin gets its share of the turns even over a few turns.
fn in_turn(candidates: &[Candidate], tier: &[usize], turn: u64) -> Option<usize> {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let total: u64 = tier.iter().map(|index| candidates[*index].weight).sum();
    let point = (u128::from(turn.wrapping_mul(GOLDEN)) * u128::from(total)) >> 64;
    let mut left = u64::try_from(point).unwrap_or(0);
    for &index in tier {
        match left.checked_sub(candidates[index].weight) {
            Some(rest) => left = rest,
            None => return Some(index),
        }
    }
    tier.last().copied()
}

/// Returns an origin's score for a URL; the lowest wins (weighted rendezvous hashing). An origin's
/// score does not depend on the other origins, so if one fails, only its own URLs move.
fn score(candidate: Candidate, url_hash: u64) -> f64 {
    let hash = mixed(candidate.hash ^ url_hash);
    // The 53 upper bits, which a float holds exactly. The half that is added keeps the share above
    // 0.
    let share = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -share.ln() / candidate.weight as f64
}

/// Mixes all bits of `value` (the finaliser of SplitMix64).
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Returns a hash of the concatenated parts (FNV-1a, then mixed). All workers and all servers
/// compute the same hash.
pub(super) fn hash_of<'b>(parts: impl IntoIterator<Item = &'b [u8]>) -> u64 {
    let bytes = parts.into_iter().flatten();
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    mixed(bytes.fold(0xCBF2_9CE4_8422_2325, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(weights: &[u64]) -> Vec<Candidate> {
        let candidate = |(index, weight): (usize, &u64)| Candidate {
            weight: *weight,
            rank: OriginRank::default(),
            is_tried: false,
            standing: Standing::Available,
            is_full: false,
            outstanding: 0,
            hash: hash_of([&[b'a' + index as u8][..]]),
        };
        weights.iter().enumerate().map(candidate).collect()
    }

    fn chooser(balance: Balance, number: u64) -> Chooser {
        Chooser { balance, turn: number, url_hash: mixed(number), waits_no_more: false }
    }

    fn shares(balance: Balance, of: &[Candidate], turns: u64) -> Vec<u64> {
        let mut counts = vec![0; of.len()];
        (0..turns).for_each(|turn| counts[chooser(balance, turn).choose(of).unwrap()] += 1);
        counts
    }

    #[test]
    fn each_origin_gets_its_share() {
        for turns in [4, 40, 4000] {
            let counts = shares(Balance::RoundRobin, &candidates(&[3, 1]), turns);
            assert!(counts[0].abs_diff(turns * 3 / 4) <= 2, "{counts:?}");
        }
        let counts = shares(Balance::Hash, &candidates(&[3, 1]), 40_000);
        assert!(counts[0].abs_diff(30_000) < 600, "{counts:?}");
    }

    #[test]
    fn the_origin_with_fewer_requests_is_chosen() {
        let mut two = candidates(&[1, 1]);
        two[0].outstanding = 5;
        let counts = shares(Balance::Least, &two, 1000);
        assert!(counts[1] > 650 && counts[0] > 0, "{counts:?}");
        // Weights of 100, in thousandths.
        let mut two = candidates(&[100_000, 100_000]);
        two[0].outstanding = 5;
        assert_eq!(shares(Balance::Least, &two, 1000), counts, "only their ratio matters");
    }

    #[test]
    fn only_the_urls_of_an_origin_that_fails_move() {
        let all = candidates(&[1, 1, 1]);
        let mut without = all.clone();
        without[1].standing = Standing::Failing;
        for number in 0..1000 {
            let chooser = chooser(Balance::Hash, number);
            let (before, after) = (chooser.choose(&all), chooser.choose(&without));
            assert!(before == after || before == Some(1) && after != Some(1));
        }
    }

    #[test]
    fn backups_and_ejected_origins_come_last() {
        let mut group = candidates(&[1, 1, 1]);
        group[2].rank.is_backup = true;
        for balance in [Balance::RoundRobin, Balance::Least, Balance::Hash] {
            let counts = shares(balance, &group, 100);
            assert!(counts[0] > 0 && counts[1] > 0 && counts[2] == 0, "{balance:?} {counts:?}");
            let mut down = group.clone();
            (down[0].standing, down[1].is_tried) = (Standing::Failing, true);
            assert_eq!(chooser(balance, 1).choose(&down), Some(2), "{balance:?}");
            down[1].is_tried = false;
            down.iter_mut().for_each(|one| one.standing = Standing::Failing);
            assert_eq!(shares(balance, &down, 100), counts, "{balance:?}: all are ejected");
            (down[0].is_tried, down[1].is_tried) = (true, true);
            assert_eq!(chooser(balance, 1).choose(&down), Some(2), "{balance:?}");
            down.iter_mut().for_each(|one| one.is_tried = true);
            assert_eq!(chooser(balance, 1).choose(&down), None, "{balance:?}");
            let mut full = group.clone();
            full[0].is_full = true;
            assert_eq!(shares(balance, &full, 100), [0, 100, 0], "{balance:?}");
            full[1].is_full = true;
            assert_eq!(shares(balance, &full, 100), counts, "{balance:?}: all are full");
            let has_waited = Chooser { waits_no_more: true, ..chooser(balance, 1) };
            assert_eq!(has_waited.choose(&full), Some(2), "{balance:?}: only the backup is free");
            // The origin with a permit free may only be faster because it is broken.
            full[1].is_full = false;
            full.iter_mut().for_each(|one| one.standing = Standing::Failing);
            assert_eq!(shares(balance, &full, 100), counts, "{balance:?}: all fail");
            full[0].standing = Standing::Slow;
            assert_eq!(shares(balance, &full, 100), [100, 0, 0], "{balance:?}: slow is better");
        }
    }

    #[test]
    fn origins_of_the_zone_come_first_and_backups_last() {
        let mut group = candidates(&[1, 1, 1, 1]);
        // In this order: another zone, the zone, a backup of the zone, a backup of another zone.
        for (index, is_backup, is_out_of_zone) in
            [(0, false, true), (1, false, false), (2, true, false), (3, true, true)]
        {
            group[index].rank = OriginRank { is_backup, priority: 0, is_out_of_zone };
        }
        for balance in [Balance::RoundRobin, Balance::Least, Balance::Hash] {
            let mut left = group.clone();
            for expected in [1, 0, 2, 3] {
                for number in 0..20 {
                    let chosen = chooser(balance, number).choose(&left);
                    assert_eq!(chosen, Some(expected), "{balance:?}");
                }
                left[expected].standing = Standing::Failing;
            }
            assert_eq!(chooser(balance, 1).choose(&left), Some(1), "{balance:?}: all are ejected");
        }
    }
}
