//! Parameters that are varied one at a time, starting from the store's configuration.

use crate::policies::segments::Config;

/// A parameter and its values.
pub(crate) struct Sweep {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    values: &'static [u64],
    set: fn(&mut Config, u64),
}

/// All parameters.
pub(crate) const SWEEPS: &[Sweep] = &[
    Sweep {
        name: "segments",
        about: "segments in the budget",
        values: &[8, 16, 32, 64, 128, 256, 512, 1024],
        set: |config, value| config.segments = value as u32,
    },
    Sweep {
        name: "small",
        about: "share of the small queue, percent",
        values: &[2, 5, 10, 15, 20, 30],
        set: |config, value| config.rules.small_percent = value as u32,
    },
    Sweep {
        name: "promote",
        about: "uses that move a record from small to main",
        values: &[1, 2, 3],
        set: |config, value| config.rules.promote_uses = value as u8,
    },
    Sweep {
        name: "keep",
        about: "share of a segment of main that is kept at most, percent",
        values: &[0, 25, 50, 60, 70, 80, 90, 95, 100],
        set: |config, value| config.rules.keep_percent = value as u32,
    },
    Sweep {
        name: "dead",
        about: "dead share above which a segment is drained early, percent; 101: never",
        values: &[2, 5, 10, 15, 20, 25, 30, 50, 101],
        set: |config, value| config.rules.dead_percent = value as u32,
    },
    Sweep {
        name: "ghosts",
        about: "bytes of budget for each ghost",
        values: &[64, 256, 512, 1024, 2048, 4096, 16384, 1 << 30],
        set: |config, value| config.bytes_per_ghost = value,
    },
    Sweep {
        name: "ghosts-last",
        about: "life of a ghost: drains from small, in percent of the number of segments",
        values: &[0, 25, 50, 75, 90, 120, 150, 200, 400],
        set: |config, value| config.ghosts_percent = value as u32,
    },
    Sweep {
        name: "reserve",
        about: "segments that stay free, for each worker",
        values: &[1, 2, 3, 4, 6, 8],
        set: |config, value| config.reserve_each = value as u32,
    },
    Sweep {
        name: "workers",
        about: "workers, with 64 segments each",
        values: &[1, 2, 4, 8, 16],
        set: |config, value| {
            config.workers = value as u32;
            config.segments = 64 * value as u32;
        },
    },
    Sweep {
        name: "least",
        about: "workers, with 8 segments each, the fewest that are accepted",
        values: &[1, 2, 4, 8, 16],
        set: |config, value| {
            config.workers = value as u32;
            config.segments = 8 * value as u32;
        },
    },
    Sweep {
        name: "fragments",
        about: "fragments of a segment: a fragment is at most a segment divided by this",
        values: &[1, 2, 4, 8, 16, 32],
        set: |config, value| config.fragment_part = value,
    },
    Sweep {
        name: "inherit",
        about: "a record that replaces another goes to main always (1), or only with a ghost (0)",
        values: &[0, 1],
        set: |config, value| config.inherits = value == 1,
    },
];

impl Sweep {
    /// Returns the store's configuration with each value of this parameter.
    pub(crate) fn forms(&self) -> Vec<(String, Config)> {
        let form = |value: &u64| {
            let mut config = Config::STORE;
            (self.set)(&mut config, *value);
            (format!("{} {value}", self.name), config)
        };
        self.values.iter().map(form).collect()
    }
}
