//! Rules as the checker leaves them: names resolved, operands typed, nothing left to refuse.
//!
//! A file is a list of [`Rule`]s. A rule has a hook and [`Branch`]es (`if`, `elif`, `else`), of
//! which the first that holds runs its [`Step`]s.

use std::net::IpAddr;

use forebay_http::edit::FieldName;

use crate::{diagnostic::RuleSpan, filter::FilterCall};

/// Where in the flow a rule runs. In the order in which a request comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// `READ_REQUEST_HDR_HOOK`, `READ_REQUEST_PRE_REMAP_HOOK`, `TXN_START_HOOK`: before the site is
    /// looked up. Only in rules for all sites.
    ReadRequest,
    /// `REMAP_PSEUDO_HOOK`, `POST_REMAP_HOOK`: site and route are known, the key is not.
    Remap,
    /// `SEND_REQUEST_HDR_HOOK`: the request as the origin gets it.
    SendRequest,
    /// `READ_RESPONSE_HDR_HOOK`: the origin's answer, before it is stored.
    ReadResponse,
    /// `SEND_RESPONSE_HDR_HOOK`: the answer as the client gets it, stored or not.
    SendResponse,
}

impl Hook {
    /// How many there are.
    pub const COUNT: usize = 5;

    /// All of them, in order.
    pub const ALL: [Hook; Hook::COUNT] =
        [Hook::ReadRequest, Hook::Remap, Hook::SendRequest, Hook::ReadResponse, Hook::SendResponse];

    /// Its usual name in the language.
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

/// Whose rules they are: which hooks they may have, and which one they have by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// All sites (a global plugin there): by default [`Hook::ReadResponse`].
    Server,
    /// A site or a route (a remap plugin there): by default [`Hook::Remap`].
    Route,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Where it runs.
    pub hook: Hook,
    /// Its turn among the rules of this hook: hooks of the language that lie at one point of the
    /// flow run one after the other, 0 to [`Rule::TURNS`].
    pub turn: u8,
    /// Its first line, by which it is named.
    pub at: RuleSpan,
    /// `if`, `elif`s, `else`, in order: the first whose condition holds runs.
    pub branches: Vec<Branch>,
    /// A condition has the flag `[L]`: if a branch is taken, no rule of this file and hook runs
    /// after this one.
    pub last: bool,
}

impl Rule {
    /// So many turns a hook has at most.
    pub const TURNS: u8 = 3;
}

/// One way through a rule.
#[derive(Clone, Debug)]
pub struct Branch {
    /// `None`: always.
    pub condition: Option<ConditionTree>,
    /// In order.
    pub steps: Vec<Step>,
}

/// Conditions put together. The language binds AND and OR alike and nests to the right; the parser
/// has made that into a tree.
#[derive(Clone, Debug)]
pub enum ConditionTree {
    /// One condition.
    Leaf(Condition),
    /// The second is looked at only if the first holds.
    And(Box<ConditionTree>, Box<ConditionTree>),
    /// The second is looked at only if the first does not hold.
    Or(Box<ConditionTree>, Box<ConditionTree>),
    /// `[NOT]` of a group.
    Not(Box<ConditionTree>),
}

/// One condition.
#[derive(Clone, Debug)]
pub struct Condition {
    /// What is looked at.
    pub subject: Variable,
    /// What it has to be.
    pub matcher: Matcher,
    /// `[NOT]`
    pub negated: bool,
    /// Where it stands.
    pub at: RuleSpan,
}

/// What a condition's value has to be.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// No operand: the subject is there (text: not empty; flag: set; number: not zero).
    Is,
    /// Text.
    Text {
        /// How it is compared.
        how: Comparison,
        /// With what; in lower case if `nocase`.
        with: Box<[u8]>,
        /// `[NOCASE]`
        nocase: bool,
    },
    /// A number.
    Number {
        /// How it is compared: equal, less or greater.
        how: Comparison,
        /// With what.
        with: i64,
    },
    /// `/regex/`, found anywhere.
    Regex(regex::bytes::Regex),
    /// `(a,b,"c,d")`: equal to one of them, or compared so by `[PRE]`, `[SUF]`, `[MID]`, `[EXT]`.
    TextSet {
        /// How each is compared.
        how: Comparison,
        /// In lower case if `nocase`.
        with: Vec<Box<[u8]>>,
        /// `[NOCASE]`
        nocase: bool,
    },
    /// `(1,2,3)` for a number.
    NumberSet(Vec<i64>),
    /// `{10.0.0.0/8,192.168.1.1-192.168.1.9}` for an address.
    Ranges(Vec<AddressRange>),
}

