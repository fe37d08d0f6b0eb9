//! The open traces. The control thread limits their number, and ends them when the server stops.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::watch;

use crate::limits::TRACERS_MAX;

/// The reason why a trace ends although its client still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceEnd {
    /// The client has received as many requests as it asked for.
    Limit,
    /// The server stops.
    Stopping,
    /// Another process serves from now on.
    HandedOver,
}

impl TraceEnd {
    /// Returns the reason as a word, for the client of the trace.
    pub(crate) fn word(self) -> &'static str {
        match self {
            TraceEnd::Limit => "limit",
            TraceEnd::Stopping => "stopping",
            TraceEnd::HandedOver => "handed-over",
        }
    }
}

/// The places for open traces, whose number is limited.
pub(crate) struct TracePlaces {
    open_count: Rc<Cell<usize>>,
    end: watch::Sender<Option<TraceEnd>>,
}

/// The place of one trace. Dropping it frees the place.
pub(crate) struct TracePlace {
    open_count: Rc<Cell<usize>>,
    end: watch::Receiver<Option<TraceEnd>>,
}

impl Default for TracePlaces {
    fn default() -> TracePlaces {
        TracePlaces { open_count: Rc::default(), end: watch::Sender::new(None) }
    }
}

impl TracePlaces {
    /// Takes a place; `None` if all are taken.
    pub(crate) fn take(&self) -> Option<TracePlace> {
        if self.open_count.get() >= TRACERS_MAX {
            return None;
        }
        self.open_count.update(|count| count + 1);
        Some(TracePlace { open_count: Rc::clone(&self.open_count), end: self.end.subscribe() })
    }

    /// Returns the number of open traces.
    pub(crate) fn open_count(&self) -> usize {
        self.open_count.get()
    }

    /// Ends all traces, including those that begin later.
    pub(crate) fn end_all(&self, why: TraceEnd) {
        self.end.send_replace(Some(why));
    }
}

impl TracePlace {
    /// Waits until the server ends its traces.
    pub(crate) async fn ended(&mut self) -> TraceEnd {
        match self.end.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(TraceEnd::Stopping),
            Err(_) => TraceEnd::Stopping,
        }
    }
}

impl Drop for TracePlace {
    fn drop(&mut self) {
        self.open_count.update(|count| count - 1);
    }
}
