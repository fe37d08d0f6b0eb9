//! An open loop: requests are due at a constant rate, regardless of the server.
//!
//! Latency counts from the time when a request was due, not from when it was sent. A stall of 10 ms
//! thus adds to the latency of every request that was due during the stall. `service_…` counts from
//! the time at which a request was sent, for comparison. `late_max_us` is the longest delay of the
//! generator itself.
//!
//! Invariant: a connection has at most one request in flight. Requests that come due before its
//! response wait in a queue, and this wait is part of their latency.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use clap::Args;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::latency::Latencies;
use super::{Report, response};
use crate::clock::monotonic_ns;
use crate::net::connect;

/// The most events that are taken from the kernel at once.
const EVENTS_MAX: usize = 512;
/// The largest read, in bytes.
const INPUT_BYTES: usize = 128 * 1024;
/// The time to wait for outstanding responses after the last request was due.
const DRAIN_NS: u64 = 5_000_000_000;
/// The longest wait for an event. After each wait, the end of the drain is checked.
const WAIT_NS_MAX: u64 = 1_000_000;
/// The time from the last connect to the first request.
const START_DELAY_NS: u64 = 1_000_000;

/// The options of the load at a constant rate.
#[derive(Args)]
pub(crate) struct Plan {
    /// Port of the server on 127.0.0.1
    #[arg(long)]
    port: u16,
    /// Target of every request
    #[arg(long, default_value = "/1k/0")]
    target: String,
    /// Keep-alive connections, used in turn
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// Requests due in a second
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    per_second: u64,
    /// Seconds over which requests come due
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// Sends as planned and prints the report.
pub(crate) fn run(plan: &Plan) -> io::Result<()> {
    // The default of 50 µs is as long as the time between two requests at 20,000/s.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let mut generator = Generator::new(plan)?;
    generator.run()?;
    generator.report();
    Ok(())
}

/// The times at which requests are due.
struct Schedule {
    start_ns: u64,
    per_second: u64,
    total: u64,
    next: u64,
}

impl Schedule {
    fn due_ns(&self) -> Option<u64> {
        (self.next < self.total)
            .then(|| self.start_ns + (self.next as f64 * 1e9 / self.per_second as f64) as u64)
    }

    /// Returns the number and the due time of the next request, unless it is due only after
    /// `now_ns`.
    fn take_due(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let due_ns = self.due_ns().filter(|&due_ns| due_ns <= now_ns)?;
        self.next += 1;
        Some((self.next - 1, due_ns))
    }
}

struct Generator {
    epoll: OwnedFd,
    port: u16,
    request: Vec<u8>,
    schedule: Schedule,
    connections: Vec<Connection>,
    input: Vec<u8>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    from_due: Latencies,
    from_sent: Latencies,
    late_ns_max: u64,
    not_ok: u64,
    failed: u64,
    finished_ns: u64,
}

struct Connection {
    stream: TcpStream,
    /// The due times of the requests that wait for the request in flight.
    queue: VecDeque<u64>,
    in_flight: Option<InFlight>,
    /// The bytes of an incomplete head.
    head: Vec<u8>,
    /// The number of body bytes that are still missing, once the head has been read.
    body_left: Option<usize>,
}

struct InFlight {
    due_ns: u64,
    sent_ns: u64,
}

impl Generator {
    fn new(plan: &Plan) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let connections: Vec<_> = (0..plan.connections)
            .map(|index| Connection::open(&epoll, plan.port, index))
            .collect::<io::Result<_>>()?;
        let (port, target) = (plan.port, &plan.target);
        Ok(Self {
            epoll,
            port,
            request: format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").into(),
            schedule: Schedule {
                start_ns: monotonic_ns() + START_DELAY_NS,
                per_second: plan.per_second,
                total: plan.per_second * plan.seconds,
                next: 0,
            },
            connections,
            input: vec![0; INPUT_BYTES],
            tally: Tally::default(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let seconds = self.schedule.total / self.schedule.per_second;
        let give_up_ns = self.schedule.start_ns + seconds * 1_000_000_000 + DRAIN_NS;
        while self.tally.ended() < self.schedule.total {
            let now_ns = monotonic_ns();
            if now_ns > give_up_ns {
                break;
            }
            self.send_due(now_ns)?;
            events.clear();
            let wait = self.wait();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait))
            {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                self.ready(event.data.u64())?;
            }
        }
        self.tally.failed += self.schedule.total - self.tally.ended();
        Ok(())
    }

    fn send_due(&mut self, now_ns: u64) -> io::Result<()> {
        while let Some((number, due_ns)) = self.schedule.take_due(now_ns) {
            let index = number % self.connections.len() as u64;
            let connection = &mut self.connections[index as usize];
            if connection.in_flight.is_some() {
                connection.queue.push_back(due_ns);
                continue;
            }
            let sent = connection.send(&self.request, due_ns);
            self.tally.late_ns_max = self.tally.late_ns_max.max(monotonic_ns() - due_ns);
            if sent.is_err() {
                self.fail(index)?;
            }
        }
        Ok(())
    }

