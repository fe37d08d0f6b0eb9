//! How a body ends: with a code, and with a message where it failed. Panics end here.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_ordmap::{MapError, MapsError, OrdConfigError, OrdOpenError};
use forebay_shm::{JoinError, LockError, RegionError, RegionErrorKind};

use crate::code::Code;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Why something was not done.
#[derive(Debug)]
pub(crate) struct CallFailure {
    code: Code,
    message: String,
}

impl CallFailure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> CallFailure {
        CallFailure { code, message: message.into() }
    }

    /// A pointer is null; `what` is the argument.
    pub(crate) fn null(what: &str) -> CallFailure {
        CallFailure::new(Code::Null, format!("{what} is null"))
    }

    /// Keeps the message for who asks, and gives the code.
    fn record(self) -> Code {
        // Where a NUL is, the text ends for C.
        let text = self.message.replace('\0', "?");
        let text = CString::new(text).unwrap_or_default();
        // A thread that ends may have no such place any more: then there is the code alone.
        let _ = LAST.try_with(|last| last.replace(text));
        self.code
    }
}

/// Runs a body; nothing that it does unwinds further.
pub(crate) fn guard(body: impl FnOnce() -> Result<Code, CallFailure>) -> Code {
    // What a panic leaves half-done is not used again: maps are never half-changed, and the caller
    // is told that the participant is not to be used any more.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failure.record(),
        Err(panic) => {
            let message = format!("a bug of the library: {}", panic_message(&*panic));
            // It could panic when it is dropped.
            mem::forget(panic);
            CallFailure::new(Code::Library, message).record()
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// What was wrong in the last call of this thread that failed; empty, if none did. Never null; the
/// text is the library's, and stays until another call of this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_last_message() -> *const c_char {
    // Nothing but `record` writes it, and that on this thread.
    let last = LAST.try_with(|last| last.try_borrow().map(|text| text.as_ptr()));
    last.ok().and_then(Result::ok).unwrap_or(c"".as_ptr())
}

impl From<LockError> for CallFailure {
    fn from(error: LockError) -> CallFailure {
        let code = match error {
            LockError::TimedOut => Code::Busy,
            LockError::AlreadyHeld | LockError::OtherRegion => Code::Library,
        };
        CallFailure::new(code, error.to_string())
    }
}

impl From<MapError> for CallFailure {
    fn from(error: MapError) -> CallFailure {
        let code = match error {
            MapError::Full => Code::Full,
            MapError::KeyTooLong => Code::KeyTooLong,
            MapError::ValueTooLong => Code::ValueTooLong,
            MapError::TooManyLeases => Code::Leases,
            MapError::Busy => Code::Busy,
            MapError::Forked => Code::Forked,
            MapError::Damaged { .. } => Code::Damaged,
            MapError::Lock(error) => return CallFailure::from(error),
        };
        CallFailure::new(code, error.to_string())
    }
}

impl From<MapsError> for CallFailure {
    fn from(error: MapsError) -> CallFailure {
        let code = match error {
            MapsError::Name => Code::Name,
            MapsError::TooMany => Code::MapsFull,
            MapsError::HintsFull => Code::Full,
            MapsError::NotThere => Code::NoMap,
            MapsError::Busy => Code::Busy,
            MapsError::Forked => Code::Forked,
            MapsError::Damaged => Code::Damaged,
            MapsError::Lock(error) => return CallFailure::from(error),
        };
        CallFailure::new(code, error.to_string())
    }
}

impl From<JoinError> for CallFailure {
    fn from(error: JoinError) -> CallFailure {
        let code = match error {
            JoinError::Full { .. } => Code::ParticipantsFull,
            JoinError::Io(_) => Code::System,
        };
        CallFailure::new(code, error.to_string())
    }
}

impl From<OrdOpenError> for CallFailure {
    fn from(error: OrdOpenError) -> CallFailure {
        let code = match &error {
            OrdOpenError::Config(OrdConfigError::TooSmall { .. } | OrdConfigError::TooLarge)
            | OrdOpenError::Config(OrdConfigError::OutOfRange { .. }) => Code::Argument,
            OrdOpenError::Region(error) => code_of(error),
            OrdOpenError::InUse { .. } => Code::InUse,
            OrdOpenError::Damaged { .. } => Code::Unusable,
        };
        CallFailure::new(code, error.to_string())
    }
}

fn code_of(error: &RegionError) -> Code {
    match &error.kind {
        RegionErrorKind::Io { .. } => Code::System,
        RegionErrorKind::NoSpace { .. } => Code::NoSpace,
        RegionErrorKind::TooSmall { .. }
        | RegionErrorKind::Spec { .. }
        | RegionErrorKind::NotAFile => Code::Argument,
        RegionErrorKind::NotOurs { .. } | RegionErrorKind::NotPrivate { .. } => Code::Permission,
        RegionErrorKind::Busy { .. } => Code::Busy,
        RegionErrorKind::NoMembarrier | RegionErrorKind::Unusable { .. } => Code::Unusable,
    }
}

impl From<io::Error> for CallFailure {
    fn from(error: io::Error) -> CallFailure {
        CallFailure::new(Code::System, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::{CallFailure, forebay_last_message, guard};
    use crate::code::Code;

    fn last() -> String {
        // SAFETY: it is a text of the library, and nothing failed since.
        unsafe { CStr::from_ptr(forebay_last_message()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_ends_as_a_code() {
        assert_eq!(last(), "");
        assert_eq!(guard(|| panic!("odd {}", 7)), Code::Library);
        assert_eq!(last(), "a bug of the library: odd 7");
        assert_eq!(guard(|| std::panic::panic_any(7)), Code::Library);
        assert_eq!(last(), "a bug of the library: no message");
    }

    #[test]
    fn what_failed_last_is_kept_for_its_thread() {
        assert_eq!(guard(|| Err(CallFailure::null("map"))), Code::Null);
        assert_eq!(guard(|| Ok(Code::Absent)), Code::Absent);
        assert_eq!(last(), "map is null");
        std::thread::scope(|scope| scope.spawn(|| assert_eq!(last(), "")).join().unwrap());
        assert_eq!(guard(|| Err(CallFailure::new(Code::System, "a\0b"))), Code::System);
        assert_eq!(last(), "a?b");
    }
}
