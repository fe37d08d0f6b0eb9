//! The send queue of a connection. Heads are written into the queue; bodies are sent from the
//! memory in which they already are.
//!
//! Responses are appended to the queue. A flush sends the whole queue in as few writes as possible,
//! and removes the bytes that were sent. A short body is copied behind its head, because a separate
//! piece would cost the kernel more than the copy ([`INLINE_BODY_BYTES_MAX`]).

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};
use forebay_cache::{BodyHandle, Revoked, SendGuard};

use crate::limits::{BUFFER_BYTES_KEPT_MAX, INLINE_BODY_BYTES_MAX, OUT_SLICES_MAX};

/// The bytes that are still to be sent to a client, in order.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    /// Heads and short bodies, which were copied into the queue. `pieces` says where they belong
    /// among the other bytes.
    text: Vec<u8>,
    pieces: VecDeque<Piece>,
    /// The number of bytes at the start of `text` that belong to a piece, or have been sent.
    assigned: usize,
    /// Total size of the pieces of bodies, not counting stored bodies. A piece that was sent still
    /// counts until the queue is empty.
    body_bytes: usize,
    /// The number of pieces that are parts of stored bodies.
    lent_count: usize,
}

/// The owner of the memory that holds a body's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lender {
    /// The store, for a growing record. The bytes are copied if a flush has to wait for the client.
    Store,
    /// The connection to the origin, from which the body is streamed.
    Origin,
}

#[derive(Debug)]
enum Piece {
    /// A range of `text`.
    Text {
        start: usize,
        end: usize,
    },
    Body(Bytes),
    /// A part of a growing record, which counts towards the store's share for growing records.
    Growing(Bytes),
    /// A part of a stored body, which the store may revoke.
    Stored(BodyHandle),
}

