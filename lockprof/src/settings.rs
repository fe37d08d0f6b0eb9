//! The settings in environment variables. They are read once, when the library is loaded, since
//! programs may overwrite their environment.

use std::ffi::CStr;
use std::sync::OnceLock;

use forebay_sync::profile::{ProfilePlan, StackPlan};

use crate::stack::FRAMES_MAX;

/// The longest path of a profile, in bytes, without its suffix.
const PATH_BYTES_MAX: usize = 4000;

/// The default sizes of a profile.
const PLAN: ProfilePlan = ProfilePlan {
    sites: 4096,
    frames: 1,
    modules: 1024,
    text_bytes: 1 << 18,
    threads: 256,
    rows: 512,
    pairs: 256,
    stacks: StackPlan::NONE,
};

/// The default limit of processes with a profile. Without a limit, a program that starts others
/// without end would fill the disk.
const PROCESSES: u32 = 1000;

/// The settings of a recording.
pub(crate) struct RecordSettings {
    path: [u8; PATH_BYTES_MAX],
    path_bytes: usize,
    /// The sizes of the profile.
    pub(crate) plan: ProfilePlan,
    /// The largest number of processes with a profile.
    pub(crate) processes: u64,
    /// The number of attempts that a thread skips after each attempt that it records.
    pub(crate) skip: u64,
    /// Whether recording is on from the beginning.
    pub(crate) is_on: bool,
    /// Whether two locks at one call site count as two sites.
    pub(crate) is_by_lock: bool,
}

impl RecordSettings {
    /// The path of the profile, without a terminating zero.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path[..self.path_bytes]
    }
}

static SETTINGS: OnceLock<Option<RecordSettings>> = OnceLock::new();

/// The settings, whose plan is valid; `None` if the environment names no file, or has sizes that
/// are not valid.
pub(crate) fn settings() -> Option<&'static RecordSettings> {
    SETTINGS.get_or_init(read).as_ref()
}

fn read() -> Option<RecordSettings> {
    let found = variable(c"LOCKPROF_FILE")?;
    let mut path = [0; PATH_BYTES_MAX];
    path.get_mut(..found.len()).filter(|_| !found.is_empty())?.copy_from_slice(found);
    let plan = ProfilePlan {
        sites: number(c"LOCKPROF_SITES", PLAN.sites),
        frames: number(c"LOCKPROF_STACKS", PLAN.frames).clamp(1, FRAMES_MAX as u32),
        threads: number(c"LOCKPROF_THREADS", PLAN.threads),
        rows: number(c"LOCKPROF_ROWS", PLAN.rows),
        pairs: number(c"LOCKPROF_PAIRS", PLAN.pairs),
        ..PLAN
    };
    // The plan is checked here, before a file is made for it.
    if plan.fault().is_some() {
        return None;
    }
    Some(RecordSettings {
        path,
        path_bytes: found.len(),
        plan,
        processes: number(c"LOCKPROF_PROCESSES", PROCESSES).into(),
        skip: number(c"LOCKPROF_SKIP", 0).into(),
        is_on: number(c"LOCKPROF_ON", 1) != 0,
        is_by_lock: number(c"LOCKPROF_BY_LOCK", 0) != 0,
    })
}

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the argument is a C string.
    let found = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: a C string, which the program may overwrite later; we read it only now, while
    // libraries are loaded.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(found) }.to_bytes())
}

/// A number from the environment, or the default.
fn number(name: &CStr, otherwise: u32) -> u32 {
    let found = variable(name).and_then(|text| str::from_utf8(text).ok());
    found.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_threads_as_can_be_asked_for_have_room() {
        // The maximum of `forebay locks record --threads`.
        let plan = ProfilePlan { threads: 12_000, frames: FRAMES_MAX as u32, ..PLAN };
        assert_eq!(plan.fault(), None);
        assert!(
            ProfilePlan { threads: 13_000, ..plan }.fault().is_some(),
            "the maximum of `--threads` could be larger"
        );
    }
}
