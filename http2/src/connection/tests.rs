//! Frames of a client against a connection: rules, limits, flow control, and the order of sending.

use super::*;
use crate::error::ErrorCode::*;
use crate::frame;
use crate::frame::{FrameHead, FrameKind, HEAD_BYTES, PREFACE, flags};
use crate::limits::{FRAME_BYTES_MAX, STREAMS_MAX};

const NOW: u64 = 1_000;
/// GET / of a.example, from the static table and literals without indexing.
const GET: &[u8] = b"\x82\x86\x84\x01\x09a.example";
/// POST with the first bytes of a Content-Length line; one digit follows.
const POST_LENGTH: &[u8] = b"\x83\x86\x84\x01\x09a.example\x0f\x0d\x01";
const POST: &[u8] = b"\x83\x86\x84\x01\x09a.example";
const STATUS_200: &[u8] = &[0x88];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len();
    let mut out = vec![(length >> 16) as u8, (length >> 8) as u8, length as u8, kind, flags];
    out.extend([24, 16, 8, 0].map(|shift| (stream >> shift) as u8));
    out.extend_from_slice(payload);
    out
}

fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(1, flags | flags::END_HEADERS, stream, block)
}

fn get(stream: u32) -> Vec<u8> {
    headers(stream, flags::END_STREAM, GET)
}

fn data(stream: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    frame(0, flags, stream, payload)
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(8, 0, stream, &[24, 16, 8, 0].map(|shift| (increment >> shift) as u8))
}

fn setting(identifier: u8, value: u32) -> Vec<u8> {
    let mut entry = vec![0, identifier];
    entry.extend([24, 16, 8, 0].map(|shift| (value >> shift) as u8));
    frame(4, 0, 0, &entry)
}

/// Returns an event as text.
fn shown(event: &StreamEvent<'_>) -> String {
    match event {
        StreamEvent::Request { stream, request } => {
            format!("{} {}", stream.id(), String::from_utf8_lossy(request.method()))
        }
        StreamEvent::Data { stream, data, is_last } => {
            format!("{} {} {is_last}", stream.id(), data.len())
        }
        StreamEvent::Trailers { stream, fields } => {
            format!("{} trailers {}", stream.id(), fields.count())
        }
        StreamEvent::Reset { stream, code } => format!("{} {code:?}", stream.id()),
    }
}

/// A connection under test, after its preface.
struct Bench {
    connection: ServerConnection,
    out: Vec<u8>,
}

impl Bench {
    fn new(limits: ConnectionLimits) -> Bench {
        let mut bench = Bench::bare(limits);
        let start = [PREFACE, &frame(4, 0, 0, b"")[..], &frame(4, flags::ACK, 0, b"")].concat();
        assert_eq!(bench.feed(&start), Ok(vec![]));
        bench.out.clear();
        bench
    }

    fn bare(limits: ConnectionLimits) -> Bench {
        let mut out = Vec::new();
        let connection = ServerConnection::new(limits, NOW, &mut out);
        Bench { connection, out }
    }

    /// Feeds input whole, and returns the events as text.
    fn feed(&mut self, input: &[u8]) -> Result<Vec<String>, ErrorCode> {
        self.feed_at(input, NOW)
    }

    fn feed_at(&mut self, input: &[u8], now_ms: u64) -> Result<Vec<String>, ErrorCode> {
        let (mut events, mut rest) = (Vec::new(), input);
        loop {
            let receipt = self.connection.receive(rest, now_ms, &mut self.out);
            let Receipt { consumed, event } = receipt.map_err(|error| error.code)?;
            rest = &rest[consumed..];
            let Some(event) = event else {
                return Ok(events);
            };
            events.push(shown(&event));
        }
    }

    fn key(&self, stream: u32) -> StreamKey {
        self.connection.streams.find(stream).expect("the stream is in use")
    }

