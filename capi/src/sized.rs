//! Structs that grow: they begin with their size, as the caller knows it.

use std::ptr;

use crate::code::Code;
use crate::failure::CallFailure;

/// No struct of a version to come is larger.
const STRUCT_BYTES_MAX: usize = 4096;

/// A struct that grows at its end from one minor version to the next.
///
/// # Safety
/// - It is `repr(C)`, begins with a `usize` that holds its size, and has no padding.
/// - Whatever bytes there are in it, it is valid; zeros stand for what a caller did not know.
pub(crate) unsafe trait SizedStruct: Copy + Default {}

/// The bytes that a struct says to have, by its first word.
///
/// # Safety
/// `require` is null, or its first word can be read.
unsafe fn size_of_given<T: SizedStruct>(
    require: *const T,
    what: &str,
) -> Result<usize, CallFailure> {
    if require.is_null() {
        return Err(CallFailure::null(what));
    }
    // SAFETY: it is not null, and its first word can be read (contract), if not aligned.
    let size = unsafe { ptr::read_unaligned(require.cast::<usize>()) };
    if (size_of::<usize>()..=STRUCT_BYTES_MAX).contains(&size) {
        return Ok(size);
    }
    let message = format!("{what}: struct_bytes is {size}; it is to be the size of the struct");
    Err(CallFailure::new(Code::Argument, message))
}

/// What the caller says. What it does not know is zero; what we do not know has to be.
///
/// # Safety
/// `require` is null, or as many bytes from it on can be read as its first word says.
pub(crate) unsafe fn read<T: SizedStruct>(require: *const T, what: &str) -> Result<T, CallFailure> {
    // SAFETY: the contract is the same.
    let size = unsafe { size_of_given(require, what)? };
    let known = size.min(size_of::<T>());
    for index in known..size {
        // SAFETY: it is among the bytes that can be read (contract).
        let place = unsafe { require.cast::<u8>().add(index) };
        // SAFETY: as above.
        let byte = unsafe { place.read() };
        if byte != 0 {
            let message = format!("{what}: the caller asks for what only a later version knows");
            return Err(CallFailure::new(Code::Version, message));
        }
    }
    let mut read = T::default();
    // SAFETY:
    // - So many bytes can be read there, and written here.
    // - Any bytes are valid for such a struct (contract of `SizedStruct`).
    unsafe { ptr::copy_nonoverlapping(require.cast::<u8>(), (&raw mut read).cast::<u8>(), known) };
    Ok(read)
}

/// Tells the caller what it knows how to read; behind it are zeros. Its `struct_bytes` stays.
///
/// # Safety
/// `place` is null, or as many bytes from it on can be read and written as its first word says.
pub(crate) unsafe fn write<T: SizedStruct>(
    place: *mut T,
    write_required: &T,
    what: &str,
) -> Result<(), CallFailure> {
    // SAFETY: the contract is the same.
    let size = unsafe { size_of_given(place, what)? };
    let mut bytes = [0_u8; STRUCT_BYTES_MAX];
    const { assert!(size_of::<T>() <= STRUCT_BYTES_MAX) };
    // SAFETY: it has so many bytes, all of them initialised (contract of `SizedStruct`).
    unsafe {
        ptr::copy_nonoverlapping(
            (&raw const *write_required).cast(),
            bytes.as_mut_ptr(),
            size_of::<T>(),
        );
    }
    let first = size_of::<usize>();
    let place = place.cast::<u8>();
    // SAFETY: the struct goes on behind its first word.
    let behind = unsafe { place.add(first) };
    // SAFETY: so many bytes can be written there (contract), and `bytes` has more.
    unsafe { ptr::copy_nonoverlapping(bytes[first..].as_ptr(), behind, size - first) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{SizedStruct, read, write};
    use crate::code::Code;
    use crate::failure::guard;

    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    #[repr(C)]
    struct Two {
        struct_bytes: usize,
        first: u64,
        second: u64,
    }

    // SAFETY: three words, any of which may have any value.
    unsafe impl SizedStruct for Two {}

    /// A caller's struct of another version: its size and words behind.
    fn read_of(words: &[u64]) -> Result<Two, Code> {
        let mut two = Err(Code::Ok);
        let code = guard(|| {
            // SAFETY: the cases say no more bytes than there are words.
            two = Ok(unsafe { read(words.as_ptr().cast::<Two>(), "words")? });
            Ok(Code::Ok)
        });
        two.map_err(|_| code)
    }

    #[test]
    fn structs_of_other_versions_are_read_and_written() {
        let is = |first, second| move |two: Two| (two.first, two.second) == (first, second);
        let read_cases: [(&[u64], Result<_, Code>); 6] = [
            (&[24, 7, 8], Ok((7, 8))),
            (&[16, 7, 9], Ok((7, 0))),
            (&[8, 9, 9], Ok((0, 0))),
            (&[32, 7, 8, 0], Ok((7, 8))),
            (&[32, 7, 8, 1], Err(Code::Version)),
            (&[0, 7, 8], Err(Code::Argument)),
        ];
        for (words, expected) in read_cases {
            let found = read_of(words);
            let is_right = match expected {
                Ok((first, second)) => found.is_ok_and(is(first, second)),
                Err(code) => found == Err(code),
            };
            assert!(is_right, "{words:?}: {found:?}");
        }
        let write_required = Two { struct_bytes: 24, first: 7, second: 8 };
        let write_cases: [(u64, [u64; 4]); 4] =
            [(8, [8, 1, 1, 1]), (16, [16, 7, 1, 1]), (24, [24, 7, 8, 1]), (32, [32, 7, 8, 0])];
        for (size, expected) in write_cases {
            let mut words = [size, 1, 1, 1];
            // SAFETY: there are 32 bytes, and no case says more.
            unsafe { write(words.as_mut_ptr().cast::<Two>(), &write_required, "words").unwrap() };
            assert_eq!(words, expected, "{size} bytes");
        }
    }

    #[test]
    fn what_says_no_size_is_refused() {
        assert_eq!(read_of(&[5000]), Err(Code::Argument));
        // SAFETY: null is refused.
        let null = guard(|| unsafe { read::<Two>(std::ptr::null(), "config") }.map(|_| Code::Ok));
        assert_eq!(null, Code::Null);
    }
}
