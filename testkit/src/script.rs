//! Scripts of an origin: the steps of one response, and gates that synchronise them with the test.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::clock::PATIENCE;

/// A gate between a script and a test: one side waits until the other side opens the gate. An open
/// gate stays open.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Makes a closed gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        *locked(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Whether the gate is open.
    pub fn is_open(&self) -> bool {
        *locked(&self.0.0)
    }

    /// Waits until the gate is open. Returns `false` if [`PATIENCE`] runs out first.
    pub fn wait(&self) -> bool {
        let is_closed = |open: &mut bool| !*open;
        let waited = self.0.1.wait_timeout_while(locked(&self.0.0), PATIENCE, is_closed);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// One step of a script.
#[derive(Clone, Debug)]
pub enum Step {
    /// Waits until the request body is whole. A script that answers early does not begin with this
    /// step.
    ReadBody,
    /// Sends these bytes as they are.
    Send(Vec<u8>),
    /// Waits until the test opens the gate.
    Wait(Gate),
    /// Opens a gate at which the test waits.
    Open(Gate),
    /// Ends the connection after the bytes sent so far (FIN).
    Close,
    /// Resets the connection.
    Reset,
    /// Sends nothing more, and keeps the connection until the proxy closes it.
    Stall,
}

/// The steps of the origin for one request. The connection stays open unless a step ends it.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The steps in order.
    pub steps: Vec<Step>,
}

impl Script {
    /// A script that reads the whole request, then runs the appended steps.
    pub fn new() -> Script {
        Script { steps: vec![Step::ReadBody] }
    }

    /// A script that runs the appended steps as soon as the request head has arrived.
    pub fn early() -> Script {
        Script::default()
    }

    /// A script that sends a well-formed response with Content-Length. `fields` are whole lines;
    /// `status` is the code and the reason.
    pub fn answer(status: &str, fields: &[&str], body: &[u8]) -> Script {
        Script::new().send(answer_head(status, fields, body.len())).send(body)
    }

    /// Appends a step that sends these bytes.
    pub fn send(self, bytes: impl AsRef<[u8]>) -> Script {
        self.step(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Appends a step that waits for a gate.
    pub fn wait(self, gate: &Gate) -> Script {
        self.step(Step::Wait(gate.clone()))
    }

    /// Appends a step that opens a gate.
    pub fn open(self, gate: &Gate) -> Script {
        self.step(Step::Open(gate.clone()))
    }

    /// Appends a step that ends the connection.
    pub fn close(self) -> Script {
        self.step(Step::Close)
    }

    /// Appends a step that resets the connection.
    pub fn reset(self) -> Script {
        self.step(Step::Reset)
    }

    /// Appends a step that sends nothing more.
    pub fn stall(self) -> Script {
        self.step(Step::Stall)
    }

    /// Appends a step.
    pub fn step(mut self, step: Step) -> Script {
        self.steps.push(step);
        self
    }
}

/// Returns the head of a well-formed response whose body has `length` bytes.
pub fn answer_head(status: &str, fields: &[&str], length: usize) -> String {
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n");
    for field in fields {
        head.push_str(field);
        head.push_str("\r\n");
    }
    head + "\r\n"
}

/// Locks the mutex even if a thread panicked while it held it: that thread's test has failed
/// already.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
