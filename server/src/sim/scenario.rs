//! The acts of a run, which follow from a seed, and the shortening of a list of acts that fails.

use super::attack::Attack;
use super::flaps::OriginSet;
use super::guarded::Visit;
use super::http2_act::Http2Session;
use super::ranges::ByteRange;
use super::rng::Rng;
use super::world::{LANGUAGES, SPELLINGS, Spelling, THEMES, URL_COUNT, long_urls};

/// How many URLs each of the clients requests that together request all of them.
const URLS_OF_A_CLIENT: usize = 8;

/// The acts of a run, and its settings.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    /// The percentage of the origin's responses that have a fault.
    pub(super) origin_fault_percent: u64,
    pub(super) refused_percent: u64,
    /// The origins of the site.
    pub(super) origins: OriginSet,
    pub(super) cache_bytes: u64,
    /// The largest number of variants that are stored for a URL.
    pub(super) variants_max: usize,
    /// The length of the units in which ranges are requested.
    pub(super) range_unit_bytes: u64,
    /// Whether requests to the origin carry the tags of several variants.
    pub(super) validates_variants: bool,
    pub(super) worker_count: usize,
    pub(super) acts: Vec<Act>,
}

/// One external event of a run, and its time.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) at_ms: u64,
    /// The index of the act before the list was shortened. The address of the act's client and the
    /// random numbers of its connection derive from this index.
    pub(super) number: u64,
    pub(super) kind: ActKind,
}

#[derive(Clone, Debug)]
pub(super) enum ActKind {
    /// A client sends requests on its own connection.
    Session { worker: usize, asks: Vec<Ask>, is_pipelined: bool, reading: Reading },
    /// The origin changes a resource.
    Change { url: usize },
    /// The origin changes the URL, or all URLs with its tag; then a client purges them.
    Purge { worker: usize, url: usize, is_soft: bool, by_tag: bool, spelling: Spelling },
    /// The origin changes all resources; then an operator purges all of them.
    PurgeAll { is_soft: bool },
    /// A client sends a part of a request, and nothing afterwards.
    Silence { worker: usize, bytes: usize },
    /// The time of day steps forward or back.
    ClockStep { ms: i64 },
    /// A reload changes the settings of all workers.
    Reload { idle_ms: u64 },
    /// A worker ends without a drain, and a new worker takes its place.
    Restart { worker: usize },
    /// A worker has no free descriptor for a connection for some time.
    Exhaust { worker: usize, ms: u64 },
    /// Many hostile clients from `network_count` networks attack a worker.
    Attack { worker: usize, attack: Attack, network_count: u64 },
    /// A client sends requests on its own HTTP/2 connection.
    Http2 { worker: usize, session: Http2Session },
    /// Clients of one of the guarded sites.
    Visit { worker: usize, visit: Visit },
}

/// A client's request for a URL.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) url: usize,
    pub(super) is_head: bool,
    pub(super) language: &'static str,
    /// The value of a request field by which only some versions vary.
    pub(super) theme: &'static str,
    pub(super) spelling: Spelling,
    /// Whether the request has `If-None-Match`, with the entity tag of the current version.
    pub(super) is_conditional: bool,
    /// The requested ranges; empty for the whole response.
    pub(super) ranges: Vec<ByteRange>,
    pub(super) no_cache: bool,
    /// Whether the request is a browser's request for a page. Such a request may get early hints.
    pub(super) is_navigation: bool,
    /// Whether the request has the client's own cookie.
    pub(super) has_cookie: bool,
    /// Whether the request is HTTP/1.0, so that it is the last request of its connection.
    pub(super) is_http_10: bool,
    /// The body, if the request is a POST.
    pub(super) post: Option<PostBody>,
}

/// The body of a POST.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostBody {
    pub(super) bytes: usize,
    pub(super) is_chunked: bool,
    /// Whether the client waits for `100 Continue`, for a limited time.
    pub(super) expects_continue: bool,
    pub(super) break_off: BreakOff,
}

/// Whether and how a client breaks off a body, and the number of bytes that it sends before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakOff {
    Never,
    /// The client sends nothing further.
    Stop(usize),
    /// The client resets the connection.
    Reset(usize),
}

/// How a client reads responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Eager,
    /// The client pauses once, after the given number of bytes.
    Pause {
        bytes: usize,
        ms: u64,
    },
    /// The client resets the connection after the given number of bytes.
    Reset {
        bytes: usize,
    },
}

