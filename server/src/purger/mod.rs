//! The thread that purges by host, prefix and tags. Such a purge walks over every record that it
//! removes, which may be the whole cache, so it must not run on a worker or the control thread. The
//! thread runs one job after the other.

mod handle;
mod job;
mod kinds;
mod thread;

pub(crate) use handle::{PurgeError, PurgeEvent, PurgeHandle, PurgeWork};
pub(crate) use kinds::{PurgeKind, PurgeKinds};
pub(crate) use thread::{Purger, PurgerThread};

#[cfg(test)]
mod inline;
#[cfg(test)]
pub(crate) use inline::InlinePurger;

#[cfg(test)]
mod tests;
