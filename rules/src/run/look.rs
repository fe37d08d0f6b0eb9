//! What a variable has for a value.

use std::{io::Write, net::IpAddr};

use forebay_http::{edit::FieldName, fields::FieldId};

use super::{
    RuleEnvironment, RunContext, Url,
    buffers::{Captured, Sight},
    cookie, time,
};
use crate::ast::{
    Address, ConnectionPart, Control, Id, Lifetime, Message, UrlOf, UrlPart, Variable,
};

/// The value of a variable, as it is compared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen<'v> {
    Text(&'v [u8]),
    Number(i64),
    Flag(bool),
    /// `None`: not known.
    Address(Option<IpAddr>),
}

impl Seen<'_> {
    /// Appends it as text.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        // Writing to a vector cannot fail.
        let _ = match self {
            Seen::Text(text) => return out.extend_from_slice(text),
            Seen::Flag(flag) => {
                return out.extend_from_slice(if flag { b"TRUE" } else { b"FALSE" });
            }
            Seen::Number(number) => write!(out, "{number}"),
            Seen::Address(Some(address)) => write!(out, "{address}"),
            Seen::Address(None) => Ok(()),
        };
    }
}

/// Looks at a variable.
pub(super) fn look<'v, S: RuleEnvironment>(
    variable: &Variable,
    context: &'v mut RunContext<'_, '_, S>,
    sight: &'v mut Sight,
    captured: &'v Captured,
) -> Seen<'v> {
    let environment = context.environment;
    match variable {
        Variable::Constant(flag) => Seen::Flag(*flag),
        Variable::Header(message, name) => Seen::Text(header(*message, name, context, sight)),
        Variable::Cookie(name) => Seen::Text(client_cookie(name, context)),
        Variable::Url(of, part) => url_part(*of, part, context, sight),
        Variable::Method => Seen::Text(context.method),
        Variable::Status => Seen::Number(i64::from(context.status.unwrap_or_default())),
        Variable::Cache => Seen::Text(environment.cache().as_str().as_bytes()),
        Variable::Now(part) => Seen::Number(time::part_of(environment.now(), *part)),
        Variable::Random(below) => {
            Seen::Number((environment.random() % u64::from((*below).max(1))) as i64)
        }
        Variable::Id(which) => id(*which, environment, &mut sight.joined),
        Variable::Address(which) => Seen::Address(environment.address(*which)),
        Variable::Port(which) => Seen::Number(i64::from(environment.port(*which))),
        Variable::Cidr { v4_bits, v6_bits } => {
            let address = environment.address(Address::Client);
            Seen::Address(address.map(|address| cidr(address, *v4_bits, *v6_bits)))
        }
        Variable::Connection(part) => Seen::Text(connection(*part, environment)),
        Variable::LastCapture(number) => Seen::Text(captured.group(*number)),
        Variable::NextHopHost => Seen::Text(environment.next_hop_host().as_bytes()),
        Variable::NextHopPort => Seen::Number(i64::from(environment.next_hop_port())),
        Variable::TransactionCount => {
            Seen::Number(i64::try_from(environment.transaction_count()).unwrap_or(i64::MAX))
        }
        state => of_state(state, context),
    }
}

/// Variables that rules set themselves.
fn of_state<'v, S>(variable: &Variable, context: &RunContext<'_, '_, S>) -> Seen<'v> {
    let state = |lifetime: &Lifetime| match lifetime {
        Lifetime::Transaction => context.transaction.state,
        Lifetime::Session => *context.session,
    };
    match variable {
        Variable::Flag(lifetime, number) => {
            Seen::Flag(u32::from(state(lifetime).flags) >> (number & 15) & 1 != 0)
        }
        Variable::Int8(lifetime, number) => {
            Seen::Number(i64::from(state(lifetime).int8[usize::from(number & 3)]))
        }
        Variable::Int16(lifetime) => Seen::Number(i64::from(state(lifetime).int16)),
        Variable::Control(control) => {
            // A request is logged unless a rule says otherwise.
            let unless_set = *control == Control::Logging;
            Seen::Flag(context.transaction.controls.of(*control).unwrap_or(unless_set))
        }
        _ => Seen::Text(b""),
    }
}

/// RFC 9110 §5.3: the values of all lines of a name are one value, with commas between them.
fn header<'v, S>(
    message: Message,
    name: &FieldName,
    context: &'v mut RunContext<'_, '_, S>,
    sight: &'v mut Sight,
) -> &'v [u8] {
    let client = match message {
        Message::AtHand => None,
        Message::ClientRequest | Message::ServerRequest => context.client,
    };
    if let Some(client) = client {
        if name.id() != FieldId::Other && !client.contains(name.id()) {
            return b"";
        }
        let values = sight.client.all(client, name);
        return joined(values, &mut sight.joined);
    }
    let Some(first) = context.fields.find(name) else {
        return b"";
    };
    let fields = &*context.fields;
    let places = std::iter::successors(Some(first), |at| fields.next_duplicate(*at));
    joined(places.map(|at| fields.value(at)), &mut sight.joined)
}

