//! A writer's wait for readers. Readers do not wake the writer: that would cost each reader a
//! fence.

use std::time::{Duration, Instant};

use rustix::thread::{Timespec, nanosleep};

use super::clock;
use crate::atomic::{spin_loop, yield_now};

/// The time that a writer is willing to wait for readers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    None,
    Until(Instant),
    Endless,
}

/// The number of rounds in which the writer spins. Each round is twice as long as the one before;
/// the last has 64 pauses, which take a few microseconds.
const SPIN_ROUNDS: u32 = 7;

/// The number of rounds in which the writer then lets other threads run. After these rounds the
/// writer assumes that a reader sleeps, and naps.
const YIELD_ROUNDS: u32 = 10;

/// The shortest nap; the timer of the kernel is about as coarse.
const NAP_MIN: Duration = Duration::from_micros(50);

/// The number of doublings after which a nap would be longer than [`NAP_MAX`].
const NAP_DOUBLINGS: u32 = 5;

/// The longest nap, and so about the longest delay between the departure of the last reader and the
/// end of the writer's wait.
const NAP_MAX: Duration = Duration::from_millis(1);

/// One round of a writer's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitStep {
    Spin(u32),
    Yield,
    Nap(Duration),
}

/// The step of a round: the first rounds spin, later ones yield, and then naps grow up to
/// [`NAP_MAX`].
pub(super) fn step(round: u32) -> WaitStep {
    let Some(nap_round) = round.checked_sub(SPIN_ROUNDS + YIELD_ROUNDS) else {
        return if round < SPIN_ROUNDS { WaitStep::Spin(1 << round) } else { WaitStep::Yield };
    };
    WaitStep::Nap(NAP_MAX.min(NAP_MIN * (1 << nap_round.min(NAP_DOUBLINGS))))
}

/// The state of a writer's wait, whose steps grow until its [`Patience`] ends.
pub(super) struct Backoff {
    patience: Patience,
    round: u32,
}

impl Backoff {
    pub(super) fn new(patience: Patience) -> Backoff {
        Backoff { patience, round: 0 }
    }

    /// Waits for one step. Returns false, without waiting, if the patience has ended.
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
            // No time passes in a model, so each step only lets other threads run.
            _ if cfg!(loom) => spin_loop(),
            WaitStep::Spin(count) => (0..count).for_each(|_| spin_loop()),
            WaitStep::Yield => yield_now(),
            WaitStep::Nap(nap) => sleep(nap.min(left)),
        }
        self.round = self.round.saturating_add(1);
        true
    }
}

/// Sleeps for `time`, at most [`NAP_MAX`]; a signal may end the sleep early. This does not park the
/// thread: parking would use up a wake-up that another thread sends for some other reason.
fn sleep(time: Duration) {
    let time = Timespec { tv_sec: 0, tv_nsec: time.min(NAP_MAX).subsec_nanos().into() };
    let _ = nanosleep(&time);
}
