//! What the rules of a running server do and cost, over all workers.

use std::collections::HashMap;

use forebay_rules::ast::Hook;

use super::{RuleCount, Tally};
use crate::config::Config;

/// One rule, as it stands in its file; it may be part of many routes.
#[derive(Clone, Debug)]
pub(crate) struct RuleLine {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) hook: Hook,
    pub(crate) count: RuleCount,
}

/// All rules and what the operator `counter` has counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleReport {
    /// In the order of the configuration.
    pub(crate) rules: Vec<RuleLine>,
    /// By name, in the order in which they occur first.
    pub(crate) counters: Vec<(String, u64)>,
}

impl RuleReport {
    /// Adds up what the workers have counted, each with a copy of this configuration.
    pub(crate) fn new(config: &Config, tallies: &[Tally]) -> RuleReport {
        let counted: Vec<Vec<RuleCount>> = tallies.iter().map(Tally::rules).collect();
        let mut report = RuleReport::default();
        let (mut rules, mut counters) = (HashMap::new(), HashMap::new());
        for set in config.rule_sets() {
            for (index, info) in set.program.rules().iter().enumerate() {
                let known = report.rules.len();
                let at = *rules.entry((&*info.file, info.at.line, info.hook)).or_insert(known);
                if at == known {
                    report.rules.push(RuleLine {
                        file: info.file.to_string(),
                        line: info.at.line,
                        hook: info.hook,
                        count: RuleCount::default(),
                    });
                }
                for of_worker in &counted {
                    let count = of_worker.get(set.first + index).copied().unwrap_or_default();
                    report.rules[at].count.merge(count);
                }
            }
            for (index, name) in set.program.counters().iter().enumerate() {
                let known = report.counters.len();
                let at = *counters.entry(name).or_insert(known);
                if at == known {
                    report.counters.push((name.clone(), 0));
                }
                let values = tallies.iter().map(|tally| tally.counter(set.first_counter + index));
                report.counters[at].1 += values.sum::<u64>();
            }
        }
        report
    }
}
