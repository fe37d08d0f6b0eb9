//! The open admin connections. If there are too many, the connection that has been idle for longest
//! makes room, so idle connections of a local client cannot keep an operator out.
//!
//! A connection is idle while the server waits for the client: for a head, or for a body. It is
//! busy while the server works on a request and while it streams the answer. But a client that
//! stops reading a streamed answer, or has received its last piece, counts as idle after
//! [`ADMIN_IDLE_MS_MAX`]. An answer in one piece has no such grace time: if its client has not read
//! it when another connection needs the place, the rest of the answer is lost.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::task::AbortHandle;

use crate::clock;
use crate::limits::ADMIN_IDLE_MS_MAX;

/// The open connections, and the list of those that can be displaced.
#[derive(Debug)]
pub(super) struct OpenConnections {
    max: usize,
    idle: RefCell<VecDeque<IdlePlace>>,
    open_count: Cell<usize>,
    next_number: Cell<u64>,
}

#[derive(Debug)]
struct IdlePlace {
    number: u64,
    task: AbortHandle,
    /// The time from which the connection is idle; in the future for a streamed answer.
    from_ms: u64,
}

/// One open connection. Dropping it frees its place.
#[derive(Debug)]
pub(super) struct OpenConnection {
    all: Rc<OpenConnections>,
    number: u64,
    task: RefCell<Option<AbortHandle>>,
}

/// A request in progress. Dropping it makes its connection idle.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    connection: Rc<OpenConnection>,
    /// Whether the answer is streamed. After the end of a streamed answer, the connection keeps its
    /// place for another [`ADMIN_IDLE_MS_MAX`].
    is_streamed: Cell<bool>,
}

/// The result of asking for a place.
#[derive(Debug)]
pub(super) enum Admission {
    /// There is a place.
    Free(OpenConnection),
    /// There is a place, because an idle connection was closed.
    Displaced(OpenConnection),
    /// No connection is idle.
    Full,
}

impl OpenConnections {
    pub(super) fn new(max: usize) -> Rc<OpenConnections> {
        Rc::new(OpenConnections {
            max,
            idle: RefCell::default(),
            open_count: Cell::new(0),
            next_number: Cell::new(0),
        })
    }

    /// Takes a place for a new connection. If no place is free, closes the connection that has been
    /// idle for longest.
    pub(super) fn admit(self: &Rc<Self>) -> Admission {
        self.admit_at(clock::monotonic_ms())
    }

    fn admit_at(self: &Rc<Self>, now_ms: u64) -> Admission {
        let is_full = self.open_count.get() >= self.max;
        if is_full {
            let Some(oldest) = self.take_idle(now_ms) else {
                return Admission::Full;
            };
            // The aborted task frees its place when it is dropped, which happens soon.
            oldest.task.abort();
        }
        self.open_count.update(|count| count + 1);
        self.next_number.update(|number| number + 1);
        let connection = OpenConnection {
            all: Rc::clone(self),
            number: self.next_number.get(),
            task: RefCell::default(),
        };
        if is_full { Admission::Displaced(connection) } else { Admission::Free(connection) }
    }

    /// Waits until displaced connections are closed, so that a burst of new ones cannot open more
    /// than the maximum.
    pub(super) async fn close_displaced(&self) {
        while self.open_count.get() > self.max {
            tokio::task::yield_now().await;
        }
    }

    /// Removes the connection that has been idle for longest from the list of idle connections.
    fn take_idle(&self, now_ms: u64) -> Option<IdlePlace> {
        let mut idle = self.idle.borrow_mut();
        let candidates = idle.iter().enumerate().filter(|(_, place)| place.from_ms <= now_ms);
        let (index, _) = candidates.min_by_key(|(_, place)| place.from_ms)?;
        idle.remove(index)
    }
}

impl OpenConnection {
    /// Sets the task that serves the connection. The connection is idle until its first request.
    pub(super) fn serve_by(&self, task: AbortHandle) {
        self.task.replace(Some(task));
        self.become_idle(clock::monotonic_ms());
    }

    /// Marks the connection as busy until the result is dropped.
    pub(super) fn begin_request(self: &Rc<Self>) -> ActiveRequest {
        self.leave_idle();
        ActiveRequest { connection: Rc::clone(self), is_streamed: Cell::new(false) }
    }

    fn become_idle(&self, from_ms: u64) {
        self.leave_idle();
        if let Some(task) = &*self.task.borrow() {
            let idle = IdlePlace { number: self.number, task: task.clone(), from_ms };
            self.all.idle.borrow_mut().push_back(idle);
        }
    }

