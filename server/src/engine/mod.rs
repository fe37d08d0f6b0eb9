//! The life of a server and its threads: start, reload, upgrade, stop.
//!
//! Each worker is a pinned thread with its own event loop, listener, origin connections and
//! counters. One more thread, the control thread, handles signals and serves the admin interface.
//! It controls a worker only by commands, which the worker takes between two turns of its loop.

mod acme;
mod admin_address;
mod attach_store;
mod certificates;
mod cgroup;
mod control;
mod cpus;
mod file_watch;
mod files;
mod lock_profile;
mod privileges;
mod process_names;
mod reload;
mod resources;
mod runtime_paths;
mod services;
mod signals;
mod start;
mod start_error;
mod trial;
mod upgrade;
mod watchdog;
mod worker_group;
mod worker_thread;

pub use crate::fetch::Resolver;
pub use cgroup::MemoryLimit;
pub(crate) use control::Control;
pub use control::Hooks;
pub(crate) use cpus::allowed as allowed_cpus;
pub(crate) use lock_profile::has_room_for_stacks;
pub use privileges::restrict_privileges;
pub(crate) use runtime_paths::AdminAcceptor;
pub use runtime_paths::{AdminEndpoint, admin_socket, runtime_dir, upgrade_socket};
pub use start::{REGION_FILE, Running, Stopper, start, start_with_resolver, upgrade};
pub use start_error::StartError;
pub(crate) use trial::{TrialReport, TrialTerms};
pub use upgrade::UpgradeError;
pub(crate) use worker_group::StuckWorkers;
#[cfg(test)]
pub(crate) use worker_thread::{NewSettings, SettingsSlot, WorkerCommand, work};
