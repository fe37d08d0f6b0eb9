//! A library that is preloaded into a program to record the use of the program's locks.
//!
//! The library replaces the functions of the C library that take and release locks. A replacement
//! calls the real function and records the result into a profile (`docs/format/locks.md`), one file
//! for each process. `forebay locks record` preloads the library; environment variables name the
//! file and its sizes (`settings.rs`).
//!
//! | file | holds |
//! |---|---|
//! | `hooks/` | the replacements, and the real function that each calls |
//! | `real.rs` | the real functions |
//! | `record.rs` | an attempt, a hold, a wait on a condition: step by step |
//! | `call_site.rs`, `stack.rs` | the call site of a lock: its callers |
//! | `thread.rs` | the state of a thread: its recorder, its stack |
//! | `process.rs`, `file.rs` | the state of the process: the profile and its file |
//! | `modules.rs`, `proc.rs` | the modules in memory; reading `/proc` |
//! | `calls.rs`, `errno.rs` | permits for system calls; preserving `errno` |
//! | `settings.rs` | the settings in the environment |
//!
//! Invariants:
//! - A program behaves as without the library: it sees the same results and the same errno, and no
//!   additional signals, open files or children.
//! - A hook allocates nothing and takes no lock except the one that it is called for. Large memory
//!   is mapped, once per process.
//! - A hook that runs within a hook (in a signal handler, or because the real function or the
//!   system's allocator takes a lock) only calls the real function.
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
