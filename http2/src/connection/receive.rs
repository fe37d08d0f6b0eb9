//! Steps over the input: one frame, or a part of a DATA frame.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::{ConnectionStage, PlainEvent, ServerConnection, StepResult};
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{FrameHead, FrameKind, HEAD_BYTES, PREFACE, flags, read, write};
use crate::glitch::Glitch;
use crate::hpack::TABLE_BYTES_MAX;
use crate::limits::{EARLY_PRIORITIES_MAX, FRAME_BYTES_MAX};
use crate::priority::ResponsePriority;
use crate::streams::SendStage;

/// A WINDOW_UPDATE that adds fewer bytes than this is a glitch.
const INCREMENT_MIN: u32 = 256;

impl ServerConnection {
    /// Processes the next frame of the input, or the next part of a DATA frame.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<StepResult, ConnectionError> {
        match self.stage {
            ConnectionStage::Failed(error) => return Err(error),
            ConnectionStage::Preface => return self.preface(input),
            ConnectionStage::FirstSettings | ConnectionStage::Open => {}
        }
        if self.data.is_some() {
            return Ok(self.data_step(input, now_ms, out));
        }
        if self.skip_bytes > 0 {
            return Ok(self.skip_step(input, now_ms));
        }
        let Some(head) = FrameHead::parse(input) else {
            self.note_partial(input, now_ms);
            return Ok(StepResult::NeedsInput);
        };
        self.check_order(head)?;
        if head.kind == FrameKind::Data {
            let result = self.begin_data(head, input, out)?;
            match result {
                StepResult::NeedsInput => self.note_partial(input, now_ms),
                // The body has a time limit of its own.
                _ => self.clock.frame = None,
            }
            return Ok(result);
        }
        if let FrameKind::Unknown(_) = head.kind {
            self.charge(Glitch::Unknown)?;
            self.skip_bytes = head.length;
            self.clock.frame = None;
            return Ok(StepResult::Consumed(HEAD_BYTES));
        }
        let Some(payload) = input.get(HEAD_BYTES..head.frame_bytes()) else {
            self.note_partial(input, now_ms);
            return Ok(StepResult::NeedsInput);
        };
        let event = self.frame(head, payload, now_ms, out)?;
        if !self.block.is_open() {
            self.clock.frame = None;
        }
        Ok(match event {
            Some(event) => StepResult::Event(head.frame_bytes(), event),
            None => StepResult::Consumed(head.frame_bytes()),
        })
    }

    /// RFC 9113 §3.4: a connection begins with the preface. The first byte that differs is an
    /// error, even if the rest has not arrived.
    fn preface(&mut self, input: &[u8]) -> Result<StepResult, ConnectionError> {
        let common = input.iter().zip(PREFACE).take_while(|(one, other)| one == other).count();
        if common == PREFACE.len() {
            self.stage = ConnectionStage::FirstSettings;
            return Ok(StepResult::Consumed(PREFACE.len()));
        }
        match common < input.len() {
            true => Err(ConnectionError::protocol("the preface of HTTP/2 is missing")),
            false => Ok(StepResult::NeedsInput),
        }
    }

    /// RFC 9113 §3.4, §4.2, §6.10: checks the size of a frame, and whether it may arrive now.
    fn check_order(&self, head: FrameHead) -> Result<(), ConnectionError> {
        if head.length > FRAME_BYTES_MAX {
            return Err(ConnectionError::frame_size("a frame is too large"));
        }
        if self.stage == ConnectionStage::FirstSettings
            && (head.kind != FrameKind::Settings || head.has(flags::ACK))
        {
            return Err(ConnectionError::protocol("the first frame is not SETTINGS"));
        }
        match (self.block.stream(), head.kind) {
            (Some(stream), FrameKind::Continuation) if stream == head.stream => Ok(()),
            (Some(_), _) => Err(ConnectionError::protocol(
                "a frame other than CONTINUATION interrupts a header block",
            )),
            (None, FrameKind::Continuation) => Err(ConnectionError::protocol(
                "a CONTINUATION frame arrives while no header block is open",
            )),
            (None, _) => Ok(()),
        }
    }

    /// Starts the time limit of a frame that has arrived in part.
    fn note_partial(&mut self, input: &[u8], now_ms: u64) {
        if !input.is_empty() {
            self.clock.frame.get_or_insert(now_ms);
        }
    }

    fn skip_step(&mut self, input: &[u8], now_ms: u64) -> StepResult {
        let count = input.len().min(self.skip_bytes as usize);
        self.skip_bytes -= count as u32;
        let since_ms = *self.clock.frame.get_or_insert(now_ms);
        self.clock.frame = (self.skip_bytes > 0).then_some(since_ms);
        if count == 0 { StepResult::NeedsInput } else { StepResult::Consumed(count) }
    }

    /// Processes a frame that has arrived completely.
    fn frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<PlainEvent>, ConnectionError> {
        match head.kind {
            FrameKind::Headers => return self.headers(head, payload, now_ms, out),
            FrameKind::Continuation => return self.continuation(head, payload, out),
            FrameKind::RstStream => return self.rst_stream(head, payload),
            FrameKind::Settings => self.settings(head, payload, out)?,
            FrameKind::Ping => self.ping(head, payload, out)?,
            FrameKind::WindowUpdate => return self.window_update(head, payload, out),
            FrameKind::Priority => {
                self.charge(Glitch::Priority)?;
                read::priority(head, payload)?;
            }
            FrameKind::PriorityUpdate => self.priority_update(head, payload)?,
            FrameKind::GoAway => {
                read::go_away(head, payload)?;
                self.has_client_left = true;
            }
            FrameKind::PushPromise => {
                return Err(ConnectionError::protocol(
                    "the client sent PUSH_PROMISE, which only a server may send",
                ));
            }
            FrameKind::Data | FrameKind::Unknown(_) => {}
        }
        Ok(None)
    }

    /// RFC 9113 §5.1: after RST_STREAM, a client sends no DATA and no HEADERS on a stream. So they
    /// are an error, even on a stream that we have reset too.
    fn rst_stream(
        &mut self,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<Option<PlainEvent>, ConnectionError> {
        let code = read::rst_stream(head, payload)?;
        self.check_not_idle(head.stream)?;
        self.resets.remove(head.stream);
        let found = self.streams.find(head.stream);
        let Some((key, state)) = found.and_then(|key| Some((key, self.streams.state(key)?))) else {
            self.charge(Glitch::Closed)?;
            return Ok(None);
        };
        if state.send == SendStage::Done && !state.is_receiving {
            self.charge(Glitch::Closed)?;
            return Ok(None);
        }
        let held = std::mem::take(&mut state.body_held);
        state.reset();
        self.schedule.remove(key.slot());
        // These bytes are announced with the bytes that are released next.
        self.receive_window.release_quietly(held);
        self.charge(Glitch::Reset)?;
        Ok(Some(PlainEvent::Reset(key, code)))
    }

    /// RFC 9113 §6.5.3: applies the settings in their order, and acknowledges them.
    fn settings(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        let entries = read::settings(head, payload)?;
        if head.has(flags::ACK) {
            self.clock.settings_ack = None;
            return Ok(());
        }
        match self.stage {
            ConnectionStage::FirstSettings => {
                self.stage = ConnectionStage::Open;
                self.clock.preface = None;
            }
            _ => self.charge(Glitch::Settings)?,
        }
        let before = self.client;
        for (identifier, value) in entries {
            self.client.apply(identifier, value)?;
            // RFC 7541 §4.2: an encoder tells the decoder that its table became smaller.
            self.empties_table |= (self.client.table_bytes as usize) < TABLE_BYTES_MAX;
        }
        let change =
            i64::from(self.client.initial_window_bytes) - i64::from(before.initial_window_bytes);
        if change != 0 {
            self.change_windows(change)?;
        }
        write::settings_ack(out);
        Ok(())
    }

    /// RFC 9113 §6.9.2: a change of the initial window changes the windows of all streams.
    fn change_windows(&mut self, change: i64) -> Result<(), ConnectionError> {
        for (slot, state) in self.streams.iter_mut() {
            if state.send_window.add(change).is_err() {
                let reason = "the settings make a window exceed 2^31-1";
                return Err(ConnectionError::new(ErrorCode::FlowControlError, reason));
            }
            match state.is_ready() {
                true => self.schedule.insert(slot, state.priority),
                false => self.schedule.remove(slot),
            }
        }
        Ok(())
    }

    fn ping(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        let data = read::ping(head, payload)?;
        if head.has(flags::ACK) {
            self.ping_answered(data, out);
            return Ok(());
        }
        self.charge(Glitch::Ping)?;
        write::ping(out, data, true);
        Ok(())
    }

    /// RFC 9113 §6.9.1: a stream whose window exceeds 2^31-1 is reset.
    fn window_update(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<PlainEvent>, ConnectionError> {
        let increment = read::window_update(payload)?;
        if increment < INCREMENT_MIN {
            self.charge(Glitch::WindowUpdate)?;
        }
        if head.stream == 0 {
            let overflow = |_| {
                let reason = "a WINDOW_UPDATE makes the window exceed 2^31-1";
                ConnectionError::new(ErrorCode::FlowControlError, reason)
            };
            return self.send_window.add(i64::from(increment)).map(|()| None).map_err(overflow);
        }
        self.check_not_idle(head.stream)?;
        let found = self.streams.find(head.stream);
        let Some((key, state)) = found.and_then(|key| Some((key, self.streams.state(key)?))) else {
            return Ok(None);
        };
        let was_reset = state.is_reset;
        if state.send_window.add(i64::from(increment)).is_err() {
            let event = self.reset_for_client(key, ErrorCode::FlowControlError, out)?;
            return Ok((!was_reset).then_some(event));
        }
        if state.is_ready() {
            self.schedule.insert(key.slot(), state.priority);
        }
        Ok(None)
    }

    fn priority_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionError> {
        let (stream, priority) = read::priority_update(head, payload)?;
        self.charge(Glitch::Priority)?;
        if let Some(key) = self.streams.find(stream) {
            self.set_priority(key, priority);
            return Ok(());
        }
        if stream > self.last_stream {
            self.early_priorities.retain(|(other, _)| *other != stream);
            if self.early_priorities.len() < EARLY_PRIORITIES_MAX {
                self.early_priorities.push((stream, priority));
            }
        }
        Ok(())
    }

    /// Returns the priority that arrived before its stream, and forgets it.
    pub(super) fn early_priority(&mut self, stream: u32) -> Option<ResponsePriority> {
        let found = self.early_priorities.iter().find(|(other, _)| *other == stream).copied();
        // Streams that were skipped can no longer begin.
        self.early_priorities.retain(|(other, _)| *other > stream);
        found.map(|(_, priority)| priority)
    }

    /// RFC 9113 §5.1: of the frames on a stream that has not begun, only HEADERS and PRIORITY are
    /// permitted.
    pub(super) fn check_not_idle(&self, stream: u32) -> Result<(), ConnectionError> {
        match stream.is_multiple_of(2) || stream > self.last_stream {
            true => Err(ConnectionError::protocol("a frame names a stream that has not begun")),
            false => Ok(()),
        }
    }
}
