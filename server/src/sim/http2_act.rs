//! The HTTP/2 connections of a run: their requests, and the behaviour of their clients.

use super::rng::Rng;
use super::scenario::{ActKind, Ask, BreakOff, PostBody, Reading, requests_for_all};
use super::world::{kind_of, lent_urls};

/// A small cache stores bodies of this length in one record.
const SHORT_BYTES: usize = 16_000;

/// The number of streams of a client whose windows are closed while responses wait for them.
const LENT_COUNT: u64 = 16;

/// A client that sends several requests on one HTTP/2 connection, partly at the same time.
#[derive(Clone, Debug)]
pub(super) struct Http2Session {
    pub(super) asks: Vec<Http2Ask>,
    pub(super) reading: Reading,
    /// The initial window of a stream, and the size to which the client enlarges it.
    pub(super) window: (u32, u32),
    /// The initial window of a stream from [`Http2Session::resize_ms`] on.
    pub(super) later_window: u32,
    pub(super) resize_ms: Option<u64>,
    /// The window of the connection.
    pub(super) connection_window: u32,
    /// How long the client waits before it enlarges windows.
    pub(super) update_ms: u64,
    pub(super) ping_count: u64,
}

/// A request of an HTTP/2 client.
#[derive(Clone, Debug)]
pub(super) struct Http2Ask {
    pub(super) ask: Ask,
    /// The time from the opening of the connection to the request.
    pub(super) begin_ms: u64,
    /// The time from the request to the reset of its stream by the client.
    pub(super) cancel_ms: Option<u64>,
}

impl Http2Session {
    /// Returns the sessions of a run, with their workers and times.
    pub(super) fn some(
        rng: &mut Rng,
        (worker_count, span_ms): (usize, u64),
        hot: &[usize; 2],
        has_faults: bool,
    ) -> Vec<(u64, ActKind)> {
        let count = rng.pick(&[0, 2, 5, 12]);
        let session = |_| {
            let worker = rng.below(worker_count as u64) as usize;
            let session = Http2Session::of(rng, hot, has_faults);
            (rng.below(span_ms), ActKind::Http2 { worker, session })
        };
        (0..count).map(session).collect()
    }

    /// Returns clients that keep their windows closed while many stored responses wait for them,
    /// and clients that request all URLs during this time. A small cache must evict the responses
    /// that wait, and has no room to copy all of them.
    pub(super) fn eviction(rng: &mut Rng, worker_count: usize) -> Vec<(u64, ActKind)> {
        let mut acts = requests_for_all(rng, worker_count, 0);
        // Of a short body, all waits in the memory of the store; of a long one, only the beginning.
        let is_short = |url: &usize| kind_of(*url).body_bytes < SHORT_BYTES;
        let (short, long): (Vec<usize>, Vec<usize>) = lent_urls().partition(is_short);
        for _ in 0..rng.between(3, 8) {
            let ask = |_| {
                let urls = if rng.percent(50) { &short } else { &long };
                let ask = Ask::plain(rng.pick(urls), "");
                Http2Ask { ask, begin_ms: 0, cancel_ms: None }
            };
            let session = Http2Session {
                asks: (0..LENT_COUNT).map(ask).collect(),
                reading: Reading::Eager,
                window: (0, 1 << 20),
                later_window: 1 << 20,
                resize_ms: None,
                connection_window: 1 << 20,
                update_ms: rng.between(500, 4_000),
                ping_count: 0,
            };
            let worker = rng.below(worker_count as u64) as usize;
            acts.push((rng.between(20, 60), ActKind::Http2 { worker, session }));
        }
        for _ in 0..rng.between(1, 4) {
            let at_ms = rng.between(60, 400);
            acts.extend(requests_for_all(rng, worker_count, at_ms));
        }
        acts
    }

    fn of(rng: &mut Rng, hot: &[usize; 2], has_faults: bool) -> Http2Session {
        let span_ms = rng.pick(&[1, 30, 500, 4_000]);
        let count = rng.pick(&[1, 2, 3, 5, 8]);
        let asks = (0..count).map(|_| Http2Ask::of(rng, hot, (has_faults, span_ms))).collect();
        let piece = rng.pick(&[2_000, 20_000, 65_535, 1 << 20]);
        let update_ms = match piece {
            // A small window that is enlarged late keeps the client below the lowest rate.
            0..20_000 => 0,
            _ => rng.pick(&[0, 0, 5, 300, 2_000]),
        };
        Http2Session {
            asks,
            reading: Reading::of(rng, has_faults),
            window: (rng.pick(&[0, 1, 700, 65_535, 1 << 20]), piece),
            later_window: rng.pick(&[0, 1_000, 65_535, 200_000]),
            resize_ms: rng.percent(30).then(|| rng.between(0, 300)),
            connection_window: rng.pick(&[65_535, 65_535, 1 << 20]),
            update_ms,
            ping_count: rng.pick(&[0, 0, 1, 5]),
        }
    }
}

impl Http2Ask {
    fn of(rng: &mut Rng, hot: &[usize; 2], (has_faults, span_ms): (bool, u64)) -> Http2Ask {
        let mut url = |rng: &mut Rng| rng.pick(hot);
        let mut ask = Ask::of(rng, &mut url, has_faults);
        ask.is_http_10 = false;
        let is_cancelled = rng.percent(if has_faults { 15 } else { 5 });
        let cancel_ms = is_cancelled.then(|| rng.pick(&[0, 1, 40, 400, 3_000]));
        Http2Ask { ask, begin_ms: rng.below(span_ms), cancel_ms }
    }
}

impl PostBody {
    /// Returns the number of bytes that the client sends, and whether they are the whole body.
    pub(super) fn sent_part(&self) -> (usize, bool) {
        match self.break_off {
            BreakOff::Never => (self.bytes, true),
            BreakOff::Stop(bytes) | BreakOff::Reset(bytes) => (bytes.min(self.bytes), false),
        }
    }
}