/// One value as it stands, several with commas between them.
fn joined<'v>(mut values: impl Iterator<Item = &'v [u8]>, out: &'v mut Vec<u8>) -> &'v [u8] {
    let Some(first) = values.next() else {
        return b"";
    };
    let Some(second) = values.next() else {
        return first;
    };
    out.clear();
    out.extend_from_slice(first);
    for value in std::iter::once(second).chain(values) {
        out.push(b',');
        out.extend_from_slice(value);
    }
    out
}

/// A cookie of the client's request: the first of this name.
fn client_cookie<'v, S>(name: &[u8], context: &'v mut RunContext<'_, '_, S>) -> &'v [u8] {
    if let Some(client) = context.client {
        let found = client.all(FieldId::Cookie).find_map(|line| cookie::find(line, name));
        return found.unwrap_or_default();
    }
    let Some(first) = context.fields.find(cookie::field_name()) else {
        return b"";
    };
    let fields = &*context.fields;
    let mut places = std::iter::successors(Some(first), |at| fields.next_duplicate(*at));
    places.find_map(|at| cookie::find(fields.value(at), name)).unwrap_or_default()
}

/// The URL that is meant. What is asked of the origin is the request's URL under the origin's name.
pub(super) fn url_of<'v, S: RuleEnvironment>(
    of: UrlOf,
    context: &RunContext<'v, '_, S>,
    changed: Option<Url<'v>>,
) -> Url<'v> {
    let now = changed.unwrap_or(context.url);
    match of {
        UrlOf::Client => now,
        UrlOf::Original => context.original,
        UrlOf::Server => Url {
            host: context.environment.next_hop_host().as_bytes(),
            port: Some(context.environment.next_hop_port()),
            ..now
        },
    }
}

fn url_part<'v, S: RuleEnvironment>(
    of: UrlOf,
    part: &UrlPart,
    context: &'v RunContext<'_, '_, S>,
    sight: &'v mut Sight,
) -> Seen<'v> {
    let Sight { url: made, joined, .. } = sight;
    let url = url_of(of, context, made.changed());
    match part {
        UrlPart::Scheme => Seen::Text(b"http"),
        UrlPart::Host => Seen::Text(url.host),
        UrlPart::Port => Seen::Number(i64::from(url.port.unwrap_or(80))),
        UrlPart::Path => Seen::Text(url.path.strip_prefix(b"/").unwrap_or(url.path)),
        UrlPart::Query => Seen::Text(url.query.unwrap_or_default()),
        UrlPart::QueryParameter(name) => Seen::Text(parameter(url.query.unwrap_or_default(), name)),
        UrlPart::Whole => {
            joined.clear();
            write_url(url, joined);
            Seen::Text(joined)
        }
    }
}

/// Value of the first parameter of this name.
fn parameter<'q>(query: &'q [u8], name: &[u8]) -> &'q [u8] {
    let found = query.split(|byte| *byte == b'&').find_map(|parameter| {
        let rest = parameter.strip_prefix(name)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"=") }
    });
    found.unwrap_or_default()
}

/// `http://host:port/path?query`
fn write_url(url: Url<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"http://");
    out.extend_from_slice(url.host);
    if let Some(port) = url.port {
        out.push(b':');
        Seen::Number(i64::from(port)).write(out);
    }
    out.extend_from_slice(url.path);
    if let Some(query) = url.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

fn id<'v, S: RuleEnvironment>(which: Id, environment: &'v S, out: &'v mut Vec<u8>) -> Seen<'v> {
    match which {
        Id::Request => {
            Seen::Number(i64::try_from(environment.request_number()).unwrap_or(i64::MAX))
        }
        Id::Process => Seen::Text(environment.process_id().as_bytes()),
        Id::Unique => {
            out.clear();
            // Writing to a vector cannot fail.
            let _ = write!(out, "{}-{}", environment.process_id(), environment.request_number());
            Seen::Text(out)
        }
    }
}

/// The address with only its first bits left.
fn cidr(address: IpAddr, v4_bits: u8, v6_bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(v4_bits.min(32))).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(v6_bits.min(128))).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

fn connection<S: RuleEnvironment>(part: ConnectionPart, environment: &S) -> &'static [u8] {
    let is_v6 = match environment.address(Address::Client) {
        // A socket that takes both families shows IPv4 addresses mapped.
        Some(IpAddr::V6(address)) => address.to_ipv4_mapped().is_none(),
        _ => false,
    };
    match (part, is_v6) {
        (ConnectionPart::IpFamily | ConnectionPart::Ipv4, false) => b"ipv4",
        (ConnectionPart::IpFamily | ConnectionPart::Ipv6, true) => b"ipv6",
        (ConnectionPart::Stack, false) => b"http/1.1,tcp,ipv4",
        (ConnectionPart::Stack, true) => b"http/1.1,tcp,ipv6",
        // Neither TLS nor HTTP/2 is spoken to clients.
        _ => b"",
    }
}
