//! The checked form of rules: names are resolved, operands typed, errors reported.
//!
//! A file is a list of [`Rule`]s. A rule has a hook and [`Branch`]es (`if`, `elif`, `else`); the
//! first branch whose condition holds runs its [`BranchStep`]s.

mod connection;

pub use connection::{CertificatePart, ConnectionPart};

use std::net::IpAddr;

use forebay_http::edit::FieldName;

use crate::{diagnostic::RuleSpan, filter::FilterCall};

/// A point of the flow at which rules run. A request passes these points in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// `READ_REQUEST_HDR_HOOK`, `READ_REQUEST_PRE_REMAP_HOOK`, `TXN_START_HOOK`: before the site is
    /// known. Only rules for all sites can use this hook.
    ReadRequest,
    /// `REMAP_PSEUDO_HOOK`, `POST_REMAP_HOOK`: the site and the route are known, the key is not.
    Remap,
    /// `SEND_REQUEST_HDR_HOOK`: for the request to the origin.
    SendRequest,
    /// `READ_RESPONSE_HDR_HOOK`: for the origin's response, before it is stored.
    ReadResponse,
    /// `SEND_RESPONSE_HDR_HOOK`: for the response to the client, stored or not.
    SendResponse,
}

impl Hook {
    /// Number of hooks.
    pub const COUNT: usize = 5;

    /// All hooks, in the order in which a request passes them.
    pub const ALL: [Hook; Hook::COUNT] =
        [Hook::ReadRequest, Hook::Remap, Hook::SendRequest, Hook::ReadResponse, Hook::SendResponse];

    /// The usual name of the hook in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Hook::ReadRequest => "READ_REQUEST_HDR_HOOK",
            Hook::Remap => "REMAP_PSEUDO_HOOK",
            Hook::SendRequest => "SEND_REQUEST_HDR_HOOK",
            Hook::ReadResponse => "READ_RESPONSE_HDR_HOOK",
            Hook::SendResponse => "SEND_RESPONSE_HDR_HOOK",
        }
    }
}

/// The scope of a rule file. It decides which hooks the rules may use, and at which hook a rule
/// without a hook runs. (In Apache Traffic Server, a global plugin has the first scope and a remap
/// plugin the second.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// Rules for all sites: the default hook is [`Hook::ReadResponse`].
    Server,
    /// Rules for a site or a route: the default hook is [`Hook::Remap`].
    Route,
}

/// One rule: a hook, and branches with conditions and steps.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The hook at which the rule runs.
    pub hook: Hook,
    /// The rule's turn at that hook, less than [`Rule::TURNS`]. Several hooks of the language map
    /// to one point of the flow; their rules run there in the order of the turns.
    pub turn: u8,
    /// The span of the rule's first line, which identifies the rule in messages.
    pub at: RuleSpan,
    /// `if`, `elif`s and `else`, in order: the first branch whose condition holds runs.
    pub branches: Vec<Branch>,
    /// Whether a condition has the flag `[L]`. Then, if a branch is taken, no later rule of this
    /// file runs at this hook.
    pub last: bool,
}

impl Rule {
    /// Number of turns of a hook.
    pub const TURNS: u8 = 3;
}

/// One branch of a rule or of a nested `if`.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The condition of the branch; `None` if the branch always runs.
    pub condition: Option<ConditionTree>,
    /// The steps of the branch, in order.
    pub steps: Vec<BranchStep>,
}

/// A combination of conditions. In the language AND and OR have the same precedence and nest to the
/// right; the parser has resolved that into this tree.
#[derive(Clone, Debug)]
pub enum ConditionTree {
    /// One condition.
    Leaf(Condition),
    /// Both conditions must hold. The second is evaluated only if the first holds.
    And(Box<ConditionTree>, Box<ConditionTree>),
    /// At least one condition must hold. The second is evaluated only if the first does not hold.
    Or(Box<ConditionTree>, Box<ConditionTree>),
    /// The group of conditions must not hold: the flag `[NOT]` of a `%{GROUP}`.
    Not(Box<ConditionTree>),
}

