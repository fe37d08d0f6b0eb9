//! The thread that purges by host, prefix and tags. Such a purge walks over everything that it
//! takes out, which may be all that is stored: no worker waits for that, nor does the control
//! thread. One purge follows the other.

mod handle;
mod job;
mod thread;

pub(crate) use handle::{PurgeError, PurgeEvent, PurgeHandle, PurgeWork};
pub(crate) use thread::{Purger, PurgerThread};

#[cfg(test)]
mod tests;
