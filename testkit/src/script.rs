//! Scripts of an origin: a list of steps for one request, and gates that a test opens.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::clock::PATIENCE;

/// A gate that one side waits at until the other opens it; it stays open.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        *locked(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Whether it has been opened.
    pub fn is_open(&self) -> bool {
        *locked(&self.0.0)
    }

    /// Waits until it is open; `false` if [`PATIENCE`] ran out first.
    pub fn wait(&self) -> bool {
        let is_closed = |open: &mut bool| !*open;
        let waited = self.0.1.wait_timeout_while(locked(&self.0.0), PATIENCE, is_closed);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// One thing that the origin does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Waits until the request body is whole. A script that answers early does not begin with it.
    ReadBody,
    /// Sends these bytes as they are.
    Send(Vec<u8>),
    /// Waits until the test opens the gate.
    Wait(Gate),
    /// Opens a gate that the test waits at.
    Open(Gate),
    /// Ends the connection after the bytes sent so far (FIN).
    Close,
    /// Resets the connection.
    Reset,
    /// Sends nothing more and keeps the connection until the proxy closes it.
    Stall,
}

/// The steps for one request. The connection is kept unless a step ends it.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The steps in order.
    pub steps: Vec<Step>,
}

impl Script {
    /// Reads the whole request, then runs the appended steps.
    pub fn new() -> Script {
        Script { steps: vec![Step::ReadBody] }
    }

    /// Runs the appended steps as soon as the request head has arrived.
    pub fn early() -> Script {
        Script::default()
    }

    /// A well-formed answer with a length. `fields` are whole lines; `status` is code and reason.
    pub fn answer(status: &str, fields: &[&str], body: &[u8]) -> Script {
        Script::new().send(answer_head(status, fields, body.len())).send(body)
    }

    /// Sends these bytes.
    pub fn send(self, bytes: impl AsRef<[u8]>) -> Script {
        self.step(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Waits for a gate.
    pub fn wait(self, gate: &Gate) -> Script {
        self.step(Step::Wait(gate.clone()))
    }

    /// Opens a gate.
    pub fn open(self, gate: &Gate) -> Script {
        self.step(Step::Open(gate.clone()))
    }

    /// Ends the connection.
    pub fn close(self) -> Script {
        self.step(Step::Close)
    }

    /// Resets the connection.
    pub fn reset(self) -> Script {
        self.step(Step::Reset)
    }

    /// Sends nothing more.
    pub fn stall(self) -> Script {
        self.step(Step::Stall)
    }

    /// Appends a step.
    pub fn step(mut self, step: Step) -> Script {
        self.steps.push(step);
        self
    }
}

/// The head of a well-formed answer whose body has `length` bytes.
pub fn answer_head(status: &str, fields: &[&str], length: usize) -> String {
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n");
    for field in fields {
        head.push_str(field);
        head.push_str("\r\n");
    }
    head + "\r\n"
}

/// Locks even if another thread panicked while it held the lock: that test has failed already.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
