//! The control thread's view of the workers: commands to all of them, and their replies.
//!
//! A worker that is stuck does not reply, so every wait for replies has a time limit. Without it,
//! one worker could block reloads, upgrades and the admin interface.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::watchdog::{Watchdog, WorkerChange};
use super::worker_thread::{WorkerCommand, WorkerThread};
use crate::limits::WORKER_REPLY_MS_MAX;

/// The workers of this process, in the order of their numbers, and their watchdog.
pub(super) struct WorkerGroup {
    threads: RefCell<Vec<WorkerThread>>,
    watchdog: RefCell<Watchdog>,
}

impl WorkerGroup {
    pub(super) fn new(threads: Vec<WorkerThread>) -> WorkerGroup {
        let marks = threads.iter().map(|worker| Arc::clone(&worker.mark));
        let watchdog = RefCell::new(Watchdog::new(marks));
        WorkerGroup { watchdog, threads: RefCell::new(threads) }
    }

    /// Returns the number of workers; 0 once the server stops.
    pub(super) fn count(&self) -> usize {
        self.threads.borrow().len()
    }

    /// Calls `visit` with each worker.
    pub(super) fn each(&self, visit: impl FnMut(&WorkerThread)) {
        self.threads.borrow().iter().for_each(visit);
    }

    /// Removes and returns the workers, for the stop.
    pub(super) fn take(&self) -> Vec<WorkerThread> {
        self.threads.take()
    }

    /// Compares the workers' turns with their turns at the last call, one interval ago. Returns the
    /// changes.
    pub(super) fn watch(&self) -> Vec<WorkerChange> {
        self.watchdog.borrow_mut().check()
    }

    /// Returns the workers whose event loop does not run.
    pub(super) fn stuck(&self) -> StuckWorkers {
        StuckWorkers(self.watchdog.borrow().stuck())
    }

    /// Sends each worker the command that `command` makes for it. A worker that is stuck executes
    /// it once it runs again.
    pub(super) fn tell<T>(
        &self,
        mut command: impl FnMut(&WorkerThread, oneshot::Sender<T>) -> WorkerCommand,
    ) -> Replies<T> {
        self.send(|worker, reply, _| Some(command(worker, reply)))
    }

    /// Sends each worker the command that `command` makes, except stuck workers, because their
    /// queues of commands would grow.
    pub(super) fn ask<T>(
        &self,
        command: impl Fn(oneshot::Sender<T>) -> WorkerCommand,
    ) -> Replies<T> {
        self.send(|_, reply, is_stuck| (!is_stuck).then(|| command(reply)))
    }

    /// Sends the command that `command` makes to the first worker that is not stuck.
    pub(super) fn ask_one<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> WorkerCommand,
    ) -> Replies<T> {
        let mut command = Some(command);
        self.send(|_, reply, is_stuck| {
            let command = if is_stuck { None } else { command.take() };
            command.map(|command| command(reply))
        })
    }

    fn send<T>(
        &self,
        mut command: impl FnMut(&WorkerThread, oneshot::Sender<T>, bool) -> Option<WorkerCommand>,
    ) -> Replies<T> {
        let stuck = self.stuck();
        let mut replies = Replies { awaited: Vec::new(), late: Vec::new() };
        for (number, worker) in self.threads.borrow().iter().enumerate() {
            let (reply, replied) = oneshot::channel();
            let is_stuck = stuck.0.contains(&number);
            let sent = command(worker, reply, is_stuck).map(|sent| worker.commands.send(sent));
            match sent {
                _ if is_stuck => replies.late.push((number, replied)),
                Some(Ok(())) => replies.awaited.push((number, replied)),
                // The worker has ended, so it has nothing to reply.
                _ => {}
            }
        }
        replies
    }
}

/// Replies of workers to one command.
pub(super) struct Replies<T> {
    awaited: LateReplies<T>,
    /// Workers that were already stuck before the command, and are not waited for.
    late: LateReplies<T>,
}

/// The replies that have not arrived, with the numbers of their workers.
pub(super) type LateReplies<T> = Vec<(usize, oneshot::Receiver<T>)>;

impl<T> Replies<T> {
    /// Waits for the replies, at most `WORKER_REPLY_MS_MAX` for all of them. Returns the replies
    /// that arrived, and the workers that did not reply. A worker that has ended is in neither.
    pub(super) async fn wait(self) -> (Vec<T>, StuckWorkers) {
        let (came, late) = self.wait_or_keep().await;
        (came, StuckWorkers(late.into_iter().map(|(number, _)| number).collect()))
    }

    /// Waits like [`Replies::wait`]. Returns the replies that arrived, and those that may arrive
    /// later, in the order of the workers.
    pub(super) async fn wait_or_keep(self) -> (Vec<T>, LateReplies<T>) {
        let deadline = Instant::now() + Duration::from_millis(WORKER_REPLY_MS_MAX);
        let (mut came, mut late) = (Vec::new(), self.late);
        for (number, mut replied) in self.awaited {
            match timeout_at(deadline, &mut replied).await {
                Ok(reply) => came.extend(reply),
                Err(_) => late.push((number, replied)),
            }
        }
        late.sort_unstable_by_key(|(number, _)| *number);
        (came, late)
    }
}

/// The numbers of the workers that do not reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StuckWorkers(pub(crate) Vec<usize>);

impl StuckWorkers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes which workers are stuck, such as `worker 3 is stuck`; writes nothing if none is.
impl std::fmt::Display for StuckWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers = self.0.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        match self.0.len() {
            0 => Ok(()),
            1 => write!(f, "worker {numbers} is stuck"),
            _ => write!(f, "workers {numbers} are stuck"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn replies_are_awaited_for_a_limited_time_and_those_that_came_count() {
        let (first, second, third) = (oneshot::channel(), oneshot::channel(), oneshot::channel());
        let stuck = oneshot::channel();
        first.0.send(7).expect("it is awaited");
        drop(third.0);
        let awaited = vec![(0, first.1), (2, second.1), (3, third.1)];
        let (came, stuck) = Replies { awaited, late: vec![(1, stuck.1)] }.wait().await;
        assert_eq!((came, stuck), (vec![7], StuckWorkers(vec![1, 2])));
    }

    #[test]
    fn stuck_workers_are_named() {
        let cases =
            [(vec![], ""), (vec![3], "worker 3 is stuck"), (vec![0, 2], "workers 0, 2 are stuck")];
        for (numbers, expected) in cases {
            assert_eq!(StuckWorkers(numbers).to_string(), expected);
        }
    }
}
