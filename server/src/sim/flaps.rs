//! A site with several origins, all but one of which fail or are slow at times, and the log of the
//! requests that the origins get.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use forebay_testkit::Request;

use super::rng::Rng;
use super::run::Run;
use super::wire::ORIGIN;

/// The most times that one origin may get the same request without answering it: once on a pooled
/// connection that turns out to be dead, and once on a new connection.
const RECEIPTS_MAX: u64 = 2;

/// The origins of the site of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct OriginSet {
    count: u64,
    balance: &'static str,
    /// The origin that never fails.
    steady: u64,
    /// How long an origin stays in the same state, in milliseconds.
    state_ms: u64,
    outlier_factor: u64,
    hedge_ms: u64,
    /// Whether an origin may break off the bodies of its responses for a while.
    breaks_bodies: bool,
    seed: u64,
}

/// The state of an origin, which decides how the origin treats connections and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginState {
    Up,
    /// The origin refuses connections, and resets each open connection at the next request.
    Refuses,
    /// The origin resets each connection at the first request.
    Resets,
    /// The origin closes each connection at the first request, without an answer.
    Closes,
    /// The origin answers each request with 503.
    Busy,
    /// The origin breaks off the body of each response.
    BreaksBodies,
    /// The origin answers this much later than usual, in milliseconds.
    Slow(u64),
}

impl OriginSet {
    pub(super) fn of(rng: &mut Rng) -> OriginSet {
        let count = rng.pick(&[1, 1, 1, 2, 3]);
        let balance = rng.pick(&["round-robin", "least", "hash"]);
        let (steady, state_ms) = (rng.below(count), rng.pick(&[300, 2_000, 20_000]));
        let seed = rng.next();
        let mut own = Rng::of(&[seed]);
        let (outlier_factor, hedge_ms) = (own.pick(&[0, 2, 4]), own.pick(&[0, 20, 400]));
        let breaks_bodies = own.percent(40);
        OriginSet {
            count,
            balance,
            steady,
            state_ms,
            outlier_factor,
            hedge_ms,
            breaks_bodies,
            seed,
        }
    }

    pub(super) fn count(self) -> u64 {
        self.count
    }

    /// Returns the lines of the site's configuration that name the origins.
    pub(super) fn settings(self) -> String {
        if self.count == 1 {
            return format!("origin = \"http://{ORIGIN}\"\n");
        }
        let origins = (0..self.count).map(|index| format!("\"http://{}\"", address(index)));
        let origins: Vec<String> = origins.collect();
        format!(
            "origin = [{}]\n\
             balance = \"{}\"\n\
             origin_outlier_factor = {}\n\
             origin_outlier_ms_min = \"20ms\"\n\
             hedge_ms = \"{}ms\"\n",
            origins.join(", "),
            self.balance,
            self.outlier_factor,
            self.hedge_ms
        )
    }

    /// Returns the index of the origin with this address; `None` if the site has only one origin.
    pub(super) fn index(self, server: SocketAddr) -> Option<u64> {
        (0..self.count).find(|index| self.count > 1 && address(*index) == server)
    }

    /// Returns the state of an origin at a time.
    pub(super) fn state(self, index: u64, now_ms: u64) -> OriginState {
        if index == self.steady {
            return OriginState::Up;
        }
        let mut rng = Rng::of(&[self.seed, index, now_ms / self.state_ms]);
        use OriginState::{BreaksBodies, Busy, Closes, Refuses, Resets, Slow, Up};
        let slow = Slow(rng.between(50, 2_000));
        let broken = if self.breaks_bodies { BreaksBodies } else { Up };
        rng.pick(&[Up, Up, Refuses, Resets, Closes, Busy, broken, slow, slow])
    }
}

/// Returns the address of the origin with this index.
fn address(index: u64) -> SocketAddr {
    match index {
        0 => ORIGIN,
        _ => SocketAddr::from(([10, 0, 0, 10 + index as u8], ORIGIN.port())),
    }
}

/// Counts the receipts of client requests that the origins have not answered: for each request, how
/// often each origin got it.
#[derive(Default)]
pub(super) struct ReceiptLog(RefCell<BTreeMap<String, BTreeMap<u64, u64>>>);

impl ReceiptLog {
    /// Records that a request has reached an origin. The run fails if the request was sent too
    /// often.
    pub(super) fn note(&self, run: &Run, request: &Request, origin: u64) {
        let Some(name) = ReceiptLog::name(request) else { return };
        let mut log = self.0.borrow_mut();
        let receipts = log.entry(name.clone()).or_default();
        *receipts.entry(origin).or_default() += 1;
        let (own, all) = (receipts[&origin], receipts.values().sum::<u64>());
        if own > RECEIPTS_MAX || (request.method == "POST" && all > 1) {
            run.fail(format!("the origins got the {name} {all} times, one of them {own} times"));
        }
    }

    /// Forgets the receipts of a request that an origin answers: a client's request may lead to
    /// further requests, for example if a purge ends the fetch or another validation was faster.
    /// Keeps the receipts of a POST, which must not lead to further requests.
    pub(super) fn answered(&self, request: &Request) {
        if request.method != "POST" {
            ReceiptLog::name(request).map(|name| self.0.borrow_mut().remove(&name));
        }
    }

    /// Returns a name for the request; `None` if its receipts are not counted. Requests for parts
    /// of a response are not counted, because each part is requested separately.
    fn name(request: &Request) -> Option<String> {
        let ask = request.head.field("x-ask").filter(|_| !request.head.has("range"))?;
        let condition = request.head.field("if-none-match").unwrap_or_default();
        Some(format!("{} of {ask} {condition}", request.method))
    }
}
