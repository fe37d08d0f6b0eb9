//! Time stamps that cost a few nanoseconds.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__cpuid, _rdtsc};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The source of time stamps.
///
/// This is the processor's counter if its rate is constant, otherwise the system's clock. A thread
/// that moves to a processor whose counter lags may see an earlier stamp than before: then the time
/// in between counts as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Nanoseconds per tick, times 2^32; 0 for the system's clock.
    ns_per_tick: u64,
}

/// A moment, in ticks of the [`Clock`] that made the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

/// The time over which the counter is compared with the system's clock. The error of one clock
/// call, some 50 ns, is one part in 40,000 of this time.
const COMPARE_NS: u64 = 2_000_000;

const NS_PER_S: u64 = 1_000_000_000;

impl Stamp {
    #[inline(always)]
    pub(super) fn ticks(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(super) fn of_ticks(ticks: u64) -> Stamp {
        Stamp(ticks)
    }

    #[cfg(test)]
    pub(super) fn earlier(self, ticks: u64) -> Stamp {
        Stamp(self.0.checked_sub(ticks).expect("this machine has been up for longer"))
    }
}

impl Clock {
    /// The system's clock.
    pub const SYSTEM: Clock = Clock { ns_per_tick: 0 };

    /// The fastest clock of this machine. The call takes two milliseconds if the processor has a
    /// counter of constant rate.
    #[must_use]
    pub fn fastest() -> Clock {
        if has_steady_ticks() { compared() } else { Clock::SYSTEM }
    }

    /// The current time.
    #[inline]
    #[must_use]
    pub fn now(self) -> Stamp {
        Stamp(if self.ns_per_tick == 0 { system_ns() } else { ticks() })
    }

    /// The nanoseconds from one stamp to a later one; 0 if `to` is the earlier one.
    #[inline]
    #[must_use]
    pub fn ns_between(self, from: Stamp, to: Stamp) -> u64 {
        // A counter lags only a little, so a negative difference counts as 0.
        let ticks = to.0.saturating_sub(from.0);
        if self.ns_per_tick == 0 {
            return ticks;
        }
        ((u128::from(ticks) * u128::from(self.ns_per_tick)) >> 32) as u64
    }

    /// The number of ticks per second.
    #[must_use]
    pub fn hz(self) -> u64 {
        (NS_PER_S << 32).checked_div(self.ns_per_tick).unwrap_or(NS_PER_S)
    }
}

fn compared() -> Clock {
    let (ns_start, ticks_start) = both();
    while system_ns().saturating_sub(ns_start) < COMPARE_NS {
        std::hint::spin_loop();
    }
    let (ns, ticks_now) = both();
    let ns_per_tick = ((ns - ns_start) << 32).checked_div(ticks_now.saturating_sub(ticks_start));
    // Counters run at 16 MHz to 64 GHz; other rates are measuring errors.
    let is_likely = |ns_per_tick: &u64| (1 << 26..1 << 38).contains(ns_per_tick);
    ns_per_tick.filter(is_likely).map_or(Clock::SYSTEM, |ns_per_tick| Clock { ns_per_tick })
}

/// Reads the system's clock and the counter at nearly the same moment. The thread may be preempted
/// between the two, so this takes several pairs of readings and returns the closest.
fn both() -> (u64, u64) {
    const LOOKS: usize = 20;
    let look = |_| {
        let (before, ticks, after) = (system_ns(), ticks(), system_ns());
        (after.saturating_sub(before), before + after.saturating_sub(before) / 2, ticks)
    };
    let nearest = (0..LOOKS).map(look).min();
    nearest.map_or((0, 0), |(_, ns, ticks)| (ns, ticks))
}

#[inline]
fn system_ns() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    (tv_sec as u64).wrapping_mul(NS_PER_S).wrapping_add(tv_nsec as u64)
}

/// The value of the processor's counter. On other architectures than x86-64 this is never called.
#[inline]
#[cfg_attr(target_arch = "x86_64", allow(unsafe_code))]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { _rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    system_ns()
}

/// Whether the counter has a constant rate, even while the processor sleeps.
fn has_steady_ticks() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const LARGEST: u32 = 0x8000_0000;
        const POWER: u32 = 0x8000_0007;
        const STEADY: u32 = 1 << 8;
        __cpuid(LARGEST).eax >= POWER && __cpuid(POWER).edx & STEADY != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_clock_goes_as_the_systems_does() {
        let fastest = Clock::fastest();
        let system = || Clock::SYSTEM.now();
        // This thread may be preempted between two calls, so the bounds come from calls before and
        // after.
        let (start, stamp, late_start) = (system(), fastest.now(), system());
        while Clock::SYSTEM.ns_between(start, system()) < 20_000_000 {}
        let (early_end, stamp_end, end) = (system(), fastest.now(), system());
        let by_fastest = fastest.ns_between(stamp, stamp_end);
        let least = Clock::SYSTEM.ns_between(late_start, early_end);
        let most = Clock::SYSTEM.ns_between(start, end);
        let tolerance = most / 1000;
        assert!(
            (least - tolerance..=most + tolerance).contains(&by_fastest),
            "{least} <= {by_fastest} <= {most}"
        );
    }

    #[test]
    fn a_stamp_from_a_counter_that_is_behind_is_no_time() {
        for clock in [Clock::SYSTEM, Clock { ns_per_tick: 1 << 31 }] {
            assert_eq!(clock.ns_between(Stamp(100), Stamp(90)), 0);
        }
        let half = Clock { ns_per_tick: 1 << 31 };
        assert_eq!(half.ns_between(Stamp(100), Stamp(100 + 2 * NS_PER_S)), NS_PER_S);
        assert_eq!(half.hz(), 2 * NS_PER_S);
    }
}
