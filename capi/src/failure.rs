//! Turns the result of a function's body into a code, and into a message if the body failed. Panics
//! are caught here.

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

/// The reason why a call failed.
#[derive(Debug)]
pub(crate) struct CallFailure {
    code: Code,
    message: String,
}

impl CallFailure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> CallFailure {
        CallFailure { code, message: message.into() }
    }

    /// The failure of a call with a null pointer; `what` names the argument.
    pub(crate) fn null(what: &str) -> CallFailure {
        CallFailure::new(Code::Null, format!("{what} is null"))
    }

    /// Keeps the message for `forebay_last_message`, and returns the code.
    fn record(self) -> Code {
        // A C string ends at the first NUL.
        let text = self.message.replace('\0', "?");
        let text = CString::new(text).unwrap_or_default();
        // A thread that is ending may have no thread-local storage any more; then the message is
        // lost.
        let _ = LAST.try_with(|last| last.replace(text));
        self.code
    }
}

/// Runs the body of a function, and turns a panic into `Code::Library`.
pub(crate) fn guard(body: impl FnOnce() -> Result<Code, CallFailure>) -> Code {
    // A panic leaves no map half-changed. Other state may be half-changed, but is not used again:
    // the code tells the caller to stop using the participant.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failure.record(),
        Err(panic) => {
            let message = format!("bug in the library: {}", panic_message(&*panic));
            // Dropping the payload of a panic could panic.
            mem::forget(panic);
            CallFailure::new(Code::Library, message).record()
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The message of this thread's last call that failed; empty if no call has failed. Never null; the
/// library owns the string, which is valid until another call of this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_last_message() -> *const c_char {
    // Only `record` writes the string, and only on this thread.
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
        // SAFETY: the string belongs to the library, and no call has failed since.
        unsafe { CStr::from_ptr(forebay_last_message()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_ends_as_a_code() {
        assert_eq!(last(), "");
        assert_eq!(guard(|| panic!("odd {}", 7)), Code::Library);
        assert_eq!(last(), "bug in the library: odd 7");
        assert_eq!(guard(|| std::panic::panic_any(7)), Code::Library);
        assert_eq!(last(), "bug in the library: no message");
    }

    #[test]
    fn the_last_message_belongs_to_its_thread() {
        assert_eq!(guard(|| Err(CallFailure::null("map"))), Code::Null);
        assert_eq!(guard(|| Ok(Code::Absent)), Code::Absent);
        assert_eq!(last(), "map is null");
        std::thread::scope(|scope| scope.spawn(|| assert_eq!(last(), "")).join().unwrap());
        assert_eq!(guard(|| Err(CallFailure::new(Code::System, "a\0b"))), Code::System);
        assert_eq!(last(), "a?b");
    }
}
