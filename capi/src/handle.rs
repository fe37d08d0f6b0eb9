//! What is behind a handle: something that a participant lends, and the participant with it.

use std::mem::MaybeUninit;
use std::rc::Rc;

use forebay_ordmap::MapParticipant;

use crate::failure::Failure;

/// Something of a participant, which lives as long as this. `T` borrows the participant for
/// `'static`; it is given to nobody who could keep it longer than `self`. The participant leaves
/// with the last of them.
#[derive(Debug)]
pub(crate) struct Lent<T> {
    /// Goes before the participant does.
    pub(crate) what: T,
    participant: Rc<MapParticipant>,
}

impl<T> Lent<T> {
    /// What `make` makes of a participant. It must not keep the participant elsewhere.
    pub(crate) fn new(
        participant: &Rc<MapParticipant>,
        make: impl FnOnce(&'static MapParticipant) -> Result<T, Failure>,
    ) -> Result<Lent<T>, Failure> {
        let lender = Rc::as_ptr(participant);
        // SAFETY: the participant lies on the heap and is not moved; the `Rc` beside `what` holds
        // it until after `what` is gone.
        let lender = unsafe { &*lender };
        Ok(Lent { what: make(lender)?, participant: Rc::clone(participant) })
    }

    /// Something that this has lent itself, and that borrows the same participant.
    pub(crate) fn with<U>(&self, what: U) -> Lent<U> {
        Lent { what, participant: Rc::clone(&self.participant) }
    }

    /// Something that this turns into, and that borrows the same participant.
    pub(crate) fn into<U>(self, turn: impl FnOnce(T) -> Option<U>) -> Option<Lent<U>> {
        let Lent { what, participant } = self;
        turn(what).map(|what| Lent { what, participant })
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
