//! The streams of a connection, in slots that are reused.
//!
//! A slot is in use until the server says that the work of its stream has ended, even if the client
//! has reset the stream: the number of slots bounds the work, not only the streams that the client
//! sees (CVE-2023-44487).
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use crate::flow_control::{ReceiveWindow, SendWindow};
use crate::limits::RESETS_KEPT_MAX;
use crate::priority::ResponsePriority;

/// Names a stream: its slot, for the server's own tables, and its identifier. A slot is reused, an
/// identifier never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey {
    slot: u16,
    id: u32,
}

impl StreamKey {
    /// The slot, below the largest number of streams.
    pub fn slot(self) -> u16 {
        self.slot
    }

    /// The identifier that the client chose.
    pub fn id(self) -> u32 {
        self.id
    }
}

/// The progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendStage {
    /// The head was not sent yet.
    Head,
    /// The head was sent, and the response has not ended.
    Body,
    /// The end of the response was sent, or the stream was reset.
    Done,
}

/// A stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamState {
    /// Whether the client may still send DATA or trailers.
    pub(crate) is_receiving: bool,
    pub(crate) send: SendStage,
    pub(crate) is_reset: bool,
    pub(crate) send_window: SendWindow,
    pub(crate) receive_window: ReceiveWindow,
    /// Number of bytes of the response that the server has ready to send.
    pub(crate) unsent: u64,
    /// Whether the response ends after the unsent bytes.
    pub(crate) ends_after_unsent: bool,
    /// The announced length of the request's body, and its length so far.
    pub(crate) body_expected: Option<u64>,
    pub(crate) body_received: u64,
    /// Number of bytes of the request's body that the server has received and not released.
    pub(crate) body_held: u32,
    pub(crate) priority: ResponsePriority,
    /// Whether the stream is a tunnel, opened by an extended CONNECT.
    pub(crate) is_tunnel: bool,
}

/// The initial properties of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamStart {
    pub(crate) id: u32,
    pub(crate) is_receiving: bool,
    pub(crate) send_window: SendWindow,
    pub(crate) receive_window: ReceiveWindow,
    pub(crate) body_expected: Option<u64>,
    pub(crate) priority: ResponsePriority,
    pub(crate) is_tunnel: bool,
}

impl StreamState {
    fn new(start: StreamStart) -> StreamState {
        StreamState {
            is_receiving: start.is_receiving,
            send: SendStage::Head,
            is_reset: false,
            send_window: start.send_window,
            receive_window: start.receive_window,
            unsent: 0,
            ends_after_unsent: false,
            body_expected: start.body_expected,
            body_received: 0,
            body_held: 0,
            priority: start.priority,
            is_tunnel: start.is_tunnel,
        }
    }

    /// Whether the state of this stream permits sending bytes now.
    pub(crate) fn is_ready(&self) -> bool {
        self.unsent > 0 && self.send_window.available() > 0
    }

    /// Ends both directions.
    pub(crate) fn reset(&mut self) {
        self.is_reset = true;
        self.is_receiving = false;
        self.send = SendStage::Done;
        self.unsent = 0;
    }
}

/// The slots of a connection. Free slots have the identifier 0.
#[derive(Debug, Default)]
pub(crate) struct StreamSlots {
    states: Vec<StreamState>,
    /// The identifiers by slot, kept separately so that a search reads few cache lines.
    ids: Vec<u32>,
    free: Vec<u16>,
    streams_max: u16,
}

impl StreamSlots {
    pub(crate) fn new(streams_max: u16) -> StreamSlots {
        StreamSlots { streams_max, ..StreamSlots::default() }
    }

    pub(crate) fn in_use(&self) -> usize {
        self.ids.len() - self.free.len()
    }

    /// Takes a slot; `None` if all are in use. The number of slots grows to the largest number that
    /// was ever in use at one time.
    pub(crate) fn insert(&mut self, start: StreamStart) -> Option<StreamKey> {
        let id = start.id;
        if let Some(slot) = self.free.pop() {
            let at = usize::from(slot);
            *self.ids.get_mut(at)? = id;
            *self.states.get_mut(at)? = StreamState::new(start);
            return Some(StreamKey { slot, id });
        }
        let slot = u16::try_from(self.ids.len()).ok().filter(|slot| *slot < self.streams_max)?;
        self.ids.push(id);
        self.states.push(StreamState::new(start));
        self.free.reserve(self.ids.len());
        Some(StreamKey { slot, id })
    }

    /// Frees a slot.
    pub(crate) fn remove(&mut self, key: StreamKey) {
        if let Some(id) = self.ids.get_mut(usize::from(key.slot)).filter(|id| **id == key.id) {
            *id = 0;
            self.free.push(key.slot);
        }
    }

    /// Finds the stream with this identifier.
    pub(crate) fn find(&self, id: u32) -> Option<StreamKey> {
        let at = self.ids.iter().position(|other| *other == id).filter(|_| id != 0)?;
        Some(StreamKey { slot: at as u16, id })
    }

    /// Returns the stream, unless its slot was freed.
    pub(crate) fn state(&mut self, key: StreamKey) -> Option<&mut StreamState> {
        let at = usize::from(key.slot);
        self.states.get_mut(at).filter(|_| self.ids.get(at) == Some(&key.id))
    }

    pub(crate) fn key_of(&self, slot: u16) -> StreamKey {
        StreamKey { slot, id: self.id_of(slot) }
    }

    pub(crate) fn id_of(&self, slot: u16) -> u32 {
        self.ids.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// Iterates over the streams in use.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut StreamState)> {
        let used = self.ids.iter().zip(&mut self.states).enumerate();
        used.filter(|(_, (id, _))| **id != 0).map(|(slot, (_, state))| (slot as u16, state))
    }

    /// Frees the memory of the slots if no slot is in use.
    pub(crate) fn shrink(&mut self) {
        if self.in_use() == 0 {
            *self = StreamSlots::new(self.streams_max);
        }
    }
}

/// The identifiers of the streams that we have reset most recently. The client may have sent frames
/// on these streams before it read our reset. Free places have the identifier 0.
#[derive(Debug, Default)]
pub(crate) struct RecentResets {
    ids: Vec<u32>,
    next: usize,
}

impl RecentResets {
    pub(crate) fn insert(&mut self, id: u32) {
        match self.ids.get_mut(self.next) {
            Some(place) => *place = id,
            None => self.ids.push(id),
        }
        self.next = (self.next + 1) % RESETS_KEPT_MAX;
    }

    pub(crate) fn remove(&mut self, id: u32) {
        if let Some(place) = self.ids.iter_mut().find(|other| **other == id) {
            *place = 0;
        }
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        id != 0 && self.ids.contains(&id)
    }
}
