//! Reading a profile: a look at a moment, while its program runs or long after.
//!
//! Invariants:
//! - Nothing that is read is believed: no number leads out of the profile, and none to a panic.
//! - Memory is taken for what is there, not for what a header says: a text is kept once, and what
//!   is empty is not kept.

mod decode;
mod error;
mod plain;
mod snapshot;
mod text;
mod words;

use std::io;

pub use error::{ProfileError, ProfileErrorKind};
pub use plain::plain_text;
pub use snapshot::{
    LockNow, ModuleRead, PairRead, PairTotals, ProfileControl, ProfileHeader, ProfileSnapshot,
    SampleRead, SharedCounts, SiteRead, SiteTotals, StackRead, ThreadCounts, ThreadNow, ThreadRead,
};

/// Bytes of a profile, wherever they are.
pub trait ProfileBytes {
    /// How many there are.
    fn byte_count(&self) -> u64;

    /// Fills `out` from `offset` on.
    ///
    /// # Errors
    /// They can't be read, or end before.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

impl ProfileBytes for [u8] {
    fn byte_count(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        let from = from.and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
