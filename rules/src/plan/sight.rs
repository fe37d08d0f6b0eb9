//! Subjects that several conditions look at while nothing changes them: each gets a number, under
//! which a run keeps its text.

use std::collections::BTreeMap;

use super::{NONE, Op, Part, filter::Looks};
use crate::ast::{Matcher, Variable};

/// Conditions by the text of their subject and its version.
pub(super) fn by_subject<'p>(
    part: &'p Part,
    looks: &'p Looks,
    is_meant: impl Fn(&super::Test) -> bool,
) -> BTreeMap<(String, u32), Vec<(u32, u32)>> {
    let mut subjects: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (test, version) in looks.keys() {
        let condition = &part.tests[*test as usize];
        if is_meant(condition) {
            let subject = (format!("{:?}", condition.subject), *version);
            subjects.entry(subject).or_default().push((*test, *version));
        }
    }
    subjects
}

/// Gives numbers to subjects that have to be searched for, if several conditions look at them; a
/// single one is remembered itself.
pub(super) fn assign_sights(part: &mut Part, looks: &Looks) {
    let is_searched = |test: &super::Test| {
        matches!(test.subject, Variable::Header(..) | Variable::Cookie(_) | Variable::Url(..))
    };
    for tests in by_subject(part, looks, is_searched).values().filter(|tests| tests.len() > 1) {
        for place in tests.iter().flat_map(|look| &looks[look]) {
            if let Op::Test { sight, .. } = &mut part.code[*place] {
                *sight = part.sight_count as u32;
            }
        }
        part.sight_count += 1;
    }
}

/// Makes the commonest conditions a step of their own, with their text among the others: how a kept
/// text compares with this one.
pub(super) fn compare_kept(part: &mut Part) {
    for op in &mut part.code {
        let Op::Test { test, memo: NONE, sight, yes, no } = *op else {
            continue;
        };
        let matcher = &part.tests[test as usize].matcher;
        if let Matcher::Text { how, with, nocase: false } = matcher
            && sight != NONE
        {
            let start = part.texts.len() as u32;
            part.texts.extend_from_slice(with);
            let end = part.texts.len() as u32;
            let matches = false;
            *op = Op::Compare { test, how: *how, sight, start, end, matches, yes, no };
        }
    }
}
