//! The store's settings and their limits.

use std::fmt;

use crate::{declined, evict};

/// Most shards that a store may have; more would only cost memory.
const SHARD_COUNT_MAX: usize = 4096;

/// Settings of a [`Store`](crate::Store); sizes in bytes, times in milliseconds.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// All that the store may hold: keys, heads, bodies, bookkeeping, growing records.
    pub budget_bytes: u64,
    /// What all growing records together may hold or have promised; beyond it nothing is stored.
    pub growing_bytes_max: u64,
    /// The longest body that is stored.
    pub object_bytes_max: u64,
    /// A body up to this length is made one fragment when it is complete.
    pub contiguous_bytes_max: u64,
    /// What a body that is not going to be stored may hold ahead of its slowest reader.
    pub window_bytes: u64,
    /// How long, in sum, one reader may make the others of a window wait.
    pub window_wait_ms_max: u64,
    /// Variants of one resource; the oldest leaves for a further one.
    pub variants_max: usize,
    /// How long requests for a key that was not storable are not collapsed.
    pub declined_ms: u64,
    /// Parts of the key space with a lock of their own; a power of two.
    pub shard_count: usize,
}

impl StoreConfig {
    /// The default settings for a budget.
    pub fn with_budget(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            growing_bytes_max: budget_bytes / 4,
            object_bytes_max: budget_bytes / 8,
            contiguous_bytes_max: 64 * 1024,
            window_bytes: 1024 * 1024,
            window_wait_ms_max: 10_000,
            variants_max: 64,
            declined_ms: 10_000,
            shard_count: 64,
        }
    }

    /// The least budget with these settings: the fixed tables, and room for eight records of the
    /// largest contiguous size, so that a quarter of it can still grow a record.
    pub fn minimum_bytes(&self) -> u64 {
        let fixed = (declined::BYTES + evict::GHOSTS_MIN * size_of::<u64>()) as u64;
        (self.shard_count as u64)
            .saturating_mul(fixed)
            .saturating_add(self.contiguous_bytes_max.saturating_mul(8))
    }

    /// Finds the first setting that cannot work.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !self.shard_count.is_power_of_two() || self.shard_count > SHARD_COUNT_MAX {
            return Err(ConfigError::ShardCount { max: SHARD_COUNT_MAX });
        }
        let minimum_bytes = self.minimum_bytes();
        if self.budget_bytes < minimum_bytes {
            return Err(ConfigError::BudgetTooSmall { minimum_bytes });
        }
        if self.growing_bytes_max > self.budget_bytes {
            return Err(ConfigError::GrowingAboveBudget);
        }
        if self.object_bytes_max > self.growing_bytes_max {
            return Err(ConfigError::ObjectAboveGrowing);
        }
        if self.variants_max == 0 || self.window_bytes == 0 {
            return Err(ConfigError::Zero);
        }
        Ok(())
    }
}

/// A setting that cannot work. Only other settings help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// `budget_bytes` cannot hold the fixed tables and a few records.
    BudgetTooSmall {
        /// The least budget with the other settings as they are.
        minimum_bytes: u64,
    },
    /// `shard_count` is no power of two, or too large.
    ShardCount {
        /// The largest count.
        max: usize,
    },
    /// `growing_bytes_max` is larger than the budget.
    GrowingAboveBudget,
    /// `object_bytes_max` is larger than `growing_bytes_max`: such a body could never grow.
    ObjectAboveGrowing,
    /// `variants_max` or `window_bytes` is zero.
    Zero,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BudgetTooSmall { minimum_bytes } => {
                write!(f, "the cache budget is too small; the minimum is {minimum_bytes} bytes")
            }
            Self::ShardCount { max } => {
                write!(f, "the shard count must be a power of two up to {max}")
            }
            Self::GrowingAboveBudget => {
                f.write_str("growing records may not take more than the cache budget")
            }
            Self::ObjectAboveGrowing => {
                f.write_str("the longest stored body may not exceed what growing records may take")
            }
            Self::Zero => f.write_str("variants and window size must be at least one"),
        }
    }
}

impl std::error::Error for ConfigError {}
