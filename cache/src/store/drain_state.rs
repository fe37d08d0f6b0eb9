//! The next step of the drain, as one word in the region: if a reclaimer dies, another one
//! continues with this step.

use crate::policy::{DrainPlan, Victim};

/// The next step of the drain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DrainState {
    /// Count the records by use.
    Count(Victim),
    /// Move or remove the records.
    Move(DrainPlan),
    /// Remove words that still name the segment, beginning with this bucket.
    TakeOut { bucket: usize },
}

/// The bit of the word that marks `Move`.
const MOVES: u64 = 1 << 63;

/// The bit of the word that marks `TakeOut`.
const TAKES_OUT: u64 = 1 << 62;

impl DrainState {
    /// The first step of a search of the whole index.
    pub(super) const TAKE_OUT: DrainState = DrainState::TakeOut { bucket: 0 };

    pub(super) fn encode(self) -> u64 {
        match self {
            DrainState::Count(choice) => choice.encode(),
            DrainState::Move(drain) => drain.encode() | MOVES,
            DrainState::TakeOut { bucket } => bucket as u64 | TAKES_OUT,
        }
    }

    /// Decodes the word of a drain of `segment`; `None` if the word is damaged.
    pub(super) fn decode(word: u64, segment: u32, bucket_count: usize) -> Option<DrainState> {
        match word & (MOVES | TAKES_OUT) {
            0 => Victim::decode(word, segment).map(DrainState::Count),
            MOVES => DrainPlan::decode(word & !MOVES).map(DrainState::Move),
            TAKES_OUT => {
                let bucket = usize::try_from(word & !TAKES_OUT).ok()?;
                (bucket < bucket_count).then_some(DrainState::TakeOut { bucket })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{DrainCause, EvictionRules, Queue, UseCensus};

    #[test]
    fn every_drain_state_survives_encoding() {
        let choice = Victim { segment: 3, queue: Queue::Main, cause: DrainCause::Oldest };
        let drain = DrainPlan::new(choice, &UseCensus::default(), 1 << 20, &EvictionRules::STORE);
        let all =
            [DrainState::Count(choice), DrainState::Move(drain), DrainState::TakeOut { bucket: 6 }];
        for steps in all {
            assert_eq!(DrainState::decode(steps.encode(), 3, 7), Some(steps));
        }
        for word in [6 | MOVES | TAKES_OUT, 7 | TAKES_OUT, u64::MAX] {
            assert_eq!(DrainState::decode(word, 3, 7), None, "{word:#x}");
        }
    }
}
