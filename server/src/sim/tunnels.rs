//! Tunnels over HTTP/2 (RFC 8441): a client that opens them one after the other, and their origin.
//! The path of a tunnel says what its origin does.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use forebay_testkit::Request;
use tokio::time::sleep;

use super::guarded::{TUNNEL_HOST, TUNNEL_PROTOCOL};
use super::guarded_http2::GuardedStreams;
use super::http2_state::StreamEnd;
use super::paths::{TUNNEL_BROKEN, TUNNEL_ENDED};
use super::rng::Rng;
use super::run::Run;
use super::wire::WireEnd;
use super::world::post_body;

/// How long the origin waits between its last bytes and the reset, so that they can be read.
const UNREAD_MS: u64 = 20;

/// A tunnel: the bytes of the client and of the origin, and how it ends.
#[derive(Clone, Copy, Debug)]
struct Tunnel {
    act: u64,
    up_bytes: usize,
    down_bytes: usize,
    /// Whether the origin resets the connection after its bytes, in place of an orderly end.
    breaks: bool,
}

impl Tunnel {
    fn of(rng: &mut Rng, act: u64) -> Tunnel {
        Tunnel {
            act,
            up_bytes: rng.pick(&[1, 100, 15_000]),
            down_bytes: rng.pick(&[0, 10, 5_000, 200_000]),
            breaks: rng.percent(50),
        }
    }

    fn path(&self) -> String {
        let Tunnel { act, up_bytes, down_bytes, breaks } = self;
        format!("/{act}/{up_bytes}/{down_bytes}/{}", u8::from(*breaks))
    }

    /// Parses a path that [`Tunnel::path`] has written.
    fn parse(path: &str) -> Option<Tunnel> {
        let mut parts = path.split('/').skip(1).map(|part| part.parse::<u64>().ok());
        let mut next = || parts.next().flatten();
        Some(Tunnel {
            act: next()?,
            up_bytes: next()? as usize,
            down_bytes: next()? as usize,
            breaks: next()? == 1,
        })
    }

    fn up(&self) -> Vec<u8> {
        post_body(self.act, self.up_bytes)
    }

    fn down(&self) -> Vec<u8> {
        let mut down = self.path().into_bytes().repeat(self.down_bytes);
        down.truncate(self.down_bytes);
        down
    }
}

/// Plays the client of an act.
pub(super) async fn play(run: &Run, act: u64, worker: usize, mut rng: Rng) {
    let from = SocketAddr::from(([10, 8, 3, rng.below(3) as u8], 40_000));
    let mut streams = GuardedStreams::open(run, worker, from, (act, 0));
    for _ in 0..rng.between(1, 4) {
        let tunnel = Tunnel::of(&mut rng, act);
        let path = tunnel.path();
        let fields = [
            (":method", "CONNECT"),
            (":protocol", TUNNEL_PROTOCOL),
            (":scheme", "http"),
            (":authority", TUNNEL_HOST),
            (":path", &path),
        ];
        streams.begin(&fields, false);
        let ends = rng.percent(50);
        streams.send(&tunnel.up(), ends);
        let Some((response, end)) = streams.response().await else { return };
        if let Err(why) = tunnel.check(run, (response.status, &response.body), end) {
            run.fail(format!("{why}: {tunnel:?}, {end:?}, status {}", response.status));
            return;
        }
        if !ends && end == StreamEnd::Whole {
            streams.cancel().await;
        }
        if !streams.is_usable() {
            return;
        }
    }
}

impl Tunnel {
    /// Checks what the client got from the origin.
    fn check(&self, run: &Run, (status, body): (u16, &[u8]), end: StreamEnd) -> Result<(), String> {
        match status {
            200 => {}
            // The origin was not reached.
            0 | 502..=504 => return Ok(()),
            _ => return Err("a tunnel got an unexpected status".into()),
        }
        let expected = self.down();
        if !expected.starts_with(body) {
            let at = expected.iter().zip(body).take_while(|(left, right)| left == right).count();
            return Err(format!("the bytes of a tunnel are wrong from byte {at} on"));
        }
        let is_whole = end == StreamEnd::Whole;
        run.paths.count(if is_whole { TUNNEL_ENDED } else { TUNNEL_BROKEN });
        match is_whole {
            true if self.breaks => Err("a tunnel that broke off ended in an orderly way".into()),
            true if body.len() < expected.len() => Err("a tunnel ended too early".into()),
            false if !self.breaks => Err("a tunnel broke off without a reason".into()),
            _ => Ok(()),
        }
    }
}

/// Opens the tunnel that `request` asks for, whose first bytes may be in `input`.
pub(super) async fn answer(
    run: &Run,
    end: &WireEnd,
    request: &Request,
    mut input: Vec<u8>,
) -> io::Result<()> {
    let is_upgrade = request.head.field("upgrade") == Some(TUNNEL_PROTOCOL);
    let Some(tunnel) = Tunnel::parse(&request.target).filter(|_| is_upgrade) else {
        run.fail(format!("the origin got no request for a tunnel: {}", request.target));
        return Ok(());
    };
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: {TUNNEL_PROTOCOL}\r\n"
    );
    end.write(format!("{head}\r\n").as_bytes()).await?;
    let expected = tunnel.up();
    while input.len() < expected.len() {
        let bytes = end.read().await?;
        if bytes.is_empty() {
            break;
        }
        input.extend_from_slice(&bytes);
    }
    if input != expected {
        run.fail(format!("the origin got wrong bytes in {tunnel:?}: {} of them", input.len()));
    }
    end.write(&tunnel.down()).await?;
    if tunnel.breaks {
        sleep(Duration::from_millis(UNREAD_MS)).await;
        end.reset();
        return Ok(());
    }
    end.end();
    while !end.read().await?.is_empty() {}
    Ok(())
}
