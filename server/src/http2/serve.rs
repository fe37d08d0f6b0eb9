//! The loop of one HTTP/2 connection: it moves bytes between the client and the pipes of its
//! streams.
//!
//! Each round collects the changes of the streams, appends the DATA frames that the windows permit,
//! writes the output, and reads once. While output waits, nothing is read. A client that does not
//! read its output or open its windows must still keep to the lowest permitted rate.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use forebay_http::target::Scheme;
use forebay_http2::connection::{ServerConnection, StreamEvent};
use forebay_http2::error::{ConnectionError, ErrorCode};
use forebay_http2::limits::{ConnectionLimits, WINDOW_BYTES_MIN};
use forebay_http2::{ListLimits, StreamKey};

use super::answer::StreamAnswer;
use super::glitch_counts::GlitchCounts;
use super::memory::TurnMemory;
use super::shared::SharedState;
use super::stream_head::write_request;
use super::stream_task::StreamTask;
use super::streams::{OpenStream, OpenStreams, RequestForm, StreamWork, has_room};
use super::whole::{SentWhole, send_whole};
use crate::accept::Client;
use crate::clock;
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::limits::{
    HTTP2_INPUT_BYTES_MAX, HTTP2_MEMORY_KEPT_MS, HTTP2_REQUESTS_PER_TURN_MAX, HTTP2_ROUNDS_MAX,
};
use crate::pace::Pace;

/// The reason of a connection that ends because a response is lost that was announced.
const LOST_BYTES: &str = "bytes of a response are lost that were to be sent";

/// Serves a connection whose first bytes are `input`, until it ends.
///
/// # Errors
/// The client is gone or too slow.
pub(crate) async fn serve(client: &Client, input: Vec<u8>) -> Result<(), Fault> {
    client.worker.count(Counter::Http2Connections);
    let mut connection = Http2Connection::new(client, input);
    poll_fn(|cx| {
        client.worker.http2_memory.borrow_mut().lend_to(&mut connection.memory);
        let polled = connection.poll(cx);
        let is_scarce = client.worker.output.is_full();
        client.worker.http2_memory.borrow_mut().take_from(&mut connection.memory, is_scarce);
        connection.shared.count_output(connection.memory.out.capacity());
        client.worker.show_waiting_output();
        connection.glitches.count(connection.connection.glitches(), &client.worker);
        polled
    })
    .await
}

/// The state of a connection.
struct Http2Connection<'c> {
    client: &'c Client,
    connection: ServerConnection,
    shared: Rc<SharedState>,
    streams: OpenStreams,
    /// The work that is ready for the next stream.
    spare: Option<StreamTask>,
    memory: TurnMemory,
    pace: Pace,
    request_count: u32,
    /// The number of requests of the current turn.
    turn_count: u32,
    /// Whether there is memory to free once the connection has been idle for a while.
    is_warm: bool,
    /// The part of the idle time that was over when the memory was freed.
    idle_spent_ms: u64,
    /// The error that ends the connection once the pending output is sent.
    error: Option<ConnectionError>,
    glitches: GlitchCounts,
}

