//! The paths through the server that a run counts. Each path must be taken with some seed.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The number of times that each path was taken.
pub(super) type PathCounts = BTreeMap<&'static str, u64>;

pub(super) const ANSWERED_EARLY: &str = "answered before the body ended";
pub(super) const ANSWERED_BESIDE: &str = "answered beside requests with Authorization";
pub(super) const CONFIRMED_NO_TAG: &str = "304s that name no stored variant";
pub(super) const CONTENT_REFUSED: &str = "content of GET refused";
pub(super) const CONTENT_UNREAD: &str = "content that the origin did not read";
pub(super) const CUT_UNFRAMED: &str = "responses without framing cut";
pub(super) const FAILED_FETCHES: &str = "requests to an origin that fails";
pub(super) const HIT_BESIDE_VARIANTS: &str = "hits beside many other variants";
pub(super) const HIT_WITHOUT_COOKIE: &str = "hits without the cookie of their response";
pub(super) const HINT_FORWARDED: &str = "hints of the origin forwarded";
pub(super) const HINT_REPLAYED: &str = "hints of a stored page";
pub(super) const OWN_COOKIE: &str = "cookies for their client alone";
pub(super) const OWN_PAGE: &str = "pages for one client alone";
pub(super) const PURGED_WHILE_FILLING: &str = "purged while filling";
pub(super) const SEVERAL_PARTS: &str = "responses with several parts";
pub(super) const SIDE_BY_SIDE: &str = "requests side by side";
pub(super) const STORED_BESIDE_DRIPS: &str = "stored beside bodies that drip";
pub(super) const STORED_BESIDE_PURGES: &str = "stored beside purges of another site";
pub(super) const STORED_ERROR: &str = "stored errors";
pub(super) const TOO_LONG_CHUNK: &str = "chunks refused by their size";

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
