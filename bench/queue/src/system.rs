//! Times, context switches and processors of a process.

use std::time::Instant;

use serde::Serialize;

/// The cost of queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cost {
    pub(crate) wall_ns: f64,
    /// CPU time of all measured processes together.
    pub(crate) cpu_ns: f64,
    /// The number of voluntary and forced context switches of these processes.
    pub(crate) switches: f64,
}

impl Cost {
    pub(crate) fn each(self, queries: usize) -> Cost {
        let count = queries as f64;
        Cost {
            wall_ns: self.wall_ns / count,
            cpu_ns: self.cpu_ns / count,
            switches: self.switches / count,
        }
    }
}

/// The CPU time and the context switches of this process so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    now: Instant,
    cpu_ns: f64,
    switches: f64,
}

impl Usage {
    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    pub(crate) fn now() -> Usage {
        // SAFETY: all-zero bytes are a valid value of this struct of numbers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a local struct.
        let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
        assert_eq!(result, 0, "the system knows this process");
        let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
        Usage {
            now: Instant::now(),
            cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
            switches: (usage.ru_nvcsw + usage.ru_nivcsw) as f64,
        }
    }

    pub(crate) fn since(self, before: Usage) -> Cost {
        Cost {
            wall_ns: self.now.duration_since(before.now).as_nanos() as f64,
            cpu_ns: self.cpu_ns - before.cpu_ns,
            switches: self.switches - before.switches,
        }
    }
}

/// Returns the processors on which this process may run. It must be called before [`stay_on`].
pub(crate) fn processors() -> Vec<usize> {
    // SAFETY: all-zero bytes are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local set of this size.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    assert_eq!(result, 0, "the system says where this process may run");
    let numbers = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: the numbers are below the capacity of a set.
    numbers.filter(|number| unsafe { libc::CPU_ISSET(*number, &set) }).collect()
}

/// Restricts the process to this processor. Returns false if the process may not use it.
pub(crate) fn stay_on(processor: usize) -> bool {
    // SAFETY: all-zero bytes are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the capacity of a set.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the pointer is to a local set of this size.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0 }
}
