//! The version of the functions and of their arguments.

use crate::code::Code;
use crate::failure::{CallFailure, guard};

/// The major version of the ABI. When it grows, programs have to be compiled again, and may have to
/// be changed.
pub const FOREBAY_ABI_MAJOR: u32 = 2;

/// The minor version of the ABI. It grows when a function, a code or a field is added.
pub const FOREBAY_ABI_MINOR: u32 = 0;

/// The version of the loaded library: major × 65536 + minor.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_abi_version() -> u32 {
    FOREBAY_ABI_MAJOR << 16 | FOREBAY_ABI_MINOR
}

/// Checks whether a program can work with the loaded library. The program passes
/// `FOREBAY_ABI_MAJOR` and `FOREBAY_ABI_MINOR` of the header with which it was compiled.
///
/// `FOREBAY_CODE_VERSION`: the program cannot work with the library.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_abi_check(major: u32, minor: u32) -> Code {
    guard(|| {
        if major == FOREBAY_ABI_MAJOR && (0..=FOREBAY_ABI_MINOR).contains(&minor) {
            return Ok(Code::Ok);
        }
        let message = format!(
            "the program needs version {major}.{minor} of the ABI, the library has \
             {FOREBAY_ABI_MAJOR}.{FOREBAY_ABI_MINOR}"
        );
        Err(CallFailure::new(Code::Version, message))
    })
}

#[cfg(test)]
mod tests {
    use super::{FOREBAY_ABI_MAJOR, FOREBAY_ABI_MINOR, forebay_abi_check};
    use crate::code::Code;

    #[test]
    fn older_programs_of_one_major_version_fit() {
        let (major, minor) = (FOREBAY_ABI_MAJOR, FOREBAY_ABI_MINOR);
        let cases = [
            (major, 0, Code::Ok),
            (major, minor, Code::Ok),
            (major, minor + 1, Code::Version),
            (major + 1, 0, Code::Version),
            (major - 1, minor, Code::Version),
        ];
        for (major, minor, code) in cases {
            assert_eq!(forebay_abi_check(major, minor), code, "{major}.{minor}");
        }
    }
}
