//! Changes the fields of a head in place, for rules and native filters.
//!
//! A head that is about to be sent lies at the end of a buffer, as `name: value CRLF` lines.
//! [`FieldEdit`] borrows that buffer. It finds lines by name through an index that is built at the
//! first search, appends new lines at the end, and closes the holes of removed lines in one pass
//! when it ends. The buffer then holds the head to be sent. The index is in an [`EditTable`], which
//! the caller reuses, so that an edit allocates no index.
//!
//! ```
//! use forebay_http::edit::{EditLimits, EditTable, FieldEdit, FieldName, FieldValue};
//!
//! let mut head = b"HTTP/1.1 200 OK\r\nServer: a\r\nVia: b\r\nVia: c\r\n".to_vec();
//! let mut table = EditTable::default();
//! let mut edit = FieldEdit::new(&mut head, 17, &mut table, EditLimits::default());
//! let via = FieldName::parse(b"via").expect("a token");
//! let at = edit.find(&via).expect("it is there");
//! assert_eq!(edit.value(at), b"b");
//! let next = edit.next_duplicate(at).expect("there is another");
//! edit.remove(next);
//! edit.set(&FieldName::parse(b"Server").unwrap(), FieldValue::parse(b"forebay").unwrap())?;
//! edit.finish();
//! assert_eq!(head, b"HTTP/1.1 200 OK\r\nVia: b\r\nServer: forebay\r\n");
//! # Ok::<(), forebay_http::edit::EditError>(())
//! ```
//!
//! Lines of the same name keep their order; lines of different names may change places. A value is
//! parsed before it enters the head, so that no byte of it can end a line. A [`FieldHandle`] stays
//! valid while other lines change. Once its own line is removed, it refers to no line.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod block;
mod fields;
mod index;
mod name;
mod ruled;
mod table;

pub use block::{ConflictingLines, ConstantLine, ConstantLines};
pub use fields::FieldEdit;
pub use index::FieldIndex;
pub use name::{FieldName, FieldValue};
pub use ruled::RuledLines;
pub use table::EditTable;

/// A handle to a field line of a head that is being edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldHandle(u32);

/// Limits of the size of a head.
#[derive(Clone, Copy, Debug)]
pub struct EditLimits {
    /// Largest total size of all field lines in wire form, in bytes.
    pub bytes_max: u32,
    /// Largest number of field lines.
    pub line_count_max: u32,
}

impl Default for EditLimits {
    /// Limits of 64 KiB and 1,000 lines.
    fn default() -> EditLimits {
        EditLimits { bytes_max: 64 * 1024, line_count_max: 1_000 }
    }
}

/// The reason why an edit was refused. The head is unchanged, except that [`FieldEdit::apply_line`]
/// may have removed lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditError {
    /// The head would exceed its limit of lines.
    TooManyFields,
    /// The head would exceed its limit of bytes.
    TooManyBytes,
    /// The line of the handle was removed before.
    Gone,
}

impl std::fmt::Display for EditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EditError::TooManyFields => "the head would have too many fields",
            EditError::TooManyBytes => "the head would be too large",
            EditError::Gone => "the field line was removed",
        })
    }
}

impl std::error::Error for EditError {}

#[cfg(test)]
mod tests;