/// How two texts or numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<`; texts by their bytes.
    Less,
    /// `>`
    Greater,
    /// `[PRE]`: begins with.
    Prefix,
    /// `[SUF]`: ends with.
    Suffix,
    /// `[MID]`: contains.
    Middle,
    /// `[EXT]`: what follows the last dot equals.
    Extension,
}

/// Addresses from the first to the last, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// First.
    pub first: IpAddr,
    /// Last, itself included.
    pub last: IpAddr,
}

/// What stands between `%{` and `}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// `TRUE`, `FALSE`, and what can never be otherwise here.
    Constant(bool),
    /// `HEADER:n`, `CLIENT-HEADER:n`, `SERVER-HEADER:n`: the values of all its lines, with commas.
    Header(MessageKind, FieldName),
    /// `COOKIE:n` of the client's request.
    Cookie(Box<[u8]>),
    /// `URL:part` and its kin.
    Url(UrlKind, UrlPart),
    /// `METHOD`
    Method,
    /// `STATUS` of the response at hand: a number.
    Status,
    /// `CACHE`: `none`, `miss`, `hit-stale`, `hit-fresh`, `skipped`.
    Cache,
    /// `NOW`, `NOW:part`: a number.
    Now(TimePart),
    /// `RANDOM:n`: a number from 0, less than this.
    Random(u32),
    /// `ID:…`
    Id(IdKind),
    /// `IP:…` and `INBOUND:…-ADDR`
    Address(AddressKind),
    /// `INBOUND:LOCAL-PORT`, `INBOUND:REMOTE-PORT`: a number.
    Port(PortKind),
    /// `CIDR:v4,v6`: the client's address with only this many bits left.
    Cidr {
        /// Bits of an IPv4 address.
        v4_bits: u8,
        /// Bits of an IPv6 address.
        v6_bits: u8,
    },
    /// `INBOUND:…` about the connection's protocols: text.
    Connection(ConnectionPart),
    /// `LAST-CAPTURE:n`, 0 to 9: what group n of the last regex that matched has found.
    LastCapture(u8),
    /// `NEXT-HOP:HOST`
    NextHopHost,
    /// `NEXT-HOP:PORT`: a number.
    NextHopPort,
    /// `STATE-FLAG:n`, `SESSION-FLAG:n`, 0 to 15.
    Flag(Lifetime, u8),
    /// `STATE-INT8:n`, `SESSION-INT8:n`, 0 to 3: a number.
    Int8(Lifetime, u8),
    /// `STATE-INT16`, `SESSION-INT16`: a number.
    Int16(Lifetime),
    /// `TXN-COUNT`: requests so far on this connection, this one included.
    TransactionCount,
    /// `HTTP-CNTL:c`: a flag.
    Control(HttpControl),
}

/// Which message a field is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// `HEADER`: the one that the hook is about.
    AtHand,
    /// `CLIENT-HEADER`: the request as the client sent it and earlier hooks left it.
    ClientRequest,
    /// `SERVER-HEADER`: the request to the origin; before there is one, the client's.
    ServerRequest,
}

/// Which URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UrlKind {
    /// `CLIENT-URL`, `URL` in early hooks: as the request now stands.
    Client,
    /// `FROM-URL`, and what the client asked before any rule changed it.
    Original,
    /// `TO-URL`, `SERVER-URL`: what the origin is asked.
    Server,
}

/// Part of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UrlPart {
    /// `http`
    Scheme,
    /// Without port.
    Host,
    /// A number; the scheme's own if none is named.
    Port,
    /// Without the slash at its beginning, and without the query.
    Path,
    /// Without the question mark.
    Query,
    /// `QUERY:name`: value of the first parameter of this name, as it stands there.
    QueryParameter(Box<[u8]>),
    /// All of it.
    Whole,
}

/// Part of the time, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimePart {
    /// Seconds since 1970.
    Epoch,
    /// Such as 2026.
    Year,
    /// 0 to 11.
    Month,
    /// Of the month, 1 to 31.
    Day,
    /// 0 to 23.
    Hour,
    /// 0 to 59.
    Minute,
    /// 0 (Sunday) to 6.
    Weekday,
    /// 0 to 365.
    YearDay,
}

/// What tells requests apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// A number of this request in this process.
    Request,
    /// A UUID of this process.
    Process,
    /// Both: unique in time and space.
    Unique,
}

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// `IP:CLIENT`, `INBOUND:REMOTE-ADDR`
    Client,
    /// `IP:INBOUND`, `INBOUND:LOCAL-ADDR`: ours, that the client connected to.
    Inbound,
    /// `IP:SERVER`: the origin's. Empty until it is known, and on a hit.
    Server,
    /// `IP:OUTBOUND`: ours towards the origin. Empty until it is known, and on a hit.
    Outbound,
}

