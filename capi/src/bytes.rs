//! Bytes as C passes them, and what is shown of an entry.

use std::ops::Bound as StdBound;
use std::slice;

use crate::code::Code;
use crate::failure::CallFailure;

/// Bytes somewhere in memory. Where the caller passes them, they are the caller's and are only read
/// during the call; `data` may be null if `len` is 0. Where the library gives them, they are there
/// to be read until what shows them is released, moved or closed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AbiBytes {
    /// The first of them.
    pub data: *const u8,
    /// How many.
    pub len: usize,
}

/// Key and value of an entry, where they lie; those of a scan are copies. Of the others, the
/// value's first byte has an address that is a multiple of 8.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AbiItem {
    /// The key.
    pub key: AbiBytes,
    /// The value.
    pub value: AbiBytes,
}

/// Does a range have an end at its key, and does the key belong to it?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum BoundKind {
    /// No end: the range goes as far as there are keys.
    Unbounded = 0,
    /// The key belongs to the range.
    Included = 1,
    /// The key does not.
    Excluded = 2,
}

/// An end of a range.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AbiBound {
    /// One of `forebay_bound_kind`.
    pub kind: i32,
    /// The key; nothing reads it if there is no end.
    pub key: AbiBytes,
}

impl AbiBytes {
    /// Bytes that stay where they are as long as whoever lends them says.
    pub(crate) fn of(bytes: &[u8]) -> AbiBytes {
        AbiBytes { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes, read during a call.
    ///
    /// # Safety
    /// - `data` is null, or `len` bytes from it on can be read.
    /// - Nobody writes them while the result lives.
    pub(crate) unsafe fn read<'a>(self, what: &str) -> Result<&'a [u8], CallFailure> {
        if self.len == 0 {
            return Ok(&[]);
        }
        if self.data.is_null() {
            return Err(CallFailure::null(what));
        }
        if isize::try_from(self.len).is_err() {
            let message = format!("{what} has a length that no memory has");
            return Err(CallFailure::new(Code::Argument, message));
        }
        // SAFETY:
        // - It is not null, and no longer than memory can be; bytes are always aligned.
        // - It can be read, and nobody writes it (contract).
        Ok(unsafe { slice::from_raw_parts(self.data, self.len) })
    }
}

impl AbiItem {
    pub(crate) fn of(entry: &forebay_ordmap::Entry<'_>) -> AbiItem {
        AbiItem { key: AbiBytes::of(entry.key()), value: AbiBytes::of(entry.value()) }
    }
}

impl AbiBound {
    /// The end as a range wants it; none, if there is no bound.
    ///
    /// # Safety
    /// As [`AbiBytes::read`], for the key of a bound that has an end.
    pub(crate) unsafe fn read<'a>(
        bound: Option<&AbiBound>,
        what: &str,
    ) -> Result<StdBound<&'a [u8]>, CallFailure> {
        let Some(AbiBound { kind, key }) = bound else {
            return Ok(StdBound::Unbounded);
        };
        let key = || {
            // SAFETY: the contract is the same.
            unsafe { key.read(what) }
        };
        match *kind {
            kind if kind == BoundKind::Unbounded as i32 => Ok(StdBound::Unbounded),
            kind if kind == BoundKind::Included as i32 => key().map(StdBound::Included),
            kind if kind == BoundKind::Excluded as i32 => key().map(StdBound::Excluded),
            kind => {
                Err(CallFailure::new(Code::Argument, format!("{what}: no kind of bound is {kind}")))
            }
        }
    }
}
