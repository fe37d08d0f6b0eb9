//! Ends the loops of a test's threads, even when one of the threads panics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A flag that tells the loops of a test's threads to stop.
///
/// A thread whose panic must end the other loops holds a [`guard`](StopFlag::guard); the other
/// loops iterate over [`steps`](StopFlag::steps). The flag does not order other memory that the
/// threads share.
#[derive(Debug, Default)]
pub struct StopFlag(AtomicBool);

impl StopFlag {
    /// Tells all loops to stop after their current step.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the loops must stop.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns a guard that raises the flag when it is dropped, even by a panic.
    #[must_use = "the flag is raised when the guard is dropped"]
    pub fn guard(&self) -> StopGuard<'_> {
        StopGuard { flag: self, raises_always: true }
    }

    /// Returns a guard that raises the flag only if its thread panics.
    #[must_use = "the flag is not raised by a panic after the guard is dropped"]
    pub fn panic_guard(&self) -> StopGuard<'_> {
        StopGuard { flag: self, raises_always: false }
    }

    /// Numbers the steps of a loop until the flag is raised.
    ///
    /// # Panics
    /// The flag is not raised within `steps_max` steps: the thread that must raise it hangs.
    pub fn steps(&self, steps_max: u64) -> impl Iterator<Item = u64> {
        (0..=steps_max).take_while(move |step| {
            let is_raised = self.is_raised();
            assert!(
                is_raised || *step < steps_max,
                "the flag was not raised within {steps_max} steps"
            );
            !is_raised
        })
    }
}

/// A guard that raises the flag: see [`StopFlag::guard`] and [`StopFlag::panic_guard`].
#[derive(Debug)]
pub struct StopGuard<'a> {
    flag: &'a StopFlag,
    raises_always: bool,
}

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        if self.raises_always || thread::panicking() {
            self.flag.raise();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_thread_that_fails_ends_the_loops_of_the_others() {
        for make in [StopFlag::guard, StopFlag::panic_guard] {
            let stop = StopFlag::default();
            let failed = thread::scope(|scope| {
                let stop = &stop;
                let looping = scope.spawn(move || stop.steps(u64::MAX).count());
                let failing = scope.spawn(move || {
                    let _guard = make(stop);
                    panic!("on purpose");
                });
                looping.join().expect("the loop ends");
                failing.join().is_err()
            });
            assert!(failed);
        }
    }

    #[test]
    fn a_thread_that_ends_well_leaves_a_flag_for_panics_down() {
        let stop = StopFlag::default();
        drop(stop.panic_guard());
        assert!(!stop.is_raised());
        drop(stop.guard());
        assert!(stop.is_raised());
    }

    #[test]
    fn a_loop_has_a_last_step_without_the_flag() {
        let stop = StopFlag::default();
        let mut steps = 0;
        let endless = catch_unwind(AssertUnwindSafe(|| stop.steps(7).for_each(|_| steps += 1)));
        assert!(endless.is_err());
        assert_eq!(steps, 7);
        stop.raise();
        assert_eq!(stop.steps(7).count(), 0);
    }
}
