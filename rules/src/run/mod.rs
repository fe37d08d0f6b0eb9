//! Running a program at one hook: conditions look, operators change.

mod buffers;
mod cookie;
mod destination;
mod environment;
mod evaluate;
mod machine;
mod matching;
mod observer;
mod operate;
mod subject_cache;
mod time;
mod tree_walk;
mod variables;

pub use buffers::{RunBuffers, RunLimits};
pub use environment::{CacheResult, RuleEnvironment};
pub use observer::{OperatorOutcome, RunObserver, RunReport};
pub use variables::{ControlSet, Effects, RuleVariables, TransactionState};

use forebay_http::{authority::Authority, edit::FieldEdit, fields::Fields};

use crate::{ast::Hook, plan::Program};

/// Everything that the rules of one hook see.
pub struct RunContext<'a, 'b, S> {
    /// The message that the hook is about, being changed: the client's request, the request to the
    /// origin, its answer, the answer to the client.
    pub fields: &'a mut FieldEdit<'b>,
    /// The client's request, if `fields` is another message.
    pub client: Option<Fields<'a>>,
    /// The request's method.
    pub method: &'a [u8],
    /// The URL as the request now stands.
    pub url: Url<'a>,
    /// The URL as the client asked it.
    pub original: Url<'a>,
    /// Of the response that `fields` are of.
    pub status: Option<u16>,
    /// What this request carries from hook to hook.
    pub transaction: &'a mut TransactionState,
    /// What the connection carries from request to request.
    pub session: &'a mut RuleVariables,
    /// The world.
    pub environment: &'a S,
}

/// A URL in parts, as they go on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Url<'a> {
    /// Without port, in brackets if it is an IPv6 address; empty if the client named none.
    pub host: &'a [u8],
    /// If one is named.
    pub port: Option<u16>,
    /// Begins with `/` (or is `*`), up to the question mark.
    pub path: &'a [u8],
    /// Behind the question mark; `None` without one.
    pub query: Option<&'a [u8]>,
}

impl<'a> Url<'a> {
    /// Of the parts of a request's target.
    pub fn new(authority: Option<Authority<'a>>, path_query: &'a [u8]) -> Url<'a> {
        let mut parts = path_query.splitn(2, |byte| *byte == b'?');
        Url {
            host: authority.map_or(&b""[..], |authority| authority.host),
            port: authority.and_then(|authority| authority.port),
            path: parts.next().unwrap_or_default(),
            query: parts.next(),
        }
    }

    /// Appends path and query.
    pub fn write_path_query(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(self.path);
        if let Some(query) = self.query {
            text.push(b'?');
            text.extend_from_slice(query);
        }
    }
}

impl Program {
    /// Runs the rules of one hook. What they made lies in `buffers` until the next run.
    ///
    /// It comes to an end: a program has no way back, so a run takes no more steps than it has.
    /// Allocates nothing once `buffers` and the buffer of the fields have grown.
    pub fn run<S: RuleEnvironment, W: RunObserver>(
        &self,
        hook: Hook,
        context: &mut RunContext<'_, '_, S>,
        buffers: &mut RunBuffers,
        observer: &mut W,
    ) -> Effects {
        buffers.begin();
        if W::DETAILED {
            tree_walk::run(self, hook, context, buffers, observer)
        } else {
            machine::run(self.at(hook), context, buffers, observer)
        }
    }
}

#[cfg(test)]
mod tests;
