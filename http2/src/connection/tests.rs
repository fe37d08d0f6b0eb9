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
        let count = |event: &String| event.split(' ').nth(1).and_then(|text| text.parse::<usize>().ok());
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

/// Input after the preface, and the error that ends the connection.
#[test]
fn a_broken_rule_ends_the_connection() {
    let open = |more: Vec<u8>| [headers(1, 0, POST), more].concat();
    let ended = |more: Vec<u8>| [get(1), more].concat();
    for (name, input, expected) in [
        ("DATA on stream 0", data(0, 0, b"x"), ProtocolError),
        ("DATA on an idle stream", data(1, 0, b"x"), ProtocolError),
        ("DATA after the end", ended(data(1, 0, b"x")), StreamClosed),
        ("DATA with too much padding", open(data(1, flags::PADDED, b"\x05abcd")), ProtocolError),
        ("DATA padded and empty", open(data(1, flags::PADDED, b"")), FrameSizeError),
        ("HEADERS on stream 0", get(0), ProtocolError),
        ("HEADERS on an even stream", get(2), ProtocolError),
        ("HEADERS after the end", ended(get(1)), StreamClosed),
        ("HEADERS on a skipped stream", [get(5), get(3)].concat(), StreamClosed),
        ("HEADERS with too much padding", headers(1, flags::PADDED, b"\x05\x82"), ProtocolError),
        ("HEADERS that depends on itself", headers(1, flags::PRIORITY, b"\0\0\0\x01\0\x82"), ProtocolError),
        ("HEADERS within its priority", headers(1, flags::PRIORITY, b"\0\0"), FrameSizeError),
        ("HEADERS with a bad index", headers(1, 0, b"\xff\xff\x7f"), CompressionError),
        ("HEADERS with a large table", headers(1, 0, b"\x3f\xe2\x1f"), CompressionError),
        ("PRIORITY of 4 bytes", frame(2, 0, 1, b"\0\0\0\0"), FrameSizeError),
        ("PRIORITY on stream 0", frame(2, 0, 0, b"\0\0\0\0\0"), ProtocolError),
        ("PRIORITY of itself", frame(2, 0, 1, b"\0\0\0\x01\0"), ProtocolError),
        ("RST_STREAM on stream 0", frame(3, 0, 0, b"\0\0\0\0"), ProtocolError),
        ("RST_STREAM on an idle stream", frame(3, 0, 1, b"\0\0\0\0"), ProtocolError),
        ("RST_STREAM of 3 bytes", ended(frame(3, 0, 1, b"\0\0\0")), FrameSizeError),
        ("SETTINGS on a stream", frame(4, 0, 1, b""), ProtocolError),
        ("SETTINGS of 5 bytes", frame(4, 0, 0, b"\0\0\0\0\0"), FrameSizeError),
        ("SETTINGS that acknowledge with entries", frame(4, 1, 0, b"\0\x04\0\0\0\0"), FrameSizeError),
        ("SETTINGS with push 2", setting(2, 2), ProtocolError),
        ("SETTINGS with a large window", setting(4, 1 << 31), FlowControlError),
        ("SETTINGS with a small frame", setting(5, 16_383), ProtocolError),
        ("SETTINGS with a large frame", setting(5, 1 << 24), ProtocolError),
        ("SETTINGS with 33 entries", frame(4, 0, 0, &[0; 33 * 6]), EnhanceYourCalm),
        ("PUSH_PROMISE", frame(5, 4, 1, b"\0\0\0\x02"), ProtocolError),
        ("PING on a stream", frame(6, 0, 1, &[0; 8]), ProtocolError),
        ("PING of 7 bytes", frame(6, 0, 0, &[0; 7]), FrameSizeError),
        ("GOAWAY on a stream", frame(7, 0, 1, &[0; 8]), ProtocolError),
        ("GOAWAY of 7 bytes", frame(7, 0, 0, &[0; 7]), FrameSizeError),
        ("WINDOW_UPDATE of 0", window_update(0, 0), ProtocolError),
        ("WINDOW_UPDATE of 0 on a stream", open(window_update(1, 0)), ProtocolError),
        ("WINDOW_UPDATE of 3 bytes", frame(8, 0, 0, b"\0\0\x01"), FrameSizeError),
        ("WINDOW_UPDATE beyond the largest", window_update(0, (1 << 31) - 1), FlowControlError),
        ("WINDOW_UPDATE beyond it on a stream", open(window_update(1, (1 << 31) - 1)), FlowControlError),
        ("WINDOW_UPDATE on an idle stream", window_update(1, 1), ProtocolError),
        ("SETTINGS beyond the largest window", [open(window_update(1, 1)), setting(4, (1 << 31) - 1)].concat(), FlowControlError),
        ("CONTINUATION alone", frame(9, 4, 1, GET), ProtocolError),
        ("CONTINUATION after the block", ended(frame(9, 4, 1, b"")), ProtocolError),
        ("CONTINUATION of another stream", [frame(1, 0, 1, GET), frame(9, 4, 3, b"")].concat(), ProtocolError),
        ("PING within a block", [frame(1, 0, 1, GET), frame(6, 0, 0, &[0; 8])].concat(), ProtocolError),
        ("an unknown frame within a block", [frame(1, 0, 1, GET), frame(0x77, 0, 0, b"")].concat(), ProtocolError),
        ("PRIORITY_UPDATE on a stream", frame(0x10, 0, 1, b"\0\0\0\x01u=1"), ProtocolError),
        ("PRIORITY_UPDATE of an even stream", frame(0x10, 0, 0, b"\0\0\0\x02u=1"), ProtocolError),
        ("PRIORITY_UPDATE of 3 bytes", frame(0x10, 0, 0, b"\0\0\0"), FrameSizeError),
        ("a large frame", frame(0, 0, 1, &vec![0; FRAME_BYTES_MAX as usize + 1]), FrameSizeError),
        ("a large unknown frame", frame(0x77, 0, 0, &vec![0; FRAME_BYTES_MAX as usize + 1]), FrameSizeError),
    ] {
        let mut bench = Bench::new(ConnectionLimits::default());
        assert_eq!(bench.feed(&input), Err(expected), "{name}");
        assert_eq!(bench.sent().last(), Some(&format!("goaway {expected:?}")), "{name}");
        assert_eq!(bench.feed(&get(99)), Err(expected), "{name}: the error stays");
        assert_eq!(bench.sent(), Vec::<String>::new(), "{name}: one GOAWAY");
    }
}

