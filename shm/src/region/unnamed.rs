//! A region that gets its name later, when the process that uses the current file hands over.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::RegionError;
use super::place::{DirLock, RegionPath};

/// The pending name of a region. As long as this value lives, no other process can make or replace
/// a region in the directory. Dropping the value removes a file that was made and not named.
#[derive(Debug)]
#[must_use = "without a name the region ends with the process"]
pub struct UnnamedRegion {
    /// `None` for a region that already has its name.
    made: Option<PendingFile>,
}

/// A complete file that still has its temporary name.
#[derive(Debug)]
struct PendingFile {
    path: PathBuf,
    dir: Arc<OwnedFd>,
    keep_damaged: bool,
    _lock: DirLock,
}

impl UnnamedRegion {
    /// Makes the value for a region that was found under its name.
    pub(super) fn has_its_name() -> UnnamedRegion {
        UnnamedRegion { made: None }
    }

    /// Makes the pending name of a region that [`RegionPath::make`] has made.
    pub(super) fn made(place: &RegionPath<'_>, keep_damaged: bool, lock: DirLock) -> UnnamedRegion {
        let (path, dir) = (place.path().to_owned(), Arc::clone(&place.dir));
        UnnamedRegion { made: Some(PendingFile { path, dir, keep_damaged, _lock: lock }) }
    }

    /// Gives the region its name. Processes that have mapped the old file keep it. If this fails,
    /// the old file is removed if the system permits, because it is out of date from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub fn name(mut self) -> Result<(), RegionError> {
        let Some(made) = self.made.take() else {
            return Ok(());
        };
        let place = RegionPath::again(&made.path, &made.dir)?;
        let named = place.name_it(made.keep_damaged).map(drop);
        if named.is_err() {
            let _ = place.remove_named();
        }
        named
    }
}

impl Drop for UnnamedRegion {
    fn drop(&mut self) {
        if let Some(made) = &self.made
            && let Ok(place) = RegionPath::again(&made.path, &made.dir)
        {
            place.give_up();
        }
    }
}
