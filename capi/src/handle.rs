//! What is behind a handle: something that a participant lends, and the participant with it.

use std::mem::MaybeUninit;
use std::rc::Rc;

use forebay_ordmap::MapParticipant;

use crate::failure::CallFailure;

/// Something of a participant, which lives as long as this. `T` borrows the participant for
/// `'static`; it is given to nobody who could keep it longer than `self`. The participant leaves
/// with the last of them.
#[derive(Debug)]
pub(crate) struct WithParticipant<T> {
    /// Goes before the participant does.
    pub(crate) what: T,
    participant: Rc<MapParticipant>,
}

impl<T> WithParticipant<T> {
    /// What `make` makes of a participant. It must not keep the participant elsewhere.
    pub(crate) fn new(
        participant: &Rc<MapParticipant>,
        make: impl FnOnce(&'static MapParticipant) -> Result<T, CallFailure>,
    ) -> Result<WithParticipant<T>, CallFailure> {
        let lender = Rc::as_ptr(participant);
        // SAFETY: the participant lies on the heap and is not moved; the `Rc` beside `what` holds
        // it until after `what` is gone.
        let lender = unsafe { &*lender };
        Ok(WithParticipant { what: make(lender)?, participant: Rc::clone(participant) })
    }

    /// Something that this has lent itself, and that borrows the same participant.
    pub(crate) fn with<U>(&self, what: U) -> WithParticipant<U> {
        WithParticipant { what, participant: Rc::clone(&self.participant) }
    }

    /// Something that this turns into, and that borrows the same participant.
    pub(crate) fn into<U>(self, turn: impl FnOnce(T) -> Option<U>) -> Option<WithParticipant<U>> {
        let WithParticipant { what, participant } = self;
        turn(what).map(|what| WithParticipant { what, participant })
    }
}

/// A reference that C may have passed as null.
pub(crate) fn require<T>(pointer: Option<T>, what: &str) -> Result<T, CallFailure> {
    pointer.ok_or_else(|| CallFailure::null(what))
}

/// Writes an answer that has to be wanted.
pub(crate) fn write_required<T>(
    place: Option<&mut MaybeUninit<T>>,
    what: &str,
    write_required: T,
) -> Result<(), CallFailure> {
    require(place, what)?.write(write_required);
    Ok(())
}

/// Writes an answer, if it is wanted.
pub(crate) fn write_if_wanted<T>(place: Option<&mut MaybeUninit<T>>, write_required: T) {
    if let Some(place) = place {
        place.write(write_required);
    }
}

/// A handle for what is to live until it is closed.
pub(crate) fn handle<T>(what: T) -> *mut T {
    Box::into_raw(Box::new(what))
}
