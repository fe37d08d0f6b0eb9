//! An allocator that names the functions of the server that allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use forebay_sync::{LockClass, Mutex};

/// The allocator of the test.
pub(crate) struct NamingHeap;

/// The crates that a server consists of. An allocation has the name of the innermost function of
/// one of them, because functions of the standard library allocate on behalf of their callers.
const CRATES: &[&str] = &["forebay_", "rustls::", "aws_lc_rs::", "tokio::", "hyper::"];

/// The crate of the client and the origin of this test. The test harness has neither this crate nor
/// one of the [`CRATES`] in its backtraces.
const TESTKIT: &str = "forebay_testkit::";

static IS_NAMING: AtomicBool = AtomicBool::new(false);
static NAMES: Mutex<BTreeMap<String, usize>> = Mutex::new(LockClass::Test, BTreeMap::new());

thread_local! {
    static IS_IGNORED: Cell<bool> = const { Cell::new(false) };
}

/// Ignores the allocations of this thread.
pub(crate) fn ignore_this_thread() {
    IS_IGNORED.set(true);
}

/// Returns the functions of the server that allocate during `action`, with the number of their
/// allocations.
pub(crate) fn allocations_during(action: impl FnOnce()) -> BTreeMap<String, usize> {
    NAMES.lock().clear();
    IS_NAMING.store(true, Relaxed);
    action();
    IS_NAMING.store(false, Relaxed);
    std::mem::take(&mut NAMES.lock())
}

fn note() {
    // A thread that ends has no thread-local variables any more.
    let is_ignored = IS_IGNORED.try_with(Cell::get).unwrap_or(true);
    if is_ignored || !IS_NAMING.load(Relaxed) {
        return;
    }
    // The backtrace allocates, too.
    IS_IGNORED.set(true);
    if let Some(name) = function_of(&Backtrace::force_capture().to_string()) {
        *NAMES.lock().entry(name).or_default() += 1;
    }
    IS_IGNORED.set(false);
}

/// Returns the innermost function in `backtrace` that belongs to one of the [`CRATES`].
fn function_of(backtrace: &str) -> Option<String> {
    let names = backtrace.lines().filter_map(|line| {
        let (number, name) = line.trim_start().split_once(": ")?;
        number.parse::<usize>().is_ok().then_some(name)
    });
    let mut of_server = names.filter(|name| {
        let name = name.trim_start_matches('<');
        CRATES.iter().any(|part| name.starts_with(part))
    });
    of_server.next().filter(|name| !name.contains(TESTKIT)).map(str::to_owned)
}

// SAFETY: every call goes on to the allocator of the system.
unsafe impl GlobalAlloc for NamingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
