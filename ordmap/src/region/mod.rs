//! Regions of maps: their file, participants, and names of maps.

mod check;
mod config;
mod directory;
mod embedded;
mod open;
mod participant;

pub use check::{CheckReport, MapFinding};
pub use config::{OrdConfig, OrdConfigError};
pub use embedded::MemoryUsage;
pub(crate) use open::SharedRegion;
pub use open::{MapsError, OrdOpenError, OrdRegion};
pub(crate) use participant::AcquireError;
pub use participant::{MapId, MapOptions, MapParticipant};
