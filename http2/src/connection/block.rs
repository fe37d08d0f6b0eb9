//! Header blocks: their assembly from frames, and the requests and trailers in them.
//!
//! Every block is decoded, even the block of a refused stream, because each block changes the
//! decoder's table.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::{PlainEvent, ServerConnection};
use crate::error::{ConnectionError, ErrorCode};
use crate::flow_control::{ReceiveWindow, SendWindow};
use crate::frame::{FrameHead, flags, read, write};
use crate::glitch::Glitch;
use crate::hpack::HpackError;
use crate::limits::CONTINUATIONS_MAX;
use crate::request::{CheckContext, CheckedRequest, RequestIndex, check_request, check_trailers};
use crate::streams::{StreamKey, StreamStart};

/// Number of bytes of memory that are kept for the next block.
const BLOCK_BYTES_KEPT: usize = 16_384;

/// A header block that arrives in several frames.
#[derive(Debug, Default)]
pub(super) struct HeaderBlock {
    /// The stream; 0 if no block is open.
    stream: u32,
    is_last: bool,
    continuation_count: u16,
    bytes: Vec<u8>,
}

impl HeaderBlock {
    pub(super) fn is_open(&self) -> bool {
        self.stream != 0
    }

    /// The stream whose block is open.
    pub(super) fn stream(&self) -> Option<u32> {
        self.is_open().then_some(self.stream)
    }

    pub(super) fn shrink(&mut self) {
        self.bytes = Vec::new();
    }
}

impl ServerConnection {
    /// RFC 9113 §6.2: takes a HEADERS frame.
    pub(super) fn headers(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<PlainEvent>, ConnectionError> {
        // RFC 9113 §5.1.1: clients use odd identifiers.
        if head.stream.is_multiple_of(2) {
            return Err(ConnectionError::protocol("the stream identifier of a request is not odd"));
        }
        let fragment = read::headers(head, payload)?;
        let is_last = head.has(flags::END_STREAM);
        if head.has(flags::END_HEADERS) {
            return self.end_block(head.stream, is_last, fragment, out);
        }
        self.clock.frame.get_or_insert(now_ms);
        self.block.stream = head.stream;
        self.block.is_last = is_last;
        self.block.continuation_count = 0;
        self.block.bytes.clear();
        self.append_fragment(fragment)?;
        Ok(None)
    }

    /// RFC 9113 §6.10: takes a CONTINUATION frame of the open block.
    pub(super) fn continuation(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<PlainEvent>, ConnectionError> {
        self.charge(Glitch::Continuation)?;
        self.block.continuation_count += 1;
        if self.block.continuation_count > CONTINUATIONS_MAX {
            return Err(ConnectionError::calm("a header block has too many CONTINUATION frames"));
        }
        self.append_fragment(payload)?;
        if !head.has(flags::END_HEADERS) {
            return Ok(None);
        }
        let mut block = std::mem::take(&mut self.block);
        let event = self.end_block(block.stream, block.is_last, &block.bytes, out);
        block.bytes.clear();
        block.bytes.shrink_to(BLOCK_BYTES_KEPT);
        self.block.bytes = block.bytes;
        event
    }

    fn append_fragment(&mut self, fragment: &[u8]) -> Result<(), ConnectionError> {
        if self.block.bytes.len() + fragment.len() > self.limits.block_bytes_max() {
            return Err(ConnectionError::calm("a header block is too large"));
        }
        self.block.bytes.extend_from_slice(fragment);
        Ok(())
    }

    /// Processes a header block that has arrived completely.
    fn end_block(
        &mut self,
        stream: u32,
        is_last: bool,
        block: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<PlainEvent>, ConnectionError> {
        self.list.clear();
        self.decoder.decode(block, &mut self.list).map_err(|error| match error {
            HpackError::ListTooLarge => {
                ConnectionError::calm("the field lines of a header block are far too large")
            }
            _ => {
                let reason = "a header block cannot be decoded";
                ConnectionError::new(ErrorCode::CompressionError, reason)
            }
        })?;
        match stream > self.last_stream {
            true => self.begin_request(stream, is_last, out),
            false => self.trailers(stream, is_last, out),
        }
    }

    fn begin_request(
        &mut self,
        stream: u32,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<PlainEvent>, ConnectionError> {
        self.last_stream = stream;
        if self.ignores(stream) {
            // Our GOAWAY has told the client that the request is not processed.
            self.charge(Glitch::Refused)?;
            return Ok(None);
        }
        if self.streams.in_use() >= usize::from(self.limits.streams_max) {
            // Before the client has read our settings, it cannot know the limit.
            if self.clock.settings_ack.is_none() {
                self.charge(Glitch::Refused)?;
            }
            self.refuse(stream, ErrorCode::RefusedStream, out);
            return Ok(None);
        }
        if self.list.is_too_large() {
            self.charge(Glitch::TooLarge)?;
            self.answer_too_large(stream, is_last, out);
            return Ok(None);
        }
        let context = CheckContext {
            scheme: self.limits.scheme,
            extended_connect: self.limits.extended_connect,
            is_last,
        };
        let Ok(index) = check_request(&self.list, &context) else {
            self.charge(Glitch::Malformed)?;
            self.refuse(stream, ErrorCode::ProtocolError, out);
            return Ok(None);
        };
        Ok(self.insert_request(stream, index).map(|key| PlainEvent::Request(key, index)))
    }

    fn insert_request(&mut self, stream: u32, index: RequestIndex) -> Option<StreamKey> {
        let early = self.early_priority(stream);
        let priority = early.unwrap_or_else(|| CheckedRequest::new(&self.list, index).priority());
        self.streams.insert(StreamStart {
            id: stream,
            is_receiving: index.has_body,
            send_window: SendWindow::new(self.client.initial_window_bytes),
            receive_window: ReceiveWindow::new(self.limits.stream_window_bytes),
            body_expected: index.content_length,
            priority,
            is_tunnel: index.protocol.is_some(),
        })
    }

    /// Resets a stream that has no slot.
    fn refuse(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        write::rst_stream(out, stream, code);
        self.resets.insert(stream);
    }

    /// RFC 9113 §10.5.1: answers 431. A client that still sends a body is told to stop.
    fn answer_too_large(&mut self, stream: u32, is_last: bool, out: &mut Vec<u8>) {
        // Index 8 of the static table is the name; the value is not in the table.
        const STATUS_431: [u8; 5] = [0x08, 0x03, b'4', b'3', b'1'];
        self.write_block(stream, &STATUS_431, true, out);
        if !is_last {
            self.refuse(stream, ErrorCode::NoError, out);
        }
    }

    /// RFC 9113 §8.1: takes the second header block of a stream, its trailers.
    fn trailers(
        &mut self,
        stream: u32,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<PlainEvent>, ConnectionError> {
        let closed = ConnectionError::new(
            ErrorCode::StreamClosed,
            "a HEADERS frame names a stream that is closed",
        );
        let found = self.streams.find(stream);
        let found = found.and_then(|key| Some((key, self.streams.state(key)?)));
        let Some((key, state)) = found.filter(|(_, state)| state.is_receiving) else {
            if !self.is_skipped(stream) {
                return Err(closed);
            }
            self.charge(Glitch::Closed)?;
            return Ok(None);
        };
        let is_whole = state.body_expected.is_none_or(|expected| expected == state.body_received);
        let is_valid = is_last && is_whole && !self.list.is_too_large();
        if !is_valid || check_trailers(&self.list).is_err() {
            return self.reset_malformed(key, out).map(Some);
        }
        state.is_receiving = false;
        Ok(Some(PlainEvent::Trailers(key)))
    }
}