impl<'c> Http2Connection<'c> {
    fn new(client: &'c Client, input: Vec<u8>) -> Http2Connection<'c> {
        let config = client.worker.config();
        let settings = &config.server;
        let limits = ConnectionLimits {
            list: ListLimits {
                list_bytes_max: settings.head_bytes_max,
                line_count_max: settings.field_count_max,
            },
            stream_window_bytes: WINDOW_BYTES_MIN,
            connection_window_bytes: settings.connection_bytes_max.max(WINDOW_BYTES_MIN),
            head_ms_max: settings.head_ms_max,
            scheme: client.scheme,
            extended_connect: true,
            ..ConnectionLimits::default()
        };
        let mut memory = TurnMemory::default();
        memory.input.append(&input);
        let now_ms = clock::monotonic_ms();
        let connection = ServerConnection::new(limits, now_ms, &mut memory.out);
        Http2Connection {
            client,
            connection,
            shared: Rc::new(SharedState::new(
                settings.connection_bytes_max as usize,
                Rc::clone(&client.worker.output),
                client.transport.tls_info().cloned(),
                client.listener,
            )),
            streams: OpenStreams::default(),
            spare: None,
            memory,
            pace: Pace::default(),
            request_count: 0,
            turn_count: 0,
            is_warm: false,
            idle_spent_ms: 0,
            error: None,
            glitches: GlitchCounts::default(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.shared.register(cx);
        self.turn_count = 0;
        let ticket = self.client.ticket();
        if ticket.take_cut() {
            self.end_revoked();
        }
        if self.client.worker.draining() || !self.is_permitted() {
            self.connection.begin_drain(&mut self.memory.out);
        }
        if self.is_idle() && (self.client.worker.drained_idle() || self.is_unwanted()) {
            self.connection.finish_drain(&mut self.memory.out);
        }
        // While a client does not read, its streams do no work, and their responses stay where they
        // are stored.
        if self.shared.has_output() && !self.poll_flush(cx)? {
            if self.shared.has_lent() {
                self.end_revoked();
            }
            return self.poll_wait();
        }
        for _ in 0..HTTP2_ROUNDS_MAX {
            while self.error.is_none()
                && let Some(slot) = self.shared.next()
            {
                self.advance(slot);
            }
            let is_output_full = self.grant();
            let is_flushed = self.poll_flush(cx)?;
            if is_flushed && (self.error.is_some() || self.connection.is_drained()) {
                return Poll::Ready(Ok(()));
            }
            if is_flushed && self.turn_count >= HTTP2_REQUESTS_PER_TURN_MAX {
                break;
            }
            // If the output is full, no later event may announce the data that is left, so the loop
            // continues.
            if !is_flushed || !self.poll_input(cx)? && !is_output_full && !self.is_late() {
                return self.poll_wait();
            }
            ticket.end_idle();
            ticket.disarm();
        }
        // Let other connections have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether a time limit has passed, so that the connection ends. All input must be processed:
    /// the awaited bytes may have arrived long ago, because nothing is read while output waits.
    fn is_late(&mut self) -> bool {
        let checked = self.connection.check_time(clock::monotonic_ms(), &mut self.memory.out);
        checked.map_err(|error| self.fail(error)).is_err()
    }

    /// Whether the current settings permit HTTP/2 on this connection. After a reload that forbids
    /// it, the connection ends, and its requests in progress are still served.
    fn is_permitted(&self) -> bool {
        let config = self.client.worker.config();
        match self.client.scheme {
            Scheme::Http => config.server.http2,
            Scheme::Https => config.server.tls_http2,
        }
    }

    fn is_idle(&self) -> bool {
        self.connection.streams_in_use() == 0
            && self.memory.input.is_empty()
            && self.memory.out.is_empty()
            && !self.connection.is_within_frame()
    }

    /// Whether the idle connection has to end: its idle time is over, or another connection needs
    /// its place. If so, counts the reason. Frees memory once the first part of the idle time is
    /// over.
    fn is_unwanted(&mut self) -> bool {
        let ticket = self.client.ticket();
        if ticket.is_displaced() {
            self.client.worker.count(Counter::IdleDisplaced);
            return true;
        }
        if ticket.overdue() && std::mem::take(&mut self.is_warm) {
            self.spare = None;
            self.idle_spent_ms = HTTP2_MEMORY_KEPT_MS;
            self.streams.shrink();
            self.connection.shrink();
            ticket.disarm();
        } else if ticket.overdue() {
            self.client.worker.count(Counter::IdleTimeouts);
            return true;
        }
        false
    }

    fn fail(&mut self, error: ConnectionError) {
        if self.error.replace(error).is_none() && error.code != ErrorCode::NoError {
            let (worker, peer) = (&self.client.worker, self.client.peer.ip());
            worker.count(Counter::Http2Errors);
            worker.event(Event::Http2Refused, &format_args!("{peer}: {error}"));
        }
    }

    /// Begins the work on a request, whose head is in the pipe of `task`.
    fn start(
        &mut self,
        key: StreamKey,
        form: RequestForm,
        mut task: StreamTask,
        cx: &mut Context<'_>,
    ) {
        let worker = &self.client.worker;
        let goes_on = task.poll(worker, cx);
        let (connection, memory) = (&mut self.connection, &mut self.memory);
        let sent = task.pipe().take_whole(|queue| {
            let bytes = queue.len();
            let sent = send_whole(connection, (key, form.kind), queue, memory);
            worker.count_many(Counter::BytesOut, (bytes - queue.len()) as u64);
            (sent == SentWhole::Later).then(|| self.streams.keep(queue, &self.shared))
        });
        let Some(kept) = sent else {
            let pipe = Rc::clone(task.pipe());
            if goes_on {
                let permit = worker.registry.take_stream_permit(self.client.network());
                task.spawn(worker, permit);
            }
            let answer = StreamAnswer::new(form.kind);
            let work = StreamWork::Piped { pipe, answer, is_chunked: form.is_chunked };
            self.streams.put(OpenStream { key, work, is_gone: false });
            return;
        };
        self.spare = Some(task);
        if let Some(work) = kept {
            self.streams.put(OpenStream { key, work, is_gone: false });
        }
    }

    /// Collects the changes of a stream: bytes of its request that it has taken, bytes of its
    /// response, and its end.
    fn advance(&mut self, slot: u16) {
        let Some(stream) = self.streams.at(slot) else {
            return;
        };
        let (connection, out, key) = (&mut self.connection, &mut self.memory.out, stream.key);
        let is_over = match &mut stream.work {
            StreamWork::Queued { .. } => true,
            StreamWork::Piped { pipe, answer, .. } => {
                connection.release_data(key, pipe.taken_bytes(), out);
                if !stream.is_gone && answer.advance(pipe, connection, key, out).is_err() {
                    stream.is_gone = true;
                    connection.reset(key, ErrorCode::InternalError, out);
                    pipe.reset();
                }
                let is_sent = !connection.is_sending(key) && !answer.is_tunnel();
                if stream.is_gone || is_sent {
                    pipe.end_request();
                }
                pipe.is_work_over()
            }
        };
        if is_over && (stream.is_gone || !connection.is_sending(key)) {
            connection.end_work(key, out);
            self.streams.remove(slot, &self.shared);
        }
    }

    /// Ends the streams whose responses the store has revoked.
    #[cold]
    fn end_revoked(&mut self) {
        let mut ended = Vec::new();
        for stream in self.streams.iter_mut() {
            match &stream.work {
                StreamWork::Queued { queue, .. } if queue.is_revoked() => {
                    stream.is_gone = true;
                    self.connection.reset(
                        stream.key,
                        ErrorCode::InternalError,
                        &mut self.memory.out,
                    );
                    ended.push(stream.key.slot());
                }
                StreamWork::Queued { .. } => {}
                StreamWork::Piped { pipe, .. } => pipe.wake_writer(),
            }
        }
        for slot in ended {
            self.client.worker.count(Counter::ResponsesCut);
            self.client.worker.fault(Fault::HitCut, self.client.peer.ip());
            self.advance(slot);
        }
    }

    /// Appends DATA frames in the order of the streams' priorities. Returns whether the output is
    /// full, so that some data may be left.
    fn grant(&mut self) -> bool {
        if self.shared.has_lent() {
            self.end_revoked();
        }
        while self.error.is_none() && self.memory.out.len() < self.shared.output_bytes_max() {
            let before = self.memory.out.len();
            let grant = match self.connection.next_data(usize::MAX, &mut self.memory.out) {
                Ok(Some(grant)) => grant,
                Ok(None) => return false,
                Err(error) => {
                    self.fail(error);
                    return false;
                }
            };
            let slot = grant.stream.slot();
            match self.streams.at(slot).map(|stream| &mut stream.work) {
                Some(StreamWork::Queued { queue, .. }) => {
                    let guard = self.client.worker.store.send_guard();
                    if queue.take(grant.bytes, &guard, &mut self.memory.out).is_err() {
                        // The frame was not sent, but it counts against the windows, so the
                        // connection cannot go on.
                        self.memory.out.truncate(before);
                        self.fail(ConnectionError::new(ErrorCode::InternalError, LOST_BYTES));
                        return false;
                    }
                    self.client.worker.count_many(Counter::BytesOut, grant.bytes as u64);
                }
                Some(StreamWork::Piped { pipe, answer, .. }) => {
                    answer.take_body(grant.bytes, &mut self.memory.out);
                    pipe.free(grant.bytes);
                }
                None => {}
            }
            self.advance(slot);
        }
        self.error.is_none()
    }

    /// Writes the output; returns whether all of it was written.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Result<bool, Fault> {
        while !self.memory.out.is_empty() {
            match self.client.poll_write(cx, &self.memory.out) {
                Poll::Ready(written) => {
                    let count = written?;
                    self.memory.out.drain(..count);
                    self.pace.moved(count as u64, self.client.least_rate());
                }
                Poll::Pending => {
                    self.connection.stop_reading(clock::monotonic_ms());
                    return Ok(false);
                }
            }
        }
        self.connection.resume_reading(clock::monotonic_ms());
        Ok(true)
    }

    /// Reads once and processes the input. Returns false if nothing has arrived.
    ///
    /// # Errors
    /// The client is gone.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Result<bool, Fault> {
        let start = self.memory.input.bytes().len();
        let space = self.memory.input.space(HTTP2_INPUT_BYTES_MAX);
        if !space.is_empty() {
            match self.client.poll_read(cx, space) {
                Poll::Ready(Ok(0)) => return Err(Fault::ClientGone),
                Poll::Ready(Ok(count)) => self.memory.input.filled(count),
                Poll::Ready(Err(fault)) => return Err(fault),
                Poll::Pending if start == 0 => return Ok(false),
                Poll::Pending => {}
            }
        }
        let before = self.memory.input.bytes().len();
        self.take_input(cx);
        Ok(self.memory.input.bytes().len() != before || before > start)
    }

    /// Processes as much of the input as the connection permits.
    fn take_input(&mut self, cx: &mut Context<'_>) {
        let mut consumed = 0;
        let now_ms = clock::monotonic_ms();
        while self.turn_count < HTTP2_REQUESTS_PER_TURN_MAX
            && self.memory.out.len() < self.shared.output_bytes_max()
        {
            let rest = self.memory.input.bytes().get(consumed..).unwrap_or_default();
            let receipt = match self.connection.receive(rest, now_ms, &mut self.memory.out) {
                Ok(receipt) => receipt,
                Err(error) => {
                    self.fail(error);
                    break;
                }
            };
            consumed += receipt.consumed;
            match receipt.event {
                None => break,
                Some(StreamEvent::Request { stream, request }) => {
                    self.request_count += 1;
                    self.turn_count += 1;
                    self.is_warm = true;
                    self.idle_spent_ms = 0;
                    if !has_room(self.client) {
                        self.client.worker.count(Counter::Http2StreamsRefused);
                        self.connection.reset(
                            stream,
                            ErrorCode::RefusedStream,
                            &mut self.memory.out,
                        );
                        self.connection.end_work(stream, &mut self.memory.out);
                        continue;
                    }
                    self.client.worker.count(Counter::Http2Requests);
                    let spare = self.spare.take();
                    let task = spare.unwrap_or_else(|| StreamTask::new(self.client, &self.shared));
                    let mut form = RequestForm::of(request);
                    let worker = &self.client.worker;
                    task.pipe().begin(stream.slot(), request.has_body(), |text, parts| {
                        write_request((text, parts), request, &mut form, worker)
                    });
                    self.start(stream, form, task, cx);
                }
                Some(StreamEvent::Data { stream, data, is_last }) => {
                    if let Some(open) = self.streams.find(stream) {
                        open.push_data(data, is_last);
                    }
                }
                Some(StreamEvent::Trailers { stream, fields }) => {
                    if let Some(open) = self.streams.find(stream) {
                        open.push_trailers(fields.iter());
                    }
                }
                Some(StreamEvent::Reset { stream, .. }) => {
                    self.client.worker.count(Counter::Http2Resets);
                    if let Some(open) = self.streams.find(stream) {
                        open.is_gone = true;
                        open.reset();
                    }
                    self.advance(stream.slot());
                }
            }
        }
        self.memory.input.consume(consumed);
        let config = self.client.worker.config();
        if self.request_count >= config.server.requests_per_connection_max {
            self.connection.begin_drain(&mut self.memory.out);
        }
    }

    /// Waits for the client, and sets the time limit of the wait.
    ///
    /// # Errors
    /// The client reads too slowly, or keeps its windows closed for too long.
    fn poll_wait(&mut self) -> Poll<Result<(), Fault>> {
        let ticket = self.client.ticket();
        if !self.memory.out.is_empty() || self.connection.is_blocked_by_window() {
            let rate = self.client.least_rate();
            return self.client.poll_wait(&mut self.pace, rate);
        }
        self.pace.stop_waiting();
        if let Some(deadline_ms) = self.connection.deadline_ms() {
            ticket.arm(deadline_ms.saturating_sub(clock::monotonic_ms()));
        } else if self.is_idle() {
            let idle_ms_max = u64::from(self.client.worker.config().server.idle_ms_max);
            let warm_ms = idle_ms_max.min(HTTP2_MEMORY_KEPT_MS);
            // The second part begins when the first one is over.
            let rest_ms = idle_ms_max.saturating_sub(self.idle_spent_ms);
            ticket.begin_idle(if self.is_warm { warm_ms } else { rest_ms });
        } else {
            ticket.end_idle();
            ticket.disarm();
        }
        Poll::Pending
    }
}

/// A connection that ends breaks the pipes of its streams, so that their tasks end.
impl Drop for Http2Connection<'_> {
    fn drop(&mut self) {
        for stream in self.streams.iter_mut() {
            stream.reset();
        }
    }
}
