//! Clients that cause needless work, and the budget that ends their connections.

use super::*;

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

/// The messages of a WebSocket are often shorter than any useful part of a request's body.
#[test]
fn short_messages_in_a_tunnel_are_no_flood() {
    let limits = ConnectionLimits { extended_connect: true, ..ConnectionLimits::default() };
    let mut bench = Bench::new(limits);
    let mut block = b"\x86\x84\x01\x01a".to_vec();
    for (name, value) in [(":method", "CONNECT"), (":protocol", "websocket")] {
        crate::hpack::encode_field(&mut block, name.as_bytes(), value.as_bytes());
    }
    assert_eq!(bench.feed(&headers(1, 0, &block)), Ok(vec!["1 CONNECT".into()]));
    let key = bench.key(1);
    for _ in 0..20_000 {
        assert_eq!(bench.feed(&data(1, 0, b"short")), Ok(vec!["1 5 false".into()]));
        bench.connection.release_data(key, 5, &mut bench.out);
        bench.out.clear();
    }
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
        ("large lists", |round| headers(2 * round + 1, 1, &[GET, &[0x90; 200]].concat())),
        ("SETTINGS", |_| setting(4, 65_535)),
        ("windows that change", |round| setting(4, 65_535 + round % 2)),
        ("PING", |_| frame(6, 0, 0, &[0; 8])),
        ("PRIORITY", |_| frame(2, 0, 1, b"\0\0\0\0\0")),
        ("PRIORITY_UPDATE", |round| frame(0x10, 0, 0, &[0, 0, 0xff, (round as u8) | 1, b'i'])),
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
            [frame(1, 1, stream, one), frame(9, 0, stream, b""), frame(9, 4, stream, other)]
                .concat()
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
            // The server releases each stream immediately, so only the budget ends the flood.
            let keeps = ["requests beyond the limit", "empty DATA", "tiny DATA", "padding"];
            let stream = bench.connection.streams.find(2 * round + 1);
            if let Some(key) = stream.filter(|_| !keeps.contains(name)) {
                bench.connection.end_work(key, &mut bench.out);
                bench.out.clear();
            }
        }
        let (rounds, code) = ended.unwrap_or_else(|| panic!("{name} does not end"));
        assert_eq!(code, EnhanceYourCalm, "{name} after {rounds}");
        assert!(rounds > 50, "{name} ends after {rounds}, as an honest client could");
    }
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
fn time_and_requests_refund_glitches() {
    let mut bench = Bench::new(ConnectionLimits::default());
    for round in 0..2_000u32 {
        let stream = 2 * round + 1;
        bench.feed(&get(stream)).expect("valid");
        bench.respond(stream, 0);
        let key = bench.key(stream);
        bench.connection.end_work(key, &mut bench.out);
        bench.out.clear();
        // Each request refunds the cost of one PING.
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
