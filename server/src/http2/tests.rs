//! The pipe of a stream: its bounds, its ends, and the memory of all pipes of a connection.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::pipe::{SharedState, StreamPipe};
use super::serve::is_preface;
use crate::config::ListenerNumber;
use crate::limits::{STREAM_HEAD_BYTES_MAX, STREAM_RESPONSE_BYTES_MAX, STREAM_RESPONSE_BYTES_MIN};
use crate::transport::Transport;

fn pipe(shared: &Rc<SharedState>, slot: u16) -> Rc<StreamPipe> {
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let pipe = StreamPipe::new(Rc::clone(shared), (peer, None));
    pipe.begin(slot, true, |_, _| Ok(0));
    pipe
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
    let shared =
        Rc::new(SharedState::new(2 * STREAM_RESPONSE_BYTES_MAX, None, ListenerNumber::default()));
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
    let again = pipe(&shared, 0);
    assert_eq!(fill(&*again.transport()), most, "the memory of the others was given back");
}

#[test]
fn a_pipe_tells_its_ends_apart() {
    let shared =
        Rc::new(SharedState::new(STREAM_RESPONSE_BYTES_MAX, None, ListenerNumber::default()));
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
    pipe.push_request(|text| text.extend_from_slice(b"0123456789"));
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
