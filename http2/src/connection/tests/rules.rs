//! Rules for frames and messages, and the errors for breaking them.

use super::*;

/// Feeds inputs that break a rule, and checks that each ends the connection once.
fn check_errors(vectors: Vec<(&str, Vec<u8>, ErrorCode)>) {
    for (name, input, expected) in vectors {
        let mut bench = Bench::new(ConnectionLimits::default());
        assert_eq!(bench.feed(&input), Err(expected), "{name}");
        assert_eq!(bench.sent().last(), Some(&format!("goaway {expected:?}")), "{name}");
        assert_eq!(bench.feed(&get(99)), Err(expected), "{name}: the error stays");
        assert_eq!(bench.sent(), Vec::<String>::new(), "{name}: one GOAWAY");
    }
}

fn open(more: Vec<u8>) -> Vec<u8> {
    [headers(1, 0, POST), more].concat()
}

fn ended(more: Vec<u8>) -> Vec<u8> {
    [get(1), more].concat()
}

#[test]
fn a_frame_that_breaks_a_rule_of_its_stream_ends_the_connection() {
    check_errors(vec![
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
        (
            "HEADERS that depends on itself",
            headers(1, flags::PRIORITY, b"\0\0\0\x01\0\x82"),
            ProtocolError,
        ),
        ("HEADERS within its priority", headers(1, flags::PRIORITY, b"\0\0"), FrameSizeError),
        ("HEADERS with a bad index", headers(1, 0, b"\xff\xff\x7f"), CompressionError),
        ("HEADERS with a large table", headers(1, 0, b"\x3f\xe2\x1f"), CompressionError),
        ("PRIORITY of 4 bytes", frame(2, 0, 1, b"\0\0\0\0"), FrameSizeError),
        ("PRIORITY on stream 0", frame(2, 0, 0, b"\0\0\0\0\0"), ProtocolError),
        ("PRIORITY of itself", frame(2, 0, 1, b"\0\0\0\x01\0"), ProtocolError),
        ("RST_STREAM on stream 0", frame(3, 0, 0, b"\0\0\0\0"), ProtocolError),
        ("RST_STREAM on an idle stream", frame(3, 0, 1, b"\0\0\0\0"), ProtocolError),
        ("RST_STREAM of 3 bytes", ended(frame(3, 0, 1, b"\0\0\0")), FrameSizeError),
    ]);
}

