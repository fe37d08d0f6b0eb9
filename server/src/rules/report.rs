//! The activity and the cost of the rules of a running server, over all workers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use forebay_rules::ast::Hook;

use super::RuleCount;
use crate::config::Config;

/// The counts of one rule in its file. Many routes may use the rule.
#[derive(Clone, Debug)]
pub(crate) struct RuleLine {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) hook: Hook,
    pub(crate) count: RuleCount,
}

/// The counts of all rules and of the operator `counter`, for one worker or summed over workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleReport {
    /// The rules in the order of the configuration.
    pub(crate) rules: Vec<RuleLine>,
    /// The names and values of the operator `counter`, in the order in which the names first occur
    /// in the rules.
    pub(crate) counters: Vec<(String, u64)>,
}

impl RuleReport {
    /// Returns the counts of one worker, from its copy of the configuration.
    pub(crate) fn new(config: &Config) -> RuleReport {
        let mut report = RuleReport::default();
        for set in config.rule_sets() {
            for (index, info) in set.program.rules().iter().enumerate() {
                let first = info.counted_at as usize;
                let count = config.rule_counters.rule(set.first + first);
                report.rules.push(RuleLine {
                    file: info.file.to_string(),
                    line: info.at.line,
                    hook: info.hook,
                    count: count.share(info.run_with, index == first),
                });
            }
            for (index, name) in set.program.counters().iter().enumerate() {
                let value = config.rule_counters.counter(set.first_counter + index);
                report.counters.push((name.clone(), value));
            }
        }
        report
    }

    /// Returns the sum of reports. Each worker has its own counts, and a rule may be part of
    /// several sets.
    pub(crate) fn sum(reports: Vec<RuleReport>) -> RuleReport {
        let mut sum = RuleReport::default();
        let (mut rules, mut counters) = (HashMap::new(), HashMap::new());
        for report in reports {
            for rule in report.rules {
                let key = (rule.file.clone(), rule.line, rule.hook);
                match rules.entry(key) {
                    Entry::Vacant(entry) => {
                        entry.insert(sum.rules.len());
                        sum.rules.push(rule);
                    }
                    Entry::Occupied(entry) => sum.rules[*entry.get()].count.merge(rule.count),
                }
            }
            for (name, value) in report.counters {
                match counters.entry(name.clone()) {
                    Entry::Vacant(entry) => {
                        entry.insert(sum.counters.len());
                        sum.counters.push((name, value));
                    }
                    Entry::Occupied(entry) => sum.counters[*entry.get()].1 += value,
                }
            }
        }
        sum
    }
}