impl SendQueue {
    /// Whether there is nothing to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.assigned == self.text.len()
    }

    /// Returns the size of the memory that the queue holds, not counting the memory of stored
    /// bodies.
    pub(crate) fn held_bytes(&self) -> usize {
        self.text.len() + self.body_bytes + self.pieces.len() * size_of::<Piece>()
    }

    /// Returns the number of bytes that are still to be sent.
    pub(crate) fn len(&self) -> usize {
        let text = self.text.len() - self.assigned;
        text + self.pieces.iter().map(Piece::len).sum::<usize>()
    }

    /// Returns the bytes at the front of the queue, up to the first piece of a body.
    pub(crate) fn front_text(&mut self) -> &[u8] {
        self.assign_text();
        match self.pieces.front() {
            Some(Piece::Text { start, end }) => self.text.get(*start..*end).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Whether the store has revoked some of the bytes.
    pub(crate) fn is_revoked(&self) -> bool {
        let mut stored = self.pieces.iter();
        stored.any(|piece| matches!(piece, Piece::Stored(lent) if lent.is_revoked()))
    }

    /// Moves the first `count` bytes of the queue to `out`.
    ///
    /// # Errors
    /// The store has revoked some of them, or the queue has fewer bytes; `out` has a part of them.
    pub(crate) fn take(
        &mut self,
        mut count: usize,
        guard: &SendGuard<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Revoked> {
        self.assign_text();
        while count > 0 {
            let bytes = match self.pieces.front().ok_or(Revoked)? {
                Piece::Text { start, end } => self.text.get(*start..*end).unwrap_or_default(),
                Piece::Body(body) | Piece::Growing(body) => body,
                Piece::Stored(lent) => lent.bytes(guard)?,
            };
            let part = bytes.get(..count.min(bytes.len())).unwrap_or_default();
            if part.is_empty() {
                return Err(Revoked);
            }
            out.extend_from_slice(part);
            let taken = part.len();
            count -= taken;
            self.consume(taken);
        }
        Ok(())
    }

    /// Returns the text of the queue, to which the caller may only append.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Appends a piece of a body. A short piece is copied; a longer one is sent from its own
    /// memory.
    pub(crate) fn push_body(&mut self, body: Bytes, lender: Lender) {
        if body.len() <= INLINE_BODY_BYTES_MAX {
            self.text.extend_from_slice(&body);
            return;
        }
        self.assign_text();
        self.body_bytes += body.len();
        self.pieces.push_back(match lender {
            Lender::Origin => Piece::Body(body),
            Lender::Store => Piece::Growing(body),
        });
    }

    /// Copies the pieces of growing records out of the store's memory, so that a slow client does
    /// not keep other responses from being stored.
    pub(crate) fn copy_growing(&mut self) {
        for piece in &mut self.pieces {
            if let Piece::Growing(body) = piece {
                *piece = Piece::Body(Bytes::copy_from_slice(body));
            }
        }
    }

    /// Appends a part of a stored body.
    pub(crate) fn push_lent(&mut self, lent: BodyHandle) {
        self.assign_text();
        self.lent_count += 1;
        self.pieces.push_back(Piece::Stored(lent));
    }

    /// Returns the number of pieces that are parts of stored bodies.
    pub(crate) fn lent_count(&self) -> usize {
        self.lent_count
    }

    /// Removes all bytes that were appended after `mark`. None of them may have been sent.
    pub(crate) fn truncate(&mut self, mark: Mark) {
        self.assign_text();
        let is_inside = mark.pieces <= self.pieces.len() && mark.text <= self.text.len();
        assert!(is_inside, "a queue is truncated only to a mark after which no byte was sent");
        self.pieces.truncate(mark.pieces);
        self.lent_count = self.pieces.iter().filter(|piece| piece.is_lent()).count();
        self.text.truncate(mark.text);
        self.assigned = mark.text;
        self.body_bytes = mark.body_bytes;
    }

    /// Returns a mark at the current end of the queue, for [`SendQueue::truncate`]. It is valid
    /// until the next flush.
    pub(crate) fn mark(&mut self) -> Mark {
        self.assign_text();
        Mark { pieces: self.pieces.len(), text: self.text.len(), body_bytes: self.body_bytes }
    }

    fn assign_text(&mut self) {
        let (start, end) = (self.assigned, self.text.len());
        if start < end {
            self.pieces.push_back(Piece::Text { start, end });
            self.assigned = end;
        }
    }

    /// Fills `slices` with the next pieces, for a vectored write; returns the number of filled
    /// slices.
    ///
    /// # Errors
    /// The store has revoked one of the pieces.
    pub(crate) fn slices<'a>(
        &'a mut self,
        reading: &'a SendGuard<'_>,
        slices: &mut [IoSlice<'a>; OUT_SLICES_MAX],
    ) -> Result<usize, Revoked> {
        self.assign_text();
        let count = self.pieces.len().min(OUT_SLICES_MAX);
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(match piece {
                Piece::Text { start, end } => self.text.get(*start..*end).unwrap_or_default(),
                Piece::Body(body) | Piece::Growing(body) => body,
                Piece::Stored(lent) => lent.bytes(reading)?,
            });
        }
        Ok(count)
    }

    /// Removes the first `sent` bytes of the queue, because they have been sent.
    pub(crate) fn consume(&mut self, mut sent: usize) {
        while sent > 0 {
            let piece = self.pieces.front_mut().expect("a write sends only bytes of the queue");
            if sent < piece.len() {
                piece.advance(sent);
                return;
            }
            sent -= piece.len();
            self.lent_count -= usize::from(piece.is_lent());
            self.pieces.pop_front();
        }
        if self.is_empty() {
            debug_assert_eq!(self.lent_count, 0, "an empty queue has no handle on a stored body");
            self.text.clear();
            (self.assigned, self.body_bytes) = (0, 0);
        }
    }

    /// Frees memory that the queue does not need for its bytes.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.pieces.shrink_to_fit();
    }

    /// Removes all bytes.
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.text.clear();
        (self.assigned, self.body_bytes, self.lent_count) = (0, 0, 0);
    }

    /// Removes all bytes, and frees memory that usual responses do not need.
    pub(crate) fn reset(&mut self) {
        self.clear();
        self.pieces.shrink_to(OUT_SLICES_MAX);
        self.text.shrink_to(BUFFER_BYTES_KEPT_MAX);
    }
}

