//! Crash points: named places in the code at which a test can kill the process, even between two
//! steps that are nanoseconds apart.
//!
//! In builds with debug assertions, a process with `FOREBAY_CRASH_AT=NAME` in its environment kills
//! itself (SIGKILL) when it reaches the point with this name. With `NAME:3`, it kills itself when
//! it reaches the point for the third time. In other builds a crash point does nothing. A test
//! reads the sources and requires that every point is used.

#[cfg(all(debug_assertions, not(any(loom, tsan))))]
use std::sync::OnceLock;
#[cfg(all(debug_assertions, not(any(loom, tsan))))]
use std::sync::atomic::{AtomicU64, Ordering};

/// Marks a point between two steps. If this process dies there, the other processes must be able to
/// continue.
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        $crate::crash::reach($name)
    };
}

/// Reports that the process is at this point; use [`crash_point!`](crate::crash_point).
#[cfg(any(not(debug_assertions), loom, tsan))]
#[inline(always)]
pub fn reach(_name: &str) {}

/// Reports that the process is at this point; use [`crash_point!`](crate::crash_point).
#[cfg(all(debug_assertions, not(any(loom, tsan))))]
pub fn reach(name: &str) {
    static REACHED: AtomicU64 = AtomicU64::new(0);
    let Some((wanted, times)) = wish() else {
        return;
    };
    if name == wanted && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == *times {
        die();
    }
}

#[cfg(all(debug_assertions, not(any(loom, tsan))))]
fn wish() -> Option<&'static (String, u64)> {
    static WISH: OnceLock<Option<(String, u64)>> = OnceLock::new();
    let read = || {
        let wish = std::env::var("FOREBAY_CRASH_AT").ok()?;
        #[expect(clippy::panic, reason = "a test with a mistake must not pass; not in releases")]
        let parsed = parse(&wish).unwrap_or_else(|what| panic!("FOREBAY_CRASH_AT={wish}: {what}"));
        Some(parsed)
    };
    WISH.get_or_init(read).as_ref()
}

#[cfg(all(debug_assertions, not(any(loom, tsan))))]
fn parse(wish: &str) -> Result<(String, u64), String> {
    let (name, times) = wish.split_once(':').unwrap_or((wish, "1"));
    match times.parse() {
        Ok(times) if times > 0 => Ok((name.to_owned(), times)),
        _ => Err(format!("expected a number of at least 1 after the colon, not {times:?}")),
    }
}

#[cfg(all(debug_assertions, not(any(loom, tsan))))]
fn die() {
    use rustix::process::{Signal, getpid, kill_process};
    // If the call fails, the process lives, and the test that expects its death fails.
    let _ = kill_process(getpid(), Signal::KILL);
}

#[cfg(all(test, debug_assertions, not(any(loom, tsan))))]
mod tests {
    use super::parse;

    #[test]
    fn a_wish_is_a_name_and_how_many_times() {
        assert_eq!(parse("a.b"), Ok(("a.b".to_owned(), 1)));
        assert_eq!(parse("a.b:3"), Ok(("a.b".to_owned(), 3)));
        for wrong in ["a.b:abc", "a.b:", "a.b:0", "a.b:-1", "a.b:1:2"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
