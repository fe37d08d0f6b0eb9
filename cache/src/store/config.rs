//! The store's settings and their limits.

use std::fmt;
use std::io;
use std::path::PathBuf;

use forebay_shm::{PARTICIPANTS_MAX, RegionError};

use super::layout::Plan;
use crate::flight::fixed_bytes;

/// The budget divided by this number is the share for copies of bodies for slow clients.
const COPIED_OUT_DIVISOR: u64 = 32;

/// The number of shards of the table of flights. Each shard has a lock.
pub(crate) const FLIGHT_SHARDS: usize = 64;

/// The number of participants that are not workers: the control thread and the purge thread, each
/// of an old and of a new process.
const OTHER_PARTICIPANTS: u32 = 4;

/// Settings of a [`Store`](crate::Store). Sizes are in bytes, times in milliseconds.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The region's file. Without a file the region is anonymous and ends with the process.
    pub path: Option<PathBuf>,
    /// The limit for all memory of the store: records, index, tables, growing records, copies for
    /// slow clients.
    pub budget_bytes: u64,
    /// The percentage of the budget for growing records. A response that does not fit into this
    /// share is not stored.
    pub growing_percent: u8,
    /// The number of worker threads of a process. The region has rows for twice as many workers,
    /// since two processes share it during an upgrade.
    pub worker_count: u32,
    /// The longest body that is stored, in bytes.
    pub object_bytes_max: u64,
    /// The expected mean size of a record. Smaller records need a larger index.
    pub record_bytes_expected: u32,
    /// The most bytes of an unstored body that stay in memory until all of its readers have them.
    pub window_bytes: u64,
    /// The total time that one reader of a window may make the other readers wait.
    pub window_wait_ms_max: u64,
    /// The most variants of a resource. A further variant replaces the least used.
    pub variants_max: usize,
}

impl StoreConfig {
    /// The default settings for a budget, without a file.
    pub fn with_budget(budget_bytes: u64) -> Self {
        Self {
            path: None,
            budget_bytes,
            growing_percent: 12,
            worker_count: 1,
            object_bytes_max: budget_bytes / 16,
            record_bytes_expected: 1024,
            window_bytes: 1024 * 1024,
            window_wait_ms_max: 10_000,
            variants_max: 64,
        }
    }

    /// The limit for all growing records together.
    pub fn growing_bytes_max(&self) -> u64 {
        self.budget_bytes / 100 * u64::from(self.growing_percent)
    }

    /// The limit for all copies for slow clients together.
    pub fn copied_out_bytes_max(&self) -> u64 {
        self.budget_bytes / COPIED_OUT_DIVISOR
    }

    /// The size of the region: the budget without the shares for growing records, copies and the
    /// tables of flights.
    pub(crate) fn region_bytes(&self) -> u64 {
        let shares = self.growing_bytes_max() + self.copied_out_bytes_max() + tables_bytes();
        self.budget_bytes.saturating_sub(shares) / 4096 * 4096
    }

    pub(crate) fn participants_max(&self) -> u32 {
        2 * self.worker_count + OTHER_PARTICIPANTS
    }

    /// Checks each setting, and that a store with these settings fits into its budget.
    ///
    /// # Errors
    /// Returns the first setting that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        Plan::of(self).map(drop)
    }

    /// Checks the settings other than the budget.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let workers_max = (PARTICIPANTS_MAX - OTHER_PARTICIPANTS) / 2;
        if self.worker_count == 0 || self.worker_count > workers_max {
            return Err(ConfigError::Workers { max: workers_max });
        }
        if self.growing_percent == 0 || self.growing_percent > 90 {
            return Err(ConfigError::GrowingShare);
        }
        if self.variants_max == 0 || self.variants_max > VARIANTS_MAX {
            return Err(ConfigError::Variants { max: VARIANTS_MAX });
        }
        if self.window_bytes == 0 || self.record_bytes_expected < 64 {
            return Err(ConfigError::Zero);
        }
        Ok(())
    }
}

/// The bytes that the tables of flights take.
pub(crate) const fn tables_bytes() -> u64 {
    fixed_bytes(FLIGHT_SHARDS)
}

/// The most variants that a base record can name.
const VARIANTS_MAX: usize = 1024;

/// A setting that cannot work. A retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// `budget_bytes` cannot hold the tables and enough segments.
    BudgetTooSmall {
        /// The smallest budget that works with the other settings.
        minimum_bytes: u64,
    },
    /// `budget_bytes` is larger than the memory that locations can address.
    BudgetTooLarge {
        /// The number of bytes that locations can address.
        maximum_bytes: u64,
    },
    /// The number of workers is zero or too large.
    Workers {
        /// The largest count.
        max: u32,
    },
    /// `growing_percent` is not within 1 to 90.
    GrowingShare,
    /// The number of variants is zero, or larger than a base record can name.
    Variants {
        /// The largest count.
        max: usize,
    },
    /// `window_bytes` is zero, or `record_bytes_expected` is smaller than the smallest record.
    Zero,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BudgetTooSmall { minimum_bytes } => {
                write!(f, "the cache budget is too small; the minimum is {minimum_bytes} bytes")
            }
            Self::BudgetTooLarge { maximum_bytes } => {
                write!(f, "the cache budget is too large; the maximum is {maximum_bytes} bytes")
            }
            Self::Workers { max } => write!(f, "the number of workers must be 1 to {max}"),
            Self::GrowingShare => {
                f.write_str("`growing_percent` must be 1 to 90 percent of the budget")
            }
            Self::Variants { max } => {
                write!(f, "a resource must be allowed 1 to {max} variants (`variants_max`)")
            }
            Self::Zero => f.write_str(
                "`window_bytes` must be at least 1, and `record_bytes_expected` at least 64",
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Why a store cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The settings cannot work: see [`ConfigError`].
    Config(ConfigError),
    /// The region cannot be created or attached to.
    Region(RegionError),
    /// The region does not match its plan.
    Damaged {
        /// A description of the damage.
        what: &'static str,
        /// The region's file, if it has one.
        path: Option<PathBuf>,
    },
    /// The system does not tell which participants of the region are alive.
    Sweep(io::Error),
}

impl OpenError {
    pub(crate) fn damaged(what: &'static str) -> Self {
        Self::Damaged { what, path: None }
    }

    /// Adds the path of the region's file to [`Damaged`](OpenError::Damaged).
    pub(crate) fn about(mut self, file: Option<PathBuf>) -> Self {
        if let Self::Damaged { path, .. } = &mut self {
            *path = file;
        }
        self
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Region(error) => error.fmt(f),
            Self::Damaged { what, path: None } => write!(
                f,
                "the region without a file is damaged: {what}; restart all processes that share it"
            ),
            Self::Damaged { what, path: Some(path) } => write!(
                f,
                "{}: the region is damaged: {what}; move the file away, and the next start makes \
                 a new one",
                path.display()
            ),
            Self::Sweep(error) => {
                write!(f, "cannot tell which participants of the region are alive: {error}")
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Region(error) => Some(error),
            Self::Damaged { .. } => None,
            Self::Sweep(error) => Some(error),
        }
    }
}
