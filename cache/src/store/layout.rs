//! The plan of a region: its areas and their sizes, which are computed from the settings.
//!
//! `docs/format/store.md` describes the bytes. The plan depends only on the settings, so processes
//! with the same settings compute the same plan.

use forebay_ordmap::OrdConfig;
use forebay_shm::{AreaSpec, PARTICIPANTS_MAX};
use forebay_sync::Words;
use forebay_sync::pins::Pins;

use super::config::{ConfigError, StoreConfig};
use crate::index;
use crate::key_index;
use crate::purge;
use crate::segment::{DATA_BYTES_MAX, Geometry, SegmentTable};

/// The kinds of the store's areas.
pub(crate) mod kind {
    pub(crate) const STORE: u32 = 16;
    pub(crate) const SEGMENTS: u32 = 17;
    pub(crate) const INDEX: u32 = 18;
    pub(crate) const PINS: u32 = 19;
    pub(crate) const ROWS: u32 = 21;
    pub(crate) const GHOSTS: u32 = 22;
    pub(crate) const PURGES: u32 = 23;
    pub(crate) const DATA: u32 = 24;
}

/// The indexes of the words in the area `STORE`. Words that different operations write often are on
/// different cache lines.
pub(crate) mod word {
    pub(crate) const SEGMENT_BYTES: usize = 0;
    pub(crate) const SEGMENT_COUNT: usize = 1;
    pub(crate) const BUCKET_COUNT: usize = 2;
    pub(crate) const GHOST_WORDS: usize = 3;
    pub(crate) const PURGE_SEQ: usize = crate::purge::PURGE_SEQ_WORD;
    pub(crate) const EVICTION_LOCK: usize = 32;
    /// The segment that is being drained, plus one; 0 if there is none.
    pub(crate) const DRAINING: usize = 33;
    pub(crate) const DRAINED_BYTES: usize = 34;
    pub(crate) const DRAIN_PLAN: usize = 35;
    /// The bytes of the drained segment's records for each use count: four words.
    pub(crate) const CENSUS: usize = 36;
    /// The number of segments that were ever drained from the small queue. Ghosts use it as their
    /// clock.
    pub(crate) const SMALL_DRAINED: usize = 40;
    pub(crate) const PURGE_LOCK: usize = 41;
    /// The Unix second since which records have waited for drained segments to lose their pins; 0
    /// if no record waits.
    pub(crate) const WAITS_SINCE: usize = 42;
    pub(crate) const SEQUENCE: usize = 48;
    /// The number of events that may have left entries without a record in the key index.
    pub(crate) const LEFTOVERS: usize = 56;
    /// The value of `LEFTOVERS` up to which the key index was swept.
    pub(crate) const SWEPT: usize = 57;
    pub(crate) const SEAL_ORDER: usize = 64;
    pub(crate) const COUNT: usize = 80;
}

/// The number of words of a participant's row: 128 bytes, so that two rows share no cache line.
pub(crate) const ROW_WORDS: usize = 16;

/// The indexes of the words in a participant's row that are used.
pub(crate) mod row {
    /// The reclaimer's request to revoke body handles: the index of a drained segment, plus one; 0
    /// if there is no request.
    pub(crate) const REVOKE: usize = 2;
    /// The number of body handles that pin a segment. When the reclaimer chooses a victim, it does
    /// not read the pins of a row in which this is 0.
    pub(crate) const HANDLES: usize = 3;
    /// The sequence of the record whose keys this participant is inserting and whose index word is
    /// not published yet; 0 if there is none.
    pub(crate) const INSERTING: usize = 4;
}

/// The version of all areas of the store. A process does not use a region of another version.
pub(crate) const STORE_VERSION: u32 = 5;

/// The percentage of the index words that are in use when records of the expected size fill all
/// memory. From about 90 percent on, both buckets of a key are often full, and inserts evict
/// records.
const INDEX_FULL_PERCENT: u64 = 85;

/// The bytes of the region's header, its directory and the rows of participants, rounded up.
const REGION_FIXED_BYTES: u64 = 64 * 1024;

/// The areas of a region and their sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) geometry: Geometry,
    pub(crate) rows: u32,
    pub(crate) bucket_count: usize,
    pub(crate) ghost_words: usize,
    pub(crate) purge_slots: usize,
    /// The configuration of the maps of the key index.
    pub(crate) key_index: OrdConfig,
    pub(crate) areas: Vec<AreaSpec>,
    /// The size of the region's file.
    pub(crate) region_bytes: u64,
}

impl Plan {
    /// Divides the budget among the areas of a region.
    ///
    /// # Errors
    /// Returns a setting that cannot work. If the budget is too small, the error carries the
    /// smallest budget that is enough.
    pub(crate) fn of(config: &StoreConfig) -> Result<Plan, ConfigError> {
        config.check()?;
        match Plan::fit(config, config.region_bytes()) {
            Some(plan) => Ok(plan),
            None if config.region_bytes() > DATA_BYTES_MAX => {
                Err(ConfigError::BudgetTooLarge { maximum_bytes: DATA_BYTES_MAX })
            }
            None => Err(ConfigError::BudgetTooSmall { minimum_bytes: minimum_bytes(config) }),
        }
    }

