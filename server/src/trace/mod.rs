//! Traces: the steps of single requests, for operators who attach a tracer (`forebay trace`).
//!
//! A worker learns about tracers from a command of the control thread. Without a tracer, the only
//! cost for a request is to test a flag that only its own worker writes. With a tracer, each
//! request that a filter selects collects its steps in a record. The record is complete when the
//! request and the fetch that it started have ended; then it goes into the queue of each tracer
//! that selected it. If the queue is full, the record is dropped and counted, so a tracer that does
//! not read never delays a worker.

mod filter;
mod open;
mod places;
mod record;
mod step;
mod tracer;

pub(crate) use filter::{FilterError, TraceFilter};
pub(crate) use open::{AnsweredBy, Trace};
pub(crate) use places::{TraceEnd, TracePlace, TracePlaces};
pub(crate) use record::TraceRecord;
pub(crate) use step::{FetchStep, RequestStep, StoreStep};
pub(crate) use tracer::{ArrivalTimes, TraceReader, Tracer, WorkerTracers};
