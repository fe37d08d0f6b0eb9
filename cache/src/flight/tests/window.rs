//! Windows: a body that becomes too long to be stored passes through without being held as a whole.

use super::*;

const STEP: usize = 2048;

/// Makes a growing record that has just become a window, and its readers.
fn outgrown(flights: &Arc<Flights>, reader_count: usize) -> (BodyWriter, Vec<BodyReader>) {
    let (lead, first) = take_lead(flights, b"a", None);
    let mut followers = vec![first];
    followers.extend((1..reader_count).map(|_| follow(flights, b"a")));
    let mut writer = begin(lead, b"", None);
    let mut readers: Vec<BodyReader> = followers.into_iter().map(reader).collect();
    while flights.stats().outgrown == 0 {
        assert_eq!(room(&mut writer, 0), Poll::Ready(Ok(())));
        writer.append(&content(1, STEP)).unwrap();
        readers.iter_mut().for_each(|reader| drop(read_now(reader)));
    }
    (writer, readers)
}

fn room(writer: &mut BodyWriter, now_ms: u64) -> Poll<Result<(), NoReaders>> {
    writer.poll_room(&mut Context::from_waker(Waker::noop()), now_ms)
}

/// Appends until the window is full.
fn fill_up(writer: &mut BodyWriter, now_ms: u64) {
    for _ in 0..100 {
        if room(writer, now_ms).is_pending() {
            return;
        }
        writer.append(&content(1, STEP)).unwrap();
    }
    panic!("the window does not fill up");
}

#[test]
fn an_outgrown_body_is_passed_on_whole_and_not_held() {
    let flights = new_flights(config());
    let (lead, follower) = take_lead(&flights, b"a", None);
    let mut writer = begin(lead, b"", None);
    let (mut reader, body) = (reader(follower), content(1, 1 << 20));
    let mut received = Vec::new();
    for part in body.chunks(STEP) {
        while room(&mut writer, 0).is_pending() {
            received.extend(read_now(&mut reader).0);
        }
        writer.append(part).unwrap();
        check(&flights);
        let stats = flights.stats();
        assert!(stats.outgrown == 0 || stats.flight_count == 0, "no caller joins a window");
    }
    assert!(!writer.is_storing());
    writer.finish(None);
    received.extend(read_now(&mut reader).0);
    assert!(received == body, "{} of {} bytes", received.len(), body.len());
    assert_eq!(read_now(&mut reader).1, Poll::Ready(ReadEvent::Done));
    let stats = flights.stats();
    assert_eq!((stats.outgrown, stats.declined), (1, 1), "{stats:?}");
    assert!(stats.growing_bytes < 1000, "only the head is left: {stats:?}");
    // The next response for the key is expected to be too long, too.
    assert!(matches!(join(&flights, b"a", 0), JoinResult::Declined(_)));
    drop(reader);
    check_at_rest(&flights);
}

#[test]
fn the_leader_waits_for_its_readers_and_stops_without_any() {
    let flights = new_flights(config());
    let (mut writer, mut readers) = outgrown(&flights, 2);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    fill_up(&mut writer, 0);
    let held_bytes = flights.stats().growing_bytes;
    assert!(held_bytes < 3 * 8192, "{held_bytes} bytes held");
    assert!(writer.poll_room(&mut Context::from_waker(&waker), 0).is_pending());
    drop(read_now(&mut readers[0]));
    let woken = alarm.0.load(Relaxed);
    assert!(
        room(&mut writer, 0).is_pending(),
        "the leader waits for a reader that has read nothing"
    );
    assert!(writer.poll_room(&mut Context::from_waker(&waker), 0).is_pending());
    drop(read_now(&mut readers[1]));
    assert!(alarm.0.load(Relaxed) > woken, "room does not wake the leader");
    assert_eq!(room(&mut writer, 0), Poll::Ready(Ok(())));
    // Room alone wakes the leader, before any reader has read everything and waits.
    readers.pop();
    fill_up(&mut writer, 0);
    assert!(writer.poll_room(&mut Context::from_waker(&waker), 0).is_pending());
    let (woken, mut out) = (alarm.0.load(Relaxed), Vec::new());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(readers[0].poll_fragments(&mut cx, STEP as u64, &mut out).is_ready());
    assert_eq!(alarm.0.load(Relaxed), woken + 1, "room does not wake the leader");
    fill_up(&mut writer, 0);
    assert!(writer.poll_room(&mut Context::from_waker(&waker), 0).is_pending());
    readers.clear();
    assert_eq!(
        alarm.0.load(Relaxed),
        woken + 2,
        "the last reader left, and the leader was not woken"
    );
    assert_eq!(room(&mut writer, 0), Poll::Ready(Err(NoReaders)));
    assert_eq!(writer.append(b"x"), Err(NoReaders));
    drop(out);
    drop(writer);
    check_at_rest(&flights);
}

