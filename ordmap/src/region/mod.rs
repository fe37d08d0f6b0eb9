//! Regions of maps: their file, who takes part, the names of the maps.

mod check;
mod config;
mod directory;
mod guest;
mod member;
mod open;

pub use check::{CheckReport, Finding};
pub use config::{ConfigError, OrdConfig};
pub(crate) use member::NotLocked;
pub use member::{MapId, MapOptions, Member};
pub(crate) use open::Shared;
pub use open::{MapsError, OpenError, OrdRegion};