    fn leave_idle(&self) {
        self.all.idle.borrow_mut().retain(|idle| idle.number != self.number);
    }
}

impl ActiveRequest {
    /// Waits for a part of the request. The connection is idle until the part has arrived.
    pub(super) async fn receive<T>(&self, part: impl Future<Output = T>) -> T {
        self.connection.become_idle(clock::monotonic_ms());
        let part = part.await;
        self.connection.leave_idle();
        part
    }

    /// Records that the connection has taken a piece of a streamed answer. If it takes no further
    /// piece within the idle time, the client is not reading.
    pub(super) fn note_progress(&self) {
        self.is_streamed.set(true);
        self.connection.become_idle(clock::monotonic_ms() + ADMIN_IDLE_MS_MAX);
    }

    /// Records that the connection waits for the server to make the next piece of a streamed
    /// answer.
    pub(super) fn note_work(&self) {
        self.is_streamed.set(true);
        self.connection.leave_idle();
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let grace_ms = if self.is_streamed.get() { ADMIN_IDLE_MS_MAX } else { 0 };
        self.connection.become_idle(clock::monotonic_ms() + grace_ms);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.leave_idle();
        self.all.open_count.update(|count| count - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// Opens a connection, and calls `begin` in the connection's task, which then waits forever.
    fn open<T: 'static>(
        all: &Rc<OpenConnections>,
        now_ms: u64,
        begin: impl FnOnce(&Rc<OpenConnection>) -> T,
    ) -> bool {
        let (Admission::Free(place) | Admission::Displaced(place)) = all.admit_at(now_ms) else {
            return false;
        };
        let place = Rc::new(place);
        let of_task = Rc::clone(&place);
        let (begun, has_begun) = (Rc::new(Cell::new(None)), Rc::clone(&place));
        let state = Rc::clone(&begun);
        let task = tokio::task::spawn_local(async move {
            let _parts = (of_task, state);
            pending::<()>().await;
        });
        place.serve_by(task.abort_handle());
        begun.set(Some(begin(&has_begun)));
        true
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), test);
    }

    #[test]
    fn a_burst_of_connections_opens_no_more_than_the_maximum() {
        run(async {
            let all = OpenConnections::new(4);
            for _ in 0..64 {
                assert!(open(&all, clock::monotonic_ms(), |_| ()));
                all.close_displaced().await;
                assert!(all.open_count.get() <= 4, "{}", all.open_count.get());
            }
        });
    }

    #[test]
    fn a_streamed_answer_can_be_displaced_once_its_client_has_stopped_reading() {
        run(async {
            let all = OpenConnections::new(1);
            let started_ms = clock::monotonic_ms();
            assert!(open(&all, started_ms, |place| {
                let request = place.begin_request();
                request.note_progress();
                request
            }));
            assert!(!open(&all, started_ms + ADMIN_IDLE_MS_MAX - 1, |_| ()), "it is busy");
            assert!(open(&all, clock::monotonic_ms() + ADMIN_IDLE_MS_MAX, |_| ()));
        });
    }

    #[test]
    fn a_streamed_answer_is_busy_while_the_server_makes_it_and_its_end_has_time_to_leave() {
        run(async {
            let all = OpenConnections::new(1);
            let late_ms = clock::monotonic_ms() + 100 * ADMIN_IDLE_MS_MAX;
            assert!(open(&all, clock::monotonic_ms(), |place| {
                let request = place.begin_request();
                request.note_progress();
                request.note_work();
                request
            }));
            assert!(!open(&all, late_ms, |_| ()), "the server makes the answer");

            let all = OpenConnections::new(1);
            assert!(open(&all, clock::monotonic_ms(), |place| {
                place.begin_request().note_progress();
            }));
            assert!(!open(&all, clock::monotonic_ms(), |_| ()), "the end may still be on its way");
            assert!(open(&all, late_ms, |_| ()));
        });
    }

    #[test]
    fn a_connection_is_idle_while_a_part_of_its_request_is_missing() {
        run(async {
            let all = OpenConnections::new(1);
            assert!(open(&all, clock::monotonic_ms(), OpenConnection::begin_request));
            assert!(!open(&all, clock::monotonic_ms(), |_| ()), "a request is in progress");

            let all = OpenConnections::new(1);
            assert!(open(&all, clock::monotonic_ms(), |place| {
                let request = place.begin_request();
                tokio::task::spawn_local(async move { request.receive(pending::<()>()).await })
            }));
            tokio::task::yield_now().await;
            assert!(open(&all, clock::monotonic_ms(), |_| ()), "the part has not arrived");
        });
    }
}