impl Scenario {
    pub(super) fn of(seed: u64) -> Scenario {
        let mut rng = Rng::of(&[seed]);
        let has_faults = rng.percent(70);
        let worker_count = rng.pick(&[1, 2, 2, 3]);
        let act_count = rng.between(20, 120);
        let span_ms = rng.pick(&[200, 5_000, 40_000]);
        // Most requests are for one of two URLs, so that requests for the same URL overlap.
        let hot = [rng.below(URL_COUNT as u64) as usize, rng.below(URL_COUNT as u64) as usize];
        let crawl_count = rng.pick(&[0, 0, 0, 0, 2, 5]);
        let acts = (0..act_count + crawl_count).map(|number| {
            let at_ms = rng.below(span_ms);
            let kind = if number < act_count {
                ActKind::of(&mut rng, worker_count, has_faults, &hot)
            } else {
                ActKind::crawl(&mut rng, worker_count)
            };
            Act { at_ms, number, kind }
        });
        let mut acts: Vec<Act> = acts.collect();
        if rng.percent(60) {
            let worker = rng.below(worker_count as u64) as usize;
            let (url, at_ms) = (rng.pick(&hot), rng.below(span_ms));
            let attack = Attack::of(&mut rng, url);
            let kind = ActKind::Attack { worker, attack, network_count: rng.pick(&[1, 20]) };
            acts.push(Act { at_ms, number: acts.len() as u64, kind });
        }
        let mut add = |at_ms: u64, kinds: Vec<(u64, ActKind)>| {
            for (later_ms, kind) in kinds {
                acts.push(Act { at_ms: at_ms + later_ms, number: acts.len() as u64, kind });
            }
        };
        if has_faults && rng.percent(50) {
            for _ in 0..rng.between(1, 8) {
                let url = rng.pick(&hot);
                add(rng.below(span_ms), purge_during_fetch(&mut rng, worker_count, url));
            }
        }
        if has_faults && rng.percent(15) {
            add(rng.below(span_ms), eviction_during_hits(&mut rng, worker_count));
        }
        // The further acts have numbers of their own, so they change no other act of a seed.
        add(0, visits(&mut Rng::of(&[seed, 4]), worker_count, span_ms));
        let mut rng_of_http2 = Rng::of(&[seed, 5]);
        add(0, Http2Session::some(&mut rng_of_http2, (worker_count, span_ms), &hot, has_faults));
        let mut rng_of_windows = Rng::of(&[seed, 7]);
        let needs_small_cache = rng_of_windows.percent(15);
        if needs_small_cache {
            let at_ms = rng_of_windows.below(span_ms);
            add(at_ms, Http2Session::eviction(&mut rng_of_windows, worker_count));
        }
        acts.sort_by_key(|act| act.at_ms);
        let large_cache_bytes = if needs_small_cache { 4 << 20 } else { 24 << 20 };
        let mut origin_fault_percent = if has_faults { rng.pick(&[0, 8, 30]) } else { 0 };
        let origins = OriginSet::of(&mut rng);
        if origins.count() > 1 && rng.percent(60) {
            // There are no other faults, so the failure of an origin does not excuse an error.
            origin_fault_percent = 0;
        }
        Scenario {
            seed,
            origin_fault_percent,
            origins,
            refused_percent: if has_faults { rng.pick(&[0, 0, 10]) } else { 0 },
            cache_bytes: rng.pick(&[4 << 20, 4 << 20, large_cache_bytes]),
            variants_max: rng.pick(&[2, 64]),
            range_unit_bytes: rng.pick(&[1 << 20, 20_000, 20_000, 0]),
            validates_variants: rng.percent(70),
            worker_count,
            acts,
        }
    }

    /// Returns a scenario with fewer acts that still fails. Leaves out parts of the list of acts,
    /// smaller and smaller ones. `fails` plays a scenario, and returns whether it fails.
    pub(super) fn shortened(&self, mut fails: impl FnMut(&Scenario) -> bool) -> Scenario {
        let mut short = self.clone();
        let mut part = short.acts.len().div_ceil(2);
        while part > 0 {
            let mut from = 0;
            while from < short.acts.len() {
                let mut shorter = short.clone();
                shorter.acts.drain(from..(from + part).min(short.acts.len()));
                if fails(&shorter) {
                    short = shorter;
                } else {
                    from += part;
                }
            }
            part /= 2;
        }
        short
    }
}

/// Returns a request, a purge by tag while the response probably still arrives, and a request for
/// the same URL after the purge, each with its delay in milliseconds.
fn purge_during_fetch(rng: &mut Rng, worker_count: usize, url: usize) -> Vec<(u64, ActKind)> {
    let ask = Ask::plain(url, rng.pick(LANGUAGES));
    let purge_ms = rng.between(0, 300);
    let first = ActKind::session(rng, worker_count, ask.clone(), Reading::Eager);
    let second = ActKind::session(rng, worker_count, ask, Reading::Eager);
    let worker = rng.below(worker_count as u64) as usize;
    let spelling = SPELLINGS[0];
    let purge = ActKind::Purge { worker, url, is_soft: false, by_tag: true, spelling };
    vec![(0, first), (purge_ms, purge), (purge_ms + rng.between(1, 3_000), second)]
}