#[test]
fn a_reader_that_makes_others_wait_is_left_behind() {
    // Each case: its name, the number of readers, the readers that read in each turn, the reader
    // that is cut off.
    let cases: [(&str, usize, &[usize], Option<usize>); 3] = [
        ("one of two stands still", 2, &[0], Some(1)),
        ("alone", 1, &[], None),
        ("both are slow alike", 2, &[], None),
    ];
    for (name, reader_count, reading, left_behind) in cases {
        let flights = new_flights(config());
        let (mut writer, mut readers) = outgrown(&flights, reader_count);
        fill_up(&mut writer, 0);
        for now_ms in (0..3000).step_by(250) {
            let _ = room(&mut writer, now_ms);
            reading.iter().for_each(|&index| drop(read_now(&mut readers[index])));
        }
        for (index, reader) in readers.iter_mut().enumerate() {
            let aborted = read_now(reader).1 == Poll::Ready(ReadEvent::Aborted);
            assert_eq!(aborted, Some(index) == left_behind, "{name}: reader {index}");
        }
        assert_eq!(room(&mut writer, 3000), Poll::Ready(Ok(())), "{name}");
        assert_eq!(flights.stats().readers_cut, u64::from(left_behind.is_some()), "{name}");
        drop((writer, readers));
        check_at_rest(&flights);
    }
}

#[test]
fn a_follower_that_has_not_looked_yet_is_waited_for() {
    let flights = new_flights(config());
    let (lead, first) = take_lead(&flights, b"a", None);
    let second = follow(&flights, b"a");
    let mut writer = begin(lead, b"", None);
    let mut first = reader(first);
    let mut sent = 0;
    while flights.stats().outgrown == 0 {
        writer.append(&content(1, STEP)).unwrap();
        sent += STEP;
        drop(read_now(&mut first));
    }
    assert!(room(&mut writer, 0).is_pending());
    assert_eq!(read_now(&mut reader(second)).0.len(), sent, "the waiting follower loses no bytes");
    // Another follower that never polls is cut off, and may still fetch for itself.
    let flights = new_flights(config());
    let (lead, first) = take_lead(&flights, b"a", None);
    let mut second = follow(&flights, b"a");
    let mut writer = begin(lead, b"", None);
    let mut first = reader(first);
    while flights.stats().outgrown == 0 {
        writer.append(&content(1, STEP)).unwrap();
        drop(read_now(&mut first));
    }
    for now_ms in [0, 600, 1200] {
        let _ = room(&mut writer, now_ms);
        drop(read_now(&mut first));
    }
    assert!(matches!(outcome(&mut second), FollowOutcome::Declined(_)));
}

#[test]
fn a_purged_fill_lets_go_of_what_is_read() {
    let flights = new_flights(config());
    let (lead, follower) = take_lead(&flights, b"a", None);
    let mut writer = begin(lead, b"", None);
    let mut reader = reader(follower);
    for _ in 0..20 {
        writer.append(&content(1, STEP)).unwrap();
    }
    drop(read_now(&mut reader));
    flights.detach(hash(b"a"), b"a");
    writer.append(b"x").unwrap();
    drop(read_now(&mut reader));
    assert!(flights.stats().growing_bytes < 3000, "{:?}", flights.stats());
    drop(reader);
    assert_eq!(writer.append(b"y"), Err(NoReaders), "no reader is left, and nothing is stored");
}

#[test]
fn a_window_goes_on_step_by_step_without_any_room() {
    let flights = new_flights(config());
    let (mut writer, mut readers) = outgrown(&flights, 1);
    // Growing records take all room that windows may have.
    let other = take_lead(&flights, b"b", None).0.begin(b"", None, Some(120_000)).unwrap();
    for step in 0..50 {
        assert_eq!(room(&mut writer, 0), Poll::Ready(Ok(())), "step {step}");
        writer.append(&content(1, STEP)).unwrap();
        let taken_bytes = flights.stats().growing_bytes;
        assert!(room(&mut writer, 0).is_pending(), "step {step}: {taken_bytes} bytes taken");
        assert_eq!(read_now(&mut readers[0]).0.len(), STEP, "step {step}");
        check(&flights);
    }
    drop((writer, readers, other));
    check_at_rest(&flights);
}

#[test]
fn a_fill_that_is_given_up_goes_on_to_its_readers() {
    let flights = new_flights(config());
    let (lead, follower) = take_lead(&flights, b"a", None);
    let mut writer = begin(lead, b"", None);
    let mut reader = reader(follower);
    writer.append(b"abc").unwrap();
    writer.give_up_storing(1000);
    writer.give_up_storing(2000);
    assert!(matches!(join(&flights, b"a", 1099), JoinResult::Declined(_)));
    assert!(
        matches!(join(&flights, b"a", 1100), JoinResult::Lead(..)),
        "the key is declined from the first time"
    );
    assert!(!writer.is_storing());
    writer.append(b"def").unwrap();
    writer.finish(None);
    assert_eq!(read_now(&mut reader), (b"abcdef".to_vec(), Poll::Ready(ReadEvent::Done)));
    drop(reader);
    check_at_rest(&flights);
}
