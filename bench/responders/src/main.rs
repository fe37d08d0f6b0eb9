//! The benchmark's own programs: bare responders, the origin, and load generators.
//!
//! A bare responder shows the limit of an I/O architecture: the cost of a cache hit if nothing is
//! cached, checked or logged. None of these programs is meant for real use: they listen on
//! 127.0.0.1 and serve a made-up site (`site.rs`).
//!
//! Everything that answers is an [`answer::Answer`], a pure step from request bytes to reply
//! bytes; the two engines in `serve` move those bytes.

mod answer;
mod clock;
mod load;
mod net;
mod serve;
mod site;

use std::io;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use answer::{
    fixed::Fixed,
    origin::{ADDRESSES_MAX, Origin},
    parsed::Parsed,
};

/// Bare responders, the origin and the load generators of Forebay's benchmark.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends ready-made responses from a raw epoll loop
    Epoll(Listen),
    /// Sends ready-made responses from a tokio loop that reads requests and answers them
    Tokio(Listen),
    /// Like `tokio`, but parses the request, looks it up among 100,000 objects, and writes Age and
    /// Date
    TokioParse(Listen),
    /// Serves the benchmark's site: /0/N /1k/N /64k/N /text/N /obj/ID, /nocache/... and
    /// /group/G/..., and counters at /status and /status/addresses
    Origin(OriginListen),
    /// Sends requests at a constant rate; latency counts from the time at which each request was
    /// due
    Rate(load::rate::Plan),
    /// Sends requests over keep-alive connections: most for popular URLs, by Zipf's law, and a
    /// share for URLs that were not requested before
    Mixed(load::mixed::Plan),
    /// Opens TLS connections with one request each
    Handshakes(load::handshakes::Plan),
}

/// The port on which a responder listens, and its threads.
#[derive(Args, Clone, Copy)]
struct Listen {
    /// Port on 127.0.0.1
    #[arg(long)]
    port: u16,
    /// Threads, each with its own listener and its own loop
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// The port, the threads and the addresses of the origin.
#[derive(Args, Clone, Copy)]
struct OriginListen {
    #[command(flatten)]
    listen: Listen,
    /// Number of addresses, from 127.0.0.1 on, on which every thread listens; requests are counted
    /// for each of them
    #[arg(long, default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=ADDRESSES_MAX as i64))]
    addresses: u8,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> io::Result<()> {
    match command {
        Command::Epoll(listen) => {
            on_threads(listen, |l| serve::epoll::serve(vec![l], Fixed::new()))
        }
        Command::Tokio(listen) => on_threads(listen, |l| serve::tokio::serve(l, Fixed::new())),
        Command::TokioParse(listen) => {
            let host = format!("127.0.0.1:{}", listen.port);
            on_threads(listen, move |l| serve::tokio::serve(l, Parsed::new(&host)))
        }
        Command::Origin(OriginListen { listen, addresses }) => on_threads(listen, |first| {
            let others = (1..addresses).map(|index| open(listen.port, index));
            let listeners = std::iter::once(Ok(first)).chain(others).collect::<io::Result<_>>()?;
            serve::epoll::serve(listeners, Origin::new(addresses))
        }),
        Command::Rate(plan) => load::rate::run(&plan),
        Command::Mixed(plan) => load::mixed::run(plan),
        Command::Handshakes(plan) => load::handshakes::run(plan),
    }
}

/// Runs `serve` on every thread with its own listener. Returns only with an error.
fn on_threads(
    listen: Listen,
    serve: impl Fn(std::net::TcpListener) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let listeners: Vec<_> =
        (0..listen.threads.max(1)).map(|_| open(listen.port, 0)).collect::<io::Result<_>>()?;
    std::thread::scope(|scope| {
        let serve = &serve;
        let threads: Vec<_> =
            listeners.into_iter().map(|listener| scope.spawn(move || serve(listener))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("panic"))))
    })
}

fn open(port: u16, index: u8) -> io::Result<std::net::TcpListener> {
    net::listen(port, index).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}", net::address(port, index)))
    })
}
