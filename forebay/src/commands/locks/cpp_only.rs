//! Places of which only C++'s own functions around a lock are known: who called these is not seen.

use std::collections::BTreeSet;

use forebay_sync::profile::{ProfileSnapshot, SiteKind};

use super::names::Names;
use super::summary::Place;
use crate::symbols::is_wrapper;

/// What to do about them, if there are any.
pub(super) fn line(reading: &ProfileSnapshot) -> Option<String> {
    if reading.about.kind != SiteKind::Stacks {
        return None;
    }
    let mut names = Names::of(reading);
    let places: BTreeSet<_> = reading.sites.keys().map(|key| names.place(*key)).collect();
    let what = match places.iter().filter(|place| is_cpp_only(place)).count() {
        0 => return None,
        1 => "1 place shows".to_owned(),
        count => format!("{count} places show"),
    };
    Some(format!("{what} only the C++ library: record with --stacks 8 (needs frame pointers)"))
}

fn is_cpp_only(place: &Place) -> bool {
    !place.stack.is_empty() && place.stack.iter().all(|line| is_wrapper(line))
}