/// One condition.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The variable that is tested.
    pub subject: Variable,
    /// The value that the variable must have.
    pub matcher: Matcher,
    /// Whether the condition has the flag `[NOT]`.
    pub negated: bool,
    /// The span of the line in the file.
    pub at: RuleSpan,
}

/// The value that a condition requires.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// There is no operand, and the variable is a flag: the condition holds if the flag is set. (A
    /// text without an operand is compared with the empty text.)
    Is,
    /// A comparison with a text, such as `=text`.
    Text {
        /// The kind of comparison.
        how: Comparison,
        /// The text to compare with; in lower case if `nocase`.
        with: Box<[u8]>,
        /// Whether case is ignored: the flag `[NOCASE]`.
        nocase: bool,
    },
    /// A comparison with a number, such as `<5`.
    Number {
        /// The kind of comparison: equal, less or greater.
        how: Comparison,
        /// The number to compare with.
        with: i64,
    },
    /// `/regex/`, matched anywhere in the text.
    Regex(regex::bytes::Regex),
    /// `(a,b,"c,d")`: matches if the comparison holds for one of the texts. It tests for equality,
    /// unless a flag `[PRE]`, `[SUF]`, `[MID]` or `[EXT]` names another comparison.
    TextSet {
        /// The kind of comparison with each text.
        how: Comparison,
        /// The texts; in lower case if `nocase`.
        with: Vec<Box<[u8]>>,
        /// Whether case is ignored: the flag `[NOCASE]`.
        nocase: bool,
    },
    /// `(1,2,3)`: one of the numbers.
    NumberSet(Vec<i64>),
    /// `{10.0.0.0/8,192.168.1.1-192.168.1.9}`: an address in one of the ranges.
    Ranges(Vec<AddressRange>),
}

/// A kind of comparison of two texts or numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`: the value is equal.
    Equal,
    /// `<`: the value is less. Texts are ordered by bytes.
    Less,
    /// `>`: the value is greater. Texts are ordered by bytes.
    Greater,
    /// `[PRE]`: the text begins with the operand.
    Prefix,
    /// `[SUF]`: the text ends with the operand.
    Suffix,
    /// `[MID]`: the text contains the operand.
    Middle,
    /// `[EXT]`: the part of the text after the last dot is equal to the operand.
    Extension,
}

/// A range of addresses of one family, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// First address of the range.
    pub first: IpAddr,
    /// Last address, which is part of the range.
    pub last: IpAddr,
}

/// A variable: the part between `%{` and `}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// `TRUE`, `FALSE`, and variables that always have the same value in Forebay.
    Constant(bool),
    /// `HEADER:n`, `CLIENT-HEADER:n`, `SERVER-HEADER:n`: the values of all lines, joined by commas.
    Header(MessageKind, FieldName),
    /// `COOKIE:n` of the client's request.
    Cookie(Box<[u8]>),
    /// `URL:part` and similar variables.
    Url(UrlKind, UrlPart),
    /// `METHOD`: the method of the request.
    Method,
    /// `STATUS` of the current response: a number.
    Status,
    /// `CACHE`: `none`, `miss`, `hit-stale`, `hit-fresh`, `skipped`.
    Cache,
    /// `NOW`, `NOW:part`: the time or a part of it, a number.
    Now(TimePart),
    /// `RANDOM:n`: a number from 0 to n - 1.
    Random(u32),
    /// `ID:…`: an identifier of the request or the process.
    Id(IdKind),
    /// `IP:…` and `INBOUND:…-ADDR`: an address.
    Address(AddressKind),
    /// `INBOUND:LOCAL-PORT`, `INBOUND:REMOTE-PORT`: a number.
    Port(PortKind),
    /// `CIDR:v4,v6`: the client's address reduced to this many bits.
    Cidr {
        /// Number of bits of an IPv4 address.
        v4_bits: u8,
        /// Number of bits of an IPv6 address.
        v6_bits: u8,
    },
    /// `INBOUND:…` about the protocols of the connection: text.
    Connection(ConnectionPart),
    /// `INBOUND:CLIENT-CERT:…`: text from the client's verified certificate; empty without one.
    ClientCertificate(CertificatePart),
    /// `LAST-CAPTURE:n`, 0 to 9: group n of the last regex that matched.
    LastCapture(u8),
    /// `NEXT-HOP:HOST`: the host name of the origin.
    NextHopHost,
    /// `NEXT-HOP:PORT`: the port of the origin, a number.
    NextHopPort,
    /// `STATE-FLAG:n`, `SESSION-FLAG:n`, 0 to 15.
    Flag(Lifetime, u8),
    /// `STATE-INT8:n`, `SESSION-INT8:n`, 0 to 3: a number.
    Int8(Lifetime, u8),
    /// `STATE-INT16`, `SESSION-INT16`: a number.
    Int16(Lifetime),
    /// `TXN-COUNT`: the number of requests on this connection, including this request.
    TransactionCount,
    /// `HTTP-CNTL:c`: a flag.
    Control(HttpControl),
}