/// Returns the clients of the guarded sites, with their times.
fn visits(rng: &mut Rng, worker_count: usize, span_ms: u64) -> Vec<(u64, ActKind)> {
    use Visit::{InProgress, Routed, Signed, Tunnels};
    let count = rng.pick(&[0, 2, 4, 6]);
    let visit = |_| {
        let worker = rng.below(worker_count as u64) as usize;
        let visit = rng.pick(&[Routed, Signed, InProgress, Tunnels]);
        (rng.below(span_ms), ActKind::Visit { worker, visit })
    };
    (0..count).map(visit).collect()
}

/// Returns clients that together request all URLs, beginning at `at_ms`. If a response fails, only
/// a few others are not requested because of it.
pub(super) fn requests_for_all(
    rng: &mut Rng,
    worker_count: usize,
    at_ms: u64,
) -> Vec<(u64, ActKind)> {
    let first = rng.below(URL_COUNT as u64) as usize;
    let urls: Vec<usize> = (first..first + URL_COUNT).map(|url| url % URL_COUNT).collect();
    let session = |urls: &[usize]| {
        let worker = rng.below(worker_count as u64) as usize;
        let asks = urls.iter().map(|url| Ask::plain(*url, "")).collect();
        let reading = Reading::Eager;
        (at_ms, ActKind::Session { worker, asks, is_pipelined: false, reading })
    };
    urls.chunks(URLS_OF_A_CLIENT).map(session).collect()
}

/// Returns clients that pause while they read stored responses, and clients that request all URLs
/// during the pauses. So many segments are pinned that a small cache must also evict these.
fn eviction_during_hits(rng: &mut Rng, worker_count: usize) -> Vec<(u64, ActKind)> {
    let mut acts = vec![(0, ActKind::crawl(rng, worker_count))];
    let percent = rng.pick(&[20, 50, 90]);
    for url in long_urls() {
        if rng.percent(percent) {
            let (bytes, ms) = (rng.pick(&[100, 5_000]), rng.between(500, 4_000));
            let reading = Reading::Pause { bytes, ms };
            let session = ActKind::session(rng, worker_count, Ask::plain(url, ""), reading);
            acts.push((rng.between(20, 60), session));
        }
    }
    for _ in 0..rng.between(1, 4) {
        acts.push((rng.between(60, 400), ActKind::crawl(rng, worker_count)));
    }
    acts
}

impl ActKind {
    fn of(rng: &mut Rng, worker_count: usize, has_faults: bool, hot: &[usize; 2]) -> ActKind {
        let worker = rng.below(worker_count as u64) as usize;
        let mut url = |rng: &mut Rng| match rng.percent(70) {
            true => rng.pick(hot),
            false => rng.below(URL_COUNT as u64) as usize,
        };
        match rng.below(100) {
            0..6 => ActKind::Change { url: url(rng) },
            6..12 => {
                let (is_soft, by_tag) = (rng.percent(30), rng.percent(40));
                let spelling = rng.pick(SPELLINGS);
                ActKind::Purge { worker, url: url(rng), is_soft, by_tag, spelling }
            }
            12..13 => ActKind::PurgeAll { is_soft: rng.percent(30) },
            13..17 => {
                let url = url(rng);
                let asks = vec![Ask::post(rng, url, has_faults)];
                ActKind::Session { worker, asks, is_pipelined: false, reading: Reading::Eager }
            }
            17..19 if has_faults => ActKind::Silence { worker, bytes: rng.between(0, 50) as usize },
            19..21 => ActKind::ClockStep { ms: rng.between(0, 20_000) as i64 - 10_000 },
            21..23 => ActKind::Reload { idle_ms: rng.between(1_000, 6_000) },
            23..25 if has_faults => ActKind::Restart { worker },
            25..26 if has_faults => ActKind::Exhaust { worker, ms: rng.between(1, 3_000) },
            _ => {
                let count = rng.pick(&[1, 1, 1, 2, 4]);
                let mut asks: Vec<Ask> =
                    (0..count).map(|_| Ask::of(rng, &mut url, has_faults)).collect();
                if let Some(last) = asks.iter().position(Ask::ends_connection) {
                    asks.truncate(last + 1);
                }
                let reading = Reading::of(rng, has_faults);
                ActKind::Session { worker, asks, is_pipelined: rng.percent(30), reading }
            }
        }
    }
}