    /// Returns the plan with the largest data area for which all areas fit into `region_bytes`, or
    /// `None` if not even the smallest data area fits.
    fn fit(config: &StoreConfig, region_bytes: u64) -> Option<Plan> {
        let with_data = |data_bytes| {
            let plan = Plan::with_data(config, data_bytes);
            plan.filter(|plan| plan.region_bytes <= region_bytes)
        };
        let mut enough = Geometry::least_bytes(config.worker_count);
        let mut too_much = region_bytes.max(enough);
        let mut fitting = with_data(enough)?;
        while too_much - enough > 4096 {
            let middle = enough + (too_much - enough) / 2;
            match with_data(middle) {
                Some(plan) => (enough, fitting) = (middle, plan),
                None => too_much = middle,
            }
        }
        Some(Plan { region_bytes, ..fitting })
    }

    fn with_data(config: &StoreConfig, data_bytes: u64) -> Option<Plan> {
        let geometry = Geometry::plan(data_bytes, config.worker_count).ok()?;
        let rows = config.participants_max();
        let records = geometry.data_bytes() / u64::from(config.record_bytes_expected);
        let index_words = (records * 100 / INDEX_FULL_PERCENT).max(64);
        let bucket_count = usize::try_from(index_words).ok()?.div_ceil(index::BUCKET_WORDS);
        let ghost_words = 1 << usize::try_from(records / 2).ok()?.max(64).ilog2();
        let purge_slots = purge::slots_for(data_bytes);
        let area =
            |kind, words: usize| AreaSpec { kind, version: STORE_VERSION, bytes: words as u64 * 8 };
        let key_index = key_index::config(records, rows);
        let mut areas = vec![
            area(kind::STORE, word::COUNT),
            area(kind::SEGMENTS, SegmentTable::<Box<[_]>>::words_needed(geometry)),
            area(kind::INDEX, index::words_needed(bucket_count)?),
            area(kind::PINS, pin_words(rows, geometry)?),
            area(kind::ROWS, rows as usize * ROW_WORDS),
            area(kind::GHOSTS, ghost_words),
            area(kind::PURGES, purge::words_needed(purge_slots)?),
            area(kind::DATA, geometry.data_bytes() as usize / 8),
        ];
        areas.extend(key_index::areas(&key_index)?);
        let region_bytes = REGION_FIXED_BYTES
            + areas.iter().map(|area| area.bytes.next_multiple_of(4096)).sum::<u64>();
        Some(Plan {
            geometry,
            rows,
            bucket_count,
            ghost_words,
            purge_slots,
            key_index,
            areas,
            region_bytes,
        })
    }
}

fn pin_words(rows: u32, geometry: Geometry) -> Option<usize> {
    words_of::<Box<[forebay_sync::atomic::AtomicU64]>>(rows as usize, geometry)
}

fn words_of<W: Words>(rows: usize, geometry: Geometry) -> Option<usize> {
    Pins::<W>::words_needed(rows, geometry.segment_count() as usize)
}

/// The smallest budget that works with these settings, found by bisection.
fn minimum_bytes(config: &StoreConfig) -> u64 {
    let fits = |budget_bytes: u64| {
        let config = StoreConfig { budget_bytes, ..config.clone() };
        Plan::fit(&config, config.region_bytes()).is_some()
    };
    let (mut too_small, mut enough) = (0, DATA_BYTES_MAX);
    while enough - too_small > 64 * 1024 {
        let middle = too_small + (enough - too_small) / 2;
        if fits(middle) { enough = middle } else { too_small = middle }
    }
    enough.next_multiple_of(64 * 1024)
}

const _: () = assert!(PARTICIPANTS_MAX >= 2 * 1024 + 2);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the plans of 400 budgets, which grow in small steps from the minimum.
    fn plans(record_bytes_expected: u32) -> impl Iterator<Item = (u64, Result<Plan, ConfigError>)> {
        let base = StoreConfig {
            record_bytes_expected,
            growing_percent: 12,
            ..StoreConfig::with_budget(0)
        };
        let least = minimum_bytes(&base);
        (0..400).map(move |step| {
            let budget_bytes = least + step * 4112;
            (budget_bytes, Plan::of(&StoreConfig { budget_bytes, ..base.clone() }))
        })
    }

    #[test]
    fn every_budget_from_the_minimum_on_is_enough() {
        for record_bytes in [256, 1024, 4096, 16_384] {
            for (budget_bytes, plan) in plans(record_bytes) {
                assert!(plan.is_ok(), "{record_bytes}, {budget_bytes}: {plan:?}");
            }
        }
    }

    #[test]
    fn nothing_of_a_budget_is_left_over() {
        for record_bytes in [256, 1024, 4096, 16_384] {
            for (budget_bytes, plan) in plans(record_bytes) {
                let plan = plan.unwrap();
                let areas = plan.areas.iter().map(|area| area.bytes.next_multiple_of(4096));
                let unused = plan.region_bytes - REGION_FIXED_BYTES - areas.sum::<u64>();
                // The bytes that another segment would take, with its parts of the other areas.
                let step_bytes = 2 * u64::from(plan.geometry.segment_bytes()) + 64 * 1024;
                assert!(unused <= step_bytes, "{record_bytes}, {budget_bytes}: {unused} unused");
            }
        }
    }
}
