//! Waits and holds in progress, which the counters do not include yet.

use forebay_sync::profile::{LockNow, ProfileSnapshot};

use super::counted;
use super::names::SiteNames;
use super::summary::Summary;

/// Returns a line about the number of waiting threads and the longest of their waits; `None` if no
/// thread is waiting. `now_ns` is the time in nanoseconds since 1970, or `None` if the process has
/// exited.
pub(super) fn line(reading: &ProfileSnapshot, now_ns: Option<u64>) -> Option<String> {
    let waits = reading.now.iter().filter_map(|thread| thread.awaited.as_ref());
    let since_ns = waits.clone().map(|wait| wait.since_unix_ns).min()?;
    let threads = match now_ns {
        Some(_) => counted(waits.count(), "thread is waiting now", "threads are waiting now"),
        None => counted(waits.count(), "thread was waiting", "threads were waiting"),
    };
    let Some(now_ns) = now_ns else {
        return Some(format!(
            "{threads} when the process ended; these waits are not counted: see `forebay locks now`"
        ));
    };
    let seconds = now_ns.saturating_sub(since_ns) as f64 / 1e9;
    Some(format!(
        "{threads}, for up to {seconds:.1} s; a wait counts when it ends: see `forebay locks now`"
    ))
}

/// Adds the waits and holds in progress, up to now. A wait or hold that began before the last reset
/// is not added; it is not counted when it ends, either.
pub(super) fn add(summary: &mut Summary, names: &mut SiteNames<'_>, now_ns: u64) {
    let reading = names.reading;
    let is_counted = |lock: &&LockNow| lock.since_unix_ns >= reading.control.reset_unix_ns;
    let so_far = |lock: &LockNow| now_ns.saturating_sub(lock.since_unix_ns);
    for thread in &reading.now {
        for hold in thread.holds.iter().filter(is_counted) {
            let sum = &mut summary.at(names.site(hold.site)).totals.hold_ns;
            *sum = sum.saturating_add(so_far(hold));
        }
        for wait in thread.awaited.iter().filter(is_counted) {
            let sum = &mut summary.at(names.site(wait.site)).totals.wait_ns;
            *sum = sum.saturating_add(so_far(wait));
        }
    }
}
