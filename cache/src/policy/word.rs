//! A choice, or how far a drain has come, as one word: whoever drains may die, and another one goes
//! on.
//!
//! | bits | choice | drain |
//! |---|---|---|
//! | 0 | queue: 1 main | the same |
//! | 1–2 | cause: 0 stale, 1 dead, 2 oldest | 1: is compacted |
//! | 3–7 | 0 | uses from which on records are kept |
//! | 8–34 | 0 | bytes that are still kept of these |
//! | 35–61 | 0 | bytes that are still kept of what was used once less |

use super::drain::KeepBudget;
use super::{DrainCause, DrainPlan, Queue, USES_MAX, Victim};

const USES_SHIFT: u32 = 3;
const BYTES_SHIFT: u32 = 8;
const SPARE_SHIFT: u32 = 35;
const END_SHIFT: u32 = 62;
/// Far more than a segment holds.
const BYTES_MAX: u64 = (1 << (END_SHIFT - SPARE_SHIFT)) - 1;

impl Victim {
    /// Without the place.
    pub fn encode(self) -> u64 {
        self.queue.bit() | (self.cause as u64) << 1
    }

    /// `None` for what no choice has.
    pub fn decode(word: u64, segment: u32) -> Option<Victim> {
        let cause = match word >> 1 {
            0 => DrainCause::Stale,
            1 => DrainCause::Dead,
            2 => DrainCause::Oldest,
            _ => return None,
        };
        Some(Victim { segment, queue: Queue::of(word), cause })
    }
}

impl DrainPlan {
    /// How far it has come.
    pub fn encode(self) -> u64 {
        let KeepBudget { uses_min, bytes, spare_bytes } = self.keeps;
        spare_bytes.min(BYTES_MAX) << SPARE_SHIFT
            | bytes.min(BYTES_MAX) << BYTES_SHIFT
            | u64::from(uses_min) << USES_SHIFT
            | u64::from(self.is_compacted) << 1
            | self.from.bit()
    }

    /// `None` for what no drain has.
    pub fn decode(word: u64) -> Option<DrainPlan> {
        let uses_min = (word >> USES_SHIFT & 0b1_1111) as u8;
        let is_sound = word & 0b100 == 0 && uses_min <= USES_MAX + 1 && word >> END_SHIFT == 0;
        let bytes = word >> BYTES_SHIFT & BYTES_MAX;
        let keeps = KeepBudget { uses_min, bytes, spare_bytes: word >> SPARE_SHIFT };
        let is_compacted = word & 0b10 != 0;
        is_sound.then_some(DrainPlan { from: Queue::of(word), is_compacted, keeps })
    }

    /// The queue that the segment is in.
    pub fn queue(&self) -> Queue {
        self.from
    }
}

impl Queue {
    fn bit(self) -> u64 {
        match self {
            Queue::Small => 0,
            Queue::Main => 1,
        }
    }

    fn of(word: u64) -> Queue {
        if word & 1 == 0 { Queue::Small } else { Queue::Main }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        for queue in [Queue::Small, Queue::Main] {
            for cause in [DrainCause::Stale, DrainCause::Dead, DrainCause::Oldest] {
                let choice = Victim { segment: 7, queue, cause };
                assert_eq!(Victim::decode(choice.encode(), 7), Some(choice));
            }
            let cases = [
                (false, 0, 0, 0),
                (true, 1, 1, 2),
                (false, USES_MAX, BYTES_MAX, 0),
                (false, USES_MAX + 1, 0, BYTES_MAX),
            ];
            for (is_compacted, uses_min, bytes, spare_bytes) in cases {
                let keeps = KeepBudget { uses_min, bytes, spare_bytes };
                let drain = DrainPlan { from: queue, is_compacted, keeps };
                assert_eq!(DrainPlan::decode(drain.encode()), Some(drain));
            }
        }
    }

    #[test]
    fn what_nobody_encodes_is_refused() {
        for word in [0b110, 0b1000, 1 << 63] {
            assert_eq!(Victim::decode(word, 0), None, "{word:#b}");
        }
        for word in [0b100, 31 << USES_SHIFT, 1 << END_SHIFT, 1 << 63] {
            assert_eq!(DrainPlan::decode(word), None, "{word:#b}");
        }
    }
}
