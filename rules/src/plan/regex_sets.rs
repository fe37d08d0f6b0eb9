//! Combines regexes on the same subject into one set. A run matches the set first, because most
//! rules with a regex apply to few requests.

use std::collections::BTreeMap;

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::{HookProgram, Instruction, NONE, RegexFilter, common_subexpressions::by_subject};
use crate::{
    ast::Matcher,
    limits::{REGEX_BYTES_MAX, REGEX_CACHE_BYTES_MAX},
};

/// Smallest number of regexes that are combined. Fewer regexes are as fast one by one.
const REGEX_COUNT_MIN: usize = 4;

/// The positions of the instructions that evaluate the same condition while its value cannot
/// change, by condition and version.
pub(super) type EvaluationSites = BTreeMap<(u32, u32), Vec<usize>>;

/// Assigns a memo to each condition that is evaluated more than once, and to each regex of a
/// filter.
pub(super) fn assign_memos(program: &mut HookProgram, sites: &EvaluationSites) {
    let by_text = by_subject(program, sites, |test| {
        matches!(test.matcher, Matcher::Regex(_)) && test.locations.is_none()
    });
    let mut filtered = std::collections::BTreeSet::new();
    for group in by_text.values().filter(|group| group.len() >= REGEX_COUNT_MIN) {
        let Some(set) = set_of(program, group) else {
            continue;
        };
        let first = program.memo_count;
        for key in group {
            filtered.insert(*key);
            assign_memo(program, &sites[key], program.filters.len() as u32);
        }
        let memos = first..program.memo_count;
        program.filters.push(RegexFilter { set, asked: program.memo_count, memos });
        program.filter_of_memo.push(NONE);
        program.memo_count += 1;
    }
    for (key, positions) in sites {
        if positions.len() > 1 && !filtered.contains(key) {
            assign_memo(program, positions, NONE);
        }
    }
}

/// Combines the regexes of a group; `None` if the combination is too large.
fn set_of(program: &HookProgram, group: &[(u32, u32)]) -> Option<RegexSet> {
    let patterns =
        group.iter().filter_map(|(test, _)| match &program.tests[*test as usize].matcher {
            Matcher::Regex(regex) => Some(regex.as_str()),
            _ => None,
        });
    // These are also the options of single regexes.
    RegexSetBuilder::new(patterns)
        .unicode(false)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_CACHE_BYTES_MAX)
        .build()
        .ok()
}

fn assign_memo(program: &mut HookProgram, positions: &[usize], filter: u32) {
    for position in positions {
        if let Instruction::Test { memo, .. } = &mut program.code[*position] {
            *memo = program.memo_count as u32;
        }
    }
    program.filter_of_memo.push(filter);
    program.memo_count += 1;
}
