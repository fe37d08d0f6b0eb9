//! Clients that send several requests on one HTTP/2 connection (RFC 9113), by prior knowledge.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::answers::{ArrivedResponse, blame, judge};
use super::client::{GRACE_MS, IDLE_MS, connect};
use super::http2_act::{Http2Ask, Http2Session};
use super::http2_frames::{
    CANCEL, CONTINUATION, END_HEADERS, END_STREAM, Frame, HEADERS, INITIAL_WINDOW,
    PAYLOAD_BYTES_MAX, PING, PREFACE, REFUSED, RST_STREAM, frame, header_block, padded_data,
    settings, word,
};
use super::http2_state::{ClientState, StreamEnd};
use super::paths::{HTTP2_ANSWERED, HTTP2_CUT};
use super::rng::Rng;
use super::run::{REQUEST_MS_MAX, Run};
use super::scenario::{Act, Ask, BreakOff, PostBody, Reading};
use super::sending::{CONTINUE_MS, SentRequest, request_of};
use super::wire::WireEnd;
use super::world::post_body;

/// The connection of a client.
struct Http2Client {
    run: Rc<Run>,
    session: Http2Session,
    worker: usize,
    act: u64,
    end: WireEnd,
    state: RefCell<ClientState>,
    /// The bytes that are to be sent.
    out: RefCell<Vec<u8>>,
    /// Tells of each change of the state and of the output.
    changed: Notify,
    /// Whether nothing further will be sent.
    is_closing: Cell<bool>,
    /// Whether the client itself has reset the connection.
    is_left: Cell<bool>,
    /// The time for which the client has paused, and has not enlarged windows.
    paused_ms: Cell<u64>,
    late_ms: Cell<u64>,
    began_ms: u64,
    /// The last time at which a stream was open.
    busy_ms: Cell<u64>,
    /// The value of [`Run::pressure`] at the time when the connection was opened.
    pressure: u64,
    rng: RefCell<Rng>,
}

/// Ends a task of a connection when the client has ended.
struct TaskGuard(AbortHandle);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Plays the client of an act.
pub(super) async fn play(run: Rc<Run>, act: Act, worker: usize, session: Http2Session) {
    let end = connect(&run, &act, worker);
    let client = Rc::new(Http2Client {
        worker,
        act: act.number,
        end,
        state: RefCell::default(),
        out: RefCell::new(PREFACE.to_vec()),
        changed: Notify::new(),
        is_closing: Cell::default(),
        is_left: Cell::default(),
        paused_ms: Cell::default(),
        late_ms: Cell::default(),
        began_ms: run.now_ms(),
        busy_ms: Cell::new(run.now_ms()),
        pressure: run.pressure(),
        rng: RefCell::new(Rng::of(&[run.scenario.seed, 5, act.number])),
        run,
        session,
    });
    client.resize(client.session.window.0);
    let _guards = [
        guarded(&client, |client| async move { client.write().await }),
        guarded(&client, |client| async move { client.read().await }),
        guarded(&client, |client| async move { client.enlarge_windows().await }),
        guarded(&client, |client| async move { client.play_extras().await }),
    ];
    let streams: Vec<_> = (0..client.session.asks.len())
        .map(|number| {
            let client = Rc::clone(&client);
            spawn_local(async move { client.play_stream(number).await })
        })
        .collect();
    for stream in streams {
        if let Err(error) = stream.await {
            client.run.fail(format!("a client of the simulation panicked: {error}"));
        }
    }
    client.is_closing.set(true);
    client.changed.notify_waiters();
    let is_over = client.until(|state| state.is_over.then_some(()));
    let limit = Duration::from_millis(REQUEST_MS_MAX);
    if timeout(limit, is_over).await.is_err() {
        client.run.fail("the server does not close an HTTP/2 connection that has ended".into());
    }
}

fn guarded<F: Future<Output = ()> + 'static>(
    client: &Rc<Http2Client>,
    task: impl FnOnce(Rc<Http2Client>) -> F,
) -> TaskGuard {
    TaskGuard(spawn_local(task(Rc::clone(client))).abort_handle())
}

