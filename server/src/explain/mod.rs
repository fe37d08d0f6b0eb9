//! Explains how a request would be answered now, step by step (`forebay explain`).
//!
//! Each step calls the function that makes the decision for real requests, in the order of
//! `flow.rs`. The store is only inspected: an explanation does not count as a use, removes nothing,
//! joins no fetch and sends nothing to an origin.

mod decide;
mod facts;
mod freshness;
mod json;
mod site;
mod stored;
mod text;

pub(crate) use decide::{ExplainedRequest, explain};
pub(crate) use facts::Explanation;