#[test]
fn a_connection_begins_with_preface_and_settings() {
    for input in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"P ".to_vec(),
        [PREFACE, &frame(6, 0, 0, &[0; 8])].concat(),
        [PREFACE, &frame(4, flags::ACK, 0, b"")].concat(),
        [PREFACE, &get(1)].concat(),
    ] {
        let mut bench = Bench::bare(ConnectionLimits::default());
        assert_eq!(bench.feed(&input), Err(ProtocolError), "{input:?}");
    }
    let mut bench = Bench::bare(ConnectionLimits::default());
    assert_eq!(bench.sent(), ["0 Settings 0", "0 window 196605"]);
    assert_eq!(bench.feed(b"PRI * HTT"), Ok(vec![]));
}

#[test]
fn a_malformed_message_resets_its_stream_only() {
    for (name, input, events, sent) in [
        ("upper case", headers(1, 1, b"\x82\x86\x84\x01\x01a\x00\x01X\x00"), &[][..], "1 reset ProtocolError"),
        ("no path", headers(1, 1, b"\x82\x86\x01\x01a"), &[], "1 reset ProtocolError"),
        ("a length without a body", headers(1, 1, &[POST_LENGTH, b"3"].concat()), &[], "1 reset ProtocolError"),
        (
            "a body that is too long",
            [headers(1, 0, &[POST_LENGTH, b"3"].concat()), data(1, 0, b"abcd")].concat(),
            &["1 POST", "1 ProtocolError"],
            "1 reset ProtocolError",
        ),
        (
            "a body that is too short",
            [headers(1, 0, &[POST_LENGTH, b"3"].concat()), data(1, 1, b"ab")].concat(),
            &["1 POST", "1 ProtocolError"],
            "1 reset ProtocolError",
        ),
        (
            "a body that is too short, with trailers",
            [headers(1, 0, &[POST_LENGTH, b"3"].concat()), headers(1, 1, b"\x00\x01x\x00")].concat(),
            &["1 POST", "1 ProtocolError"],
            "1 reset ProtocolError",
        ),
        (
            "trailers that do not end",
            [headers(1, 0, POST), headers(1, 0, b"\x00\x01x\x00")].concat(),
            &["1 POST", "1 ProtocolError"],
            "1 reset ProtocolError",
        ),
        (
            "pseudo-fields in trailers",
            [headers(1, 0, POST), headers(1, 1, b"\x84")].concat(),
            &["1 POST", "1 ProtocolError"],
            "1 reset ProtocolError",
        ),
    ] {
        let mut bench = Bench::new(ConnectionLimits::default());
        // Frames that were sent before the client read the reset are skipped.
        let late = [data(1, 1, &[0; 100]), headers(1, 1, b"\x00\x01x\x00"), get(3)].concat();
        let found = bench.feed(&[input, late].concat()).expect(name);
        assert_eq!(found, [events, &["3 GET"]].concat(), "{name}");
        assert_eq!(bench.sent(), [sent], "{name}");
        assert_eq!(bench.connection.glitches().count(Glitch::Malformed), 1, "{name}");
    }
}

