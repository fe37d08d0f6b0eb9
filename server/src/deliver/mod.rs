//! Step seven: the answer goes to the client.

mod fault;
mod growing;
mod head;
mod long;
mod options;
mod own;
mod pass;
mod purged;
mod relay;
mod rest;
mod ruled;
mod stored;

pub(crate) use fault::deliver_fault;
pub(crate) use growing::deliver_growing;
pub(crate) use long::deliver_long;
pub(crate) use options::{deliver_options, is_for_us};
pub(crate) use own::{Own, deliver_own};
pub(crate) use pass::deliver_pass;
pub(crate) use purged::deliver_purged;
pub(crate) use relay::Relay;
pub(crate) use rest::RestOf;
pub(crate) use ruled::deliver_ruled;
pub(crate) use stored::{Begun, deliver_stored};

use forebay_http::policy::cache_status::CacheStatus;

use crate::accept::Client;
use crate::fault::Fault;
use crate::parse::ResponseForm;
use crate::rules::HookContext;

/// To whom and how an answer goes.
pub(crate) struct Reply<'a> {
    pub(crate) client: &'a Client,
    pub(crate) form: ResponseForm,
    pub(crate) cache: &'a CacheStatus,
    /// The header rules that have the last word about its head.
    pub(crate) rules: &'a HookContext<'a>,
}

/// What was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    /// Does the client's connection go on?
    pub(crate) keep_alive: bool,
}

/// Why an answer is not whole.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Broken {
    /// Nothing of it has been sent: another answer can take its place.
    Before(Fault),
    /// Part of it has been sent: the connection must be reset.
    Midway(Fault),
}
