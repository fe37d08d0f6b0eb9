//! Runs a program at one hook: conditions read the message, operators change it.

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

use forebay_http::{authority::Authority, edit::FieldEdit, fields::Fields, write};

use crate::{ast::Hook, plan::Program};

/// Everything that the rules of one hook can read and change.
pub struct RunContext<'a, 'b, S> {
    /// The fields of the hook's message: the client's request, the request to the origin, the
    /// origin's response, or the response to the client.
    pub fields: &'a mut FieldEdit<'b>,
    /// The client's request, if `fields` is another message.
    pub client: Option<Fields<'a>>,
    /// The request's method.
    pub method: &'a [u8],
    /// The current URL of the request.
    pub url: Url<'a>,
    /// The URL that the client requested.
    pub original: Url<'a>,
    /// The status of the response; `None` in a request.
    pub status: Option<u16>,
    /// The state that this request keeps from hook to hook.
    pub transaction: &'a mut TransactionState,
    /// The variables that the connection keeps from request to request.
    pub session: &'a mut RuleVariables,
    /// The environment, which is the server that runs the rules.
    pub environment: &'a S,
}

/// A URL in parts, in wire form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Url<'a> {
    /// Host without port, in brackets if it is an IPv6 address; empty if the client gave none.
    pub host: &'a [u8],
    /// The port, if one is given.
    pub port: Option<u16>,
    /// The path up to the question mark; begins with `/` or is `*`. Empty for CONNECT.
    pub path: &'a [u8],
    /// The part after the question mark; `None` without one.
    pub query: Option<&'a [u8]>,
}

impl<'a> Url<'a> {
    /// Splits a request's target.
    pub fn new(authority: Option<Authority<'a>>, path_query: &'a [u8]) -> Url<'a> {
        let mut parts = path_query.splitn(2, |byte| *byte == b'?');
        Url {
            host: authority.map_or(&b""[..], |authority| authority.host),
            port: authority.and_then(|authority| authority.port),
            path: parts.next().unwrap_or_default(),
            query: parts.next(),
        }
    }

    /// Appends the host and, if one is given, the port.
    pub fn write_authority(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(self.host);
        if let Some(port) = self.port {
            text.push(b':');
            write::decimal(text, u64::from(port));
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
    /// Runs the rules of one hook. The texts that they make stay in `buffers` until the next run.
    ///
    /// Every run ends: a program has no backward jumps, so a run executes at most as many
    /// instructions as the program has. Unless the observer asks for details, a run allocates
    /// nothing once `buffers` and the buffer of the fields have grown.
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
