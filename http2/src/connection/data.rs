//! DATA frames of requests: their flow control, their length against Content-Length, and the window
//! updates for bytes that the server has taken.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::{PlainEvent, ServerConnection, StepResult};
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{FrameHead, HEAD_BYTES, flags, write};
use crate::glitch::Glitch;
use crate::streams::StreamKey;

/// A DATA frame with fewer data bytes than this is a glitch, unless it ends its stream.
const DATA_BYTES_MIN: u32 = 16;

/// The stream was reset, or its work has ended: nothing more can be sent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamGone;

/// The DATA frame that is arriving.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataPart {
    /// The stream; `None` if the data is skipped.
    stream: Option<StreamKey>,
    data_left: u32,
    padding_left: u32,
    is_last: bool,
}

impl ServerConnection {
    /// RFC 9113 §6.1: takes the head of a DATA frame.
    pub(super) fn begin_data(
        &mut self,
        head: FrameHead,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<StepResult, ConnectionError> {
        let Some((pad_bytes, padding)) = padding_of(head, input)? else {
            return Ok(StepResult::NeedsInput);
        };
        self.check_not_idle(head.stream)?;
        // RFC 9113 §6.9: the whole payload counts, with its padding.
        if !self.receive_window.receive(head.length) {
            return Err(window_exceeded());
        }
        let data_bytes = head.length - pad_bytes - padding;
        let is_last = head.has(flags::END_STREAM);
        self.charge_small(head.stream, data_bytes, is_last)?;
        let consumed = HEAD_BYTES + pad_bytes as usize;
        let stream = self.receiving(head.stream)?;
        let part = DataPart { stream, data_left: data_bytes, padding_left: padding, is_last };
        let found = stream.and_then(|key| Some((key, self.streams.state(key)?)));
        let Some((key, state)) = found else {
            self.release_connection(pad_bytes, out);
            self.data = Some(DataPart { stream: None, ..part });
            return Ok(StepResult::Consumed(consumed));
        };
        if !state.receive_window.receive(head.length) {
            return Err(window_exceeded());
        }
        let received = state.body_received + u64::from(data_bytes);
        let is_wrong = |expected| received > expected || (is_last && received != expected);
        if state.body_expected.is_some_and(is_wrong) {
            let event = self.reset_malformed(key, out)?;
            self.release_connection(pad_bytes, out);
            self.data = Some(DataPart { stream: None, ..part });
            return Ok(StepResult::Event(consumed, event));
        }
        state.body_received = received;
        self.release_padding(key, pad_bytes + padding, out);
        // The padding is already released to the window, so its bytes are only skipped.
        self.data = Some(part);
        if data_bytes > 0 {
            return Ok(StepResult::Consumed(consumed));
        }
        self.end_of_data(part, consumed)
    }

    /// Ends a frame without data.
    fn end_of_data(
        &mut self,
        part: DataPart,
        consumed: usize,
    ) -> Result<StepResult, ConnectionError> {
        self.data = (part.padding_left > 0).then_some(DataPart { is_last: false, ..part });
        let Some(key) = part.stream.filter(|_| part.is_last) else {
            return Ok(StepResult::Consumed(consumed));
        };
        if let Some(state) = self.streams.state(key) {
            state.is_receiving = false;
        }
        Ok(StepResult::Event(consumed, PlainEvent::Data(key, 0, true)))
    }

    /// Finds the stream of a DATA frame; `None` if the frame is to be skipped because we have reset
    /// the stream.
    fn receiving(&mut self, stream: u32) -> Result<Option<StreamKey>, ConnectionError> {
        let key = self.streams.find(stream);
        let state = key.and_then(|key| self.streams.state(key));
        if state.is_some_and(|state| state.is_receiving) {
            return Ok(key);
        }
        if !self.is_skipped(stream) {
            let reason = "a DATA frame names a stream that is closed";
            return Err(ConnectionError::new(ErrorCode::StreamClosed, reason));
        }
        self.charge(Glitch::Closed)?;
        Ok(None)
    }

    /// Whether frames of a stream are skipped, because the client may have sent them before it read
    /// our reset or GOAWAY.
    pub(super) fn is_skipped(&self, stream: u32) -> bool {
        self.resets.contains(stream) || self.ignores(stream)
    }

    /// Charges a frame with little data. Messages in a tunnel may be short.
    fn charge_small(
        &mut self,
        stream: u32,
        data_bytes: u32,
        is_last: bool,
    ) -> Result<(), ConnectionError> {
        match data_bytes {
            _ if is_last => Ok(()),
            0 => self.charge(Glitch::EmptyData),
            1..DATA_BYTES_MIN if self.is_tunnel(stream) => Ok(()),
            1..DATA_BYTES_MIN => self.charge(Glitch::TinyData),
            _ => Ok(()),
        }
    }

    fn is_tunnel(&mut self, stream: u32) -> bool {
        let state = self.streams.find(stream).and_then(|key| self.streams.state(key));
        state.is_some_and(|state| state.is_tunnel)
    }

    /// Takes the next bytes of the DATA frame that is arriving.
    pub(super) fn data_step(&mut self, input: &[u8], now_ms: u64, out: &mut Vec<u8>) -> StepResult {
        let Some(mut part) = self.data else {
            return StepResult::NeedsInput;
        };
        if part.data_left == 0 {
            let count = input.len().min(part.padding_left as usize);
            part.padding_left -= count as u32;
            // The padding of a skipped frame was not released when the frame's head arrived.
            if part.stream.is_none() {
                self.release_connection(count as u32, out);
            }
            self.data = (part.padding_left > 0).then_some(part);
            self.note_skipped(count, now_ms);
            let is_stuck = count == 0 && part.padding_left > 0;
            return if is_stuck { StepResult::NeedsInput } else { StepResult::Consumed(count) };
        }
        let count = input.len().min(part.data_left as usize);
        if count == 0 {
            let state = part.stream.and_then(|key| self.streams.state(key));
            if !state.is_some_and(|state| state.is_receiving) {
                self.note_skipped(0, now_ms);
            }
            return StepResult::NeedsInput;
        }
        part.data_left -= count as u32;
        let is_last = part.is_last && part.data_left == 0;
        let is_over = part.data_left == 0 && part.padding_left == 0;
        self.data = (!is_over).then_some(part);
        let state = part.stream.and_then(|key| Some((key, self.streams.state(key)?)));
        match state.filter(|(_, state)| state.is_receiving) {
            Some((key, state)) => {
                state.body_held += count as u32;
                state.is_receiving = !is_last;
                StepResult::Event(count, PlainEvent::Data(key, count, is_last))
            }
            None => {
                // The stream ended while the frame arrived.
                self.note_skipped(count, now_ms);
                self.release_connection(count as u32, out);
                StepResult::Consumed(count)
            }
        }
    }

    /// Limits the time of a pause within a frame whose bytes are skipped: no stream waits for them.
    fn note_skipped(&mut self, count: usize, now_ms: u64) {
        let since_ms = self.clock.frame.filter(|_| count == 0).unwrap_or(now_ms);
        self.clock.frame = self.data.is_some().then_some(since_ms);
    }

    /// Notes that the server has taken `bytes` bytes of a request's body, and appends the
    /// WINDOW_UPDATE frames that are then due. Bytes that are not released keep the client from
    /// sending more.
    pub fn release_data(&mut self, stream: StreamKey, bytes: usize, out: &mut Vec<u8>) {
        let Some(state) = self.streams.state(stream) else {
            return;
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(state.body_held);
        state.body_held -= bytes;
        // The client sends nothing more on a stream that it has ended.
        let increment = state.receive_window.release(bytes).filter(|_| state.is_receiving);
        if let Some(increment) = increment {
            write::window_update(out, stream.id(), increment);
        }
        self.release_connection(bytes, out);
    }

    fn release_padding(&mut self, stream: StreamKey, bytes: u32, out: &mut Vec<u8>) {
        if bytes == 0 {
            return;
        }
        let state = self.streams.state(stream);
        if let Some(increment) = state.and_then(|state| state.receive_window.release(bytes)) {
            write::window_update(out, stream.id(), increment);
        }
        self.release_connection(bytes, out);
    }

    pub(super) fn release_connection(&mut self, bytes: u32, out: &mut Vec<u8>) {
        if let Some(increment) = self.receive_window.release(bytes) {
            write::window_update(out, 0, increment);
        }
    }

    /// Charges a glitch, and resets a stream whose client has sent a malformed message.
    pub(super) fn reset_malformed(
        &mut self,
        key: StreamKey,
        out: &mut Vec<u8>,
    ) -> Result<PlainEvent, ConnectionError> {
        self.reset_for_client(key, ErrorCode::ProtocolError, out)
    }

    /// Charges a glitch, and resets a stream because of an error of the client.
    pub(super) fn reset_for_client(
        &mut self,
        key: StreamKey,
        code: ErrorCode,
        out: &mut Vec<u8>,
    ) -> Result<PlainEvent, ConnectionError> {
        self.charge(Glitch::Malformed)?;
        self.reset(key, code, out);
        Ok(PlainEvent::Reset(key, code))
    }
}

/// Returns the bytes of the pad length field, 0 or 1, and the padding; `None` if the field has not
/// arrived.
fn padding_of(head: FrameHead, input: &[u8]) -> Result<Option<(u32, u32)>, ConnectionError> {
    if !head.has(flags::PADDED) {
        return Ok(Some((0, 0)));
    }
    if head.length == 0 {
        return Err(ConnectionError::frame_size("a padded frame is empty"));
    }
    let Some(padding) = input.get(HEAD_BYTES).map(|padding| u32::from(*padding)) else {
        return Ok(None);
    };
    match padding < head.length {
        true => Ok(Some((1, padding))),
        false => Err(ConnectionError::protocol("padding is longer than its frame")),
    }
}

fn window_exceeded() -> ConnectionError {
    let reason = "the client sends more than its window permits";
    ConnectionError::new(ErrorCode::FlowControlError, reason)
}
