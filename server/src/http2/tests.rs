//! The pipe of a stream: its bounds, its ends, and the memory of all pipes of a connection.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::byte_queue::ByteQueue;
use super::is_preface;
use super::pipe::StreamPipe;
use super::shared::SharedState;
use crate::config::ListenerNumber;
use crate::limits::{
    STREAM_HEAD_BYTES_MAX, STREAM_RESPONSE_BYTES_MAX, STREAM_RESPONSE_BYTES_MIN,
    STREAM_RESPONSE_BYTES_SHARE,
};
use crate::output_budget::OutputBudget;
use crate::transport::Transport;

fn budget(bytes_max: u64) -> Rc<OutputBudget> {
    Rc::new(OutputBudget::new(bytes_max))
}

fn shared(held_bytes_max: usize, budget: &Rc<OutputBudget>) -> Rc<SharedState> {
    let listener = ListenerNumber::default();
    Rc::new(SharedState::new(held_bytes_max, Rc::clone(budget), None, listener))
}

fn pipe(shared: &Rc<SharedState>, slot: u16) -> Rc<StreamPipe> {
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let pipe = StreamPipe::new(Rc::clone(shared), (peer, None));
    pipe.begin(slot, true, |_, _| Ok(0));
    pipe
}

/// The number of times that a task was woken.
#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes as much as the pipe accepts, and returns the number of bytes.
fn fill(transport: &dyn Transport) -> usize {
    let (piece, mut count) = ([b'x'; 1000], 0);
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(written) = transport.poll_write(&mut cx, &[IoSlice::new(&piece)]) {
        count += written.expect("the pipe is whole");
    }
    count
}

#[test]
fn a_pipe_takes_a_bounded_part_of_a_response() {
    let budget = budget(u64::MAX);
    let shared = shared(2 * STREAM_RESPONSE_BYTES_MAX, &budget);
    let pipes: Vec<_> = (0..3).map(|slot| pipe(&shared, slot)).collect();
    let transports: Vec<_> = pipes.iter().map(StreamPipe::transport).collect();
    let filled: Vec<_> = transports.iter().map(|transport| fill(&**transport)).collect();
    let (most, least) = (STREAM_RESPONSE_BYTES_MAX, STREAM_RESPONSE_BYTES_MIN);
    assert_eq!(filled, [most, most, least], "the third pipe gets the least");
    // Bytes that the connection has taken from the pipe count as held until `free` is called.
    pipes[0].take_response(|text| text.len());
    assert_eq!(fill(&*transports[0]), 0);
    pipes[0].free(8_000);
    assert_eq!(fill(&*transports[0]), 4_000, "until the pipes together hold their most");
    pipes[2].note_head(true);
    assert_eq!(fill(&*transports[2]), STREAM_HEAD_BYTES_MAX - least, "a head needs room");
    drop((pipes, transports));
    assert_eq!(budget.bytes(), 0, "the memory of all pipes was given back");
    let again = pipe(&shared, 0);
    assert_eq!(fill(&*again.transport()), most, "the connection has room again");
}

#[test]
fn pipes_of_all_connections_share_the_budget_of_the_worker() {
    let budget = budget(2 * STREAM_RESPONSE_BYTES_MAX as u64);
    let connections: Vec<_> = (0..4).map(|_| shared(1 << 20, &budget)).collect();
    let pipes: Vec<_> = connections.iter().map(|shared| pipe(shared, 0)).collect();
    let filled: Vec<_> = pipes.iter().map(|pipe| fill(&*pipe.transport())).collect();
    let (most, share) = (STREAM_RESPONSE_BYTES_MAX, STREAM_RESPONSE_BYTES_SHARE);
    assert_eq!(filled, [most, most, share, share]);
    assert_eq!(budget.bytes(), 2 * (most + share));
    connections[0].count_output(1000);
    connections[0].count_output(3000);
    assert_eq!(budget.bytes(), 2 * (most + share) + 3000);
    drop((pipes, connections));
    assert_eq!(budget.bytes(), 0, "the memory of connections that ended was given back");
}

#[test]
fn a_stream_waits_until_a_quarter_of_its_room_is_free() {
    let shared = shared(1 << 20, &budget(u64::MAX));
    let pipe = pipe(&shared, 0);
    let transport = pipe.transport();
    fill(&*transport);
    let count = Arc::new(WakeCount::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    assert!(transport.poll_write(&mut cx, &[IoSlice::new(b"x")]).is_pending());
    pipe.take_response(|text| text.len());
    for _ in 0..STREAM_RESPONSE_BYTES_MAX / 4 - 1 {
        pipe.free(1);
    }
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
    pipe.free(1);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_queue_has_memory_only_for_its_bytes() {
    let mut queue = ByteQueue::default();
    for round in 0..100 {
        queue.end(1000).extend_from_slice(&[round; 1000]);
        if round % 2 == 1 {
            queue.consume(1000);
        }
        let used = queue.len() + 1000;
        assert!(queue.end(0).capacity() <= used, "round {round}");
    }
    assert_eq!(queue.bytes().first(), Some(&50));
    queue.consume(50_000);
    assert_eq!((queue.is_empty(), queue.end(0).capacity()), (true, 0));
}

#[test]
fn a_pipe_tells_its_ends_apart() {
    let shared = shared(STREAM_RESPONSE_BYTES_MAX, &budget(u64::MAX));
    let pipe = pipe(&shared, 7);
    let transport = pipe.transport();
    let mut cx = Context::from_waker(Waker::noop());
    let mut space = [0; 8];
    let mut read = |transport: &dyn Transport| match transport.poll_read(&mut cx, &mut space) {
        Poll::Ready(Ok(count)) => String::from_utf8_lossy(&space[..count]).into_owned(),
        Poll::Ready(Err(error)) => error.kind().to_string(),
        Poll::Pending => "more".into(),
    };
    assert_eq!(read(&*transport), "more");
    pipe.push_request(10, |text| text.extend_from_slice(b"0123456789"));
    pipe.end_request();
    assert_eq!(read(&*transport), "01234567");
    assert_eq!(read(&*transport), "89");
    assert_eq!(read(&*transport), "", "the request is whole");
    assert_eq!((pipe.taken_bytes(), pipe.taken_bytes()), (10, 0));
    assert_eq!(shared.next(), Some(7));
    assert_eq!(shared.next(), None, "news of a stream are told once");
    pipe.reset();
    assert_eq!(read(&*transport), "connection reset");
    transport.reset_on_close();
    assert!(pipe.is_cut() && !pipe.is_work_over());
    drop(transport);
    assert!(pipe.is_response_over() && pipe.is_work_over());
}

#[test]
fn only_the_preface_begins_http2() {
    for (input, expected) in [
        (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], true),
        (b"PRI * HTTP/2.0\r\n", true),
        (b"PRI * HTTP/2.0", false),
        (b"GET / HTTP/2.0\r\n", false),
        (b"", false),
    ] {
        assert_eq!(is_preface(input), expected);
    }
}
