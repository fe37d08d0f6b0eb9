//! Header rules at the points of the flow.
//!
//! | hook | where |
//! |---|---|
//! | `ReadRequest`, `Remap` | `request.rs`, before the site and before the key are known |
//! | `SendRequest`, `ReadResponse` | `origin.rs`, around an exchange |
//! | `SendResponse` | `response.rs`, while a head is written |
//!
//! A request carries a [`RuleState`] from hook to hook. A [`HookContext`] is the view that the
//! rules of one hook have. `forebay_rules::apply` turns their effects into messages. A request
//! without rules at a hook pays nothing for it.

mod hook_context;
mod origin;
mod report;
mod request;
mod response;
mod rule_counters;
mod rule_state;
mod view;

pub(crate) use hook_context::HookContext;
pub(crate) use report::{RuleLine, RuleReport};
pub(crate) use rule_counters::{RuleCount, RuleCounters};
pub(crate) use rule_state::{RuleProgress, RuleState};
pub(crate) use view::{view_of, view_without_rules};
