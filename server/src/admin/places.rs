//! The open admin connections. If there are too many, the one that is idle for longest makes room,
//! so idle connections of a local client cannot keep an operator out.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::task::AbortHandle;

/// The open connections, idle ones in the order in which they became idle.
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
}

/// One open connection. Dropping it gives its place back.
#[derive(Debug)]
pub(super) struct OpenConnection {
    all: Rc<OpenConnections>,
    number: u64,
    task: RefCell<Option<AbortHandle>>,
}

/// A request that is being worked on: its connection is not idle.
#[derive(Debug)]
pub(super) struct ActiveRequest<'a>(&'a OpenConnection);

/// The result of asking for a place.
#[derive(Debug)]
pub(super) enum Admission {
    /// There is a place.
    Free(OpenConnection),
    /// There is a place, because an idle connection was closed.
    Displaced(OpenConnection),
    /// A request is being worked on for each connection.
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

    /// Takes a place for a new connection.
    pub(super) fn admit(self: &Rc<Self>) -> Admission {
        let is_full = self.open_count.get() >= self.max;
        if is_full {
            let Some(oldest) = self.idle.borrow_mut().pop_front() else {
                return Admission::Full;
            };
            // The aborted task gives its place back when it is dropped, soon.
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
}

impl OpenConnection {
    /// Names the task that serves the connection, which is idle until its first request.
    pub(super) fn serve_by(&self, task: AbortHandle) {
        self.task.replace(Some(task));
        self.become_idle();
    }

    /// Marks the connection as busy until the result is dropped.
    pub(super) fn begin_request(&self) -> ActiveRequest<'_> {
        self.leave_idle();
        ActiveRequest(self)
    }

    fn become_idle(&self) {
        if let Some(task) = &*self.task.borrow() {
            let idle = IdlePlace { number: self.number, task: task.clone() };
            self.all.idle.borrow_mut().push_back(idle);
        }
    }

    fn leave_idle(&self) {
        self.all.idle.borrow_mut().retain(|idle| idle.number != self.number);
    }
}

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.0.become_idle();
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.leave_idle();
        self.all.open_count.update(|count| count - 1);
    }
}