#[test]
fn a_frame_that_breaks_another_rule_ends_the_connection() {
    check_errors(vec![
        ("SETTINGS on a stream", frame(4, 0, 1, b""), ProtocolError),
        ("SETTINGS of 5 bytes", frame(4, 0, 0, b"\0\0\0\0\0"), FrameSizeError),
        (
            "SETTINGS that acknowledge with entries",
            frame(4, 1, 0, b"\0\x04\0\0\0\0"),
            FrameSizeError,
        ),
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
        ("WINDOW_UPDATE on an idle stream", window_update(1, 1), ProtocolError),
        (
            "SETTINGS beyond the largest window",
            [open(window_update(1, 1)), setting(4, (1 << 31) - 1)].concat(),
            FlowControlError,
        ),
        ("CONTINUATION alone", frame(9, 4, 1, GET), ProtocolError),
        ("CONTINUATION after the block", ended(frame(9, 4, 1, b"")), ProtocolError),
        (
            "CONTINUATION of another stream",
            [frame(1, 0, 1, GET), frame(9, 4, 3, b"")].concat(),
            ProtocolError,
        ),
        (
            "PING within a block",
            [frame(1, 0, 1, GET), frame(6, 0, 0, &[0; 8])].concat(),
            ProtocolError,
        ),
        (
            "an unknown frame within a block",
            [frame(1, 0, 1, GET), frame(0x77, 0, 0, b"")].concat(),
            ProtocolError,
        ),
        ("PRIORITY_UPDATE on a stream", frame(0x10, 0, 1, b"\0\0\0\x01u=1"), ProtocolError),
        ("PRIORITY_UPDATE of an even stream", frame(0x10, 0, 0, b"\0\0\0\x02u=1"), ProtocolError),
        ("PRIORITY_UPDATE of 3 bytes", frame(0x10, 0, 0, b"\0\0\0"), FrameSizeError),
        ("a large frame", frame(0, 0, 1, &vec![0; FRAME_BYTES_MAX as usize + 1]), FrameSizeError),
        (
            "a large unknown frame",
            frame(0x77, 0, 0, &vec![0; FRAME_BYTES_MAX as usize + 1]),
            FrameSizeError,
        ),
    ]);
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
        (
            "upper case",
            headers(1, 1, b"\x82\x86\x84\x01\x01a\x00\x01X\x00"),
            &[][..],
            "1 reset ProtocolError",
        ),
        ("no path", headers(1, 1, b"\x82\x86\x01\x01a"), &[], "1 reset ProtocolError"),
        (
            "a length without a body",
            headers(1, 1, &[POST_LENGTH, b"3"].concat()),
            &[],
            "1 reset ProtocolError",
        ),
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
            [headers(1, 0, &[POST_LENGTH, b"3"].concat()), headers(1, 1, b"\x00\x01x\x00")]
                .concat(),
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
fn a_frame_after_a_reset_of_the_client_ends_the_connection() {
    let reset = frame(3, 0, 1, &[0, 0, 0, 8]);
    for (name, late) in [("DATA", data(1, 1, b"late")), ("HEADERS", headers(1, 1, POST))] {
        for (order, is_answered) in [("before", false), ("after", true)] {
            let name = format!("{name}, reset {order} the end of the response");
            let mut bench = Bench::new(ConnectionLimits::default());
            bench.feed(&headers(1, 0, POST)).expect("valid");
            if is_answered {
                let key = bench.key(1);
                let (connection, out) = (&mut bench.connection, &mut bench.out);
                connection.send_head(key, STATUS_200, true, out).expect("a stream");
                connection.end_work(key, out);
                // Frames that the client sent before it read our reset are skipped.
                assert_eq!(bench.feed(&data(1, 0, b"early")), Ok(vec![]), "{name}");
                assert_eq!(bench.sent(), ["1 Headers 5", "1 reset NoError"], "{name}");
            }
            assert!(bench.feed(&reset).is_ok(), "{name}");
            assert!(bench.feed(&window_update(1, 1000)).is_ok(), "{name}");
            assert_eq!(bench.feed(&late), Err(StreamClosed), "{name}");
            assert_eq!(bench.sent(), ["goaway StreamClosed"], "{name}");
        }
    }
}

#[test]
fn a_window_beyond_the_largest_resets_its_stream() {
    let mut bench = Bench::new(ConnectionLimits::default());
    let beyond = window_update(1, (1 << 31) - 1);
    let events = bench.feed(&[get(1), beyond.clone(), beyond, get(3)].concat());
    let expected = ["1 GET", "1 FlowControlError", "3 GET"].map(String::from);
    assert_eq!(events, Ok(expected.to_vec()));
    assert_eq!(bench.sent(), ["1 reset FlowControlError"]);
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
fn waits_have_a_time_limit() {
    let limits = ConnectionLimits { head_ms_max: 100, ..ConnectionLimits::default() };
    for (name, input, expected) in [
        ("the preface", vec![], ProtocolError),
        ("the first SETTINGS", PREFACE.to_vec(), ProtocolError),
        ("the acknowledgement", [PREFACE, &frame(4, 0, 0, b"")].concat(), SettingsTimeout),
        (
            "a block",
            [PREFACE, &frame(4, 0, 0, b""), &frame(4, 1, 0, b""), &frame(1, 1, 1, GET)].concat(),
            EnhanceYourCalm,
        ),
        (
            "a frame",
            [PREFACE, &frame(4, 0, 0, b""), &frame(4, 1, 0, b""), &get(1)[..12]].concat(),
            EnhanceYourCalm,
        ),
        (
            "a frame of an unknown type",
            [PREFACE, &frame(4, 0, 0, b""), &frame(4, 1, 0, b""), &frame(99, 0, 0, b"abc")[..10]]
                .concat(),
            EnhanceYourCalm,
        ),
        (
            "the length of padding",
            [PREFACE, &frame(4, 0, 0, b""), &frame(4, 1, 0, b""), &frame(0, 8, 1, b"abc")[..9]]
                .concat(),
            EnhanceYourCalm,
        ),
    ] {
        let mut bench = Bench::bare(limits);
        bench.feed(&input).expect(name);
        assert_eq!(bench.connection.deadline_ms(), Some(NOW + 100), "{name}");
        let (connection, out) = (&mut bench.connection, &mut bench.out);
        assert_eq!(connection.check_time(NOW + 99, out), Ok(()), "{name}");
        // The time in which nothing is read does not count.
        connection.stop_reading(NOW + 20);
        connection.stop_reading(NOW + 500);
        connection.resume_reading(NOW + 1_020);
        connection.resume_reading(NOW + 1_030);
        assert_eq!(connection.check_time(NOW + 1_099, out), Ok(()), "{name}");
        let late = connection.check_time(NOW + 1_100, out).map_err(|error| error.code);
        assert_eq!(late, Err(expected), "{name}");
    }
    let mut bench = Bench::new(limits);
    bench.feed(&get(1)).expect("valid");
    assert_eq!(bench.connection.deadline_ms(), None);
    // After a cut within the head of a DATA frame, the rest of the head ends the wait.
    bench.feed(&headers(3, 0, POST)).expect("valid");
    for (name, bytes) in
        [("data", frame(0, 0, 3, &[b'x'; 100])), ("unknown", frame(99, 0, 0, b"x"))]
    {
        bench.feed(&bytes[..5]).expect(name);
        assert_eq!(bench.connection.deadline_ms(), Some(NOW + 100), "{name}");
        bench.feed(&bytes).expect(name);
        assert_eq!(bench.connection.deadline_ms(), None, "{name}");
    }
    // The data of a stream that was reset is skipped, so no other limit applies to it.
    bench.feed(&frame(0, 0, 3, &[b'x'; 100])[..20]).expect("a part");
    assert_eq!(bench.connection.deadline_ms(), None, "the body has its own limit");
    bench.feed(b"x").expect("another part");
    let stream = bench.key(3);
    bench.connection.reset(stream, ErrorCode::Cancel, &mut bench.out);
    bench.feed(b"x").expect("another part");
    assert_eq!(bench.connection.deadline_ms(), Some(NOW + 100), "skipped data");
    bench.feed(&[b'x'; 87]).expect("the rest");
    assert_eq!(bench.connection.deadline_ms(), None, "the frame has ended");
}
