//! The trace of a request in progress.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use forebay_http::policy::cache_status::{CacheName, CacheStatus};

use super::record::TraceRecord;
use super::step::RequestStep;
use super::tracer::Tracer;
use crate::clock;
use crate::log::AccessEntry;

/// A handle to the trace of a request; empty if no tracer has selected the request. The request has
/// one handle, and the fetch that it starts has another. The record is sent when the last handle is
/// dropped.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    open: Option<Rc<OpenTrace>>,
    /// The last answer of an origin, for the access log; `None` if the request is not logged.
    answered: Option<Rc<RefCell<Option<AnsweredBy>>>>,
}

/// The origin that answered a request.
#[derive(Clone, Debug)]
pub(crate) struct AnsweredBy {
    pub(crate) origin: Box<str>,
    /// The version of HTTP that the origin spoke.
    pub(crate) version: http::Version,
    /// The time from sending the request until the head of the answer arrived.
    pub(crate) took_us: u64,
}

struct OpenTrace {
    /// `None` once the record is sent.
    record: RefCell<Option<TraceRecord>>,
    tracers: Vec<Arc<Tracer>>,
}

impl Trace {
    /// Begins the trace of a request for the tracers that have selected it.
    pub(super) fn begin(entry: AccessEntry, tracers: Vec<Arc<Tracer>>) -> Trace {
        let record = RefCell::new(Some(TraceRecord::new(entry)));
        let open = Some(Rc::new(OpenTrace { record, tracers }));
        let trace = Trace { open, answered: None };
        trace.step(|| RequestStep::Request);
        trace
    }

    /// Adds a step. Without a tracer, this call only tests an `Option`, and does not create the
    /// step.
    #[inline]
    pub(crate) fn step(&self, step: impl FnOnce() -> RequestStep) {
        if let Some(open) = &self.open {
            open.add(step());
        }
    }

    /// Makes this trace record, for the access log, which origin answered and how long that took.
    pub(crate) fn keep_answer(&mut self) {
        self.answered = Some(Rc::default());
    }

    /// Records which origin has answered, and how long that took, if the request is logged.
    pub(crate) fn note_answer(&self, origin: &str, version: http::Version, took_us: u64) {
        if let Some(answered) = &self.answered {
            *answered.borrow_mut() = Some(AnsweredBy { origin: origin.into(), version, took_us });
        }
    }

    /// Returns the origin that has answered the request or the fetch that it started.
    pub(crate) fn answered(&self) -> Option<AnsweredBy> {
        self.answered.as_ref()?.borrow().clone()
    }

    /// Records the result of a response that is complete or has broken off.
    pub(crate) fn end(&self, status: u16, body_bytes: u64, cache: (&CacheStatus, &CacheName)) {
        let Some(open) = &self.open else { return };
        if let Some(record) = &mut *open.record.borrow_mut() {
            record.entry.end(status, body_bytes, cache);
        }
        open.add(RequestStep::End);
    }
}

impl OpenTrace {
    fn add(&self, step: RequestStep) {
        if let Some(record) = &mut *self.record.borrow_mut() {
            record.add(clock::monotonic_us(), step);
        }
    }
}

impl Drop for OpenTrace {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            let record = Arc::new(record);
            self.tracers.iter().for_each(|tracer| tracer.send(&record));
        }
    }
}
