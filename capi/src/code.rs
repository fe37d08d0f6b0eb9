//! The codes that functions return, and the side that caused a failure.

use std::ffi::{CStr, c_char};

/// The result of a function. A code of 0 or above means success; a code below 0 means failure. The
/// numbers are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// The call succeeded, or its answer is yes.
    Ok = 0,
    /// The key does not exist, or there is no further entry.
    Absent = 1,
    /// The value or entry differs from the expected one; nothing changed.
    Differs = 2,

    /// A required pointer is null.
    Null = -1,
    /// An argument is invalid.
    Argument = -2,
    /// The program needs another version of the library.
    Version = -3,
    /// The key is too long.
    KeyTooLong = -4,
    /// The value is too long.
    ValueTooLong = -5,
    /// The name of the map is invalid.
    Name = -6,
    /// No map has this name.
    NoMap = -7,
    /// The output buffer is too small.
    Buffer = -8,
    /// All leases of the participant are in use.
    Leases = -9,
    /// The participant belongs to the parent of this forked process.
    Forked = -10,

    /// The region has no memory left for the map.
    Full = -20,
    /// The region has its maximum number of maps.
    MapsFull = -21,
    /// The region has its maximum number of participants.
    ParticipantsFull = -22,
    /// The region is corrupt.
    Damaged = -23,
    /// The file at the path is not a region that this library can use.
    Unusable = -24,

    /// Another participant held a lock until the time limit.
    Busy = -30,
    /// The region has other sizes, and participants use it.
    InUse = -31,

    /// The operating system returned an error.
    System = -40,
    /// The file system has no space left.
    NoSpace = -41,
    /// Another user owns the file or its directory, or has access to it.
    Permission = -42,

    /// A bug in the library.
    Library = -50,
}

/// The side that caused a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum CodeSide {
    /// No side: the call succeeded.
    None = 0,
    /// The calling program. The same call will fail again.
    Caller = 1,
    /// The region, by its sizes or its contents.
    Region = 2,
    /// Another process. A retry may succeed when that process has continued or ended.
    Others = 3,
    /// The operating system.
    System = 4,
    /// This library. Please report the bug.
    Library = 5,
}

/// Every code, with its side and its text.
const TABLE: &[(Code, CodeSide, &CStr)] = &[
    (Code::Ok, CodeSide::None, c"done"),
    (Code::Absent, CodeSide::None, c"not found: no such key, or no further entry"),
    (
        Code::Differs,
        CodeSide::None,
        c"the value or entry differs from the expected one; nothing changed",
    ),
    (Code::Null, CodeSide::Caller, c"caller: a required pointer is null"),
    (Code::Argument, CodeSide::Caller, c"caller: an argument is invalid"),
    (Code::Version, CodeSide::Caller, c"caller: the program needs another version of the library"),
    (Code::KeyTooLong, CodeSide::Caller, c"caller: the key is too long"),
    (Code::ValueTooLong, CodeSide::Caller, c"caller: the value is too long"),
    (Code::Name, CodeSide::Caller, c"caller: the name of the map is invalid"),
    (Code::NoMap, CodeSide::Caller, c"caller: there is no map with this name"),
    (Code::Buffer, CodeSide::Caller, c"caller: the output buffer is too small"),
    (
        Code::Leases,
        CodeSide::Caller,
        c"caller: all leases of the participant are in use; release an entry or a cursor",
    ),
    (
        Code::Forked,
        CodeSide::Caller,
        c"caller: the participant belongs to the parent process; the child must join the region",
    ),
    (Code::Full, CodeSide::Region, c"region: it has no memory left for the map"),
    (Code::MapsFull, CodeSide::Region, c"region: it has its maximum number of maps"),
    (
        Code::ParticipantsFull,
        CodeSide::Region,
        c"region: it has its maximum number of participants",
    ),
    (Code::Damaged, CodeSide::Region, c"region: it is corrupt; stop using it"),
    (Code::Unusable, CodeSide::Region, c"region: this library cannot use the file at this path"),
    (
        Code::Busy,
        CodeSide::Others,
        c"another process: it held a lock for too long; try again, or check if it is stopped",
    ),
    (
        Code::InUse,
        CodeSide::Others,
        c"another process: it uses the region with other sizes; attach to the region instead",
    ),
    (Code::System, CodeSide::System, c"system: the operating system returned an error"),
    (Code::NoSpace, CodeSide::System, c"system: the file system has no space for the region"),
    (
        Code::Permission,
        CodeSide::System,
        c"system: another user owns or can access the file or its directory",
    ),
    (Code::Library, CodeSide::Library, c"library: it has a bug; stop using the participant"),
];

fn row(code: i32) -> Option<&'static (Code, CodeSide, &'static CStr)> {
    TABLE.iter().find(|(other, ..)| *other as i32 == code)
}

/// The text of a code; the text of a failure begins with the side that caused it. Never null; the
/// string is static. `forebay_last_message` has the details of a failure, such as the path.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_code_text(code: i32) -> *const c_char {
    let text = row(code).map_or(c"caller: not a code of this library", |(_, _, text)| text);
    text.as_ptr()
}

/// The side of a code; `FOREBAY_SIDE_CALLER` for a number that is not a code.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_code_side(code: i32) -> CodeSide {
    row(code).map_or(CodeSide::Caller, |(_, side, _)| *side)
}

#[cfg(test)]
mod tests {
    use super::{Code, CodeSide, TABLE};

    #[test]
    fn every_code_says_its_side() {
        for (code, side, text) in TABLE {
            let begins = match side {
                CodeSide::None => None,
                CodeSide::Caller => Some("caller: "),
                CodeSide::Region => Some("region: "),
                CodeSide::Others => Some("another process: "),
                CodeSide::System => Some("system: "),
                CodeSide::Library => Some("library: "),
            };
            let text = text.to_str().unwrap();
            assert!(begins.is_none_or(|begins| text.starts_with(begins)), "{code:?}: {text}");
            assert_eq!(*code as i32 >= 0, *side == CodeSide::None, "{code:?}");
        }
        let source = include_str!("code.rs");
        let declared = source.lines().take_while(|line| !line.contains("enum CodeSide"));
        let declared = declared.filter(|line| line.contains(" = ") && line.ends_with(','));
        assert_eq!(declared.count(), TABLE.len(), "a code has no text");
        let number_of =
            |code: &Code| TABLE.iter().filter(|row| row.0 as i32 == *code as i32).count();
        assert!(TABLE.iter().all(|(code, ..)| number_of(code) == 1), "a code is there twice");
    }
}
