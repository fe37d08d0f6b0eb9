//! Combines regexes on the same subject into one set, which is matched first: most rules with a
//! regex apply to few requests.

use std::collections::BTreeMap;

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::{HookProgram, Instruction, NONE, RegexFilter, common_subexpressions::by_subject};
use crate::{
    ast::Matcher,
    limits::{REGEX_BYTES_MAX, REGEX_CACHE_BYTES_MAX},
};

/// Fewer regexes are as fast one by one.
const REGEX_COUNT_MIN: usize = 4;

/// Positions that evaluate the same condition while its value cannot change, by condition and
/// version.
pub(super) type EvaluationSites = BTreeMap<(u32, u32), Vec<usize>>;

/// Assigns a memo to each condition that is evaluated more than once, and to each regex of a
/// filter.
pub(super) fn assign_memos(part: &mut HookProgram, looks: &EvaluationSites) {
    let by_text = by_subject(part, looks, |test| {
        matches!(test.matcher, Matcher::Regex(_)) && test.locations.is_none()
    });
    let mut filtered = std::collections::BTreeSet::new();
    for group in by_text.values().filter(|group| group.len() >= REGEX_COUNT_MIN) {
        let Some(set) = set_of(part, group) else {
            continue;
        };
        let first = part.memo_count;
        for look in group {
            filtered.insert(*look);
            remember(part, &looks[look], part.filters.len() as u32);
        }
        let memos = first..part.memo_count;
        part.filters.push(RegexFilter { set, asked: part.memo_count, memos });
        part.filter_of_memo.push(NONE);
        part.memo_count += 1;
    }
    for (look, places) in looks {
        if places.len() > 1 && !filtered.contains(look) {
            remember(part, places, NONE);
        }
    }
}

/// Returns `None` if all of them together are too large.
fn set_of(part: &HookProgram, group: &[(u32, u32)]) -> Option<RegexSet> {
    let patterns = group.iter().filter_map(|(test, _)| match &part.tests[*test as usize].matcher {
        Matcher::Regex(regex) => Some(regex.as_str()),
        _ => None,
    });
    // The same options as for single regexes.
    RegexSetBuilder::new(patterns)
        .unicode(false)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_CACHE_BYTES_MAX)
        .build()
        .ok()
}

fn remember(part: &mut HookProgram, places: &[usize], filter: u32) {
    for place in places {
        if let Instruction::Test { memo, .. } = &mut part.code[*place] {
            *memo = part.memo_count as u32;
        }
    }
    part.filter_of_memo.push(filter);
    part.memo_count += 1;
}
