//! Flow control in both directions, and the order of sending.

use super::*;

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
fn a_whole_response_needs_room_in_both_windows() {
    let mut bench = Bench::new(ConnectionLimits::default());
    bench.feed(&[setting(4, 1_000), get(1), get(3)].concat()).expect("valid");
    bench.sent();
    let mut send = |stream, bytes: usize| {
        let key = bench.key(stream);
        let body = vec![b'x'; bytes];
        let sent = bench.connection.send_whole(key, (STATUS_200, &body), &mut bench.out);
        (sent, bench.sent())
    };
    assert_eq!(send(1, 1_001), (Ok(false), vec![]), "the window of the stream is smaller");
    assert_eq!(send(1, 0), (Ok(false), vec![]), "no DATA frame is empty");
    let sent = (Ok(true), vec!["1 Headers 4".into(), "1 data 1000 1".into()]);
    assert_eq!(send(1, 1_000), sent);
    assert_eq!(send(1, 1), (Err(StreamGone), vec![]), "it has ended");
    bench.feed(&setting(4, 65_535)).expect("valid");
    bench.sent();
    bench.respond(3, 60_000);
    bench.grants();
    bench.feed(&get(5)).expect("valid");
    bench.sent();
    let key = bench.key(5);
    let body = [b'x'; 5_000];
    let sent = bench.connection.send_whole(key, (STATUS_200, &body), &mut bench.out);
    assert_eq!(sent, Ok(false), "the window of the connection is smaller");
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
    // A smaller initial window makes the window negative; later increments must make up for that
    // first.
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