impl ActKind {
    /// Returns an act in which a client sends one request.
    fn session(rng: &mut Rng, worker_count: usize, ask: Ask, reading: Reading) -> ActKind {
        let worker = rng.below(worker_count as u64) as usize;
        ActKind::Session { worker, asks: vec![ask], is_pipelined: false, reading }
    }

    /// Returns an act in which a client requests all URLs, so that a small cache must evict most of
    /// its records.
    fn crawl(rng: &mut Rng, worker_count: usize) -> ActKind {
        let worker = rng.below(worker_count as u64) as usize;
        let first = rng.below(URL_COUNT as u64) as usize;
        let language = rng.pick(LANGUAGES);
        let urls = (first..first + URL_COUNT).map(|url| url % URL_COUNT);
        let asks = urls.map(|url| Ask::plain(url, language)).collect();
        ActKind::Session { worker, asks, is_pipelined: false, reading: Reading::Eager }
    }
}

impl Ask {
    pub(super) fn plain(url: usize, language: &'static str) -> Ask {
        Ask {
            url,
            is_head: false,
            language,
            theme: "",
            spelling: SPELLINGS[0],
            is_conditional: false,
            ranges: Vec::new(),
            no_cache: false,
            is_navigation: false,
            has_cookie: false,
            is_http_10: false,
            post: None,
        }
    }

    fn post(rng: &mut Rng, url: usize, has_faults: bool) -> Ask {
        let bytes = rng.pick(&[0, 10, 5_000, 100_000]);
        let at = rng.below(bytes as u64 + 1) as usize;
        let break_off = match rng.below(10) {
            0 if has_faults => BreakOff::Stop(at),
            1 if has_faults => BreakOff::Reset(at),
            _ => BreakOff::Never,
        };
        let (is_chunked, expects_continue) = (rng.percent(40), rng.percent(25));
        let body = PostBody { bytes, is_chunked, expects_continue, break_off };
        Ask { post: Some(body), spelling: rng.pick(SPELLINGS), ..Ask::plain(url, "") }
    }

    /// Returns no range, one range or several ranges. They may be long or short, and may overlap.
    fn some_ranges(rng: &mut Rng) -> Vec<ByteRange> {
        if !rng.percent(14) {
            return Vec::new();
        }
        let count = rng.pick(&[1, 1, 1, 2, 3, 5]);
        let (begin_max, length_max) = (rng.pick(&[2_000, 120_000]), rng.pick(&[100, 40_000]));
        let range = |_| {
            let first = rng.below(begin_max) as usize;
            (first, first + rng.below(length_max) as usize)
        };
        (0..count).map(range).collect()
    }

    pub(super) fn method(&self) -> &'static str {
        match self {
            Ask { post: Some(_), .. } => "POST",
            Ask { is_head: true, .. } => "HEAD",
            _ => "GET",
        }
    }

    /// Whether no further request may follow on the connection.
    pub(super) fn ends_connection(&self) -> bool {
        self.is_http_10 || self.break_off() != BreakOff::Never
    }

    pub(super) fn break_off(&self) -> BreakOff {
        self.post.map_or(BreakOff::Never, |body| body.break_off)
    }

    pub(super) fn of(
        rng: &mut Rng,
        url: &mut impl FnMut(&mut Rng) -> usize,
        has_faults: bool,
    ) -> Ask {
        if rng.percent(6) {
            let url = url(rng);
            return Ask::post(rng, url, has_faults);
        }
        let is_head = rng.percent(8);
        Ask {
            url: url(rng),
            is_head,
            language: rng.pick(LANGUAGES),
            theme: rng.pick(THEMES),
            spelling: rng.pick(SPELLINGS),
            is_conditional: rng.percent(15),
            ranges: Ask::some_ranges(rng),
            // A HEAD that reaches the origin may contradict a stored response.
            no_cache: rng.percent(if is_head { 60 } else { 8 }),
            is_navigation: rng.percent(25),
            has_cookie: rng.percent(30),
            is_http_10: rng.percent(5),
            post: None,
        }
    }
}

impl Reading {
    pub(super) fn of(rng: &mut Rng, has_faults: bool) -> Reading {
        if !has_faults || rng.percent(75) {
            return Reading::Eager;
        }
        match rng.percent(70) {
            true => {
                let bytes = rng.pick(&[0, 100, 5_000, 70_000]);
                Reading::Pause { bytes, ms: rng.between(1, 12_000) }
            }
            false => {
                let bytes_max = rng.pick(&[400, 5_000, 300_000]);
                Reading::Reset { bytes: rng.below(bytes_max) as usize }
            }
        }
    }
}