#[test]
fn a_slot_is_free_only_when_its_work_has_ended() {
    let limits = ConnectionLimits { streams_max: 3, ..ConnectionLimits::default() };
    let mut bench = Bench::new(limits);
    for stream in [1, 3, 5] {
        let reset = frame(3, 0, stream, b"\0\0\0\x08");
        let input = [get(stream), reset].concat();
        let events = vec![format!("{stream} GET"), format!("{stream} Cancel")];
        assert_eq!(bench.feed(&input), Ok(events));
    }
    assert_eq!(bench.feed(&get(7)), Ok(vec![]));
    assert_eq!(bench.sent(), ["7 reset RefusedStream"]);
    let key = bench.key(3);
    bench.connection.end_work(key, &mut bench.out);
    assert_eq!(bench.feed(&get(9)), Ok(vec!["9 GET".into()]));
    assert_eq!(bench.sent(), Vec::<String>::new());
}

/// Each flood ends the connection before it has cost much, and needs little memory.
#[test]
fn every_flood_ends_the_connection() {
    type Flood = (&'static str, fn(u32) -> Vec<u8>);
    let floods: &[Flood] = &[
        ("rapid reset", |round| {
            let stream = 2 * round + 1;
            [get(stream), frame(3, 0, stream, b"\0\0\0\x08")].concat()
        }),
        ("malformed requests", |round| headers(2 * round + 1, 1, b"\x82")),
        ("requests beyond the limit", |round| get(2 * round + 1)),
        ("large lists", |round| {
            headers(2 * round + 1, 1, &[GET, &[0x90; 200]].concat())
        }),
        ("SETTINGS", |_| setting(4, 65_535)),
        ("windows that change", |round| setting(4, 65_535 + round % 2)),
        ("PING", |_| frame(6, 0, 0, &[0; 8])),
        ("PRIORITY", |_| frame(2, 0, 1, b"\0\0\0\0\0")),
        ("PRIORITY_UPDATE", |round| {
            frame(0x10, 0, 0, &[0, 0, 0xff, (round as u8) | 1, b'i'])
        }),
        ("unknown frames", |_| frame(0x77, 0, 0, b"")),
        ("empty DATA", |round| match round {
            0 => headers(1, 0, POST),
            _ => data(1, 0, b""),
        }),
        ("tiny DATA", |round| match round {
            0 => headers(1, 0, POST),
            _ => data(1, 0, b"x"),
        }),
        ("padding", |round| match round {
            0 => headers(1, 0, POST),
            _ => data(1, flags::PADDED, &[&[200][..], &[0; 200]].concat()),
        }),
        ("small CONTINUATIONs", |round| {
            let stream = 2 * round + 1;
            let (one, other) = GET.split_at(3);
            [frame(1, 1, stream, one), frame(9, 0, stream, b""), frame(9, 4, stream, other)].concat()
        }),
        ("small increments", |_| window_update(0, 1)),
        ("frames of closed streams", |round| match round {
            0 => [get(1), frame(3, 0, 1, b"\0\0\0\x08")].concat(),
            _ => frame(3, 0, 1, b"\0\0\0\x08"),
        }),
    ];
    for (name, input) in floods {
        let mut bench = Bench::new(ConnectionLimits::default());
        let mut ended = None;
        for round in 0..20_000 {
            match bench.feed(&input(round)) {
                Ok(_) => assert!(bench.out.len() < OUTPUT_BYTES_MAX, "{name}"),
                Err(code) => {
                    ended = Some((round, code));
                    break;
                }
            }
            bench.out.clear();
            // The server releases its streams at once, so only the budget ends the flood.
            if !matches!(*name, "requests beyond the limit" | "empty DATA" | "tiny DATA" | "padding") {
                if let Some(key) = bench.connection.streams.find(2 * round + 1) {
                    bench.connection.end_work(key, &mut bench.out);
                    bench.out.clear();
                }
            }
        }
        let (rounds, code) = ended.unwrap_or_else(|| panic!("{name} does not end"));
        assert_eq!(code, EnhanceYourCalm, "{name} after {rounds}");
        assert!(rounds > 50, "{name} ends after {rounds}, as an honest client could");
    }
}

#[test]
fn a_header_block_is_bounded() {
    let mut bench = Bench::new(ConnectionLimits::default());
    let mut input = frame(1, 1, 1, GET);
    for _ in 0..9 {
        input.extend(frame(9, 0, 1, b"\x00\x01x\x00"));
    }
    assert_eq!(bench.feed(&input), Err(EnhanceYourCalm), "nine CONTINUATION frames");
    let mut bench = Bench::new(ConnectionLimits::default());
    let mut input = frame(1, 1, 1, &[0x84; 16_384]);
    for _ in 0..4 {
        input.extend(frame(9, 0, 1, &[0x84; 16_384]));
    }
    assert_eq!(bench.feed(&input), Err(EnhanceYourCalm), "80 KiB");
    let mut bench = Bench::new(ConnectionLimits::default());
    let bomb = headers(1, 1, &[0x84; 16_384]);
    assert_eq!(bench.feed(&bomb), Err(EnhanceYourCalm), "16,384 lines");
    let mut bench = Bench::new(ConnectionLimits::default());
    let many = headers(1, 0, &[GET, &[0x90; 200]].concat());
    assert_eq!(bench.feed(&[many, get(3)].concat()), Ok(vec!["3 GET".into()]), "204 lines");
    assert_eq!(bench.sent(), ["1 Headers 5", "1 reset NoError"]);
}

#[test]
fn reading_stops_while_output_waits() {
    let mut bench = Bench::new(ConnectionLimits::default());
    bench.out = vec![0; OUTPUT_BYTES_MAX];
    let input = get(1);
    let receipt = bench.connection.receive(&input, NOW, &mut bench.out).expect("no error");
    assert!(receipt.consumed == 0 && receipt.event.is_none());
    bench.out.clear();
    assert_eq!(bench.feed(&get(1)), Ok(vec!["1 GET".into()]));
}

#[test]
fn bodies_arrive_only_as_they_are_released() {
    let mut bench = Bench::new(ConnectionLimits::default());
    assert_eq!(bench.feed(&headers(1, 0, POST)), Ok(vec!["1 POST".into()]));
    let key = bench.key(1);
    let piece = vec![0; 16_383];
    for _ in 0..4 {
        assert_eq!(bench.feed(&data(1, 0, &piece)), Ok(vec!["1 16383 false".into()]));
    }
    assert_eq!(bench.sent(), Vec::<String>::new());
    bench.connection.release_data(key, 32_766, &mut bench.out);
    bench.connection.release_data(key, 1, &mut bench.out);
    assert_eq!(bench.sent(), ["1 window 32767"].map(String::from)[..1].to_vec(), "half a window");
    // More than was received cannot be released.
    bench.connection.release_data(key, usize::MAX, &mut bench.out);
    bench.connection.release_data(key, usize::MAX, &mut bench.out);
    assert_eq!(bench.sent(), Vec::<String>::new());
    for _ in 0..2 {
        bench.feed(&data(1, 0, &piece)).expect("within the window");
    }
    let beyond = bench.feed(&data(1, 0, &piece));
    assert_eq!(beyond, Err(FlowControlError));
}

#[test]
fn bytes_of_a_stream_that_ended_are_announced_again() {
    let mut bench = Bench::new(ConnectionLimits::default());
    let piece = vec![0; 16_384];
    let mut announced = 0;
    for round in 0..40u32 {
        let stream = 2 * round + 1;
        let input = [headers(stream, 0, POST), data(stream, 0, &piece)].concat();
        bench.feed(&input).expect("within the window");
        let key = bench.key(stream);
        match round % 3 {
            0 => bench.connection.reset(key, Cancel, &mut bench.out),
            1 => drop(bench.feed(&frame(3, 0, stream, b"\0\0\0\x08")).expect("a reset")),
            _ => {}
        }
        bench.connection.end_work(key, &mut bench.out);
        for sent in bench.sent() {
            if let Some(increment) = sent.strip_prefix("0 window ") {
                announced += increment.parse::<u32>().expect("a number");
            }
        }
    }
    assert!(announced > 40 * 16_384 - 4 * 65_535, "{announced} bytes were announced");
}

#[test]
fn windows_hold_data_back() {
    let mut bench = Bench::new(ConnectionLimits::default());
    bench.feed(&[setting(4, 1_000), get(1), get(3)].concat()).expect("valid");
    bench.respond(1, 5_000);
    bench.respond(3, 500);
    assert_eq!(bench.grants(), [(1, 1_000, false), (3, 500, true)]);
    assert!(bench.connection.is_blocked_by_window());
    bench.feed(&window_update(1, 600)).expect("valid");
    assert_eq!(bench.grants(), [(1, 600, false)]);
    // A smaller initial window makes the window negative; it must be made good first.
    bench.feed(&[setting(4, 400), window_update(1, 600)].concat()).expect("valid");
    assert_eq!(bench.grants(), []);
    bench.feed(&setting(4, 2_000)).expect("valid");
    assert_eq!(bench.grants(), [(1, 1_600, false)]);
    bench.feed(&window_update(1, 100_000)).expect("valid");
    assert_eq!(bench.grants(), [(1, 1_800, true)]);
    assert!(!bench.connection.is_blocked_by_window());
}

#[test]
fn the_window_of_the_connection_holds_all_streams_back() {
    let mut bench = Bench::new(ConnectionLimits::default());
    bench.feed(&[setting(4, 1 << 20), get(1), get(3)].concat()).expect("valid");
    bench.respond(1, 60_000);
    bench.respond(3, 60_000);
    let sum: usize = bench.grants().iter().map(|(_, bytes, _)| bytes).sum();
    assert_eq!(sum, 65_535);
    assert!(bench.connection.is_blocked_by_window());
    bench.feed(&window_update(0, 100_000)).expect("valid");
    let sum: usize = bench.grants().iter().map(|(_, bytes, _)| bytes).sum();
    assert_eq!(sum, 120_000 - 65_535);
}

#[test]
fn tiny_windows_cost_glitches() {
    let mut bench = Bench::new(ConnectionLimits::default());
    bench.feed(&[setting(4, 1), get(1)].concat()).expect("valid");
    bench.respond(1, 1 << 20);
    let mut ended = false;
    for _ in 0..2_000 {
        ended |= bench.connection.next_data(usize::MAX, &mut bench.out).is_err();
        ended |= bench.feed(&window_update(1, 1)).is_err();
        bench.out.clear();
    }
    assert!(ended);
}

#[test]
fn priorities_order_the_responses() {
    let urgent = [GET, b"\x00\x08priority\x03u=0"].concat();
    let mut bench = Bench::new(ConnectionLimits::default());
    let early = frame(0x10, 0, 0, b"\0\0\0\x07u=1");
    let input = [early, get(1), get(3), headers(5, 1, &urgent), get(7)].concat();
    bench.feed(&input).expect("valid");
    for stream in [1, 3, 5, 7] {
        bench.respond(stream, 300);
    }
    bench.feed(&frame(0x10, 0, 0, b"\0\0\0\x03u=2")).expect("valid");
    let order: Vec<u32> = bench.grants().iter().map(|(stream, ..)| *stream).collect();
    assert_eq!(order, [5, 7, 3, 1]);
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
    // A response that is not whole is reset, and one that needs no more of its request as well.
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

#[test]
fn waits_have_a_time_limit() {
    let limits = ConnectionLimits { head_ms_max: 100, ..ConnectionLimits::default() };
    for (name, input, expected) in [
        ("the preface", vec![], ProtocolError),
        ("the first SETTINGS", PREFACE.to_vec(), ProtocolError),
        ("the acknowledgement", [PREFACE, &frame(4, 0, 0, b"")].concat(), SettingsTimeout),
        ("a block", [PREFACE, &frame(4, 0, 0, b""), &frame(4, 1, 0, b""), &frame(1, 1, 1, GET)].concat(), EnhanceYourCalm),
        ("a frame", [PREFACE, &frame(4, 0, 0, b""), &frame(4, 1, 0, b""), &get(1)[..12]].concat(), EnhanceYourCalm),
    ] {
        let mut bench = Bench::bare(limits);
        bench.feed(&input).expect(name);
        assert_eq!(bench.connection.deadline_ms(), Some(NOW + 100), "{name}");
        let (connection, out) = (&mut bench.connection, &mut bench.out);
        assert_eq!(connection.check_time(NOW + 99, out), Ok(()), "{name}");
        let late = connection.check_time(NOW + 100, out).map_err(|error| error.code);
        assert_eq!(late, Err(expected), "{name}");
    }
    let mut bench = Bench::new(limits);
    bench.feed(&get(1)).expect("valid");
    assert_eq!(bench.connection.deadline_ms(), None);
}

#[test]
fn time_and_requests_refund_glitches() {
    let mut bench = Bench::new(ConnectionLimits::default());
    for round in 0..2_000u32 {
        let stream = 2 * round + 1;
        bench.feed(&get(stream)).expect("valid");
        bench.respond(stream, 0);
        let key = bench.key(stream);
        bench.connection.end_work(key, &mut bench.out);
        bench.out.clear();
        // One PING for each request.
        bench.feed(&frame(6, 0, 0, &[0; 8])).expect("refunded by the request");
    }
    let mut bench = Bench::new(ConnectionLimits::default());
    for round in 0..2_000u64 {
        let pinged = bench.feed_at(&frame(6, 0, 0, &[0; 8]), NOW + 500 * round);
        pinged.expect("refunded by the time");
        bench.out.clear();
    }
    assert_eq!(usize::from(STREAMS_MAX), 128);
}
