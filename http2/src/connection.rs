//! One connection, as a server sees it.
//!
//! [`ServerConnection::receive`] takes input and returns at most one event. The methods of
//! `send.rs` append frames to a buffer of the caller, which the caller sends in one write for each
//! turn of its loop. Bodies are not copied here: [`ServerConnection::next_data`] appends the head
//! of a DATA frame and says which bytes must follow it.
//!
//! Invariants:
//! - The input decides about bounded memory only: one header block, one list of field lines, the
//!   dynamic table, the slots of the streams, and a few small rings.
//! - No input is taken while [`OUTPUT_BYTES_MAX`] bytes of output wait, so answers to a flood are
//!   bounded.
//! - A slot is in use from the event of its request until [`ServerConnection::end_work`].
//! - After an error the connection only has its GOAWAY to send.

mod block;
mod data;
mod drain;
mod receive;
mod send;

pub use data::StreamGone;
pub use send::DataGrant;

use crate::error::{ConnectionError, ErrorCode};
use crate::field_list::FieldList;
use crate::flow_control::{ReceiveWindow, SendWindow};
use crate::frame::write;
use crate::glitch::{Glitch, GlitchBudget};
use crate::hpack::Decoder;
use crate::limits::{ConnectionLimits, OUTPUT_BYTES_MAX, WINDOW_BYTES_MIN};
use crate::priority::{ResponsePriority, SendSchedule};
use crate::request::{CheckedRequest, RequestIndex};
use crate::settings::{ClientSettings, write_ours};
use crate::streams::{RecentResets, StreamKey, StreamSlots};

/// The protocol state of a connection; see the module's documentation.
#[derive(Debug)]
pub struct ServerConnection {
    limits: ConnectionLimits,
    stage: ConnectionStage,
    client: ClientSettings,
    clock: WaitClock,
    decoder: Decoder,
    list: FieldList,
    block: block::HeaderBlock,
    data: Option<data::DataPart>,
    /// Number of bytes still to be skipped of a frame that is ignored.
    skip_bytes: u32,
    streams: StreamSlots,
    schedule: SendSchedule,
    resets: RecentResets,
    early_priorities: Vec<(u32, ResponsePriority)>,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    glitches: GlitchBudget,
    drain: drain::DrainStage,
    /// The highest identifier of a stream that the client has opened.
    last_stream: u32,
    /// Whether our next header block must begin with an update that empties the table of the
    /// client's decoder.
    empties_table: bool,
    has_client_left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStage {
    /// Before the preface.
    Preface,
    /// Before the first SETTINGS frame.
    FirstSettings,
    Open,
    Failed(ConnectionError),
}

/// The start times of the waits that have a time limit, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct WaitClock {
    /// Start of the wait for the preface and the first SETTINGS.
    preface: Option<u64>,
    /// Start of the wait for the acknowledgement of our settings.
    settings_ack: Option<u64>,
    /// Start of the wait for the rest of a frame or of a header block.
    frame: Option<u64>,
    /// The time since which nothing is read.
    unread: Option<u64>,
}

/// Input that was taken, and the event that it caused.
#[derive(Debug)]
pub struct Receipt<'e> {
    /// Bytes to remove from the start of the input.
    pub consumed: usize,
    /// The event; `None` if more input is needed, or the output must be sent first.
    pub event: Option<StreamEvent<'e>>,
}

/// An event of a stream.
#[derive(Debug)]
pub enum StreamEvent<'e> {
    /// A request has begun, and has a slot until [`ServerConnection::end_work`].
    Request {
        /// The new stream.
        stream: StreamKey,
        /// The request; it must be copied before the next call.
        request: CheckedRequest<'e>,
    },
    /// A part of the request's body has arrived. The client may send more only after
    /// [`ServerConnection::release_data`].
    Data {
        /// The stream.
        stream: StreamKey,
        /// The bytes, without padding; may be empty if they are the last.
        data: &'e [u8],
        /// Whether the request ends here.
        is_last: bool,
    },
    /// The request ends with these trailers.
    Trailers {
        /// The stream.
        stream: StreamKey,
        /// The lines, which obey the rules for trailers.
        fields: &'e FieldList,
    },
    /// The stream was reset: the work on it must end, and its request is incomplete unless an
    /// earlier event has delivered its end.
    Reset {
        /// The stream.
        stream: StreamKey,
        /// The error code that the client sent, or that we sent to the client.
        code: ErrorCode,
    },
}

