//! Time stamps that cost a few nanoseconds.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__cpuid, _rdtsc};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Where time stamps come from.
///
/// The processor's counter, where it runs at one speed whatever the processor does; the system's
/// clock elsewhere. A thread that moves to a processor whose counter is behind may see a stamp that
/// is earlier than one before: such a time counts as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Nanoseconds of a tick, times 2^32; 0 for the system's clock.
    ns_per_tick: u64,
}

/// A moment, by the clock that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

/// How long the processor's counter is compared with the system's clock: an error of the length of
/// a look at that, some 50 ns, is one in 40000.
const COMPARE_NS: u64 = 2_000_000;

const NS_PER_S: u64 = 1_000_000_000;

impl Clock {
    /// The system's clock.
    pub const SYSTEM: Clock = Clock { ns_per_tick: 0 };

    /// The fastest clock that this machine has. Takes two milliseconds.
    #[must_use]
    pub fn fastest() -> Clock {
        if has_steady_ticks() { compared() } else { Clock::SYSTEM }
    }

    /// Now.
    #[inline]
    #[must_use]
    pub fn now(self) -> Stamp {
        Stamp(if self.ns_per_tick == 0 { system_ns() } else { ticks() })
    }

    /// Nanoseconds from one moment to a later one.
    #[inline]
    #[must_use]
    pub fn ns_between(self, from: Stamp, to: Stamp) -> u64 {
        // A counter that is behind is so by little: a difference below zero is no long time.
        let ticks = to.0.saturating_sub(from.0);
        if self.ns_per_tick == 0 {
            return ticks;
        }
        ((u128::from(ticks) * u128::from(self.ns_per_tick)) >> 32) as u64
    }

    /// Ticks a second.
    #[must_use]
    pub fn hz(self) -> u64 {
        (NS_PER_S << 32).checked_div(self.ns_per_tick).unwrap_or(NS_PER_S)
    }
}

fn compared() -> Clock {
    let (ns_start, ticks_start) = (system_ns(), ticks());
    let (mut ns, mut ticks_now) = (ns_start, ticks_start);
    while ns.saturating_sub(ns_start) < COMPARE_NS {
        (ns, ticks_now) = (system_ns(), ticks());
    }
    let ns_per_tick = ((ns - ns_start) << 32).checked_div(ticks_now.saturating_sub(ticks_start));
    // From 16 MHz to 64 GHz: anything else is no counter to go by.
    let is_likely = |ns_per_tick: &u64| (1 << 26..1 << 38).contains(ns_per_tick);
    ns_per_tick.filter(is_likely).map_or(Clock::SYSTEM, |ns_per_tick| Clock { ns_per_tick })
}

#[inline]
fn system_ns() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    (tv_sec as u64).wrapping_mul(NS_PER_S).wrapping_add(tv_nsec as u64)
}

/// The counter of the processor, where it is; the system's clock elsewhere, which nobody asks for
/// here then.
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

/// Does the counter run at one speed, also while the processor sleeps?
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
        let (system, stamp) = (Clock::SYSTEM.now(), fastest.now());
        let (mut by_system, mut by_fastest) = (0, 0);
        while by_system < 20_000_000 {
            by_fastest = fastest.ns_between(stamp, fastest.now());
            by_system = Clock::SYSTEM.ns_between(system, Clock::SYSTEM.now());
        }
        // Between the two looks this thread may have been stopped, the first being the earlier one.
        assert!(by_fastest <= by_system + by_system / 1000, "{by_fastest} of {by_system}");
        assert!(by_fastest > 15_000_000, "{by_fastest} of {by_system}");
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
