//! A closed loop over keep-alive connections with a mixture like that of a real cache: popular
//! objects by Zipf's law, and a share of URLs that no earlier request named.
//!
//! The length and the mark of every body are checked. A response that the origin made after its
//! request was sent is a miss; any other response is a hit. Both use the clock of this machine.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use super::latency::Latencies;
use super::zipf::Zipf;
use super::{Report, response};
use crate::clock::monotonic_ns;
use crate::net::connect;
use crate::site::{MARK_BYTES, mark, object_bytes};

/// The size of the input buffer: enough for the longest head and body.
const INPUT_BYTES: usize = 128 * 1024;
/// How long a request may take beyond the planned end.
const GRACE: Duration = Duration::from_secs(10);

/// The options of the mixed load.
#[derive(Args, Clone)]
pub(crate) struct Plan {
    /// Port of the server on 127.0.0.1
    #[arg(long)]
    port: u16,
    /// Keep-alive connections, each with one request in flight
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Seconds after which no request begins
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The number of requests after which no request begins, even before the time is over
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    requests: u64,
    /// The number of URLs to which Zipf's law applies
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    urls: u64,
    /// Percentage of requests for URLs that were not requested before
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    miss_percent: u8,
    /// Seed of all draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of this run: runs with different numbers draw different new URLs
    #[arg(long, default_value_t = 0)]
    run: u32,
}

/// Runs the mixture and prints the report.
pub(crate) fn run(plan: Plan) -> io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let start_ns = monotonic_ns();
    let end = Duration::from_secs(plan.seconds) + GRACE;
    let load = Rc::new(Load::new(plan, start_ns));
    let all = run_clients(Rc::clone(&load));
    let outcome =
        LocalSet::new().block_on(&runtime, async { tokio::time::timeout(end, all).await });
    match outcome {
        Ok(finished) => finished?,
        Err(_) => load.tally.borrow_mut().stuck = load.in_flight.get(),
    }
    load.report(monotonic_ns() - start_ns);
    Ok(())
}

async fn run_clients(load: Rc<Load>) -> io::Result<()> {
    let mut clients = JoinSet::new();
    for _ in 0..load.plan.connections {
        let mut client = Client::connect(load.plan.port)?;
        let load = Rc::clone(&load);
        clients.spawn_local(async move { client.run(&load).await });
    }
    while let Some(ended) = clients.join_next().await {
        ended.map_err(io::Error::other)??;
    }
    Ok(())
}

/// The state that all connections share.
struct Load {
    plan: Plan,
    end_ns: u64,
    zipf: Zipf,
    rng: RefCell<Rng>,
    started: Cell<u64>,
    fresh: Cell<u64>,
    in_flight: Cell<u64>,
    tally: RefCell<Tally>,
}

#[derive(Default)]
struct Tally {
    hits: Latencies,
    misses: Latencies,
    body_bytes: u64,
    /// Responses with a wrong status, length or mark, and hits for URLs that no earlier request
    /// named.
    wrong: u64,
    /// Requests whose connection broke.
    failed: u64,
    /// Requests that were not answered at the end.
    stuck: u64,
}

/// A request that was drawn.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Draw {
    id: u64,
    fresh: bool,
}

impl Load {
    fn new(plan: Plan, start_ns: u64) -> Self {
        Self {
            end_ns: start_ns + plan.seconds * 1_000_000_000,
            zipf: Zipf::new(plan.urls),
            rng: RefCell::new(Rng::with_seed(plan.seed ^ u64::from(plan.run) << 32)),
            // The upper half holds the run's number. These IDs belong to no other run, and are not
            // among the ranks of Zipf's law.
            fresh: Cell::new((u64::from(plan.run) + 1) << 32),
            started: Cell::new(0),
            in_flight: Cell::new(0),
            tally: RefCell::default(),
            plan,
        }
    }

    /// Returns the next request, or `None` when the run is over.
    fn draw(&self) -> Option<Draw> {
        if self.started.get() >= self.plan.requests || monotonic_ns() >= self.end_ns {
            return None;
        }
        self.started.set(self.started.get() + 1);
        let mut rng = self.rng.borrow_mut();
        let fresh = rng.u8(0..100) < self.plan.miss_percent;
        let id =
            if fresh { self.fresh.replace(self.fresh.get() + 1) } else { self.zipf.draw(&mut rng) };
        Some(Draw { id, fresh })
    }

    fn record(&self, draw: Draw, result: &io::Result<Fetched>) {
        let mut tally = self.tally.borrow_mut();
        match result {
            Ok(fetched) => {
                tally.body_bytes += object_bytes(draw.id) as u64;
                tally.wrong += u64::from(!fetched.right || (draw.fresh && fetched.hit));
                let kind = if fetched.hit { &mut tally.hits } else { &mut tally.misses };
                kind.add(fetched.ns);
            }
            Err(_) => tally.failed += 1,
        }
    }