    /// Returns the frames in the output as text, and empties it.
    fn sent(&mut self) -> Vec<String> {
        let mut rest = &self.out[..];
        let mut frames = Vec::new();
        while let Some(head) = FrameHead::parse(rest) {
            let payload = &rest[HEAD_BYTES..head.frame_bytes()];
            let last = payload.last().copied().unwrap_or_default();
            frames.push(match head.kind {
                FrameKind::Data => format!("{} data {} {}", head.stream, head.length, head.flags),
                FrameKind::RstStream => {
                    format!("{} reset {:?}", head.stream, ErrorCode::of(u32::from(last)))
                }
                FrameKind::GoAway => format!("goaway {:?}", ErrorCode::of(u32::from(last))),
                FrameKind::WindowUpdate => {
                    let increment = frame::read::window_update(payload).expect("valid");
                    format!("{} window {increment}", head.stream)
                }
                kind => format!("{} {kind:?} {}", head.stream, head.flags),
            });
            rest = &rest[head.frame_bytes()..];
        }
        self.out.clear();
        frames
    }

    /// Sends a response of `bytes` bytes as far as it is granted, and returns the grants.
    fn grants(&mut self) -> Vec<(u32, usize, bool)> {
        let mut granted = Vec::new();
        while let Ok(Some(grant)) = self.connection.next_data(usize::MAX, &mut self.out) {
            granted.push((grant.stream.id(), grant.bytes, grant.is_last));
            self.out.clear();
        }
        granted
    }

    fn respond(&mut self, stream: u32, bytes: u64) {
        let key = self.key(stream);
        let (connection, out) = (&mut self.connection, &mut self.out);
        connection.send_head(key, STATUS_200, false, out).expect("the stream waits for its head");
        connection.offer_data(key, bytes, true, out).expect("the stream takes data");
    }
}

mod floods;
mod flow;
mod rules;

#[test]
fn a_request_gets_a_response_and_its_slot_is_freed() {
    let mut bench = Bench::new(ConnectionLimits::default());
    assert_eq!(bench.feed(&get(1)), Ok(vec!["1 GET".into()]));
    bench.respond(1, 20_000);
    assert_eq!(bench.sent(), ["1 Headers 4"]);
    assert_eq!(bench.grants(), [(1, 16_384, false), (1, 3_616, true)]);
    let key = bench.key(1);
    bench.connection.end_work(key, &mut bench.out);
    assert_eq!((bench.sent(), bench.connection.streams_in_use()), (vec![], 0));
    assert_eq!(bench.connection.send_head(key, STATUS_200, true, &mut bench.out), Err(StreamGone));
}

#[test]
fn the_result_does_not_depend_on_how_the_input_is_cut() {
    let input = [
        PREFACE,
        &setting(4, 100)[..],
        &headers(1, 0, POST),
        &data(1, flags::PADDED, b"\x03abcdefghijklmnopqrstuvw\0\0\0"),
        &frame(0x77, 0xff, 9, b"unknown"),
        &data(1, 0, &[b'x'; 300]),
        &headers(1, flags::END_STREAM, b"\x00\x01x\x01y"),
        &frame(1, flags::END_STREAM, 3, &GET[..5]),
        &frame(9, flags::END_HEADERS, 3, &GET[5..]),
    ]
    .concat();
    let mut whole = Bench::bare(ConnectionLimits::default());
    let joined = |events: Vec<String>| -> (Vec<String>, usize) {
        let count =
            |event: &String| event.split(' ').nth(1).and_then(|text| text.parse::<usize>().ok());
        let bytes: usize = events.iter().filter_map(count).sum();
        (events.into_iter().filter(|event| count(event).is_none()).collect(), bytes)
    };
    let expected = joined(whole.feed(&input).expect("valid input"));
    assert_eq!(expected.1, 323);
    assert_eq!(expected.0, ["1 POST", "1 trailers 1", "3 GET"]);
    let mut bench = Bench::bare(ConnectionLimits::default());
    let (mut events, mut kept) = (Vec::new(), Vec::new());
    for byte in &input {
        kept.push(*byte);
        while let receipt = bench.connection.receive(&kept, NOW, &mut bench.out).expect("valid")
            && (receipt.consumed > 0 || receipt.event.is_some())
        {
            let consumed = receipt.consumed;
            events.extend(receipt.event.as_ref().map(shown));
            kept.drain(..consumed);
        }
    }
    assert_eq!(joined(events), expected);
    assert_eq!(bench.out, whole.out);
}