    /// The time until the next request is due.
    fn wait(&self) -> Timespec {
        let due_ns = self.schedule.due_ns().unwrap_or(u64::MAX);
        let wait_ns = due_ns.saturating_sub(monotonic_ns()).min(WAIT_NS_MAX);
        Timespec { tv_sec: 0, tv_nsec: wait_ns.cast_signed() }
    }

    fn ready(&mut self, index: u64) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        let received = match connection.stream.read(&mut self.input) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => connection.receive(&self.input[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => Err(error),
        };
        match received {
            Ok(None) => Ok(()),
            Ok(Some(status)) => self.finish(index, status),
            Err(_) => self.fail(index),
        }
    }

    fn finish(&mut self, index: u64, status: u16) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        let now_ns = monotonic_ns();
        let Some(in_flight) = connection.in_flight.take() else {
            return Ok(());
        };
        self.tally.from_due.add(now_ns - in_flight.due_ns);
        self.tally.from_sent.add(now_ns - in_flight.sent_ns);
        self.tally.not_ok += u64::from(status != 200);
        self.tally.finished_ns = now_ns;
        let Some(due_ns) = connection.queue.pop_front() else {
            return Ok(());
        };
        if connection.send(&self.request, due_ns).is_err() {
            self.fail(index)?;
        }
        Ok(())
    }

    /// Counts the request in flight as failed, and continues over a new connection.
    fn fail(&mut self, index: u64) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        // Neither the request in flight nor the requests that wait behind it are answered in time.
        let lost = connection.queue.len() + usize::from(connection.in_flight.is_some());
        self.tally.failed += lost as u64;
        *connection = Connection::open(&self.epoll, self.port, index)?;
        Ok(())
    }

    fn report(&mut self) {
        let tally = &mut self.tally;
        let elapsed_ns = tally.finished_ns.saturating_sub(self.schedule.start_ns).max(1);
        let done = tally.from_due.count();
        let mut report = Report::default();
        report.add("requests", done);
        report.add("per_second", done as f64 * 1e9 / elapsed_ns as f64);
        report.add("not_ok", tally.not_ok);
        report.add("failed", tally.failed);
        report.add("late_max_us", tally.late_ns_max as f64 / 1e3);
        tally.from_due.report("", &mut report);
        tally.from_sent.report("service_", &mut report);
        report.print();
    }
}

impl Tally {
    fn ended(&self) -> u64 {
        self.from_due.count() as u64 + self.failed
    }
}

impl Connection {
    fn open(epoll: &OwnedFd, port: u16, index: u64) -> io::Result<Self> {
        let stream = connect(port)?;
        epoll::add(epoll, &stream, EventData::new_u64(index), EventFlags::IN)?;
        let (queue, head) = (VecDeque::new(), Vec::new());
        Ok(Self { stream, queue, in_flight: None, head, body_left: None })
    }

    /// Sends a request. It is far shorter than a socket's buffer, so it is sent whole or not at
    /// all.
    fn send(&mut self, request: &[u8], due_ns: u64) -> io::Result<()> {
        self.in_flight = Some(InFlight { due_ns, sent_ns: monotonic_ns() });
        self.stream.write_all(request)
    }

    /// Reads a piece of the response. Returns the status once the response is complete.
    fn receive(&mut self, input: &[u8]) -> io::Result<Option<u16>> {
        let more = |left: usize| left.checked_sub(input.len()).ok_or_else(|| invalid("long body"));
        if let Some(left) = self.body_left {
            self.body_left = Some(more(left)?);
        } else {
            self.head.extend_from_slice(input);
            let Some(head) = response::parse(&self.head).map_err(invalid)? else {
                return Ok(None);
            };
            let body_bytes = self.head.len() - head.bytes;
            let left = head.body_bytes.checked_sub(body_bytes);
            self.body_left = Some(left.ok_or_else(|| invalid("long body"))?);
            self.head.truncate(head.bytes);
        }
        if self.body_left != Some(0) {
            return Ok(None);
        }
        self.body_left = None;
        let status = response::parse(&self.head).map_err(invalid)?.map_or(0, |head| head.status);
        self.head.clear();
        Ok(Some(status))
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_even_distances_and_only_once() {
        let mut schedule = Schedule { start_ns: 100, per_second: 1_000_000, total: 3, next: 0 };
        for (now_ns, want) in [
            (99, None),
            (100, Some((0, 100))),
            (100, None),
            (9_999, Some((1, 1_100))),
            (9_999, Some((2, 2_100))),
            (u64::MAX, None),
        ] {
            assert_eq!(schedule.take_due(now_ns), want, "at {now_ns}");
        }
    }
}
