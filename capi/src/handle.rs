//! What is behind a handle: something that a member lends, and the member with it.

use std::io;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::rc::Rc;
use std::sync::OnceLock;

use forebay_ordmap::Member;
use forebay_sync::atomic::{AtomicU32, Relaxed};

use crate::code::Code;
use crate::failure::Failure;

/// How often the process whose memory this is was forked off.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// What the system said when it was asked to tell of forks.
static HEARS_FORKS: OnceLock<i32> = OnceLock::new();

extern "C" fn in_child() {
    FORKS.store(FORKS.load(Relaxed).wrapping_add(1), Relaxed);
}

/// The process that made something. A child that was forked off has a copy of all handles, but
/// neither the locks nor the leases behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Result<Process, Failure> {
        let refused = *HEARS_FORKS.get_or_init(|| {
            // SAFETY: the function stores a number and does nothing else, so a child of a process
            // with many threads may run it. If the library is unloaded, libc forgets it.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) }
        });
        if refused != 0 {
            return Err(io::Error::from_raw_os_error(refused).into());
        }
        Ok(Process(FORKS.load(Relaxed)))
    }

    pub(crate) fn is_here(self) -> bool {
        self.0 == FORKS.load(Relaxed)
    }

    pub(crate) fn must_be_here(self) -> Result<(), Failure> {
        if self.is_here() {
            return Ok(());
        }
        let message = "the handle was made by the process that forked this one off";
        Err(Failure::new(Code::Forked, message))
    }
}

/// A member with where it comes from; it leaves when the last handle that needs it is closed.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) member: Member,
    pub(crate) process: Process,
}

/// Something that is dropped in the process that made it, and in no other: in a child that was
/// forked off, ending a lease would end it for the parent.
#[derive(Debug)]
struct Here<T> {
    what: ManuallyDrop<T>,
    process: Process,
}

/// Something of a member, which lives as long as this. `T` borrows the member for `'static`; it is
/// given to nobody who could keep it longer than `self`.
#[derive(Debug)]
pub(crate) struct Lent<T> {
    /// Goes before the member does.
    what: Here<T>,
    joined: Rc<Joined>,
}

impl<T> Here<T> {
    fn new(what: T, joined: &Joined) -> Here<T> {
        Here { what: ManuallyDrop::new(what), process: joined.process }
    }

    fn into_inner(mut self) -> T {
        // SAFETY: it is not used again, since `self` is forgotten.
        let what = unsafe { ManuallyDrop::take(&mut self.what) };
        mem::forget(self);
        what
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        if self.process.is_here() {
            // SAFETY: nobody uses it afterwards, since `self` is gone.
            unsafe { ManuallyDrop::drop(&mut self.what) };
        }
    }
}

impl<T> Lent<T> {
    /// What `make` makes of a member. It must not keep the member elsewhere.
    pub(crate) fn new(
        joined: &Rc<Joined>,
        make: impl FnOnce(&'static Member) -> Result<T, Failure>,
    ) -> Result<Lent<T>, Failure> {
        joined.process.must_be_here()?;
        let member = &raw const joined.member;
        // SAFETY: the member lies on the heap and is not moved; `joined` holds it until after
        // `what` is gone.
        let member = unsafe { &*member };
        Ok(Lent { what: Here::new(make(member)?, joined), joined: Rc::clone(joined) })
    }

    /// Something that this has lent itself, and that borrows the same member.
    pub(crate) fn with<U>(&self, what: U) -> Lent<U> {
        Lent { what: Here::new(what, &self.joined), joined: Rc::clone(&self.joined) }
    }

    /// Something that this turns into, and that borrows the same member.
    pub(crate) fn into<U>(self, turn: impl FnOnce(T) -> U) -> Result<Lent<U>, Failure> {
        let Lent { what, joined } = self;
        joined.process.must_be_here()?;
        Ok(Lent { what: Here::new(turn(what.into_inner()), &joined), joined })
    }

    pub(crate) fn here(&self) -> Result<&T, Failure> {
        self.joined.process.must_be_here()?;
        Ok(&self.what.what)
    }

    pub(crate) fn here_mut(&mut self) -> Result<&mut T, Failure> {
        self.joined.process.must_be_here()?;
        Ok(&mut self.what.what)
    }
}

impl<T> Lent<Option<T>> {
    /// Lends what there is.
    pub(crate) fn transposed(self) -> Option<Lent<T>> {
        let Lent { what, joined } = self;
        let what = what.into_inner()?;
        Some(Lent { what: Here::new(what, &joined), joined })
    }
}

/// A reference that C may have passed as null.
pub(crate) fn given<T>(pointer: Option<T>, what: &str) -> Result<T, Failure> {
    pointer.ok_or_else(|| Failure::null(what))
}

/// Writes an answer that has to be wanted.
pub(crate) fn answer<T>(
    place: Option<&mut MaybeUninit<T>>,
    what: &str,
    answer: T,
) -> Result<(), Failure> {
    given(place, what)?.write(answer);
    Ok(())
}

/// Writes an answer, if it is wanted.
pub(crate) fn tell<T>(place: Option<&mut MaybeUninit<T>>, answer: T) {
    if let Some(place) = place {
        place.write(answer);
    }
}

/// A handle for what is to live until it is closed.
pub(crate) fn handle<T>(what: T) -> *mut T {
    Box::into_raw(Box::new(what))
}
