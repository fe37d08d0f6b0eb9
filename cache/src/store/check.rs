//! Checking a store while it is used.

use super::store::Store;
use crate::tool::view::View;
use crate::tool::{CheckDepth, Progress, ReadError, Report, check};

impl Store {
    /// Walks over everything and tells what is wrong; others go on meanwhile, and what they are
    /// about to do is not told. See `docs/format/store.md`, "Checking".
    ///
    /// # Errors
    /// The sizes that stand in the region are damaged, so that nothing can be looked at.
    pub fn check(
        &self,
        depth: CheckDepth,
        progress: impl FnMut(Progress),
    ) -> Result<Report, ReadError> {
        let view = View::of(self.shared.region.clone())?;
        Ok(check::check(&view, depth, progress))
    }
}
