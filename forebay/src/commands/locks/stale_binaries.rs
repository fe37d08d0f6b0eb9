//! Finds programs and libraries that were changed or removed since a profile was created, so that
//! names from them may be wrong or missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay_sync::profile::{ProfileSnapshot, SiteKind, plain_text};
use serde_json::{Value, json};

use super::cpp_only;
use crate::symbols::{FileChange, file_change_since};

/// Returns the stale files among the files from which names are read.
pub(super) fn stale_binaries(reading: &ProfileSnapshot) -> BTreeMap<Arc<str>, FileChange> {
    if reading.about.kind != SiteKind::Stacks {
        return BTreeMap::new();
    }
    let mut frames: Vec<u64> =
        reading.sites.values().flat_map(|site| site.frames.iter().copied()).collect();
    frames.sort_unstable();
    // Mappings of the system, such as the vDSO, have names in brackets instead of paths.
    let modules = reading.modules.iter().filter(|module| module.path.starts_with('/'));
    let named = modules.filter(|module| {
        let first = frames.partition_point(|frame| *frame < module.start);
        frames.get(first).is_some_and(|frame| *frame < module.end)
    });
    let paths: BTreeSet<_> = named.map(|module| module.path.clone()).collect();
    let change = |path: &str| file_change_since(path, reading.about.created_unix_ns);
    paths.into_iter().filter_map(|path| change(&path).map(|change| (path, change))).collect()
}

/// Returns a line for each stale file, and a line if there are call sites of which only C++
/// wrappers are known.
pub(super) fn lines(reading: &ProfileSnapshot) -> Vec<String> {
    let line = |(path, change): (Arc<str>, FileChange)| match change {
        FileChange::Changed => {
            format!("{} has changed since this was recorded: names may be wrong", plain_text(&path))
        }
        FileChange::Missing => {
            format!("{} is missing: its functions have no names", plain_text(&path))
        }
    };
    stale_binaries(reading).into_iter().map(line).chain(cpp_only::line(reading)).collect()
}

/// Returns the stale files as a list of JSON objects.
pub(super) fn as_json(reading: &ProfileSnapshot) -> Value {
    let object = |(path, change): (Arc<str>, FileChange)| {
        let what = match change {
            FileChange::Changed => "changed",
            FileChange::Missing => "missing",
        };
        json!({ "path": &*path, "what": what })
    };
    stale_binaries(reading).into_iter().map(object).collect()
}
