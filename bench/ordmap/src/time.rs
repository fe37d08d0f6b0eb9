//! Processor time of a thread, and wall time.

/// Processor time of this thread in nanoseconds, including system calls.
pub(crate) fn cpu_ns<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begin = thread_ns();
    let done = work();
    ((thread_ns() - begin) as f64, done)
}

/// Wall time of `work` in nanoseconds.
pub(crate) fn wall_ns<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begin = ns_of(libc::CLOCK_MONOTONIC);
    let done = work();
    ((ns_of(libc::CLOCK_MONOTONIC) - begin) as f64, done)
}

fn thread_ns() -> u64 {
    ns_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn ns_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local timespec.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "the clock exists");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
