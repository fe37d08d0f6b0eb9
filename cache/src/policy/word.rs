//! The encoding of a victim, or of the progress of its drain, in one word of the region. If the
//! reclaimer dies, another one decodes the word and continues.
//!
//! | bits | victim | drain |
//! |---|---|---|
//! | 0 | queue: 0 small, 1 main | the same |
//! | 1–2 | cause: 0 stale, 1 dead, 2 oldest | 1 if the segment is compacted |
//! | 3–7 | 0 | `uses_min` of the keep budget |
//! | 8–34 | 0 | `bytes` of the keep budget |
//! | 35–61 | 0 | `spare_bytes` of the keep budget |

use super::drain::KeepBudget;
use super::{DrainCause, DrainPlan, Queue, USES_MAX, Victim};

const USES_SHIFT: u32 = 3;
const BYTES_SHIFT: u32 = 8;
const SPARE_SHIFT: u32 = 35;
const END_SHIFT: u32 = 62;
/// The largest number of bytes that a word can hold, far more than a segment has.
const BYTES_MAX: u64 = (1 << (END_SHIFT - SPARE_SHIFT)) - 1;

impl Victim {
    /// Encodes the victim, except for the index of its segment.
    pub fn encode(self) -> u64 {
        self.queue.bit() | (self.cause as u64) << 1
    }

    /// Decodes the word of a victim; `None` if the word encodes no victim.
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
    /// Encodes the plan as it is after the records that were drained so far.
    pub fn encode(self) -> u64 {
        let KeepBudget { uses_min, bytes, spare_bytes } = self.keeps;
        spare_bytes.min(BYTES_MAX) << SPARE_SHIFT
            | bytes.min(BYTES_MAX) << BYTES_SHIFT
            | u64::from(uses_min) << USES_SHIFT
            | u64::from(self.is_compacted) << 1
            | self.from.bit()
    }

    /// Decodes the word of a drain; `None` if the word encodes no drain.
    pub fn decode(word: u64) -> Option<DrainPlan> {
        let uses_min = (word >> USES_SHIFT & 0b1_1111) as u8;
        let is_sound = word & 0b100 == 0 && uses_min <= USES_MAX + 1 && word >> END_SHIFT == 0;
        let bytes = word >> BYTES_SHIFT & BYTES_MAX;
        let keeps = KeepBudget { uses_min, bytes, spare_bytes: word >> SPARE_SHIFT };
        let is_compacted = word & 0b10 != 0;
        is_sound.then_some(DrainPlan { from: Queue::of(word), is_compacted, keeps })
    }

    /// The queue of the segment.
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
    fn an_encoded_plan_decodes_to_itself() {
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
    fn invalid_words_are_refused() {
        for word in [0b110, 0b1000, 1 << 63] {
            assert_eq!(Victim::decode(word, 0), None, "{word:#b}");
        }
        for word in [0b100, 31 << USES_SHIFT, 1 << END_SHIFT, 1 << 63] {
            assert_eq!(DrainPlan::decode(word), None, "{word:#b}");
        }
    }
}