/// A port of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortKind {
    /// Ours.
    Local,
    /// The client's.
    Remote,
}

/// What the client's connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionPart {
    /// `IP-FAMILY`: `ipv4` or `ipv6`.
    IpFamily,
    /// `IPV4`: `ipv4` or empty.
    Ipv4,
    /// `IPV6`: `ipv6` or empty.
    Ipv6,
    /// `TLS`: its version, or empty.
    Tls,
    /// `H2`: `h2` or empty.
    H2,
    /// `STACK`: all of them, with commas.
    Stack,
}

/// How long a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// `STATE-…`: one request.
    Transaction,
    /// `SESSION-…`: one connection.
    Session,
}

/// What rules can switch for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpControl {
    /// `LOGGING`: the access log has it.
    Logging,
    /// `RESP_CACHEABLE`: stored although the answer would not allow it.
    ResponseCacheable,
    /// `REQ_CACHEABLE`: answered from the store although the request would not allow it.
    RequestCacheable,
    /// `SERVER_NO_STORE`: not stored.
    ServerNoStore,
}

/// Something to do.
#[derive(Clone, Debug)]
pub enum Step {
    /// An operator.
    Operate(Operation),
    /// `if … endif` among operators.
    If(Vec<Branch>),
}

/// One operator.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What is done.
    pub operator: Operator,
    /// `[L]`: if it runs, no rule of this file and hook runs after this one.
    pub last: bool,
    /// Where it stands.
    pub at: RuleSpan,
}

/// What can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `set-header`: one line with this value stands for all lines of this name; nothing for an
    /// empty value.
    SetHeader(FieldName, Template),
    /// `add-header`: one more line; nothing for an empty value.
    AddHeader(FieldName, Template),
    /// `rm-header`
    RemoveHeader(FieldName),
    /// `add-cookie`: unless the request has a cookie of this name.
    AddCookie(Box<[u8]>, Template),
    /// `set-cookie`: in the request's Cookie.
    SetCookie(Box<[u8]>, Template),
    /// `rm-cookie`
    RemoveCookie(Box<[u8]>),
    /// `set-destination`: part of the request's URL. An empty value changes nothing.
    SetDestination {
        /// Which.
        part: UrlPart,
        /// To what.
        value: Template,
        /// `[QSA]`: the query that was there follows.
        append_query: bool,
    },
    /// `rm-destination PATH` or `PORT`
    RemoveDestination(UrlPart),
    /// `rm-destination QUERY [a,b] [I]`
    FilterQuery {
        /// Names of parameters; empty: all.
        names: Vec<Box<[u8]>>,
        /// `[I]`: only these are kept.
        keep: bool,
    },
    /// `set-redirect`: answer with this status and Location.
    SetRedirect {
        /// 300 to 399.
        status: u16,
        /// The Location; `%{PATH}` and the like are filled in.
        location: Template,
        /// `[QSA]`: the request's query follows.
        append_query: bool,
    },
    /// `set-status`: in early hooks an answer of our own, else the answer's status.
    SetStatus(u16),
    /// `set-status-reason`
    SetReason(Template),
    /// `set-body`: instead of the body of an answer of our own.
    SetBody(Template),
    /// `counter`: one more; the number of the counter in [`crate::ast::RuleList::counters`].
    Counter(u32),
    /// `no-op`
    NoOp,
    /// `set-state-flag`, `set-session-flag`
    SetFlag(Lifetime, u8, bool),
    /// `set-state-int8`, `set-session-int8`
    SetInt8(Lifetime, u8, Template),
    /// `set-state-int16`, `set-session-int16`
    SetInt16(Lifetime, Template),
    /// `set-http-cntl`
    SetControl(HttpControl, bool),
    /// `set-conn-dscp`: 0 to 63.
    SetDscp(u8),
    /// `run-plugin`: a filter of this build.
    Filter(FilterCall),
}

/// A value: text with variables in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// In order; no two texts beside each other. Empty: no text at all.
    pub parts: Vec<TemplatePart>,
}

/// Part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// As it is: no control byte is in it.
    Text(Box<[u8]>),
    /// Filled in.
    Variable(Variable),
}

/// A checked file.
#[derive(Clone, Debug)]
pub struct RuleList {
    /// What the file is called.
    pub file: String,
    /// In order.
    pub rules: Vec<Rule>,
    /// Names of the counters that it counts.
    pub counters: Vec<String>,
}

impl Template {
    /// The text, if there is no variable in it.
    pub fn constant(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [TemplatePart::Text(text)] => Some(text),
            _ => None,
        }
    }
}
