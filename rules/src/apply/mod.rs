//! Rules around a message: what it is when they see it, and what becomes of it when they have run.
//!
//! A server and the tools that try rules without one both go through here, so that what
//! `forebay rules explain` shows is what a server does.
//!
//! | hook | function | on |
//! |---|---|---|
//! | `ReadRequest`, `Remap` | [`rule_request`] | the client's request |
//! | `SendRequest` | [`rule_outgoing`] | the fields that go to the origin |
//! | `ReadResponse` | [`rule_incoming`] | the origin's answer |
//! | `SendResponse` | [`rule_answer`] | the head that goes to the client |
//!
//! Each is given what runs the program: a server measures it, a tool writes down what it sees.

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
