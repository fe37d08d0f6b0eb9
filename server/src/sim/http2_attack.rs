//! Hostile clients that send random frames after the preface of HTTP/2.

use super::attack::{TARGET, read_to_end, write};
use super::http2_frames::{
    END_HEADERS, Frame, HEADERS, INITIAL_WINDOW, PREFACE, frame, header_block, settings,
};
use super::rng::Rng;
use super::run::Run;
use super::wire::WireEnd;

/// The number of random frames that a client sends, unless the server ends the connection earlier.
const FRAME_COUNT: u64 = 200;

/// The percentage of clients that read nothing.
const UNREAD_PERCENT: u64 = 30;

/// Sends random frames, some of which are requests.
pub(super) async fn frames(run: &Run, end: &WireEnd, number: u64) -> Option<()> {
    let mut rng = Rng::of(&[run.scenario.seed, 6, number]);
    let mut bytes = PREFACE.to_vec();
    bytes.extend(settings(INITIAL_WINDOW, rng.pick(&[0, 1, 65_535])));
    let mut next_stream = 1;
    for _ in 0..FRAME_COUNT {
        // Most random frames end the connection, so the percentage of requests determines how far
        // a client gets.
        if rng.percent(60) {
            bytes.extend(request(&mut rng, next_stream, number));
            next_stream += 2;
        } else {
            bytes.extend(random_frame(&mut rng, next_stream));
        }
    }
    let reads = !rng.percent(UNREAD_PERCENT);
    if !reads {
        write(end, &bytes).await?;
        return std::future::pending().await;
    }
    let (written, read) = tokio::join!(write(end, &bytes), read_to_end(run, end));
    written.and(read)
}

fn request(rng: &mut Rng, stream: u32, number: u64) -> Vec<u8> {
    let line = |name: &str, value: String| (name.to_owned(), value);
    let block = header_block(&[
        line(":method", rng.pick(&["GET", "POST", "HEAD"]).to_owned()),
        line(":scheme", "http".to_owned()),
        line(":authority", "a.test".to_owned()),
        line(":path", format!("{TARGET}/{number}-{stream}")),
    ]);
    frame(HEADERS, END_HEADERS | rng.below(2) as u8, stream, &block)
}

/// Returns a frame whose type is usually defined. Its stream is usually one that may be open.
fn random_frame(rng: &mut Rng, next_stream: u32) -> Vec<u8> {
    let kind = rng.pick(&[0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9, 16, 77]);
    let length = match rng.percent(70) {
        true => rng.pick(&[0, 4, 5, 6, 8]),
        false => rng.below(300),
    };
    let stream = match rng.below(10) {
        0..3 => 0,
        3..9 => next_stream.saturating_sub(2 * rng.below(4) as u32 + 2),
        _ => rng.next() as u32 & !(1 << 31),
    };
    let payload = match rng.percent(50) {
        true => vec![0; length as usize],
        false => (0..length).map(|_| rng.next() as u8).collect(),
    };
    let flags = rng.pick(&[0, 0, 1, 4, 5, 8, 0x20, 0xff]);
    let mut bytes = Frame { kind, flags, stream, payload }.to_bytes();
    if rng.percent(3) {
        // The length of the frame is wrong.
        bytes[2] = rng.next() as u8;
    }
    bytes
}
