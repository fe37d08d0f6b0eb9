//! The paths through the server that a run counts. Each path must be taken with some seed.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The number of times that each path was taken.
pub(super) type PathCounts = BTreeMap<&'static str, u64>;

pub(super) const ANSWERED_EARLY: &str = "requests answered before their bodies ended";
pub(super) const ANSWERED_BESIDE: &str = "requests answered during attacks with Authorization";
pub(super) const CONFIRMED_NO_TAG: &str = "304s that name no stored variant";
pub(super) const CONTENT_REFUSED: &str = "GET requests refused because of content";
pub(super) const CONTENT_UNREAD: &str = "requests whose content the origin did not read";
pub(super) const CUT_UNFRAMED: &str = "responses cut off that end with their connection";
pub(super) const FAILED_FETCHES: &str = "requests to an origin that always fails";
pub(super) const HIT_BESIDE_VARIANTS: &str = "hits while clients request many other variants";
pub(super) const HIT_WITHOUT_COOKIE: &str = "hits of responses whose cookie was stripped";
pub(super) const HINT_FORWARDED: &str = "hints forwarded from the origin";
pub(super) const HINT_REPLAYED: &str = "hints from a stored page";
pub(super) const OWN_COOKIE: &str = "cookies sent only to their client";
pub(super) const OWN_PAGE: &str = "pages sent only to one client";
pub(super) const PURGED_WHILE_FILLING: &str = "purged while filling";
pub(super) const SEVERAL_PARTS: &str = "responses with several parts";
pub(super) const SIDE_BY_SIDE: &str = "requests forwarded side by side";
pub(super) const STORED_BESIDE_DRIPS: &str = "responses stored while other bodies drip";
pub(super) const STORED_BESIDE_PURGES: &str = "responses stored during purges of another site";
pub(super) const STORED_ERROR: &str = "stored errors";
pub(super) const TOO_LONG_CHUNK: &str = "chunks refused because of their size";

/// The paths that the clients and the origin of the simulation count. The server's own counters
/// count the other paths.
const COUNTED_BY_RUN: &[&str] = &[
    ANSWERED_BESIDE,
    ANSWERED_EARLY,
    CONFIRMED_NO_TAG,
    CONTENT_REFUSED,
    CONTENT_UNREAD,
    CUT_UNFRAMED,
    FAILED_FETCHES,
    HIT_BESIDE_VARIANTS,
    HIT_WITHOUT_COOKIE,
    HINT_FORWARDED,
    HINT_REPLAYED,
    OWN_COOKIE,
    OWN_PAGE,
    PURGED_WHILE_FILLING,
    SEVERAL_PARTS,
    SIDE_BY_SIDE,
    STORED_BESIDE_DRIPS,
    STORED_BESIDE_PURGES,
    STORED_ERROR,
    TOO_LONG_CHUNK,
];

/// The counts of the paths that a run counts itself.
pub(super) struct RunPaths(RefCell<PathCounts>);

impl Default for RunPaths {
    fn default() -> RunPaths {
        RunPaths(RefCell::new(COUNTED_BY_RUN.iter().map(|path| (*path, 0)).collect()))
    }
}

impl RunPaths {
    /// Counts one more use of a path, which [`COUNTED_BY_RUN`] must contain.
    pub(super) fn count(&self, path: &'static str) {
        *self.0.borrow_mut().get_mut(path).expect("a path that runs count") += 1;
    }

    pub(super) fn counts(&self) -> PathCounts {
        self.0.borrow().clone()
    }
}
