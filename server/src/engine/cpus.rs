//! The CPUs that the process may use, and pinning a thread to one.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the CPUs that the calling thread may use, in ascending order; at least one.
pub(crate) fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else {
        return vec![0];
    };
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Pins the calling thread to one CPU.
///
/// # Errors
/// The CPU is no longer available, or a sandbox forbids pinning; the thread then runs on any CPU
/// that it may use.
pub(crate) fn pin_this_thread(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_use_its_cpu_only() {
        let cpus = allowed();
        let last = *cpus.last().expect("at least one");
        let seen = std::thread::spawn(move || {
            pin_this_thread(last).expect("an allowed CPU");
            allowed()
        });
        assert_eq!(seen.join().expect("no panic"), [last]);
        assert_eq!(allowed(), cpus);
    }
}
