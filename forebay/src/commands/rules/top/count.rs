//! The counts of a server for each of its rules, and their rates.

use std::collections::HashMap;

use serde_json::Value;

/// The file, line and hook of a rule, which identify it.
type RuleKey = (String, u64, String);

/// The counts since the rules were loaded.
#[derive(Debug, Default)]
pub(super) struct RuleCounts {
    /// The rules in the order of the configuration.
    places: Vec<RuleKey>,
    by_place: HashMap<RuleKey, RuleCount>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RuleCount {
    runs: u64,
    matches: u64,
    bytes: u64,
    failures: u64,
    /// Number of runs whose time was measured.
    timed: u64,
    timed_ns: u64,
}

/// A line of the table, with totals or rates.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RuleLine {
    pub(super) rule: String,
    pub(super) hook: String,
    pub(super) runs: f64,
    pub(super) matches: f64,
    pub(super) bytes: f64,
    pub(super) failures: f64,
    /// Mean time of a run in nanoseconds; `None` if no run was measured yet.
    pub(super) mean_ns: Option<f64>,
}

impl RuleLine {
    /// Returns the time of all runs in nanoseconds, extrapolated from the measured runs.
    pub(super) fn ns(&self) -> f64 {
        self.runs * self.mean_ns.unwrap_or(0.0)
    }
}

impl RuleCounts {
    /// Reads the counts from the response of the admin interface.
    pub(super) fn of(value: &Value) -> RuleCounts {
        let mut counts = RuleCounts::default();
        for rule in value["rules"].as_array().into_iter().flatten() {
            let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
            let number = |name: &str| rule[name].as_u64().unwrap_or_default();
            let place = (text("file"), number("line"), text("hook"));
            let count = RuleCount {
                runs: number("runs"),
                matches: number("matches"),
                bytes: number("bytes"),
                failures: number("failures"),
                timed: number("timed"),
                timed_ns: number("timed_ns"),
            };
            counts.places.push(place.clone());
            counts.by_place.insert(place, count);
        }
        counts
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the totals since the rules were loaded.
    pub(super) fn since_reload(&self) -> Vec<RuleLine> {
        self.per_second(&RuleCounts::default(), 1.0)
    }

    /// Returns the rates per second since an earlier snapshot.
    pub(super) fn per_second(&self, before: &RuleCounts, seconds: f64) -> Vec<RuleLine> {
        let line = |place: &RuleKey| {
            let now = self.by_place.get(place).copied().unwrap_or_default();
            let then = before.by_place.get(place).copied().unwrap_or_default();
            // Counts restart with a reload.
            let then = if now.runs < then.runs { RuleCount::default() } else { then };
            let grown = |now: u64, then: u64| now.saturating_sub(then) as f64;
            let rate = |now, then| grown(now, then) / seconds;
            let mean = |timed: f64, ns: f64| (timed > 0.0).then(|| ns / timed);
            let lately = mean(grown(now.timed, then.timed), grown(now.timed_ns, then.timed_ns));
            RuleLine {
                rule: format!("{}:{}", place.0, place.1),
                hook: place.2.clone(),
                runs: rate(now.runs, then.runs),
                matches: rate(now.matches, then.matches),
                bytes: rate(now.bytes, then.bytes),
                failures: rate(now.failures, then.failures),
                mean_ns: lately.or_else(|| mean(now.timed as f64, now.timed_ns as f64)),
            }
        };
        self.places.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rates_are_differences_and_restart_after_a_reload() {
        let counts = |runs: u64, timed: u64, timed_ns: u64| {
            let rule = json!({ "file": "f", "line": 3, "hook": "H", "runs": runs,
                "matches": runs / 2, "bytes": runs * 10, "failures": 1, "timed": timed,
                "timed_ns": timed_ns });
            RuleCounts::of(&json!({ "rules": [rule] }))
        };
        for (before, now, runs, mean) in [
            (counts(100, 1, 50), counts(300, 3, 250), 100.0, Some(100.0)),
            (counts(100, 1, 50), counts(300, 1, 50), 100.0, Some(50.0)),
            (counts(100, 0, 0), counts(100, 0, 0), 0.0, None),
            (counts(1000, 9, 900), counts(40, 1, 7), 20.0, Some(7.0)),
        ] {
            let line = now.per_second(&before, 2.0).swap_remove(0);
            assert_eq!((line.runs, line.matches), (runs, runs / 2.0), "{line:?}");
            assert_eq!((line.bytes, line.mean_ns), (runs * 10.0, mean), "{line:?}");
            assert_eq!(line.ns(), runs * mean.unwrap_or(0.0), "{line:?}");
            assert_eq!(line.rule, "f:3");
        }
    }
}
