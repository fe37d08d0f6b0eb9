//! Common subexpressions: subjects that several conditions test while no operator changes them.
//! Each such subject gets a slot, in which a run caches the subject's text.

use std::collections::BTreeMap;

use super::{HookProgram, Instruction, NONE, regex_sets::EvaluationSites};
use crate::ast::{Matcher, Variable};

/// Returns the conditions that `is_meant` selects, each with its version, grouped by the text of
/// their subject and by version.
pub(super) fn by_subject<'p>(
    program: &'p HookProgram,
    sites: &'p EvaluationSites,
    is_meant: impl Fn(&super::PlannedCondition) -> bool,
) -> BTreeMap<(String, u32), Vec<(u32, u32)>> {
    let mut subjects: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (test, version) in sites.keys() {
        let condition = &program.tests[*test as usize];
        if is_meant(condition) {
            let subject = (format!("{:?}", condition.subject), *version);
            subjects.entry(subject).or_default().push((*test, *version));
        }
    }
    subjects
}

/// Assigns a slot to each subject that is found only by a search and that several different
/// conditions test. (The result of a repeated condition is memoized instead.)
pub(super) fn assign_subject_slots(program: &mut HookProgram, sites: &EvaluationSites) {
    let is_searched = |test: &super::PlannedCondition| {
        matches!(test.subject, Variable::Header(..) | Variable::Cookie(_) | Variable::Url(..))
    };
    for tests in by_subject(program, sites, is_searched).values().filter(|tests| tests.len() > 1) {
        for position in tests.iter().flat_map(|key| &sites[key]) {
            if let Instruction::Test { subject_slot, .. } = &mut program.code[*position] {
                *subject_slot = program.subject_slot_count as u32;
            }
        }
        program.subject_slot_count += 1;
    }
}

/// Replaces the most common conditions, comparisons of a cached text with a constant, by an
/// instruction of their own.
pub(super) fn fuse_compares(program: &mut HookProgram) {
    for instruction in &mut program.code {
        let Instruction::Test { test, memo: NONE, subject_slot, yes, no } = *instruction else {
            continue;
        };
        let matcher = &program.tests[test as usize].matcher;
        if let Matcher::Text { how, with, nocase: false } = matcher
            && subject_slot != NONE
        {
            let start = program.texts.len() as u32;
            program.texts.extend_from_slice(with);
            let end = program.texts.len() as u32;
            let matches = false;
            *instruction = Instruction::Compare {
                test,
                how: *how,
                subject_slot,
                start,
                end,
                matches,
                yes,
                no,
            };
        }
    }
}
