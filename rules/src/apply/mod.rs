//! Applies rules to a message: prepares what they see, and carries out what they decide.
//!
//! Both a server and the tools that try rules without one use this module, so that `forebay rules
//! explain` shows exactly what a server does.
//!
//! | hook | function | on |
//! |---|---|---|
//! | `ReadRequest`, `Remap` | [`rule_request`] | the client's request |
//! | `SendRequest` | [`rule_outgoing`] | the fields that go to the origin |
//! | `ReadResponse` | [`rule_incoming`] | the origin's answer |
//! | `SendResponse` | [`rule_answer`] | the head that goes to the client |
//!
//! Each function takes the code that runs the program as an argument: a server measures it, a tool
//! records it.

mod answer;
mod error;
mod message;
mod request;
mod response;

pub use answer::{OwnAnswer, body_of};
pub use error::ApplyError;
pub use message::{MessageLimits, RequestView, RuleScratch, RuledMessage};
pub use request::{RequestText, RuledRequest, rule_request};
pub use response::{AnswerHead, rule_answer, rule_incoming, rule_outgoing};
