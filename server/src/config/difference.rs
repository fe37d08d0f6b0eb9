//! The differences of two configurations.

use super::table::Settings;
use super::{Config, Setting};

impl Config {
    /// Returns the settings that differ in `new` although only a restart can apply them.
    pub fn reload_conflicts(&self, new: &Config) -> Vec<&'static Setting> {
        let differences = self.server.differences(&new.server);
        differences.into_iter().filter(|setting| !setting.reloads).collect()
    }
}
