//! Structs that may grow. Their first field is the size of the struct in the version that the
//! caller knows.

use std::ptr;

use crate::code::Code;
use crate::failure::CallFailure;

/// An upper bound for the size of a struct in any later version.
const STRUCT_BYTES_MAX: usize = 4096;

/// A struct that grows at its end from one minor version to the next.
///
/// # Safety
/// - The struct is `repr(C)`, begins with a `usize` that holds its size, and has no padding.
/// - The struct is valid whatever its bytes are. Zeros are the values of fields that the caller
///   does not know.
pub(crate) unsafe trait SizedStruct: Copy + Default {}

/// The size of a struct, as its first word states it.
///
/// # Safety
/// `given` is null, or its first word can be read.
unsafe fn size_of_given<T: SizedStruct>(given: *const T, what: &str) -> Result<usize, CallFailure> {
    if given.is_null() {
        return Err(CallFailure::null(what));
    }
    // SAFETY: `given` is not null, and its first word can be read (contract), perhaps unaligned.
    let size = unsafe { ptr::read_unaligned(given.cast::<usize>()) };
    if (size_of::<usize>()..=STRUCT_BYTES_MAX).contains(&size) {
        return Ok(size);
    }
    let message = format!("{what}: struct_bytes is {size}; it must be the size of the struct");
    Err(CallFailure::new(Code::Argument, message))
}

/// Reads a struct of the caller. Fields that the caller does not know are zero; fields that this
/// library does not know must be zero.
///
/// # Safety
/// `given` is null, or points to as many readable bytes as its first word says.
pub(crate) unsafe fn read<T: SizedStruct>(given: *const T, what: &str) -> Result<T, CallFailure> {
    // SAFETY: the caller meets the same contract.
    let size = unsafe { size_of_given(given, what)? };
    let known = size.min(size_of::<T>());
    for index in known..size {
        // SAFETY: the byte is among those that can be read (contract).
        let place = unsafe { given.cast::<u8>().add(index) };
        // SAFETY: the byte is among those that can be read (contract).
        let byte = unsafe { place.read() };
        if byte != 0 {
            let message = format!(
                "{what}: the caller sets a field that only a later version of the library knows"
            );
            return Err(CallFailure::new(Code::Version, message));
        }
    }
    let mut read = T::default();
    // SAFETY:
    // - This many bytes can be read there, and written here.
    // - Any bytes are valid for such a struct (contract of `SizedStruct`).
    unsafe { ptr::copy_nonoverlapping(given.cast::<u8>(), (&raw mut read).cast::<u8>(), known) };
    Ok(read)
}

/// Writes the fields that the caller knows, with zeros for the fields that this library does not
/// know. `struct_bytes` keeps its value.
///
/// # Safety
/// `place` is null, or points to as many readable and writable bytes as its first word says.
pub(crate) unsafe fn write<T: SizedStruct>(
    place: *mut T,
    answer: &T,
    what: &str,
) -> Result<(), CallFailure> {
    // SAFETY: the caller meets the same contract.
    let size = unsafe { size_of_given(place, what)? };
    let mut bytes = [0_u8; STRUCT_BYTES_MAX];
    const { assert!(size_of::<T>() <= STRUCT_BYTES_MAX) };
    // SAFETY: the struct has this many bytes, all initialised (contract of `SizedStruct`).
    unsafe {
        ptr::copy_nonoverlapping((&raw const *answer).cast(), bytes.as_mut_ptr(), size_of::<T>());
    }
    let first = size_of::<usize>();
    let place = place.cast::<u8>();
    // SAFETY: the struct continues behind its first word.
    let behind = unsafe { place.add(first) };
    // SAFETY: this many bytes can be written there (contract), and `bytes` has more.
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

    /// A struct of another version: its size and the following words.
    fn read_of(words: &[u64]) -> Result<Two, Code> {
        let mut two = Err(Code::Ok);
        let code = guard(|| {
            // SAFETY: no case claims more bytes than there are words.
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
        let answer = Two { struct_bytes: 24, first: 7, second: 8 };
        let write_cases: [(u64, [u64; 4]); 4] =
            [(8, [8, 1, 1, 1]), (16, [16, 7, 1, 1]), (24, [24, 7, 8, 1]), (32, [32, 7, 8, 0])];
        for (size, expected) in write_cases {
            let mut words = [size, 1, 1, 1];
            // SAFETY: there are 32 bytes, and no case claims more.
            unsafe { write(words.as_mut_ptr().cast::<Two>(), &answer, "words").unwrap() };
            assert_eq!(words, expected, "{size} bytes");
        }
    }

    #[test]
    fn a_struct_without_a_size_is_refused() {
        assert_eq!(read_of(&[5000]), Err(Code::Argument));
        // SAFETY: null is refused.
        let null = guard(|| unsafe { read::<Two>(std::ptr::null(), "config") }.map(|_| Code::Ok));
        assert_eq!(null, Code::Null);
    }
}