/// The message that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// `HEADER`: the message of the hook, such as the origin's response at `ReadResponse`.
    AtHand,
    /// `CLIENT-HEADER`: the client's request, with the changes of earlier hooks.
    ClientRequest,
    /// `SERVER-HEADER`: the request to the origin or, before it exists, the client's request.
    ServerRequest,
}

/// A kind of URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UrlKind {
    /// The request's current URL: `URL` except at `SendRequest`, `CLIENT-URL` at `ReadRequest`.
    Client,
    /// The URL that the client requested, before any rule changed it: `FROM-URL`, and `CLIENT-URL`
    /// after `ReadRequest`.
    Original,
    /// The URL of the request to the origin: `TO-URL`, `SERVER-URL`, and `URL` at `SendRequest`.
    Server,
}

/// A part of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UrlPart {
    /// The scheme: `http` or `https`.
    Scheme,
    /// The host, without the port.
    Host,
    /// The port, a number; the scheme's default if none is given.
    Port,
    /// The path, without its first slash and without the query.
    Path,
    /// The query, without the question mark.
    Query,
    /// `QUERY:name`: the value of the first parameter of this name, not decoded.
    QueryParameter(Box<[u8]>),
    /// The whole URL.
    Whole,
}

/// A part of the time, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimePart {
    /// Unix time in seconds.
    Epoch,
    /// The year, such as 2026.
    Year,
    /// The month, 0 to 11.
    Month,
    /// The day of the month, 1 to 31.
    Day,
    /// The hour, 0 to 23.
    Hour,
    /// The minute, 0 to 59.
    Minute,
    /// The day of the week, 0 (Sunday) to 6.
    Weekday,
    /// The day of the year, 0 to 365.
    YearDay,
}

/// A kind of identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// The serial number of this request in this process.
    Request,
    /// A UUID of this process.
    Process,
    /// The UUID of this process and the serial number of this request: together they are globally
    /// unique.
    Unique,
}

/// A kind of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// `IP:CLIENT`, `INBOUND:REMOTE-ADDR`: the client's address.
    Client,
    /// `IP:INBOUND`, `INBOUND:LOCAL-ADDR`: our address, to which the client connected.
    Inbound,
    /// `IP:SERVER`: the origin's address. Empty until it is known, and on a hit.
    Server,
    /// `IP:OUTBOUND`: our address to the origin. Empty until it is known, and on a hit.
    Outbound,
}

/// A port of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortKind {
    /// The port of this server.
    Local,
    /// The client's port.
    Remote,
}

/// The lifetime of a variable that rules set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// `STATE-…`: the variable lives as long as one request.
    Transaction,
    /// `SESSION-…`: the variable lives as long as one connection.
    Session,
}

/// A switch that rules can set for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpControl {
    /// `LOGGING`: whether the request is logged.
    Logging,
    /// `RESP_CACHEABLE`: off forbids storing the response. Rules cannot set it to on.
    ResponseCacheable,
    /// `REQ_CACHEABLE`: off forbids answering from the store. Rules cannot set it to on.
    RequestCacheable,
    /// `SERVER_NO_STORE`: on forbids storing the response.
    ServerNoStore,
}

