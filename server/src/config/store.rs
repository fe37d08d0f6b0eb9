//! The store's configuration, derived from the settings.

use forebay_cache::StoreConfig;

use super::ServerSettings;
use crate::engine::allowed_cpus;

impl ServerSettings {
    /// Returns the number of workers; by default one for each processor that the process may use.
    pub(crate) fn worker_count(&self) -> usize {
        match self.workers {
            0 => allowed_cpus().len(),
            count => count,
        }
    }

    /// Returns the store's configuration for `worker_count` workers; the caller decides whether the
    /// store has a file.
    pub(crate) fn store(&self, worker_count: usize) -> StoreConfig {
        let store = StoreConfig {
            growing_percent: self.growing_percent_max,
            worker_count: u32::try_from(worker_count).unwrap_or(u32::MAX),
            record_bytes_expected: self.cache_record_bytes,
            variants_max: self.variants_max as usize,
            ..StoreConfig::with_budget(self.cache_size)
        };
        // This limit holds for all routes. The setting `object_bytes_max` of a route may be lower,
        // and a reload may change it.
        let object_bytes_max = store.growing_bytes_max();
        StoreConfig { object_bytes_max, ..store }
    }
}
