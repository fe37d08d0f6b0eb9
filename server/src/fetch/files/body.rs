//! The body of a file, read in pieces.

use std::fs::File;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::open::{FileVersion, OpenFile, read_piece};
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::origins::OriginPool;
use crate::worker::Worker;

/// The part of a file that is still to be read.
pub(crate) struct FileBody {
    worker: Rc<Worker>,
    pool: Rc<OriginPool>,
    file: Arc<File>,
    version: FileVersion,
    /// The bytes at the start of `left` that have been read already.
    first: Bytes,
    left: Range<u64>,
    /// The cause of the last fault, for the log.
    cause: Option<String>,
}

impl FileBody {
    /// Creates the body that consists of these bytes of a file.
    pub(super) fn new(
        worker: &Rc<Worker>,
        pool: &Rc<OriginPool>,
        open: OpenFile,
        part: Range<u64>,
    ) -> FileBody {
        let OpenFile { file, version, first, .. } = open;
        worker.count_many(Counter::FilesBytes, first.len() as u64);
        FileBody {
            worker: Rc::clone(worker),
            pool: Rc::clone(pool),
            file,
            version,
            // Only a whole file is read when it is opened.
            first: if part.start == 0 { first } else { Bytes::new() },
            left: part,
            cause: None,
        }
    }

    /// Returns the next piece; `None` at the end. If the future is dropped, the next call reads the
    /// same piece.
    ///
    /// # Errors
    /// The file has changed or cannot be read.
    pub(in crate::fetch) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let mut piece = std::mem::take(&mut self.first);
        if piece.is_empty() {
            let (file, version) = (Arc::clone(&self.file), self.version);
            let Range { start, end } = self.left;
            let read = self.pool.readers.run(move || read_piece(&file, &version, start, end));
            let read = read.await.map_err(|_| Fault::FilesBusy)?;
            piece = read.map_err(|(fault, cause)| {
                self.cause = Some(cause);
                fault
            })?;
            self.worker.count_many(Counter::FilesBytes, piece.len() as u64);
        }
        self.left.start += piece.len() as u64;
        Ok(Some(piece))
    }

    /// Takes the cause of the last fault, for the log.
    pub(in crate::fetch) fn take_cause(&mut self) -> Option<String> {
        self.cause.take()
    }
}
