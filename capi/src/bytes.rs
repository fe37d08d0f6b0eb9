//! Bytes and items as C passes them.

use std::ops::Bound as StdBound;
use std::slice;

use crate::code::Code;
use crate::failure::CallFailure;

/// A slice of bytes. Arguments belong to the caller and are only read during the call; `data` may
/// be null if `len` is 0. Bytes that the library returns stay readable until the handle that shows
/// them is released, moved or closed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AbiBytes {
    /// The first byte.
    pub data: *const u8,
    /// The number of bytes.
    pub len: usize,
}

/// The key and the value of an entry, in place. The address of the value is a multiple of 8. In an
/// item of a scan, key and value are copies at any address.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AbiItem {
    /// The key.
    pub key: AbiBytes,
    /// The value.
    pub value: AbiBytes,
}

/// Whether an end of a range has a key, and whether the range includes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum BoundKind {
    /// The range has no end on this side.
    Unbounded = 0,
    /// The range includes the key.
    Included = 1,
    /// The range excludes the key.
    Excluded = 2,
}

/// An end of a range.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AbiBound {
    /// 0: the range has no end on this side. 1: the range includes the key. 2: the range excludes
    /// the key.
    pub kind: i32,
    /// The key; ignored if the kind is 0.
    pub key: AbiBytes,
}

impl AbiBytes {
    /// A slice of bytes that stay in place as long as their owner lives.
    pub(crate) fn of(bytes: &[u8]) -> AbiBytes {
        AbiBytes { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes, to be read during a call. `what` is the name of the argument.
    ///
    /// # Safety
    /// - `data` is null, or `len` bytes from it on can be read.
    /// - No thread writes these bytes while the result lives.
    pub(crate) unsafe fn read<'a>(self, what: &str) -> Result<&'a [u8], CallFailure> {
        if self.len == 0 {
            return Ok(&[]);
        }
        if self.data.is_null() {
            return Err(CallFailure::null(what));
        }
        if isize::try_from(self.len).is_err() {
            let message = format!("{what} has an impossible length of {} bytes", self.len);
            return Err(CallFailure::new(Code::Argument, message));
        }
        // SAFETY:
        // - The pointer is not null, and the length is possible; bytes are always aligned.
        // - The bytes can be read, and no thread writes them (contract).
        Ok(unsafe { slice::from_raw_parts(self.data, self.len) })
    }
}

impl AbiItem {
    pub(crate) fn of(entry: &forebay_ordmap::Entry<'_>) -> AbiItem {
        AbiItem { key: AbiBytes::of(entry.key()), value: AbiBytes::of(entry.value()) }
    }
}

impl AbiBound {
    /// Returns an end of a range as a Rust bound, which is unbounded if `bound` is null. `what` is
    /// the name of the argument.
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
            // SAFETY: the caller meets the same contract.
            unsafe { key.read(what) }
        };
        match *kind {
            kind if kind == BoundKind::Unbounded as i32 => Ok(StdBound::Unbounded),
            kind if kind == BoundKind::Included as i32 => key().map(StdBound::Included),
            kind if kind == BoundKind::Excluded as i32 => key().map(StdBound::Excluded),
            kind => Err(CallFailure::new(
                Code::Argument,
                format!("{what}: {kind} is not a kind of bound; it must be 0, 1 or 2"),
            )),
        }
    }
}
