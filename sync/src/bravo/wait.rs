//! How a writer waits for readers, which do not wake it: that would cost each of them a fence.

use std::time::{Duration, Instant};

use rustix::thread::{Timespec, nanosleep};

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

/// After so many doublings a nap is longer than the longest.
const NAP_DOUBLINGS: u32 = 5;

/// The longest nap: the most that a writer waits after the last reader has left.
const NAP_MAX: Duration = Duration::from_millis(1);

/// One round of a writer's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitStep {
    Spin(u32),
    Yield,
    Nap(Duration),
}

/// Longer in each round, up to [`NAP_MAX`].
pub(super) fn step(round: u32) -> WaitStep {
    let Some(nap_round) = round.checked_sub(SPIN_ROUNDS + YIELD_ROUNDS) else {
        return if round < SPIN_ROUNDS { WaitStep::Spin(1 << round) } else { WaitStep::Yield };
    };
    WaitStep::Nap(NAP_MAX.min(NAP_MIN * (1 << nap_round.min(NAP_DOUBLINGS))))
}

/// Waits longer each time, as long as there is patience.
pub(super) struct Backoff {
    patience: Patience,
    round: u32,
}

impl Backoff {
    pub(super) fn new(patience: Patience) -> Backoff {
        Backoff { patience, round: 0 }
    }

    /// Waits a while; returns false once the patience has ended.
    pub(super) fn wait(&mut self) -> bool {
        let left = match self.patience {
            Patience::None => return false,
            Patience::Endless => NAP_MAX,
            Patience::Until(deadline) => deadline.saturating_duration_since(clock::now()),
        };
        if left.is_zero() {
            return false;
        }
        match step(self.round) {
            // Time stands still in a model: letting other threads run is all there is to do.
            _ if cfg!(loom) => spin_loop(),
            WaitStep::Spin(count) => (0..count).for_each(|_| spin_loop()),
            WaitStep::Yield => yield_now(),
            WaitStep::Nap(nap) => sleep(nap.min(left)),
        }
        self.round = self.round.saturating_add(1);
        true
    }
}

/// Sleeps, if no signal ends that early. Not by parking: that would use up a wake-up which another
/// thread has sent this one for something else.
fn sleep(time: Duration) {
    let time = Timespec { tv_sec: 0, tv_nsec: time.min(NAP_MAX).subsec_nanos().into() };
    let _ = nanosleep(&time);
}
