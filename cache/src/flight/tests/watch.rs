//! A watch on the followers of a fetch.

use super::*;

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn the_last_follower_that_leaves_wakes_the_watch() {
    let flights = new_flights(config());
    let (lead, first) = take_lead(&flights, b"a", None);
    let second = follow(&flights, b"a");
    let watch = lead.watch_followers();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    let writer = begin(lead, b"", None);
    let (first, second) = (reader(first), reader(second));
    assert!(watch.poll_unfollowed(&mut cx).is_pending() && watch.has_followers());
    drop(first);
    assert_eq!(count.0.load(Relaxed), 0, "the second reader still follows");
    assert!(!watch.withdraw(), "the second reader still follows");
    drop(second);
    assert_eq!(count.0.load(Relaxed), 1, "the last reader has left");
    assert!(watch.poll_unfollowed(&mut cx).is_ready() && !watch.has_followers());
    drop((writer, watch));
    check_at_rest(&flights);
}

#[test]
fn a_fetch_that_was_withdrawn_is_not_joined() {
    let flights = new_flights(config());
    let (lead, follower) = take_lead(&flights, b"a", None);
    let watch = lead.watch_followers();
    drop(follower);
    // Another caller joins in time.
    let late = follow(&flights, b"a");
    assert!(!watch.withdraw());
    drop(late);
    assert!(watch.withdraw());
    let (next, follower) = take_lead(&flights, b"a", None);
    drop(lead);
    let writer = begin(next, b"", None);
    let mut reader = reader(follower);
    drop(writer);
    assert_eq!(read_now(&mut reader), (vec![], Poll::Ready(ReadEvent::Aborted)));
}
