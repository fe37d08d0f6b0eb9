//! Ordered maps in shared memory for C and languages that call C: the functions that
//! `include/forebay_ordmap.h` declares. `docs/ordmap.md` shows how to use them.
//!
//! `forebay_ordmap` does the work; this crate turns pointers into references, results into codes,
//! and lifetimes into rules that the documentation of each function states.
//!
//! Invariants:
//! - No panic unwinds into the caller: [`failure::guard`] surrounds every body that could panic.
//! - Every pointer is checked for null before use, and every length against the largest size that
//!   an object can have.
//! - A handle keeps its parent objects alive, so handles may be closed in any order.
//! - Within a major version of the ABI, numbers of codes, functions and the existing fields of
//!   structs do not change; a struct grows only at its end, and its first field is its size.
#![deny(missing_docs)]

// The header has the functions in the order of these modules.
mod abi;

mod code;
mod failure;

mod bytes;

mod region;

mod participant;

mod map;

mod entry;

mod change;

mod cursor;

mod range;
mod scan;
mod stats;

mod handle;
mod sized;

pub use abi::*;
pub use bytes::{AbiBound, AbiBytes, AbiItem, BoundKind};
pub use change::*;
pub use code::{Code, CodeSide, forebay_code_side, forebay_code_text};
pub use cursor::*;
pub use entry::*;
pub use failure::forebay_last_message;
pub use map::*;
pub use participant::*;
pub use range::*;
pub use region::*;
pub use scan::*;
pub use stats::*;

/// Makes doctests of the Rust code in `docs/ordmap.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/ordmap.md")]
struct Page;
