//! How a writer waits for readers, which do not wake it: that would cost each of them a fence.

use std::time::{Duration, Instant};

use super::clock;
use crate::atomic::{spin_loop, yield_now};

/// How long a writer waits for readers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    None,
    Until(Instant),
    Endless,
}

/// Rounds in which the writer spins, twice as long each time: up to 64 pauses, some microseconds.
const SPIN_ROUNDS: u32 = 7;

/// Rounds in which it lets other threads run, until it believes that a reader was put to sleep.
const YIELD_ROUNDS: u32 = 10;

/// The shortest nap; the timer of the kernel is about as coarse.
const NAP_MIN: Duration = Duration::from_micros(50);

/// The longest nap: what a writer waits at most after the last reader has left.
const NAP_MAX: Duration = Duration::from_millis(1);

/// Waits longer each time, up to [`NAP_MAX`].
pub(super) struct Backoff {
    patience: Patience,
    round: u32,
    nap: Duration,
}

impl Backoff {
    pub(super) fn new(patience: Patience) -> Backoff {
        Backoff { patience, round: 0, nap: NAP_MIN }
    }

    /// Waits a while, or says `false`: the patience is at its end.
    pub(super) fn wait(&mut self) -> bool {
        let left = match self.patience {
            Patience::None => return false,
            Patience::Endless => NAP_MAX,
            Patience::Until(deadline) => deadline.saturating_duration_since(clock::now()),
        };
        if left.is_zero() {
            return false;
        }
        self.pause(left);
        true
    }

    fn pause(&mut self, left: Duration) {
        if self.round < SPIN_ROUNDS || cfg!(loom) {
            (0..1 << self.round.min(SPIN_ROUNDS)).for_each(|_| spin_loop());
        } else if self.round < SPIN_ROUNDS + YIELD_ROUNDS {
            yield_now();
        } else {
            std::thread::park_timeout(self.nap.min(left));
            self.nap = NAP_MAX.min(self.nap * 2);
        }
        self.round = self.round.saturating_add(1);
    }
}
