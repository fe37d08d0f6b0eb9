//! The state of a simulated client's HTTP/2 connection. Each frame of the server must obey it.

use std::collections::{BTreeMap, VecDeque};

use forebay_http2::hpack::Decoder;
use forebay_testkit::Response;

use super::http2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, INITIAL_WINDOW, PING,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, number_of, response_head, word,
};

/// The windows before any SETTINGS (RFC 9113 §6.9.2).
const WINDOW_BYTES: i64 = 65_535;

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    Open,
    /// The server has sent END_STREAM.
    Whole,
    /// The server has reset the stream with this code.
    Reset(u32),
    /// The client has reset the stream.
    Cancelled,
}

#[derive(Debug)]
pub(super) struct AskedStream {
    pub(super) end: StreamEnd,
    pub(super) response: Response,
    send_window: i64,
    receive_window: i64,
}

/// A header block that continues in the next frame.
#[derive(Debug)]
struct OpenBlock {
    stream: u32,
    is_last: bool,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct ClientState {
    pub(super) streams: BTreeMap<u32, AskedStream>,
    decoder: Decoder,
    block: Option<OpenBlock>,
    /// How much the client may send, on the connection and at first on a stream.
    send_window: i64,
    send_initial: i64,
    /// How much the server may send, on the connection and at first on a stream.
    receive_window: i64,
    receive_initial: i64,
    /// The initial windows that the server has not acknowledged.
    pub(super) unacknowledged: VecDeque<u32>,
    /// Whether the server has sent its settings.
    pub(super) is_settled: bool,
    /// Whether the connection has ended.
    pub(super) is_over: bool,
    /// The last stream that the server has processed, if it has sent GOAWAY.
    pub(super) last_processed: Option<u32>,
    /// The number of PINGs that the server has answered.
    pub(super) pong_count: u64,
}

impl Default for ClientState {
    fn default() -> ClientState {
        ClientState {
            streams: BTreeMap::new(),
            decoder: Decoder::new(),
            block: None,
            send_window: WINDOW_BYTES,
            send_initial: WINDOW_BYTES,
            receive_window: WINDOW_BYTES,
            receive_initial: WINDOW_BYTES,
            unacknowledged: VecDeque::new(),
            is_settled: false,
            is_over: false,
            last_processed: None,
            pong_count: 0,
        }
    }
}

impl ClientState {
    /// Opens the next stream, and returns its identifier.
    pub(super) fn open(&mut self) -> u32 {
        let id = self.streams.last_key_value().map_or(1, |(id, _)| id + 2);
        let stream = AskedStream {
            end: StreamEnd::Open,
            response: Response::default(),
            send_window: self.send_initial,
            receive_window: self.receive_initial,
        };
        self.streams.insert(id, stream);
        id
    }

    pub(super) fn is_open(&self, id: u32) -> bool {
        !self.is_over && self.streams.get(&id).is_some_and(|it| it.end == StreamEnd::Open)
    }

    pub(super) fn has_open(&self) -> bool {
        self.streams.keys().any(|id| self.is_open(*id))
    }

    /// Takes as much of `bytes` from the windows as they permit. Returns `None` if they permit
    /// nothing, and 0 if the stream has ended.
    pub(super) fn take_window(&mut self, id: u32, bytes: usize) -> Option<usize> {
        if !self.is_open(id) {
            return Some(0);
        }
        let stream = self.streams.get_mut(&id)?;
        let count = self.send_window.min(stream.send_window).min(bytes as i64);
        if count <= 0 {
            return None;
        }
        self.send_window -= count;
        stream.send_window -= count;
        Some(count as usize)
    }

    /// Whether [`ClientState::updates`] would return a frame.
    pub(super) fn owes(&self, window: u32, connection_window: u32) -> bool {
        let is_low = |now: i64, window: u32| now <= i64::from(window) / 2;
        is_low(self.receive_window, connection_window)
            || self
                .streams
                .values()
                .any(|it| it.end == StreamEnd::Open && is_low(it.receive_window, window))
    }

    /// Enlarges each window that is at most half full, and returns the frames that say so.
    pub(super) fn updates(&mut self, window: u32, connection_window: u32) -> Vec<u8> {
        let mut frames = Vec::new();
        let mut enlarge = |id: u32, now: &mut i64, window: u32| {
            let increment = i64::from(window) - *now;
            if *now <= i64::from(window) / 2 {
                *now += increment;
                let increment = word(increment as u32);
                frames.extend(frame(WINDOW_UPDATE, 0, id, &increment));
            }
        };
        enlarge(0, &mut self.receive_window, connection_window);
        for (id, stream) in &mut self.streams {
            if stream.end == StreamEnd::Open {
                enlarge(*id, &mut stream.receive_window, window);
            }
        }
        frames
    }

