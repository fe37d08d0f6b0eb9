//! Locks with a class.

mod bravo;
mod mutex;

pub use bravo::BravoRwLock;
pub use mutex::{Mutex, MutexGuard};
