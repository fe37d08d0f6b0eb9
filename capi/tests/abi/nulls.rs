//! Calls every function with null for each pointer.

use std::collections::BTreeSet;
use std::ptr::{null, null_mut};

use forebay_capi::*;

const HEADER: &str = include_str!("../../include/forebay_ordmap.h");
const NOTHING: AbiBytes = AbiBytes { data: null(), len: 0 };

/// Calls functions, and returns their names and codes.
macro_rules! called {
    ($($name:ident($($argument:expr),*)),* $(,)?) => {
        vec![$((stringify!($name), {
            #[allow(unused_unsafe, reason = "some are safe to call")]
            // SAFETY: every function refuses null where it is not allowed.
            unsafe { $name($($argument),*) }
        })),*]
    };
}

#[test]
fn null_is_refused_or_right_everywhere() {
    let refused = called! {
        forebay_region_open(null(), null(), None),
        forebay_region_attach(null(), None),
        forebay_region_opened(None, None),
        forebay_region_sweep(None, None),
        forebay_participant_join(None, None),
        forebay_participant_map(None, null(), null(), None),
        forebay_participant_existing_map(None, null(), None),
        forebay_participant_map_name(None, 0, null_mut(), 0),
        forebay_participant_set_wait_max(None, 0),
        forebay_participant_check(None, null_mut()),
        forebay_map_get(None, NOTHING, None, None),
        forebay_map_read(None, NOTHING, null_mut(), 0, None),
        forebay_map_contains(None, NOTHING),
        forebay_map_len(None, None),
        forebay_map_stats(None, null_mut()),
        forebay_map_put(None, NOTHING, NOTHING, None),
        forebay_map_put_if_absent(None, NOTHING, NOTHING),
        forebay_map_put_if_value(None, NOTHING, NOTHING, NOTHING),
        forebay_map_put_if_same(None, None, NOTHING),
        forebay_map_remove(None, NOTHING),
        forebay_map_remove_if_value(None, NOTHING, NOTHING),
        forebay_map_remove_if_same(None, None),
        forebay_map_reclaim(None, None),
        forebay_map_cursor(None, None),
        forebay_map_range(None, None, None, None),
        forebay_map_prefix(None, NOTHING, None),
        forebay_entry_item(None, None),
        forebay_entry_is_same(None, None),
        forebay_cursor_first(None, None),
        forebay_cursor_last(None, None),
        forebay_cursor_next(None, None),
        forebay_cursor_previous(None, None),
        forebay_cursor_at_or_above(None, NOTHING, None),
        forebay_cursor_above(None, NOTHING, None),
        forebay_cursor_at_or_below(None, NOTHING, None),
        forebay_cursor_below(None, NOTHING, None),
        forebay_cursor_item(None, None),
        forebay_cursor_into_entry(None, None),
        forebay_map_estimate(None, None, None, None),
        forebay_map_scan(None, None, None, None),
        forebay_map_scan_prefix(None, NOTHING, None),
        forebay_scan_next(None, None),
        forebay_scan_previous(None, None),
        forebay_range_next(None, None),
        forebay_range_previous(None, None),
    };
    let right = called! {
        forebay_region_close(None),
        forebay_participant_leave(None),
        forebay_map_close(None),
        forebay_entry_release(None),
        forebay_cursor_close(None),
        forebay_range_close(None),
        forebay_scan_close(None),
    };
    for (name, code) in &refused {
        assert_eq!(*code, Code::Null, "{name}");
    }
    for (name, code) in &right {
        assert_eq!(*code, Code::Ok, "{name}");
    }
    let tried: BTreeSet<_> = refused.iter().chain(&right).map(|(name, _)| *name).collect();
    let others = ["forebay_abi_check"];
    let all: BTreeSet<_> = declared().filter(|name| !others.contains(name)).collect();
    assert_eq!(tried, all);
}

/// Returns the functions of the header that return a code.
fn declared() -> impl Iterator<Item = &'static str> {
    let lines = HEADER.lines().filter_map(|line| line.strip_prefix("forebay_code "));
    lines.filter_map(|line| Some(line.split_once('(')?.0))
}