/// An event without borrowed parts.
#[derive(Clone, Copy, Debug)]
enum PlainEvent {
    Request(StreamKey, RequestIndex),
    /// The stream, the number of data bytes at the end of the consumed input, and whether the
    /// request ends here.
    Data(StreamKey, usize, bool),
    Trailers(StreamKey),
    Reset(StreamKey, ErrorCode),
}

/// The result of one step over the input.
#[derive(Clone, Copy, Debug)]
enum StepResult {
    NeedsInput,
    Consumed(usize),
    Event(usize, PlainEvent),
}

impl ServerConnection {
    /// Begins a connection, and appends our settings to `out`.
    pub fn new(limits: ConnectionLimits, now_ms: u64, out: &mut Vec<u8>) -> ServerConnection {
        let limits = limits.clamped();
        write_ours(out, &limits);
        ServerConnection {
            stage: ConnectionStage::Preface,
            client: ClientSettings::default(),
            clock: WaitClock {
                preface: Some(now_ms),
                settings_ack: Some(now_ms),
                ..WaitClock::default()
            },
            decoder: Decoder::new(),
            list: FieldList::new(limits.list),
            block: block::HeaderBlock::default(),
            data: None,
            skip_bytes: 0,
            streams: StreamSlots::new(limits.streams_max),
            schedule: SendSchedule::default(),
            resets: RecentResets::default(),
            early_priorities: Vec::new(),
            send_window: SendWindow::new(WINDOW_BYTES_MIN),
            receive_window: ReceiveWindow::new(limits.connection_window_bytes),
            glitches: GlitchBudget::new(limits.glitches_max, now_ms),
            drain: drain::DrainStage::Open,
            last_stream: 0,
            empties_table: false,
            has_client_left: false,
            limits,
        }
    }

    /// Takes input until it causes an event, is used up, or must not be taken further because `out`
    /// already holds [`OUTPUT_BYTES_MAX`] unsent bytes. Answers are appended to `out`.
    ///
    /// The input must be able to hold a whole frame, which has at most 16,393 bytes.
    ///
    /// # Errors
    /// The connection has ended; `out` has the GOAWAY that says so.
    pub fn receive<'e>(
        &'e mut self,
        input: &'e [u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Receipt<'e>, ConnectionError> {
        let (mut consumed, mut event) = (0, None);
        self.glitches.refund_time(now_ms);
        while event.is_none() && out.len() < OUTPUT_BYTES_MAX {
            let rest = input.get(consumed..).unwrap_or_default();
            match self.step(rest, now_ms, out) {
                Ok(StepResult::NeedsInput) => break,
                Ok(StepResult::Consumed(count)) => consumed += count,
                Ok(StepResult::Event(count, plain)) => {
                    consumed += count;
                    event = Some(plain);
                }
                Err(error) => return Err(self.fail(error, out)),
            }
        }
        let event = event.map(|event| match event {
            PlainEvent::Request(stream, index) => {
                StreamEvent::Request { stream, request: CheckedRequest::new(&self.list, index) }
            }
            PlainEvent::Data(stream, count, is_last) => {
                let data = input.get(consumed - count..consumed).unwrap_or_default();
                StreamEvent::Data { stream, data, is_last }
            }
            PlainEvent::Trailers(stream) => StreamEvent::Trailers { stream, fields: &self.list },
            PlainEvent::Reset(stream, code) => StreamEvent::Reset { stream, code },
        });
        Ok(Receipt { consumed, event })
    }