/// A position in a send queue; see [`SendQueue::mark`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pieces: usize,
    text: usize,
    body_bytes: usize,
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Text { start, end } => end - start,
            Piece::Body(body) | Piece::Growing(body) => body.len(),
            Piece::Stored(lent) => lent.len(),
        }
    }

    fn is_lent(&self) -> bool {
        matches!(self, Piece::Stored(_))
    }

    fn advance(&mut self, bytes: usize) {
        match self {
            Piece::Text { start, .. } => *start += bytes,
            Piece::Body(body) | Piece::Growing(body) => body.advance(bytes),
            Piece::Stored(lent) => lent.advance(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_cache::{
        CollapseResult, JoinTerms, Lookup, RecordTimes, Store, StoreConfig, StoreWorker,
    };

    use super::*;

    fn store() -> StoreWorker {
        let store = Store::open(StoreConfig::with_budget(16 << 20)).expect("it is enough");
        store.join().expect("the first one")
    }

    const STORED: [u8; 1000] = [b's'; 1000];

    fn put(store: &StoreWorker, body: &[u8]) {
        let CollapseResult::Leader(leader, _) =
            store.collapse(b"key", None, None, JoinTerms::at(0))
        else {
            unreachable!("there is no other fetch");
        };
        let times = RecordTimes { response_time: 0, stale_from: u64::MAX };
        let mut filling = leader.begin(b"head", None, None, times).expect("there is room");
        filling.append(body).expect("it is stored");
        assert!(filling.finish());
    }

    fn lend(store: &StoreWorker) -> BodyHandle {
        let Lookup::Record(found) = store.lookup(b"key") else {
            unreachable!("it was stored");
        };
        found.pin_body(100..1000, 0)
    }

    /// Sends all bytes, at most `step` at a time.
    fn drain(out: &mut SendQueue, store: &StoreWorker, step: usize) -> Vec<u8> {
        let mut sent = Vec::new();
        while !out.is_empty() {
            let reading = store.send_guard();
            let mut slices = [IoSlice::new(&[]); OUT_SLICES_MAX];
            let count = out.slices(&reading, &mut slices).expect("no bytes were revoked");
            let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            let part = all.len().min(step);
            sent.extend_from_slice(&all[..part]);
            out.consume(part);
        }
        assert_eq!((out.held_bytes(), out.lent_count()), (0, 0));
        sent
    }

    #[test]
    fn a_queue_that_is_cut_back_holds_as_much_as_before() {
        let mut out = SendQueue::default();
        out.text().extend_from_slice(b"earlier");
        let mark = out.mark();
        let before = out.held_bytes();
        out.text().extend_from_slice(b"later");
        out.push_body(Bytes::from(vec![b'L'; 100_000]), Lender::Origin);
        out.truncate(mark);
        assert_eq!(out.held_bytes(), before);
        assert_eq!(drain(&mut out, &store(), 3), b"earlier");
    }

    #[test]
    fn bytes_leave_in_order_however_many_a_write_takes() {
        let large = Bytes::from(vec![b'L'; INLINE_BODY_BYTES_MAX + 1]);
        let store = store();
        put(&store, &STORED);
        for step in [1, 2, 3, 7, 4096, usize::MAX] {
            let mut out = SendQueue::default();
            let mut expected = Vec::new();
            for round in 0..20 {
                out.text().extend_from_slice(format!("head {round}\n").as_bytes());
                expected.extend_from_slice(format!("head {round}\n").as_bytes());
                let body =
                    if round % 3 == 0 { large.clone() } else { Bytes::from_static(b"small") };
                expected.extend_from_slice(&body);
                out.push_body(body, Lender::Origin);
                if round % 4 == 0 {
                    out.push_lent(lend(&store));
                    expected.extend_from_slice(&STORED[100..]);
                }
            }
            assert_eq!(out.lent_count(), 5);
            assert!(drain(&mut out, &store, step) == expected, "step {step}");
        }
    }

    #[test]
    fn pieces_behind_a_mark_can_be_removed() {
        let store = store();
        put(&store, &STORED);
        let mut out = SendQueue::default();
        out.text().extend_from_slice(b"kept");
        let mark = out.mark();
        out.text().extend_from_slice(b"dropped");
        out.push_body(Bytes::from(vec![b'd'; 2 * INLINE_BODY_BYTES_MAX]), Lender::Store);
        out.push_lent(lend(&store));
        out.text().extend_from_slice(b"and this");
        out.truncate(mark);
        out.text().extend_from_slice(b", and more");
        assert_eq!(drain(&mut out, &store, 5), b"kept, and more");
    }
}
