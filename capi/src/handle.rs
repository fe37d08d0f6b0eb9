//! The contents of handles: a value that borrows a participant, together with the participant.

use std::mem::MaybeUninit;
use std::rc::Rc;

use forebay_ordmap::MapParticipant;

use crate::failure::CallFailure;

/// A value that borrows its participant for `'static`, and keeps the participant alive. The value
/// may be borrowed only for the lifetime of `self`. The participant leaves the region when its last
/// such value is dropped.
#[derive(Debug)]
pub(crate) struct WithParticipant<T> {
    /// Dropped before the participant.
    pub(crate) what: T,
    participant: Rc<MapParticipant>,
}

impl<T> WithParticipant<T> {
    /// Makes a value from a participant. `make` must not keep the participant elsewhere.
    pub(crate) fn new(
        participant: &Rc<MapParticipant>,
        make: impl FnOnce(&'static MapParticipant) -> Result<T, CallFailure>,
    ) -> Result<WithParticipant<T>, CallFailure> {
        let lender = Rc::as_ptr(participant);
        // SAFETY: the participant lies on the heap and is not moved; the `Rc` beside `what` keeps
        // it alive until after `what` is dropped.
        let lender = unsafe { &*lender };
        Ok(WithParticipant { what: make(lender)?, participant: Rc::clone(participant) })
    }

    /// Another value that borrows the same participant.
    pub(crate) fn with<U>(&self, what: U) -> WithParticipant<U> {
        WithParticipant { what, participant: Rc::clone(&self.participant) }
    }

    /// Turns the value into another one that borrows the same participant.
    pub(crate) fn into<U>(self, turn: impl FnOnce(T) -> Option<U>) -> Option<WithParticipant<U>> {
        let WithParticipant { what, participant } = self;
        turn(what).map(|what| WithParticipant { what, participant })
    }
}

/// The argument `pointer`, or a failure if it is null. `what` is its name.
pub(crate) fn require<T>(pointer: Option<T>, what: &str) -> Result<T, CallFailure> {
    pointer.ok_or_else(|| CallFailure::null(what))
}

/// Writes a required output.
pub(crate) fn write_required<T>(
    place: Option<&mut MaybeUninit<T>>,
    what: &str,
    answer: T,
) -> Result<(), CallFailure> {
    require(place, what)?.write(answer);
    Ok(())
}

/// Writes an optional output.
pub(crate) fn write_if_wanted<T>(place: Option<&mut MaybeUninit<T>>, answer: T) {
    if let Some(place) = place {
        place.write(answer);
    }
}

/// Moves a value to the heap and returns its address, as a handle for C that owns the value.
pub(crate) fn handle<T>(what: T) -> *mut T {
    Box::into_raw(Box::new(what))
}
