//! Regions of maps: their file, who takes part, the names of the maps.

mod check;
mod config;
mod directory;
mod embedded;
mod open;
mod participant;

pub use check::{CheckReport, Finding};
pub use config::{ConfigError, OrdConfig};
pub use embedded::MemoryUsage;
pub(crate) use open::Shared;
pub use open::{MapsError, OpenError, OrdRegion};
pub(crate) use participant::AcquireError;
pub use participant::{MapId, MapOptions, MapParticipant};
