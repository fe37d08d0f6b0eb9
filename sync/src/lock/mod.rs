//! Locks with a class.

mod mutex;

pub use mutex::{Mutex, MutexGuard};
