//! Ordered maps in shared memory for C, and for whatever calls C: the functions that
//! `include/forebay_ordmap.h` declares. `docs/ordmap.md` shows how they are used.
//!
//! What they do is done by `forebay_ordmap`; here pointers become references, results become codes,
//! and lifetimes become rules that the documentation of each function states.
//!
//! Invariants:
//! - Nothing unwinds into the caller: [`failure::guard`] is around every body that could panic.
//! - No pointer is followed before it was compared with null, no length is believed that no memory
//!   can have.
//! - A handle keeps what it was made from: closing handles in any order is right.
//! - Numbers of codes, functions and the beginnings of structs stay what they are within a major
//!   version of the ABI; a struct grows at its end, and says its size first.
#![deny(missing_docs)]

// In the order in which the header has them.
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

/// What the page shows of Rust compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/ordmap.md")]
struct Page;
