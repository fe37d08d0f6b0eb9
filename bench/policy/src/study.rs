//! The combinations of policies, traces and budgets that run.

use serde::Serialize;

use crate::policies::segments::{Config, Segments};
use crate::policies::{Entry, REFERENCE};
use crate::simulate::{Score, simulate};
use crate::traces::Trace;

/// The name of the policy of segments with the store's configuration.
pub(crate) const OURS: &str = "segments";

/// The settings that all runs share.
pub(crate) struct Study {
    /// The budgets, as percentages of a trace's footprint.
    pub(crate) budget_percents: Vec<f64>,
    /// The percentage of the requests that fill the cache before counting begins.
    pub(crate) warm_percent: usize,
}

/// The scores of one trace with one budget.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) trace: String,
    pub(crate) budget_percent: f64,
    pub(crate) budget_bytes: u64,
    pub(crate) scores: Vec<Named>,
}

/// The score of one policy.
#[derive(Serialize)]
pub(crate) struct Named {
    pub(crate) policy: String,
    #[serde(flatten)]
    pub(crate) score: Score,
}

impl Row {
    pub(crate) fn score(&self, policy: &str) -> Option<&Score> {
        self.scores.iter().find(|named| named.policy == policy).map(|named| &named.score)
    }

    /// The hit ratio above the reference, in percentage points.
    pub(crate) fn gain(&self, policy: &str) -> Option<f64> {
        Some(self.score(policy)?.hit_percent - self.score(REFERENCE)?.hit_percent)
    }
}

impl Study {
    /// Returns one row for each budget, with the policies of `single` and the segments in each of
    /// these configurations.
    pub(crate) fn rows(
        &self,
        trace: &Trace,
        single: &[&Entry],
        forms: &[(String, Config)],
    ) -> Vec<Row> {
        let warm = trace.requests.len() * self.warm_percent / 100;
        let row = |budget_percent: f64| {
            let budget_bytes = (trace.footprint_bytes as f64 * budget_percent / 100.0) as u64;
            let single = single.iter().map(|entry| {
                let mut policy = entry.make(trace, budget_bytes);
                (entry.name.to_string(), simulate(trace, warm, &mut *policy))
            });
            let forms = forms.iter().map(|(name, config)| {
                let mut policy = Segments::new(trace, budget_bytes, *config);
                (name.clone(), simulate(trace, warm, &mut policy))
            });
            let scores = single.chain(forms);
            let scores = scores.map(|(policy, score)| Named { policy, score }).collect();
            Row { trace: trace.name.clone(), budget_percent, budget_bytes, scores }
        };
        self.budget_percents.iter().map(|percent| row(*percent)).collect()
    }
}
