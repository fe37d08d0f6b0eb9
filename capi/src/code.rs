//! What a function answers, and whose matter it is.

use std::ffi::{CStr, c_char};

/// What a function answers: 0 and above, it was done; below 0, it was not, and nothing has changed.
/// The numbers stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// Done; yes.
    Ok = 0,
    /// There is nothing: no such key, or no further entry.
    Absent = 1,
    /// What is there is not what was expected; nothing was changed.
    Differs = 2,

    /// A pointer is null that must not be.
    Null = -1,
    /// An argument breaks a rule.
    Argument = -2,
    /// Program and library do not fit together.
    Version = -3,
    /// The key is longer than any can be.
    KeyTooLong = -4,
    /// The value is longer than any can be.
    ValueTooLong = -5,
    /// No map can have this name.
    Name = -6,
    /// There is no map of this name.
    NoMap = -7,
    /// The memory for the answer is too small.
    Buffer = -8,
    /// The participant has all its leases in use.
    Leases = -9,
    /// The participant is the parent's of this process, which was forked off.
    Forked = -10,

    /// There is no memory left for the map.
    Full = -20,
    /// There are as many maps as there can be.
    MapsFull = -21,
    /// There are as many participants as there can be.
    ParticipantsFull = -22,
    /// The region holds what can not be.
    Damaged = -23,
    /// What is under the path is no region that this library can use.
    Unusable = -24,

    /// Another process kept a lock for the whole time.
    Busy = -30,
    /// The region has other sizes, and others take part in it.
    InUse = -31,

    /// The operating system refused.
    System = -40,
    /// The file system has no room.
    NoSpace = -41,
    /// File or directory belong to, or can be written by, somebody else.
    Permission = -42,

    /// The library has a bug.
    Library = -50,
}

/// Whose matter it is that something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum CodeSide {
    /// Nobody's: it was done.
    None = 0,
    /// The calling program's: called like this, it will fail again.
    Caller = 1,
    /// The region's: its sizes, or what lies in it.
    Region = 2,
    /// Another process's: trying again helps when it goes on.
    Others = 3,
    /// The operating system's.
    System = 4,
    /// This library's: please report it.
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
    (Code::NoMap, CodeSide::Caller, c"caller: there is no map of this name"),
    (Code::Buffer, CodeSide::Caller, c"caller: the output buffer is too small"),
    (
        Code::Leases,
        CodeSide::Caller,
        c"caller: all leases of the participant are in use; release an entry or a cursor",
    ),
    (
        Code::Forked,
        CodeSide::Caller,
        c"caller: the participant belongs to the parent process; the child has to join by itself",
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
        c"another process: it held a lock until the limit; try again, or see if it is stopped",
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
        c"system: other users can access the file or its directory",
    ),
    (Code::Library, CodeSide::Library, c"library: a bug; stop using the participant"),
];

fn row(code: i32) -> Option<&'static (Code, CodeSide, &'static CStr)> {
    TABLE.iter().find(|(other, ..)| *other as i32 == code)
}

/// What a code means, and on which side the cause is. Never null; the text is the library's and
/// stays. Details of one failure, as its path, are in `forebay_last_message`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_code_text(code: i32) -> *const c_char {
    let text = row(code).map_or(c"caller: not a code of this library", |(_, _, text)| text);
    text.as_ptr()
}

/// On which side the cause is; `FOREBAY_SIDE_CALLER` for what is no code.
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