#[test]
fn trailers_and_interim_heads_have_their_places() {
    let mut bench = Bench::new(ConnectionLimits::default());
    bench.feed(&get(1)).expect("valid");
    let key = bench.key(1);
    let (connection, out) = (&mut bench.connection, &mut bench.out);
    assert_eq!(connection.send_interim(key, b"\x08\x03103", out), Ok(()));
    assert_eq!(connection.offer_data(key, 1, false, out), Err(StreamGone));
    assert_eq!(connection.send_head(key, STATUS_200, false, out), Ok(()));
    assert_eq!(connection.send_interim(key, b"\x08\x03103", out), Err(StreamGone));
    assert_eq!(connection.offer_data(key, 300, false, out), Ok(()));
    assert!(connection.next_data(usize::MAX, out).expect("no error").is_some());
    out.truncate(out.len() - 9);
    assert_eq!(connection.send_trailers(key, b"\x00\x01x\x01y", out), Ok(()));
    assert_eq!(connection.offer_data(key, 1, false, out), Err(StreamGone));
    connection.end_work(key, out);
    assert_eq!(bench.sent(), ["1 Headers 4", "1 Headers 4", "1 Headers 5"]);
    // An incomplete response is reset with an error. After a complete response, the rest of the
    // request is not needed, so that stream is reset too.
    for (is_last, expected) in [(true, "NoError"), (false, "InternalError")] {
        let mut bench = Bench::new(ConnectionLimits::default());
        bench.feed(&headers(1, 0, POST)).expect("valid");
        let key = bench.key(1);
        let (connection, out) = (&mut bench.connection, &mut bench.out);
        connection.send_head(key, STATUS_200, is_last, out).expect("a stream");
        connection.end_work(key, out);
        assert_eq!(bench.sent()[1..], [format!("1 reset {expected}")]);
    }
}

#[test]
fn a_smaller_table_of_the_client_is_acknowledged_in_the_next_block() {
    let mut bench = Bench::new(ConnectionLimits::default());
    bench.feed(&[setting(1, 0), get(1), get(3)].concat()).expect("valid");
    bench.out.clear();
    for (stream, expected) in [(1, &[0x20, 0x88][..]), (3, &[0x88])] {
        let key = bench.key(stream);
        bench.connection.send_head(key, STATUS_200, true, &mut bench.out).expect("a stream");
        assert_eq!(&bench.out[HEAD_BYTES..], expected);
        bench.out.clear();
    }
}

#[test]
fn a_drain_loses_no_request() {
    let mut bench = Bench::new(ConnectionLimits::default());
    bench.feed(&get(1)).expect("valid");
    bench.connection.begin_drain(&mut bench.out);
    assert_eq!(bench.out[HEAD_BYTES..HEAD_BYTES + 4], [0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(bench.sent(), ["goaway NoError", "0 Ping 0"]);
    // This request was sent before the client read the GOAWAY.
    assert_eq!(bench.feed(&get(3)), Ok(vec!["3 GET".into()]));
    bench.feed(&frame(6, flags::ACK, 0, b"draining")).expect("valid");
    assert_eq!(bench.out[HEAD_BYTES..HEAD_BYTES + 4], [0, 0, 0, 3]);
    bench.out.clear();
    let late = [get(5), data(5, 0, b"0123456789abcdef"), headers(7, 0, POST)].concat();
    assert_eq!(bench.feed(&late), Ok(vec![]), "the GOAWAY refused these");
    for stream in [1, 3] {
        assert!(!bench.connection.is_drained());
        let key = bench.key(stream);
        bench.connection.end_work(key, &mut bench.out);
    }
    assert!(bench.connection.is_drained());
}