    /// Ends the connection, and appends a GOAWAY unless one was appended before.
    fn fail(&mut self, error: ConnectionError, out: &mut Vec<u8>) -> ConnectionError {
        if !matches!(self.stage, ConnectionStage::Failed(_)) {
            write::go_away(out, self.last_served(), error.code);
            self.stage = ConnectionStage::Failed(error);
        }
        error
    }

    /// Returns the earliest time, in milliseconds, at which a time limit ends: for the preface, for
    /// the rest of a frame or a header block, or for the acknowledgement of our settings. At that
    /// time [`ServerConnection::check_time`] ends the connection.
    pub fn deadline_ms(&self) -> Option<u64> {
        let waits = [self.clock.preface, self.clock.settings_ack, self.clock.frame];
        let first = waits.into_iter().flatten().min()?;
        Some(first.saturating_add(u64::from(self.limits.head_ms_max)))
    }

    /// Records that nothing is read from now on, because output waits.
    pub fn stop_reading(&mut self, now_ms: u64) {
        self.clock.unread.get_or_insert(now_ms);
    }

    /// Records that input is read again. The time since [`ServerConnection::stop_reading`] does not
    /// count towards the time limits, because the client could not end a wait in it.
    pub fn resume_reading(&mut self, now_ms: u64) {
        let WaitClock { preface, settings_ack, frame, unread } = &mut self.clock;
        let Some(stopped_ms) = unread.take() else { return };
        for since_ms in [preface, settings_ack, frame].into_iter().flatten() {
            *since_ms += now_ms.saturating_sub(stopped_ms);
        }
    }

    /// Checks the time limits, and ends the connection if one of them has passed.
    ///
    /// # Errors
    /// The client is too late; `out` has the GOAWAY that says so.
    pub fn check_time(&mut self, now_ms: u64, out: &mut Vec<u8>) -> Result<(), ConnectionError> {
        if self.deadline_ms().is_none_or(|deadline| now_ms < deadline) {
            return Ok(());
        }
        let error = match self.clock {
            WaitClock { frame: Some(_), .. } => {
                ConnectionError::calm("a frame or a header block takes too long to arrive")
            }
            WaitClock { preface: Some(_), .. } => {
                ConnectionError::protocol("the preface takes too long to arrive")
            }
            _ => {
                let reason = "the client has not acknowledged the server's settings in time";
                ConnectionError::new(ErrorCode::SettingsTimeout, reason)
            }
        };
        Err(self.fail(error, out))
    }

    /// Returns the number of streams whose work has not ended.
    pub fn streams_in_use(&self) -> usize {
        self.streams.in_use()
    }

    /// Whether a header block or a frame has arrived in part, so that the connection is not idle.
    pub fn is_within_frame(&self) -> bool {
        self.block.is_open() || self.data.is_some() || self.skip_bytes > 0
    }

    /// Whether a response waits because the client's flow-control window has no room for it.
    pub fn is_blocked_by_window(&mut self) -> bool {
        let is_blocked = self.send_window.available() == 0;
        self.streams
            .iter_mut()
            .any(|(_, state)| state.unsent > 0 && (is_blocked || !state.is_ready()))
    }

    /// The budget of glitches and their counts.
    pub fn glitches(&self) -> &GlitchBudget {
        &self.glitches
    }

    /// Frees memory that an idle connection does not need.
    pub fn shrink(&mut self) {
        if self.streams.in_use() == 0 && !self.is_within_frame() {
            self.list.shrink();
            self.block.shrink();
            self.streams.shrink();
            self.early_priorities = Vec::new();
            self.decoder.shrink();
        }
    }

    fn charge(&mut self, glitch: Glitch) -> Result<(), ConnectionError> {
        self.glitches.charge(glitch)
    }
}

#[cfg(test)]
mod tests;
