//! A library that is preloaded into a program, so that what happens at its locks is recorded.
//!
//! It stands in for the functions of the C library that take and leave locks, calls them, and
//! records what came of it into a profile (`docs/format/locks.md`), a file of its own for each
//! process. `forebay locks record` does the preloading; the environment says where the file is to
//! be and how much of everything (`settings.rs`).
//!
//! | file | holds |
//! |---|---|
//! | `hooks/` | the functions that stand in, and where each goes on to |
//! | `real.rs` | the functions that they stand in for |
//! | `record.rs` | an attempt, a hold, a sleep: step by step |
//! | `call_site.rs`, `stack.rs` | where a lock is taken: the callers |
//! | `thread.rs` | what belongs to one thread: its recorder, its stack |
//! | `process.rs`, `file.rs` | what belongs to the process: the profile and its file |
//! | `modules.rs`, `proc.rs` | what lies where in memory; reading what the system says of us |
//! | `calls.rs`, `errno.rs` | when system calls may be made, and what they must not change |
//! | `settings.rs` | what the environment asks for |
//!
//! Invariants:
//! - A program does what it would do without us: the same results, the same errno, no signal, no
//!   descriptor, no child.
//! - A hook allocates nothing and takes no lock, but the one that it is asked for. What is large is
//!   mapped, once a process.
//! - A hook that runs within a hook (in a signal handler, or because the real function or the
//!   system's allocator takes a lock) only goes on to the real function.
#![deny(missing_docs)]

mod call_site;
mod calls;
mod errno;
mod file;
mod hooks;
mod modules;
mod proc;
mod process;
mod real;
mod record;
mod settings;
mod stack;
mod thread;