/// A step of a branch.
#[derive(Clone, Debug)]
pub enum BranchStep {
    /// An operator.
    Operate(Operation),
    /// `if … endif` among the operators.
    If(Vec<Branch>),
}

/// One operator with its flags.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The operator.
    pub operator: Operator,
    /// Whether the operator has the flag `[L]`: then no later rule of this file runs at this hook.
    pub last: bool,
    /// The span of the line in the file.
    pub at: RuleSpan,
}

/// An operator with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `set-header`: replaces all lines of this name by one; does nothing for an empty value.
    SetHeader(FieldName, Template),
    /// `add-header`: adds a line; does nothing for an empty value.
    AddHeader(FieldName, Template),
    /// `rm-header`: removes all lines of this name.
    RemoveHeader(FieldName),
    /// `add-cookie`: adds a cookie unless the request already has a cookie of this name.
    AddCookie(Box<[u8]>, Template),
    /// `set-cookie`: sets a cookie in the request's Cookie field.
    SetCookie(Box<[u8]>, Template),
    /// `rm-cookie`: removes a cookie from the request's Cookie fields.
    RemoveCookie(Box<[u8]>),
    /// `set-destination`: sets a part of the request's URL. An empty value changes nothing.
    SetDestination {
        /// The part of the URL.
        part: UrlPart,
        /// The new value.
        value: Template,
        /// Whether the old query is appended: the flag `[QSA]`.
        append_query: bool,
    },
    /// `rm-destination PATH` or `PORT`: removes a part of the request's URL.
    RemoveDestination(UrlPart),
    /// `rm-destination QUERY [a,b] [I]`: removes the query or some of its parameters.
    FilterQuery {
        /// Names of parameters; if empty, the whole query is removed.
        names: Vec<Box<[u8]>>,
        /// Whether the named parameters are kept instead of removed: the flag `[I]`.
        keep: bool,
    },
    /// `set-redirect`: answers with this status and Location.
    SetRedirect {
        /// The status, 300 to 399 except 304.
        status: u16,
        /// The Location; variables are filled in.
        location: Template,
        /// Whether the request's query is appended: the flag `[QSA]`.
        append_query: bool,
    },
    /// `set-status`: answers with this status in early hooks, else changes the response's status.
    SetStatus(u16),
    /// `set-status-reason`: sets the reason phrase of the response.
    SetReason(Template),
    /// `set-body`: replaces the body of a response that Forebay makes itself.
    SetBody(Template),
    /// `counter`: adds 1 to the counter with this index in [`crate::ast::RuleList::counters`].
    Counter(u32),
    /// `no-op`: does nothing.
    NoOp,
    /// `set-state-flag`, `set-session-flag`: sets a flag.
    SetFlag(Lifetime, u8, bool),
    /// `set-state-int8`, `set-session-int8`: sets an 8-bit number.
    SetInt8(Lifetime, u8, Template),
    /// `set-state-int16`, `set-session-int16`: sets the 16-bit number.
    SetInt16(Lifetime, Template),
    /// `set-http-cntl`: sets a control of the request.
    SetControl(HttpControl, bool),
    /// `set-conn-dscp`: sets the DSCP of the connection, 0 to 63.
    SetDscp(u8),
    /// `run-plugin`: runs a filter of this build.
    Filter(FilterCall),
}

/// The value of an operator: a text with variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// The parts, in order; no two texts are adjacent. An empty list is the empty text.
    pub parts: Vec<TemplatePart>,
}

/// A part of the value of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// Constant text, without control bytes.
    Text(Box<[u8]>),
    /// A variable to fill in.
    Variable(Variable),
}

/// The rules of a checked file.
#[derive(Clone, Debug)]
pub struct RuleList {
    /// The name of the rule file.
    pub file: String,
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// Names of the counters that the rules use.
    pub counters: Vec<String>,
}

impl Template {
    /// Returns the text of the value if the value has no variables.
    pub fn constant(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [TemplatePart::Text(text)] => Some(text),
            _ => None,
        }
    }
}
