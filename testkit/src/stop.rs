//! Ends the loops of a test's threads, also when one of the threads fails.

use std::sync::atomic::{AtomicBool, Ordering};

/// Tells the loops of a test to stop.
///
/// A thread whose failure must end the others holds a [`guard`](StopFlag::guard); the others run
/// for [`steps`](StopFlag::steps). The flag orders nothing else that the threads share.
#[derive(Debug, Default)]
pub struct StopFlag(AtomicBool);

impl StopFlag {
    /// Tells all loops to stop after the present step.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the loops are to stop.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Raises the flag when it is dropped, so also when its thread panics.
    #[must_use = "the flag is raised when the guard is dropped"]
    pub fn guard(&self) -> StopGuard<'_> {
        StopGuard(self)
    }

    /// Numbers the steps of a loop until the flag is raised.
    ///
    /// # Panics
    /// After `steps_max` steps without the flag: the thread that is to raise it hangs.
    pub fn steps(&self, steps_max: u64) -> impl Iterator<Item = u64> {
        (0..=steps_max).take_while(move |step| {
            let is_raised = self.is_raised();
            assert!(is_raised || *step < steps_max, "not told to stop within {steps_max} steps");
            !is_raised
        })
    }
}

/// See [`StopFlag::guard`].
#[derive(Debug)]
pub struct StopGuard<'a>(&'a StopFlag);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_that_fails_ends_the_loops_of_the_others() {
        let stop = StopFlag::default();
        let failed = thread::scope(|scope| {
            let stop = &stop;
            let looping = scope.spawn(move || stop.steps(u64::MAX).count());
            let failing = scope.spawn(move || {
                let _guard = stop.guard();
                panic!("on purpose");
            });
            looping.join().expect("the loop ends");
            failing.join().is_err()
        });
        assert!(failed);
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
