//! Clients of the guarded sites that use HTTP/2. They have one stream at a time.

use std::future::poll_fn;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use forebay_testkit::Response;
use tokio::time::{sleep, timeout};

use super::http2_frames::{
    CANCEL, END_HEADERS, END_STREAM, Frame, HEADERS, INITIAL_WINDOW, PING, PREFACE, RST_STREAM,
    frame, header_block, padded_data, settings, word,
};
use super::http2_state::{ClientState, StreamEnd};
use super::run::{REQUEST_MS_MAX, Run};
use super::wire::WireEnd;

/// The windows of the streams and of the connection.
const WINDOW_BYTES: u32 = 65_535;

/// The most bytes that one read takes.
const READ_BYTES: usize = 4096;

/// A client's HTTP/2 connection to a guarded site. A future of this client that is dropped loses no
/// byte in either direction.
pub(super) struct GuardedStreams<'a> {
    run: &'a Run,
    end: WireEnd,
    state: ClientState,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The stream that was opened last.
    current: u32,
    /// How long the client waits before it reads a response.
    pub(super) pause_ms: u64,
}

impl<'a> GuardedStreams<'a> {
    /// Opens the connection of an act with this number among the connections of the act.
    pub(super) fn open(
        run: &'a Run,
        worker: usize,
        from: SocketAddr,
        (act, number): (u64, u64),
    ) -> GuardedStreams<'a> {
        let mut state = ClientState::default();
        state.unacknowledged.push_back(WINDOW_BYTES);
        GuardedStreams {
            run,
            end: run.connect(worker, from, (act + 1) << 32 | number),
            state,
            input: Vec::new(),
            output: [PREFACE, &settings(INITIAL_WINDOW, WINDOW_BYTES)].concat(),
            current: 0,
            pause_ms: 0,
        }
    }

    /// Whether the connection takes further requests.
    pub(super) fn is_usable(&self) -> bool {
        !self.state.is_over && self.state.last_processed.is_none()
    }

    /// Opens a stream with these fields, and with content if they do not end the stream.
    pub(super) fn begin(&mut self, fields: &[(&str, &str)], ends: bool) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let block = header_block(&fields.iter().map(owned).collect::<Vec<_>>());
        self.current = self.state.open();
        let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
        self.output.extend(frame(HEADERS, flags, self.current, &block));
    }

    /// Sends content on the stream. All content of the stream must fit into its window.
    pub(super) fn send(&mut self, content: &[u8], ends: bool) {
        let flags = if ends { END_STREAM } else { 0 };
        self.output.extend(padded_data(flags, self.current, content, 0));
    }

    /// Sends a GET; returns its response if all of it arrives.
    pub(super) async fn get(&mut self, host: &str, path: &str) -> Option<Response> {
        let fields =
            [(":method", "GET"), (":scheme", "http"), (":authority", host), (":path", path)];
        self.begin(&fields, true);
        self.flush().await;
        sleep(Duration::from_millis(self.pause_ms)).await;
        let (response, end) = self.response().await?;
        (end == StreamEnd::Whole).then_some(response)
    }

    /// Waits for the end of the stream, and returns the response as far as it arrived. Returns
    /// `None` if the connection ends first.
    pub(super) async fn response(&mut self) -> Option<(Response, StreamEnd)> {
        let id = self.current;
        let limit = Duration::from_millis(REQUEST_MS_MAX);
        let ended =
            self.until(|state| state.streams.get(&id).map(|it| it.end) != Some(StreamEnd::Open));
        match timeout(limit, ended).await {
            Ok(true) => {}
            Ok(false) => return None,
            Err(_) => {
                self.run.fail(format!("a stream did not end within {REQUEST_MS_MAX} ms"));
                return None;
            }
        }
        let stream = self.state.streams.get(&id)?;
        let is_whole = stream.end == StreamEnd::Whole;
        Some((Response { is_whole, ..stream.response.clone() }, stream.end))
    }

    /// Resets the stream, and waits until the server has processed the reset. Returns false if the
    /// connection ends first.
    pub(super) async fn cancel(&mut self) -> bool {
        if let Some(stream) = self.state.streams.get_mut(&self.current) {
            stream.end = StreamEnd::Cancelled;
        }
        self.output.extend(frame(RST_STREAM, 0, self.current, &word(CANCEL)));
        self.output.extend(frame(PING, 0, 0, &[0; 8]));
        let awaited = self.state.pong_count + 1;
        let limit = Duration::from_millis(REQUEST_MS_MAX);
        let answered = timeout(limit, self.until(|state| state.pong_count == awaited)).await;
        answered.unwrap_or_else(|_| {
            self.run.fail(format!("a PING was not answered within {REQUEST_MS_MAX} ms"));
            false
        })
    }

    /// Resets the connection.
    pub(super) fn leave(&self) {
        self.end.reset();
    }

    /// Reads until `is_ready` returns true for the state. Returns false if the connection ends
    /// first.
    async fn until(&mut self, is_ready: impl Fn(&ClientState) -> bool) -> bool {
        while !is_ready(&self.state) {
            if self.state.is_over {
                return false;
            }
            self.read().await;
        }
        true
    }

    /// Sends all output.
    async fn flush(&mut self) {
        poll_fn(|cx| self.poll_flush(cx)).await;
    }

    /// An error loses the output; the next read notices it too.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.output.is_empty() {
            match self.end.poll_write(cx, &[IoSlice::new(&self.output)]) {
                Poll::Ready(Ok(count)) => _ = self.output.drain(..count),
                Poll::Ready(Err(_)) => self.output.clear(),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }

    /// Waits for bytes, sends output during the wait, and processes the frames that have arrived.
    async fn read(&mut self) {
        let bytes = poll_fn(|cx| {
            let _ = self.poll_flush(cx);
            let mut space = [0; READ_BYTES];
            let read = self.end.poll_read(cx, &mut space);
            read.map(|read| space[..read.unwrap_or(0)].to_vec())
        })
        .await;
        self.state.is_over |= bytes.is_empty();
        self.input.extend_from_slice(&bytes);
        while let Some(received) = Frame::take(&mut self.input) {
            self.run.trace(&received.name(), &received.payload);
            if let Err(why) = self.state.receive(received, &mut self.output) {
                self.run.fail(format!("a client of a guarded site got a bad frame: {why}"));
                self.state.is_over = true;
            }
        }
        if self.state.owes(WINDOW_BYTES, WINDOW_BYTES) {
            self.output.extend(self.state.updates(WINDOW_BYTES, WINDOW_BYTES));
        }
    }
}
