//! Header rules at the points of the flow.
//!
//! | hook | where |
//! |---|---|
//! | `ReadRequest`, `Remap` | `request.rs`, before the site and before the key are known |
//! | `SendRequest`, `ReadResponse` | `origin.rs`, around an exchange |
//! | `SendResponse` | `response.rs`, while a head is written |
//!
//! A request carries a [`Course`] from hook to hook; a [`Ruling`] is what the rules of one hook see
//! of it. What becomes of a message when they have run is `forebay_rules::apply`'s to say. Nothing
//! here is done for a request whose rules have nothing to do at a hook.

mod course;
mod origin;
mod report;
mod request;
mod response;
mod ruling;
mod tally;
mod view;

pub(crate) use course::{Course, Facts, Progress};
pub(crate) use report::{RuleLine, RuleReport};
pub(crate) use ruling::Ruling;
pub(crate) use tally::{RuleCount, Tally};
pub(crate) use view::{OwnedUrl, unseen, view_of, view_of_copy};
