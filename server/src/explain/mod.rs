//! Explains how a request would be answered now, step by step (`forebay explain`).
//!
//! Each step calls the function that decides it for real requests, in the order of `flow.rs`. The
//! store is only inspected: the explanation counts no use, removes nothing, joins no fetch and asks
//! no origin.

mod decide;
mod facts;
mod freshness;
mod json;
mod stored;
mod text;

pub(crate) use decide::{ExplainedRequest, explain};
pub(crate) use facts::Explanation;