    fn report(&self, elapsed_ns: u64) {
        let mut tally = self.tally.borrow_mut();
        let done = tally.hits.count() + tally.misses.count();
        let mut report = Report::default();
        report.add("requests", done);
        report.add("per_second", done as f64 * 1e9 / elapsed_ns as f64);
        report.add("hits", tally.hits.count());
        report.add("misses", tally.misses.count());
        report.add("body_bytes", tally.body_bytes);
        report.add("wrong", tally.wrong);
        report.add("failed", tally.failed + tally.stuck);
        tally.hits.report("hit_", &mut report);
        tally.misses.report("miss_", &mut report);
        report.print();
    }
}

struct Client {
    port: u16,
    stream: TcpStream,
    request: String,
    input: Vec<u8>,
}

struct Fetched {
    ns: u64,
    hit: bool,
    right: bool,
    closes: bool,
}

impl Client {
    fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::from_std(connect(port)?)?;
        Ok(Self { port, stream, request: String::new(), input: vec![0; INPUT_BYTES] })
    }

    async fn run(&mut self, load: &Load) -> io::Result<()> {
        while let Some(draw) = load.draw() {
            load.in_flight.set(load.in_flight.get() + 1);
            let result = self.fetch(draw.id).await;
            load.in_flight.set(load.in_flight.get() - 1);
            load.record(draw, &result);
            if result.is_err() || result.is_ok_and(|fetched| fetched.closes) {
                self.stream = TcpStream::from_std(connect(self.port)?)?;
            }
        }
        Ok(())
    }

    async fn fetch(&mut self, id: u64) -> io::Result<Fetched> {
        use std::fmt::Write;
        self.request.clear();
        // Writing to a string cannot fail.
        let _ =
            write!(self.request, "GET /obj/{id} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port);
        let sent_ns = monotonic_ns();
        self.stream.write_all(self.request.as_bytes()).await?;
        let (head, filled) = self.receive().await?;
        let body = &self.input[head.bytes..filled];
        let length_right = head.body_bytes == object_bytes(id) && body.len() == head.body_bytes;
        Ok(Fetched {
            ns: monotonic_ns() - sent_ns,
            hit: head.origin_ns.is_some_and(|made_ns| made_ns < sent_ns),
            right: head.status == 200 && length_right && body.get(..MARK_BYTES) == Some(&mark(id)),
            closes: head.closes,
        })
    }

    /// Reads one response. Returns its head, and the number of bytes that it takes in the buffer.
    async fn receive(&mut self) -> io::Result<(response::Head, usize)> {
        let invalid = |what: &str| io::Error::new(ErrorKind::InvalidData, what);
        let (mut head, mut filled): (Option<response::Head>, usize) = (None, 0);
        loop {
            let count = self.stream.read(&mut self.input[filled..]).await?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            filled += count;
            if head.is_none() {
                head = response::parse(&self.input[..filled]).map_err(invalid)?;
            }
            if let Some(head) = head.take_if(|head| filled >= head.bytes + head.body_bytes) {
                return Ok((head, filled));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(run: u32, miss_percent: u8) -> Plan {
        Plan {
            port: 0,
            connections: 1,
            seconds: 1_000,
            requests: 10_000,
            urls: 1_000,
            miss_percent,
            seed: 7,
            run,
        }
    }

    fn draws(run: u32, miss_percent: u8) -> Vec<Draw> {
        let load = Load::new(plan(run, miss_percent), monotonic_ns());
        std::iter::from_fn(|| load.draw()).collect()
    }

    #[test]
    fn the_share_of_never_seen_urls_is_as_planned() {
        for (percent, least, most) in [(0, 0, 0), (10, 850, 1_150), (100, 10_000, 10_000)] {
            let fresh = draws(0, percent).iter().filter(|draw| draw.fresh).count();
            assert!((least..=most).contains(&fresh), "{percent} %: {fresh}");
        }
    }

    #[test]
    fn never_seen_urls_are_drawn_once_over_all_runs() {
        let mut fresh: Vec<_> =
            (0..3).flat_map(|run| draws(run, 10)).filter(|draw| draw.fresh).collect();
        let count = fresh.len();
        fresh.sort_unstable_by_key(|draw| draw.id);
        fresh.dedup();
        assert_eq!(fresh.len(), count);
        assert!(fresh.iter().all(|draw| draw.id >= 1 << 32));
    }

    #[test]
    fn the_same_seed_and_run_draw_the_same() {
        assert_eq!(draws(1, 10), draws(1, 10));
        assert_ne!(draws(1, 10), draws(2, 10));
    }
}
