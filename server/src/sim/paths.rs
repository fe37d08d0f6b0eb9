//! The paths through the server that a run counts. Each path must be taken with some seed.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The number of times that each path was taken.
pub(super) type PathCounts = BTreeMap<&'static str, u64>;

pub(super) const ADDRESS_REFUSED: &str = "requests refused because of their address";
pub(super) const ANSWERED_BUSY: &str = "requests answered with 503 by one of several origins";
pub(super) const ANSWERED_EARLY: &str = "requests answered before their bodies ended";
pub(super) const ANSWERED_BESIDE: &str = "requests answered during attacks with Authorization";
pub(super) const AT_SECOND_LISTENER: &str = "responses of a site with a listener of its own";
pub(super) const CLOSED_UNANSWERED: &str = "requests that one of several origins did not answer";
pub(super) const CONDITION_MET: &str = "responses of routes with conditions";
pub(super) const CONDITION_UNMET_HIT: &str = "hits of a route beside routes with conditions";
pub(super) const CONFIRMED_NO_TAG: &str = "304s that name no stored variant";
pub(super) const CONTENT_REFUSED: &str = "GET requests refused because of content";
pub(super) const CONTENT_UNREAD: &str = "requests whose content the origin did not read";
pub(super) const CUT_OF_SEVERAL: &str = "bodies that one of several origins broke off";
pub(super) const CUT_UNFRAMED: &str = "responses cut off that end with their connection";
pub(super) const FAILED_FETCHES: &str = "requests to an origin that always fails";
pub(super) const HIT_BESIDE_VARIANTS: &str = "hits while clients request many other variants";
pub(super) const HIT_WITHOUT_COOKIE: &str = "hits of responses whose cookie was stripped";
pub(super) const HINT_FORWARDED: &str = "hints forwarded from the origin";
pub(super) const HINT_REPLAYED: &str = "hints from a stored page";
pub(super) const HTTP2_ANSWERED: &str = "responses over HTTP/2";
pub(super) const HTTP2_CUT: &str = "responses over HTTP/2 that broke off";
pub(super) const INNER_HIT: &str = "hits of pages for a single network";
pub(super) const LEFT_IN_PROGRESS: &str = "clients that left during a limited request";
pub(super) const LIMITED_ADDRESS: &str = "requests refused because of others of their address";
pub(super) const LIMITED_ROUTE: &str = "requests refused because of others of their route";
pub(super) const OWN_COOKIE: &str = "cookies sent only to their client";
pub(super) const OWN_PAGE: &str = "pages sent only to one client";
pub(super) const PURGED_WHILE_FILLING: &str = "purged while filling";
pub(super) const RESET_IN_PROGRESS: &str = "streams reset during a limited request";
pub(super) const SEVERAL_PARTS: &str = "responses with several parts";
pub(super) const SIGNATURE_REFUSED: &str = "requests refused because of their signature";
pub(super) const SIGNATURE_REFUSED_STORED: &str =
    "requests refused because of their signature although their page may be stored";
pub(super) const SIGNED_HIT: &str = "hits of signed URLs";
pub(super) const SIDE_BY_SIDE: &str = "requests forwarded side by side";
pub(super) const STORED_BESIDE_DRIPS: &str = "responses stored while other bodies drip";
pub(super) const STORED_BESIDE_PURGES: &str = "responses stored during purges of another site";
pub(super) const STORED_ERROR: &str = "stored errors";
pub(super) const TOO_LONG_CHUNK: &str = "chunks refused because of their size";
pub(super) const TUNNEL_BROKEN: &str = "tunnels over HTTP/2 that broke off";
pub(super) const TUNNEL_ENDED: &str = "tunnels over HTTP/2 that ended";

/// The paths that the clients and the origin of the simulation count. The server's own counters
/// count the other paths.
const COUNTED_BY_RUN: &[&str] = &[
    ADDRESS_REFUSED,
    ANSWERED_BESIDE,
    ANSWERED_BUSY,
    ANSWERED_EARLY,
    AT_SECOND_LISTENER,
    CLOSED_UNANSWERED,
    CONDITION_MET,
    CONDITION_UNMET_HIT,
    CONFIRMED_NO_TAG,
    CONTENT_REFUSED,
    CONTENT_UNREAD,
    CUT_OF_SEVERAL,
    CUT_UNFRAMED,
    FAILED_FETCHES,
    HIT_BESIDE_VARIANTS,
    HIT_WITHOUT_COOKIE,
    HINT_FORWARDED,
    HINT_REPLAYED,
    HTTP2_ANSWERED,
    HTTP2_CUT,
    INNER_HIT,
    LEFT_IN_PROGRESS,
    LIMITED_ADDRESS,
    LIMITED_ROUTE,
    OWN_COOKIE,
    OWN_PAGE,
    PURGED_WHILE_FILLING,
    RESET_IN_PROGRESS,
    SEVERAL_PARTS,
    SIDE_BY_SIDE,
    SIGNATURE_REFUSED,
    SIGNATURE_REFUSED_STORED,
    SIGNED_HIT,
    STORED_BESIDE_DRIPS,
    STORED_BESIDE_PURGES,
    STORED_ERROR,
    TOO_LONG_CHUNK,
    TUNNEL_BROKEN,
    TUNNEL_ENDED,
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
