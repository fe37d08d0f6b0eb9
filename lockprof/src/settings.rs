//! What the environment asks for. It is read once, when the library is loaded: programs write over
//! their environment.

use std::ffi::CStr;
use std::sync::OnceLock;

use forebay_sync::profile::Plan;

use crate::stack::FRAMES_MAX;

/// Longest path of a profile, in bytes, without what is put behind it.
const PATH_BYTES_MAX: usize = 4000;

/// What is asked for.
pub(crate) struct Settings {
    path: [u8; PATH_BYTES_MAX],
    path_bytes: usize,
    /// How much the profile has room for.
    pub(crate) plan: Plan,
    /// Locks whose holder can be known.
    pub(crate) locks: usize,
    /// Attempts that are passed over behind each that is recorded.
    pub(crate) skip: u64,
    /// Is recording switched on from the beginning?
    pub(crate) is_on: bool,
    /// Is each lock a site of its own?
    pub(crate) is_by_lock: bool,
}

impl Settings {
    /// Where the profile is to be, without a zero behind it.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path[..self.path_bytes]
    }
}

static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();

/// What is asked for; `None` if that is nothing, or makes no sense.
pub(crate) fn settings() -> Option<&'static Settings> {
    SETTINGS.get_or_init(read).as_ref()
}

fn read() -> Option<Settings> {
    let found = variable(c"LOCKPROF_FILE")?;
    let mut path = [0; PATH_BYTES_MAX];
    path.get_mut(..found.len()).filter(|_| !found.is_empty())?.copy_from_slice(found);
    let plan = Plan {
        sites: number(c"LOCKPROF_SITES", 4096),
        frames: number(c"LOCKPROF_STACKS", 1).clamp(1, FRAMES_MAX as u32),
        modules: 1024,
        text_bytes: 1 << 18,
        threads: number(c"LOCKPROF_THREADS", 256),
        rows: number(c"LOCKPROF_ROWS", 512),
        pairs: number(c"LOCKPROF_PAIRS", 256),
    };
    Some(Settings {
        path,
        path_bytes: found.len(),
        plan,
        locks: (number(c"LOCKPROF_LOCKS", 1 << 16) as usize).clamp(1, 1 << 24).next_power_of_two(),
        skip: number(c"LOCKPROF_SKIP", 0).into(),
        is_on: number(c"LOCKPROF_ON", 1) != 0,
        is_by_lock: number(c"LOCKPROF_BY_LOCK", 0) != 0,
    })
}

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: a text of C.
    let found = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: a text of C, which the program may overwrite later; we look at it now only, while
    // libraries are loaded.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(found) }.to_bytes())
}

/// A number of the environment, or another if there is none.
fn number(name: &CStr, otherwise: u32) -> u32 {
    let found = variable(name).and_then(|text| str::from_utf8(text).ok());
    found.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