    /// Takes a frame of the server, and appends answers to `out`.
    ///
    /// # Errors
    /// The server breaks a rule of RFC 9113.
    pub(super) fn receive(&mut self, received: Frame, out: &mut Vec<u8>) -> Result<(), String> {
        let id = received.stream;
        let is_continued = received.kind == CONTINUATION
            && self.block.as_ref().is_some_and(|block| block.stream == id);
        if is_continued != (self.block.is_some() || received.kind == CONTINUATION) {
            return Err(format!("a header block is interrupted by {received:?}"));
        }
        match received.kind {
            HEADERS | CONTINUATION => return self.headers(received),
            DATA => return self.data(&received),
            RST_STREAM => {
                let code = received.number().ok_or("a RST_STREAM without a code")?;
                let stream = self.streams.get_mut(&id).ok_or("a RST_STREAM of an idle stream")?;
                if stream.end == StreamEnd::Open {
                    stream.end = StreamEnd::Reset(code);
                }
            }
            SETTINGS if received.has(END_STREAM) => {
                let initial = self.unacknowledged.pop_front().ok_or("an ACK of no SETTINGS")?;
                let change = i64::from(initial) - self.receive_initial;
                self.receive_initial += change;
                self.streams.values_mut().for_each(|it| it.receive_window += change);
            }
            SETTINGS => {
                for entry in received.payload.as_chunks::<6>().0 {
                    if number_of([0, 0, entry[0], entry[1]]) == u32::from(INITIAL_WINDOW) {
                        let initial = number_of([entry[2], entry[3], entry[4], entry[5]]);
                        let change = i64::from(initial) - self.send_initial;
                        self.send_initial += change;
                        self.streams.values_mut().for_each(|it| it.send_window += change);
                    }
                }
                self.is_settled = true;
                out.extend(frame(SETTINGS, END_STREAM, 0, b""));
            }
            PING if received.has(END_STREAM) => self.pong_count += 1,
            PING => out.extend(frame(PING, END_STREAM, 0, &received.payload)),
            GOAWAY => {
                let last = received.payload.first_chunk::<4>().ok_or("a short GOAWAY")?;
                self.last_processed = Some(number_of(*last));
            }
            WINDOW_UPDATE => {
                let increment = i64::from(received.number().ok_or("a short WINDOW_UPDATE")?);
                if id == 0 {
                    self.send_window += increment;
                } else {
                    let stream = self.streams.get_mut(&id).ok_or("a window of an idle stream")?;
                    stream.send_window += increment;
                }
            }
            _ => return Err(format!("an unexpected frame: {received:?}")),
        }
        Ok(())
    }

    fn headers(&mut self, received: Frame) -> Result<(), String> {
        let block = self.block.get_or_insert_with(|| OpenBlock {
            stream: received.stream,
            is_last: received.has(END_STREAM),
            bytes: Vec::new(),
        });
        block.bytes.extend_from_slice(&received.payload);
        if !received.has(END_HEADERS) {
            return Ok(());
        }
        let Some(OpenBlock { stream, is_last, bytes }) = self.block.take() else { return Ok(()) };
        let head = response_head(&mut self.decoder, &bytes)?;
        let stream = self.streams.get_mut(&stream).ok_or("a head on an idle stream")?;
        match stream.end {
            StreamEnd::Open => {}
            StreamEnd::Cancelled => return Ok(()),
            end => return Err(format!("a head on a stream that has ended: {end:?} {head:?}")),
        }
        let response = &mut stream.response;
        let status = head.start.strip_prefix("HTTP/2 ").and_then(|status| status.parse().ok());
        match status {
            Some(100..=199) if response.status == 0 && !is_last => response.interim.push(head),
            Some(status) if response.status == 0 => {
                response.status = status;
                response.head = head;
            }
            None if response.status != 0 && is_last => response.trailers = head.fields,
            _ => return Err(format!("a head that may not come here: {head:?}")),
        }
        if is_last {
            stream.end = StreamEnd::Whole;
        }
        Ok(())
    }

    fn data(&mut self, received: &Frame) -> Result<(), String> {
        let (id, length) = (received.stream, received.payload.len() as i64);
        self.receive_window -= length;
        let stream = self.streams.get_mut(&id).ok_or("DATA on an idle stream")?;
        stream.receive_window -= length;
        if length > 0 && (self.receive_window < 0 || stream.receive_window < 0) {
            let windows = (self.receive_window, stream.receive_window);
            return Err(format!("stream {id} got more bytes than the windows permit: {windows:?}"));
        }
        match stream.end {
            StreamEnd::Open if stream.response.status != 0 => {}
            StreamEnd::Cancelled => return Ok(()),
            end => return Err(format!("DATA on stream {id} in the state {end:?}")),
        }
        stream.response.body.extend_from_slice(&received.payload);
        if received.has(END_STREAM) {
            stream.end = StreamEnd::Whole;
        }
        Ok(())
    }
}
