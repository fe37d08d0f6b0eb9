//! Header rules, run at the hooks in the flow of a request.
//!
//! | hook | where |
//! |---|---|
//! | `ReadRequest`, `Remap` | `request.rs`, before routing and before the key is written |
//! | `SendRequest`, `ReadResponse` | `origin.rs`, around an exchange |
//! | `SendResponse` | `response.rs`, while a head is written |
//!
//! A request carries a [`RuleState`] from hook to hook. A [`HookContext`] contains all that the
//! rules of one hook can see. `forebay_rules::apply` applies the effects of rules to messages. A
//! hook without rules costs a request only the check that there are none.

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
