//! The threads that open and read the files of one directory for one worker.
//!
//! A file system may block for any time, so a worker never calls it. tokio's threads for blocking
//! work are not used, because tokio panics if it cannot start a thread.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SendError, Sender, channel};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};

use crate::limits::FILE_READERS_MAX;

type Job = Box<dyn FnOnce() + Send>;

/// How long a thread waits for its next job.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Threads that run one job at a time. A thread whose job hangs counts until the job ends, even if
/// the request that waited for it has ended.
#[derive(Debug)]
pub(crate) struct FileReaders {
    room: Arc<Semaphore>,
    /// The threads without a job. A thread ends when its sender is dropped, or after `IDLE_MAX`.
    idle: RefCell<Vec<Sender<Job>>>,
}

impl Default for FileReaders {
    fn default() -> Self {
        FileReaders { room: Arc::new(Semaphore::new(FILE_READERS_MAX)), idle: RefCell::default() }
    }
}

impl FileReaders {
    /// Runs `work` on a thread, once one is free.
    ///
    /// # Errors
    /// No thread could be started.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(io::Error::other)?;
        let (tell, told) = oneshot::channel();
        let job = move || {
            let done = work();
            drop(room);
            // Sending fails if the request has ended.
            let _ = tell.send(done);
        };
        let thread = self.start(Box::new(job))?;
        // If the request ends here, the sender is dropped, and the thread ends after its job.
        let done = told.await.map_err(io::Error::other)?;
        let mut idle = self.idle.borrow_mut();
        if idle.len() < FILE_READERS_MAX {
            idle.push(thread);
        }
        Ok(done)
    }

    /// Gives a job to a thread without one, or to a new thread.
    fn start(&self, mut job: Job) -> io::Result<Sender<Job>> {
        loop {
            let Some(thread) = self.idle.borrow_mut().pop() else { break };
            match thread.send(job) {
                Ok(()) => return Ok(thread),
                // The thread has ended because it had no job for long, or in a panic.
                Err(SendError(unsent)) => job = unsent,
            }
        }
        let (thread, jobs) = channel::<Job>();
        let run = move || {
            while let Ok(job) = jobs.recv_timeout(IDLE_MAX) {
                job();
            }
        };
        std::thread::Builder::new().name("files".to_owned()).spawn(run)?;
        // The new thread waits for its first job, so this does not fail.
        thread.send(job).map_err(|_| io::Error::other("the thread has ended"))?;
        Ok(thread)
    }
}
