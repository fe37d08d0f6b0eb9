//! The server's side of streams: heads, data, trailers, resets and the end of work.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::{ServerConnection, StreamGone};
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::write;
use crate::glitch::Glitch;
use crate::hpack;
use crate::limits::FRAME_BYTES_MAX;
use crate::priority::ResponsePriority;
use crate::streams::{SendStage, StreamKey, StreamState};

/// A frame shorter than this is a glitch, if an almost closed window is the reason for its length.
const GRANT_BYTES_MIN: usize = 256;

/// Permission to send data: the head of a DATA frame was appended, and exactly these bytes of the
/// stream's response must follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataGrant {
    /// The stream.
    pub stream: StreamKey,
    /// The number of bytes, at least 1.
    pub bytes: usize,
    /// Whether the frame ends the response.
    pub is_last: bool,
}

impl ServerConnection {
    /// Appends an interim response (1xx), given as a header block.
    ///
    /// # Errors
    /// The stream is gone, or its final head was sent.
    pub fn send_interim(
        &mut self,
        stream: StreamKey,
        block: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StreamGone> {
        self.in_stage(stream, SendStage::Head)?;
        self.write_block(stream.id(), block, false, out);
        Ok(())
    }

    /// Appends the head of a response, given as a header block: the lines of `hpack::encode_status`
    /// and `hpack::encode_field`, or the stored block of a stored response.
    ///
    /// # Errors
    /// The stream is gone, or its head was sent.
    pub fn send_head(
        &mut self,
        stream: StreamKey,
        block: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), StreamGone> {
        let state = self.in_stage(stream, SendStage::Head)?;
        state.send = if is_last { SendStage::Done } else { SendStage::Body };
        self.write_block(stream.id(), block, is_last, out);
        Ok(())
    }

    /// Appends a whole response, given as a header block and a body of at least one byte, if the
    /// windows permit all of it now. Returns whether they do; if not, nothing was appended.
    ///
    /// # Errors
    /// The stream is gone, or its head was sent.
    pub fn send_whole(
        &mut self,
        stream: StreamKey,
        (block, body): (&[u8], &[u8]),
        out: &mut Vec<u8>,
    ) -> Result<bool, StreamGone> {
        let window = self.send_window.available().min(FRAME_BYTES_MAX as usize);
        let state = self.in_stage(stream, SendStage::Head)?;
        if body.is_empty() || body.len() > window.min(state.send_window.available()) {
            return Ok(false);
        }
        state.send = SendStage::Done;
        state.send_window.take(body.len());
        self.send_window.take(body.len());
        self.write_block(stream.id(), block, false, out);
        write::data_head(out, stream.id(), body.len(), true);
        out.extend_from_slice(body);
        Ok(true)
    }

    /// Notes that `bytes` more bytes of the response are ready to be sent, and whether the response
    /// ends after them. [`ServerConnection::next_data`] grants them, frame by frame.
    ///
    /// # Errors
    /// The stream is gone, its head was not sent yet, or its response has ended.
    pub fn offer_data(
        &mut self,
        stream: StreamKey,
        bytes: u64,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), StreamGone> {
        let state = self.in_stage(stream, SendStage::Body)?;
        state.unsent = state.unsent.saturating_add(bytes);
        state.ends_after_unsent |= is_last;
        if state.unsent == 0 && is_last {
            state.send = SendStage::Done;
            write::data_head(out, stream.id(), 0, true);
        } else if state.is_ready() {
            let priority = state.priority;
            self.schedule.insert(stream.slot(), priority);
        }
        Ok(())
    }

    /// Grants the next DATA frame of at most `bytes_max` bytes, in the order of the priorities;
    /// `None` if no stream has bytes to send that its own window and the connection's window
    /// permit.
    ///
    /// # Errors
    /// The client keeps its windows so small that the connection ends; `out` has the GOAWAY.
    pub fn next_data(
        &mut self,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<DataGrant>, ConnectionError> {
        let frame_max = (FRAME_BYTES_MAX as usize).min(bytes_max);
        let window = self.send_window.available();
        if window == 0 || frame_max == 0 {
            return Ok(None);
        }
        let Some(slot) = self.schedule.next(|slot| self.streams.id_of(slot)) else {
            return Ok(None);
        };
        let stream = self.streams.key_of(slot);
        let Some(state) = self.streams.state(stream) else {
            self.schedule.remove(slot);
            return Ok(None);
        };
        let unsent = usize::try_from(state.unsent).unwrap_or(usize::MAX);
        let permitted = window.min(state.send_window.available()).min(unsent);
        let bytes = permitted.min(frame_max);
        state.send_window.take(bytes);
        state.unsent -= bytes as u64;
        let is_last = state.unsent == 0 && state.ends_after_unsent;
        if is_last {
            state.send = SendStage::Done;
        }
        if !state.is_ready() {
            self.schedule.remove(slot);
        }
        self.send_window.take(bytes);
        if permitted < GRANT_BYTES_MIN.min(unsent)
            && let Err(error) = self.charge(Glitch::TinyWindow)
        {
            return Err(self.fail(error, out));
        }
        write::data_head(out, stream.id(), bytes, is_last);
        Ok(Some(DataGrant { stream, bytes, is_last }))
    }

    /// Appends the trailers of a response, given as a header block. All offered data must have been
    /// granted.
    ///
    /// # Errors
    /// The stream is gone, its head was not sent yet, or its response has ended.
    ///
    /// # Panics
    /// Offered data was not granted: it would be lost.
    pub fn send_trailers(
        &mut self,
        stream: StreamKey,
        block: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StreamGone> {
        let state = self.in_stage(stream, SendStage::Body)?;
        assert_eq!(state.unsent, 0, "trailers come after the data");
        state.send = SendStage::Done;
        self.write_block(stream.id(), block, true, out);
        Ok(())
    }

    /// Resets a stream, unless it has ended. The slot stays in use until
    /// [`ServerConnection::end_work`].
    pub fn reset(&mut self, stream: StreamKey, code: ErrorCode, out: &mut Vec<u8>) {
        let Some(state) = self.streams.state(stream) else {
            return;
        };
        let is_over = state.send == SendStage::Done && !state.is_receiving;
        let held = std::mem::take(&mut state.body_held);
        if !is_over {
            state.reset();
            write::rst_stream(out, stream.id(), code);
            self.resets.insert(stream.id());
        }
        self.schedule.remove(stream.slot());
        self.release_connection(held, out);
    }

    /// Ends the work on a stream and frees its slot.
    ///
    /// If the response is complete and the request is not, the client is told to stop (RFC 9113
    /// §8.1). If the response is incomplete, the stream is reset with INTERNAL_ERROR.
    pub fn end_work(&mut self, stream: StreamKey, out: &mut Vec<u8>) {
        let Some(state) = self.streams.state(stream) else {
            return;
        };
        let (is_sent, is_reset) = (state.send == SendStage::Done, state.is_reset);
        if is_sent && !is_reset {
            self.glitches.refund_request();
        }
        let code = if is_sent { ErrorCode::NoError } else { ErrorCode::InternalError };
        self.reset(stream, code, out);
        self.streams.remove(stream);
    }

    /// Whether the stream can still send its response.
    pub fn is_sending(&mut self, stream: StreamKey) -> bool {
        self.streams.state(stream).is_some_and(|state| state.send != SendStage::Done)
    }

    /// Returns how many offered bytes of a response were not granted yet.
    pub fn unsent_bytes(&mut self, stream: StreamKey) -> u64 {
        self.streams.state(stream).map_or(0, |state| state.unsent)
    }

    /// Changes the priority of a response, for a `priority` field of the origin (RFC 9218 §8).
    pub fn set_priority(&mut self, stream: StreamKey, priority: ResponsePriority) {
        let Some(state) = self.streams.state(stream) else {
            return;
        };
        state.priority = priority;
        if state.is_ready() {
            self.schedule.insert(stream.slot(), priority);
        }
    }

    fn in_stage(
        &mut self,
        stream: StreamKey,
        stage: SendStage,
    ) -> Result<&mut StreamState, StreamGone> {
        let state = self.streams.state(stream);
        state.filter(|state| state.send == stage && !state.ends_after_unsent).ok_or(StreamGone)
    }

    /// Appends a header block. If the client's decoder awaits an update of its table size, an
    /// update that empties the table precedes the block.
    pub(super) fn write_block(
        &mut self,
        stream: u32,
        block: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) {
        let frame_max = (self.client.frame_bytes_max as usize).min(FRAME_BYTES_MAX as usize);
        let prefix: &[u8] = match std::mem::take(&mut self.empties_table) {
            true => &hpack::EMPTY_TABLE,
            false => &[],
        };
        write::headers(out, stream, (prefix, block), is_last, frame_max);
    }
}
