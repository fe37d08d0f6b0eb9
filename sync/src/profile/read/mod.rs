//! Reading a profile into a snapshot, while its program runs or after it has ended.
//!
//! Invariants:
//! - Nothing that is read is trusted: no number in a profile causes a read beyond the profile, or a
//!   panic.
//! - The memory of a snapshot grows with the contents of the profile, not with the counts in its
//!   header: each text is kept once, and empty rows are not kept.

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

/// Access to the bytes of a profile, in memory or in a file.
pub trait ProfileBytes {
    /// The number of bytes.
    fn byte_count(&self) -> u64;

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// Fails if the bytes cannot be read, or if they end before `out` is full.
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
