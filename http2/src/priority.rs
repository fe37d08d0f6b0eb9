//! Priorities of responses (RFC 9218).

/// Number of urgencies.
pub const URGENCIES: usize = 8;

/// The priority of a response (RFC 9218 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsePriority {
    /// The urgency: 0 is the most urgent, 7 the least urgent.
    pub urgency: u8,
    /// Whether the client can use a part of the response, so that the response shares the
    /// connection with others of its urgency.
    pub incremental: bool,
}

impl Default for ResponsePriority {
    fn default() -> ResponsePriority {
        ResponsePriority { urgency: 3, incremental: false }
    }
}

impl ResponsePriority {
    /// RFC 9218 §4, §5: parses the value of a `priority` field or of a PRIORITY_UPDATE.
    ///
    /// The value is a dictionary of RFC 8941. Only `u` and `i` are interpreted; an unknown member,
    /// a value of the wrong type and a value out of range are ignored, as RFC 9218 §4 asks. In a
    /// text that is not a dictionary, the members that can be read still count.
    pub fn parse(value: &[u8]) -> ResponsePriority {
        let mut priority = ResponsePriority::default();
        for member in value.split(|byte| *byte == b',') {
            let item = member.trim_ascii();
            let item = item.split(|byte| *byte == b';').next().unwrap_or_default();
            match item.trim_ascii_end() {
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                _ => {}
            }
        }
        priority
    }
}

/// The streams that may send DATA now, as sets of slots.
///
/// The most urgent stream sends first. Among those of one urgency, responses that are not
/// incremental are sent one after another in the order of their requests, and incremental responses
/// take turns. If an urgency has both, the two kinds take turns (RFC 9218 §10).
#[derive(Clone, Debug, Default)]
pub(crate) struct SendSchedule {
    ready: [u128; URGENCIES],
    incremental: u128,
    /// The slot of the incremental stream that sent last.
    last_slot: u16,
    was_incremental: bool,
}

impl SendSchedule {
    /// Adds a stream with something to send.
    pub(crate) fn insert(&mut self, slot: u16, priority: ResponsePriority) {
        self.remove(slot);
        let bit = 1u128 << slot;
        if let Some(ready) = self.ready.get_mut(usize::from(priority.urgency)) {
            *ready |= bit;
        }
        if priority.incremental {
            self.incremental |= bit;
        }
    }

    /// Removes a stream.
    pub(crate) fn remove(&mut self, slot: u16) {
        let bit = 1u128 << slot;
        for ready in &mut self.ready {
            *ready &= !bit;
        }
        self.incremental &= !bit;
    }

    /// Returns the slot that sends next. `id_of` gives the identifier of the stream in a slot.
    pub(crate) fn next(&mut self, id_of: impl Fn(u16) -> u32) -> Option<u16> {
        let ready = self.ready.iter().copied().find(|ready| *ready != 0)?;
        let (turns, ordered) = (ready & self.incremental, ready & !self.incremental);
        let is_turn = ordered == 0 || (turns != 0 && !self.was_incremental);
        self.was_incremental = is_turn;
        if !is_turn {
            return slots(ordered).min_by_key(|slot| id_of(*slot));
        }
        // The search begins at the slot after `last_slot`, and wraps around at the end.
        let after = turns & (u128::MAX << self.last_slot << 1);
        let slot = slots(if after != 0 { after } else { turns }).next()?;
        self.last_slot = slot;
        Some(slot)
    }
}

fn slots(mut set: u128) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let slot = (set != 0).then(|| set.trailing_zeros() as u16)?;
        set &= set - 1;
        Some(slot)
    })
}

#[cfg(test)]
mod tests;
