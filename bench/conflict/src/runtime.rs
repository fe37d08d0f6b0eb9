//! Bindings to the runtime's functions, as `runtime/runtime.h` declares them.

use std::ffi::CStr;
use std::fmt;

/// The most threads that can be distinguished, because a line has one bit for each.
pub const THREADS_MAX: usize = 64;

/// The accesses to one line in conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Line {
    /// The line's address divided by the size of a line.
    number: usize,
    threads: u32,
    loads: u64,
    stores: u64,
    rmws: u64,
    /// The instruction that last wrote the line, as an offset in the program.
    pub writer: usize,
}

/// The accesses to all lines. Except for `own_rmws` and `fences`, only those on lines in conflict
/// are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Sum {
    pub(crate) lines: u64,
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    pub(crate) rmws: u64,
    pub(crate) own_rmws: u64,
    pub(crate) fences: u64,
    /// Writes by all threads except number 0.
    pub(crate) others_writes: u64,
}

// SAFETY: these are the signatures of runtime.h. Any thread may call a safe function at any time,
// and no safe function keeps a pointer.
unsafe extern "C" {
    safe fn conflict_enter(thread: u32) -> bool;
    safe fn conflict_leave();
    /// # Safety
    /// - `prefix` ends with a zero byte.
    unsafe fn conflict_enter_named(prefix: *const std::ffi::c_char) -> bool;
    safe fn conflict_leave_named();
    safe fn conflict_named_count() -> u32;
    /// # Safety
    /// - No thread is between `conflict_enter` and `conflict_leave`.
    unsafe fn conflict_clear();
    safe fn conflict_sum(sum: &mut Sum) -> bool;
    /// # Safety
    /// - `lines` has room for `count_max` lines, which no other thread reads or writes.
    unsafe fn conflict_lines(lines: *mut Line, count_max: usize) -> usize;
}

/// Counts this thread's accesses as those of `thread`, until it leaves. Returns false if `thread`
/// is too high.
pub(crate) fn enter(thread: usize) -> bool {
    u32::try_from(thread).is_ok_and(|thread| conflict_enter(thread))
}

/// Ends the counting of this thread.
pub(crate) fn leave() {
    conflict_leave();
}

/// Counts the accesses of all threads whose names are `prefix` and a number, each as the thread
/// with that number, until [`leave_named`]. Returns false if an earlier call had another prefix.
pub(crate) fn enter_named(prefix: &CStr) -> bool {
    // SAFETY: `prefix` is a C string.
    unsafe { conflict_enter_named(prefix.as_ptr()) }
}

/// Ends the counting of named threads.
pub(crate) fn leave_named() {
    conflict_leave_named();
}

/// The number of named threads that did something that was counted.
pub(crate) fn named_count() -> usize {
    conflict_named_count() as usize
}

/// Deletes all counts.
///
/// # Safety
/// - No thread is between [`enter`] and [`leave`].
pub(crate) unsafe fn clear() {
    // SAFETY: the contract of this function is the same.
    unsafe { conflict_clear() }
}

/// Returns the counts, or `None` if there were more lines or threads than the runtime has room for.
pub(crate) fn sum() -> Option<Sum> {
    let mut sum = Sum::default();
    conflict_sum(&mut sum).then_some(sum)
}

/// Returns at most `count_max` lines in conflict, those with the most writes first.
pub(crate) fn lines(count_max: usize) -> Vec<Line> {
    let mut lines = vec![Line::default(); count_max];
    // SAFETY: the vector has room for `count_max` lines and is not shared.
    let count = unsafe { conflict_lines(lines.as_mut_ptr(), count_max) };
    lines.truncate(count);
    lines
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { number, threads, loads, stores, rmws, .. } = self;
        let address = number * 64;
        write!(
            out,
            "line {address:#x}: {threads} threads, {rmws} RMWs, {stores} stores, {loads} loads"
        )
    }
}
