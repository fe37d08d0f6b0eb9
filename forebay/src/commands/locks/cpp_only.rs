//! Finds call sites of which only the lock wrappers of the C++ library are known, because their
//! callers were not recorded.

use std::collections::BTreeSet;

use forebay_sync::profile::{ProfileSnapshot, SiteKind};

use super::names::SiteNames;
use super::summary::LockSite;
use crate::symbols::is_wrapper;

/// Returns advice about call sites that show only C++ lock wrappers; `None` if there are none.
pub(super) fn line(reading: &ProfileSnapshot) -> Option<String> {
    if reading.about.kind != SiteKind::Stacks {
        return None;
    }
    let mut names = SiteNames::of(reading);
    let sites: BTreeSet<_> = reading.sites.keys().map(|key| names.site(*key)).collect();
    let what = match sites.iter().filter(|site| is_cpp_only(site)).count() {
        0 => return None,
        1 => "1 call site shows".to_owned(),
        count => format!("{count} call sites show"),
    };
    Some(format!("{what} only the C++ library: record with --stacks 8 (needs frame pointers)"))
}

fn is_cpp_only(site: &LockSite) -> bool {
    !site.stack.is_empty() && site.stack.iter().all(|line| is_wrapper(line))
}
