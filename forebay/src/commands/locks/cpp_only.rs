//! Places of which only C++'s own functions around a lock are known: who called these is not seen.

use std::collections::BTreeSet;

use forebay_sync::profile::{Reading, SiteKind, SiteRead};

use super::summary::{frames_of, place_of};
use crate::symbols::is_wrapper;

/// What to do about them, if there are any.
pub(super) fn line(reading: &Reading) -> Option<String> {
    if reading.about.kind != SiteKind::Stacks {
        return None;
    }
    let sites = reading.sites.iter().filter(|(_, site)| is_cpp_only(reading, site));
    let count = sites.map(|(key, _)| place_of(reading, *key)).collect::<BTreeSet<_>>().len();
    let what = match count {
        0 => return None,
        1 => "1 place shows".to_owned(),
        count => format!("{count} places show"),
    };
    Some(format!("{what} only the C++ library: record with --stacks 8 (needs frame pointers)"))
}

fn is_cpp_only(reading: &Reading, site: &SiteRead) -> bool {
    let mut frames = site.frames.iter();
    let is_cpp = |frame: &u64| frames_of(reading, *frame).iter().all(|line| is_wrapper(line));
    !site.frames.is_empty() && frames.all(is_cpp)
}