impl Http2Client {
    /// Waits until `ready` returns a value for the state.
    async fn until<T>(&self, mut ready: impl FnMut(&mut ClientState) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(value) = ready(&mut self.state.borrow_mut()) {
                return value;
            }
            changed.await;
        }
    }

    fn push(&self, bytes: &[u8]) {
        self.out.borrow_mut().extend_from_slice(bytes);
        self.changed.notify_waiters();
    }

    /// Changes the initial window of the streams.
    fn resize(&self, window: u32) {
        self.state.borrow_mut().unacknowledged.push_back(window);
        self.push(&settings(INITIAL_WINDOW, window));
    }

    /// Sends the output, then ends the stream once the client is closing.
    async fn write(&self) {
        loop {
            let changed = self.changed.notified();
            let bytes = std::mem::take(&mut *self.out.borrow_mut());
            if !bytes.is_empty() {
                if self.end.write(&bytes).await.is_err() {
                    return;
                }
            } else if self.is_closing.get() {
                return self.end.end();
            } else {
                changed.await;
            }
        }
    }

    /// Reads and checks the server's frames until the connection ends.
    async fn read(&self) {
        let (mut input, mut read_bytes, mut reading) = (Vec::new(), 0, self.session.reading);
        loop {
            match reading {
                // A client that does not read at first cannot acknowledge the server's settings.
                _ if !self.state.borrow().is_settled => {}
                Reading::Pause { bytes, ms } if read_bytes >= bytes => {
                    reading = Reading::Eager;
                    self.paused_ms.set(ms);
                    sleep(Duration::from_millis(ms)).await;
                }
                Reading::Reset { bytes } if read_bytes >= bytes => {
                    self.leave();
                    return;
                }
                _ => {}
            }
            let read = self.end.read().await;
            let bytes = read.as_deref().unwrap_or_default();
            read_bytes += bytes.len();
            input.extend_from_slice(bytes);
            while let Some(received) = Frame::take(&mut input) {
                self.run.trace(&received.name(), &received.payload);
                let mut answers = Vec::new();
                let taken = self.state.borrow_mut().receive(received, &mut answers);
                self.push(&answers);
                if let Err(why) = taken {
                    self.run.fail(format!("a client got a bad frame: {why}"));
                    self.leave();
                    return;
                }
            }
            if bytes.is_empty() {
                self.state.borrow_mut().is_over = true;
            }
            self.changed.notify_waiters();
            if bytes.is_empty() {
                return;
            }
        }
    }

    /// Resets the connection.
    fn leave(&self) {
        self.is_left.set(true);
        self.end.reset();
        self.state.borrow_mut().is_over = true;
        self.changed.notify_waiters();
    }

    /// Enlarges windows, late if the session says so.
    async fn enlarge_windows(&self) {
        let (window, of_connection) = (self.session.window.1, self.session.connection_window);
        loop {
            self.until(|state| state.owes(window, of_connection).then_some(())).await;
            self.late_ms.update(|ms| ms + self.session.update_ms);
            sleep(Duration::from_millis(self.session.update_ms)).await;
            if self.is_closing.get() {
                return;
            }
            let frames = self.state.borrow_mut().updates(window, of_connection);
            self.push(&frames);
        }
    }

    /// Sends PINGs, and changes the initial window.
    async fn play_extras(&self) {
        for number in 0..self.session.ping_count {
            let ms = self.rng.borrow_mut().between(0, 100);
            sleep(Duration::from_millis(ms)).await;
            if self.is_closing.get() {
                return;
            }
            self.push(&frame(PING, 0, 0, &[number as u8; 8]));
        }
        let Some(ms) = self.session.resize_ms else { return };
        sleep(Duration::from_millis(ms)).await;
        if !self.is_closing.get() {
            self.resize(self.session.later_window);
        }
    }

    /// Sends a request on a stream of its own, and judges its response.
    async fn play_stream(&self, number: usize) {
        let Http2Ask { ask, begin_ms, cancel_ms } = &self.session.asks[number];
        sleep(Duration::from_millis(*begin_ms)).await;
        if self.state.borrow().is_over {
            return;
        }
        let is_after_idle =
            !self.state.borrow().has_open() && self.run.now_ms() >= self.busy_ms.get() + IDLE_MS;
        let (id, asked) = self.open(ask);
        let exchange = async {
            tokio::join!(self.send_body(id, ask.post), self.answered(id));
        };
        let limit = Duration::from_millis(cancel_ms.unwrap_or(u64::MAX));
        if timeout(limit, exchange).await.is_err() {
            self.cancel(id);
        }
        self.busy_ms.set(self.run.now_ms());
        self.judge(id, (ask, asked), is_after_idle);
    }

    /// Sends the head of a request, and returns its stream.
    fn open(&self, ask: &Ask) -> (u32, SentRequest) {
        let (lines, asked) = request_of(&self.run, self.act, ask);
        let mut fields = vec![
            (":method".to_owned(), ask.method().to_owned()),
            (":scheme".to_owned(), "http".to_owned()),
            (":authority".to_owned(), "a.test".to_owned()),
            (":path".to_owned(), format!("/u{}{}", ask.url, ask.spelling.query)),
        ];
        let lines = lines.split("\r\n").filter_map(|line| line.split_once(": "));
        fields.extend(lines.map(|(name, value)| (name.to_lowercase(), value.to_owned())));
        let mut has_body = false;
        if let Some(body) = ask.post {
            has_body = body.is_chunked || body.bytes > 0 || body.break_off != BreakOff::Never;
            if !body.is_chunked {
                fields.push(("content-length".to_owned(), body.bytes.to_string()));
            }
        }
        let block = header_block(&fields);
        let id = self.state.borrow_mut().open();
        let flags = if has_body { 0 } else { END_STREAM };
        let mut rng = self.rng.borrow_mut();
        if rng.percent(10) {
            let (first, rest) = block.split_at(rng.below(block.len() as u64) as usize);
            self.push(&frame(HEADERS, flags, id, first));
            self.push(&frame(CONTINUATION, END_HEADERS, id, rest));
        } else {
            self.push(&frame(HEADERS, flags | END_HEADERS, id, &block));
        }
        (id, asked)
    }

    /// Sends the body of a POST as the windows permit.
    async fn send_body(&self, id: u32, body: Option<PostBody>) {
        let Some(body) = body else { return };
        if body.expects_continue {
            sleep(Duration::from_millis(CONTINUE_MS)).await;
        }
        let bytes = post_body(self.act, body.bytes);
        let (count, is_whole) = body.sent_part();
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            let (most, padding) = {
                let mut rng = self.rng.borrow_mut();
                (rng.pick(&[100, 5_000, PAYLOAD_BYTES_MAX]), rng.pick(&[0, 0, 0, 9]))
            };
            let most = most.min(rest.len());
            // Padding counts against the windows, and so does its length.
            let extra = if padding == 0 { 0 } else { usize::from(padding) + 1 };
            let wanted = (most + extra).min(PAYLOAD_BYTES_MAX);
            let taken = self.until(|state| state.take_window(id, wanted)).await;
            if taken == 0 {
                return;
            }
            let (padding, length) = match taken.checked_sub(extra) {
                Some(length) if length > 0 => (padding, length),
                _ => (0, taken.min(rest.len())),
            };
            let (data, after) = rest.split_at(length);
            rest = after;
            let is_last = is_whole && rest.is_empty() && !body.is_chunked;
            self.push(&padded_data(if is_last { END_STREAM } else { 0 }, id, data, padding));
            // Other streams send between two frames of this one.
            tokio::task::yield_now().await;
        }
        if is_whole && body.is_chunked && self.state.borrow().is_open(id) {
            self.push(&padded_data(END_STREAM, id, b"", 0));
        }
        if matches!(body.break_off, BreakOff::Reset(_)) {
            self.cancel(id);
        }
    }

    /// Waits until the stream has ended.
    async fn answered(&self, id: u32) {
        let began = Instant::now();
        let limit = || {
            let waited_ms = self.paused_ms.get() + self.late_ms.get();
            began + Duration::from_millis(REQUEST_MS_MAX + waited_ms)
        };
        loop {
            let over = self.until(|state| (!state.is_open(id)).then_some(()));
            let deadline = limit();
            if timeout_at(deadline, over).await.is_ok() {
                return;
            }
            if limit() == deadline {
                self.run.fail(format!("a stream did not end within {REQUEST_MS_MAX} ms"));
                self.leave();
                return;
            }
        }
    }

    /// Resets a stream, unless it has ended.
    fn cancel(&self, id: u32) {
        if !self.state.borrow().is_open(id) {
            return;
        }
        if let Some(stream) = self.state.borrow_mut().streams.get_mut(&id) {
            stream.end = StreamEnd::Cancelled;
        }
        self.push(&frame(RST_STREAM, 0, id, &word(CANCEL)));
    }

    fn judge(&self, id: u32, (ask, mut asked): (&Ask, SentRequest), is_after_idle: bool) {
        let run = &*self.run;
        let (mut response, end, last_processed) = {
            let state = self.state.borrow();
            let Some(stream) = state.streams.get(&id) else { return };
            (stream.response.clone(), stream.end, state.last_processed)
        };
        response.is_whole = end == StreamEnd::Whole;
        let may_be_cut = self.paused_ms.get() >= GRACE_MS || run.pressure() > self.pressure;
        // A client that does not read learns nothing of windows, so its upload stops too.
        let is_stalled = self.paused_ms.get() > 0 && response.status == 408;
        // During an attack, a request may wait for connections that others of its client hold.
        let is_busy = response.field("cache-status").is_some_and(|it| it.contains("origin-busy"))
            && self.session.asks.len() > 1
            && run.may_have_failed(ask.url, asked.began_ms);
        let is_broken_off = ask.break_off() != BreakOff::Never
            || end == StreamEnd::Cancelled
            || self.is_left.get()
            || is_stalled
            || is_busy;
        if !response.is_whole && !is_broken_off {
            run.paths.count(HTTP2_CUT);
        }
        if response.status != 0 {
            run.paths.count(HTTP2_ANSWERED);
            let sharing = std::slice::from_ref(ask);
            let worker = self.worker;
            let arrived = ArrivedResponse { worker, is_broken_off, may_be_cut, sharing };
            judge(run, &arrived, &mut asked, &response);
            return;
        }
        // The client may send such a request again (RFC 9113 §8.7).
        let is_unprocessed = last_processed.is_some_and(|last| last < id)
            || end == StreamEnd::Reset(REFUSED) && run.may_have_failed(ask.url, asked.began_ms);
        // A client that pauses notices the end of the connection late.
        let is_lost = run.blame.was_restarted(self.worker, self.began_ms);
        if !(is_broken_off || may_be_cut || is_unprocessed || is_after_idle || is_lost) {
            let why = format!("a stream got no response, {end:?}");
            blame(run, self.worker, (std::slice::from_ref(ask), &asked), (false, &why));
        }
    }
}
