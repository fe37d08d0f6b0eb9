//! Checks the text between `%{` and `}`: the name of a condition and its qualifier.

use crate::{
    ast::{
        AddressKind, Hook, IdKind, Lifetime, MessageKind, PortKind, TimePart, UrlKind, UrlPart,
        Variable,
    },
    check::{
        field::{cookie, field},
        hook::nearest_hook,
        number::number_in,
        qualifier::{
            ADDRESSES, IDS, INBOUND, TIMES, cidr, control, index, next_hop, one_of, status, url_of,
            url_part,
        },
        suggest::nearest,
        unsupported,
    },
    diagnostic::{CheckResult, Diagnostic},
    lex::SourceWord,
};

/// The names of all supported conditions.
pub(crate) const NAMES: &[&str] = &[
    "CACHE",
    "CIDR",
    "CLIENT-HEADER",
    "CLIENT-URL",
    "COOKIE",
    "FALSE",
    "FROM-URL",
    "GROUP",
    "HEADER",
    "HTTP-CNTL",
    "ID",
    "INBOUND",
    "INTERNAL-TRANSACTION",
    "INTERNAL-TXN",
    "IP",
    "LAST-CAPTURE",
    "METHOD",
    "NEXT-HOP",
    "NOW",
    "RANDOM",
    "SERVER-HEADER",
    "SERVER-URL",
    "SESSION-FLAG",
    "SESSION-INT16",
    "SESSION-INT8",
    "STATE-FLAG",
    "STATE-INT16",
    "STATE-INT8",
    "STATUS",
    "TO-URL",
    "TRUE",
    "TXN-COUNT",
    "URL",
];

/// The type of a variable's value; it decides which operands are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Text,
    Number,
    Flag,
    Address,
}

impl ValueKind {
    pub(crate) fn of(variable: &Variable) -> ValueKind {
        match variable {
            Variable::Constant(_) | Variable::Flag(..) | Variable::Control(_) => ValueKind::Flag,
            Variable::Status
            | Variable::Now(_)
            | Variable::Random(_)
            | Variable::Port(_)
            | Variable::NextHopPort
            | Variable::Int8(..)
            | Variable::Int16(_)
            | Variable::TransactionCount
            | Variable::Id(IdKind::Request)
            | Variable::Url(_, UrlPart::Port) => ValueKind::Number,
            Variable::Address(_) => ValueKind::Address,
            _ => ValueKind::Text,
        }
    }
}

/// Reads `NAME` or `NAME:qualifier` in a rule of this hook.
pub(crate) fn variable(word: &SourceWord, hook: Hook) -> CheckResult<Variable> {
    let text = word.as_str();
    let name_len = text.find(':').unwrap_or(text.len());
    let name = text.get(..name_len).unwrap_or_default();
    let qualifier = (name_len < text.len()).then(|| word.part(name_len + 1..text.len()));
    let qualifier = qualifier.filter(|word| !word.as_str().is_empty());
    if let Some((why, hint)) =
        unsupported::condition(name, qualifier.as_ref().map(SourceWord::as_str))
    {
        return Err(Diagnostic::error(word.at, format!("%{{{text}}}: {why}")).hint(hint));
    }
    match qualifier {
        None => plain(word, name, hook),
        Some(qualifier) => qualified(word, name, &qualifier, hook),
    }
}

/// Reads a name without a qualifier.
fn plain(word: &SourceWord, name: &str, hook: Hook) -> CheckResult<Variable> {
    let found = match name {
        "TRUE" => Variable::Constant(true),
        "FALSE" | "INTERNAL-TRANSACTION" | "INTERNAL-TXN" => Variable::Constant(false),
        "METHOD" => Variable::Method,
        "STATUS" => status(word, hook)?,
        "CACHE" => Variable::Cache,
        "NOW" => Variable::Now(TimePart::Epoch),
        "ID" => Variable::Id(IdKind::Unique),
        "CIDR" => Variable::Cidr { v4_bits: 24, v6_bits: 48 },
        "LAST-CAPTURE" => Variable::LastCapture(0),
        "STATE-INT16" => Variable::Int16(Lifetime::Transaction),
        "SESSION-INT16" => Variable::Int16(Lifetime::Session),
        "TXN-COUNT" => Variable::TransactionCount,
        "CLIENT-URL" | "URL" | "FROM-URL" | "TO-URL" | "SERVER-URL" => {
            Variable::Url(url_of(word, name, hook)?, UrlPart::Whole)
        }
        // These names are from older versions of the language.
        "PATH" => Variable::Url(UrlKind::Client, UrlPart::Path),
        "QUERY" => Variable::Url(UrlKind::Client, UrlPart::Query),
        "CLIENT-IP" => Variable::Address(AddressKind::Client),
        "INCOMING-PORT" => Variable::Port(PortKind::Local),
        _ => return Err(without_qualifier(word, name)),
    };
    Ok(found)
}

fn without_qualifier(word: &SourceWord, name: &str) -> Diagnostic {
    let example = match name {
        "HEADER" | "CLIENT-HEADER" | "SERVER-HEADER" => "X-Name",
        "COOKIE" => "name",
        "RANDOM" => "100",
        "IP" => "CLIENT",
        "INBOUND" => "LOCAL-PORT",
        "NEXT-HOP" => "HOST",
        "HTTP-CNTL" => "LOGGING",
        "STATE-FLAG" | "SESSION-FLAG" | "STATE-INT8" | "SESSION-INT8" => "0",
        "GROUP" => return Diagnostic::error(word.at, "%{GROUP} is not a value"),
        _ => return unknown(word, name),
    };
    Diagnostic::error(word.at, format!("%{{{name}}} needs a qualifier"))
        .hint(format!("such as %{{{name}:{example}}}"))
}

fn unknown(word: &SourceWord, name: &str) -> Diagnostic {
    let text = word.as_str();
    let problem = Diagnostic::error(word.at, format!("there is no condition {name}"));
    let rest = text.get(name.len()..).unwrap_or_default();
    match nearest(name, NAMES).or_else(|| nearest_hook(name)) {
        Some(near) => problem.hint(format!("did you mean %{{{near}{rest}}}?")),
        None => problem.hint("see docs/rules.md for all conditions"),
    }
}

fn qualified(
    word: &SourceWord,
    name: &str,
    qualifier: &SourceWord,
    hook: Hook,
) -> CheckResult<Variable> {
    Ok(match name {
        "HEADER" => Variable::Header(MessageKind::AtHand, field(qualifier)?),
        "CLIENT-HEADER" => Variable::Header(MessageKind::ClientRequest, field(qualifier)?),
        "SERVER-HEADER" if matches!(hook, Hook::ReadResponse | Hook::SendResponse) => {
            let message = "the request to the origin is not kept for this hook";
            return Err(Diagnostic::error(word.at, message).hint(
                "test HEADER at SEND_REQUEST_HDR_HOOK, and pass the result in a STATE-FLAG",
            ));
        }
        "SERVER-HEADER" => Variable::Header(MessageKind::ServerRequest, field(qualifier)?),
        "COOKIE" => Variable::Cookie(cookie(qualifier)?),
        "CLIENT-URL" | "URL" | "FROM-URL" | "TO-URL" | "SERVER-URL" => {
            Variable::Url(url_of(word, name, hook)?, url_part(qualifier)?)
        }
        "NOW" => Variable::Now(one_of(qualifier, TIMES)?),
        "RANDOM" => {
            let below = number_in(qualifier, 1..=i64::from(u32::MAX), "the number after RANDOM")?;
            Variable::Random(u32::try_from(below).unwrap_or(u32::MAX))
        }
        "ID" => Variable::Id(one_of(qualifier, IDS)?),
        "IP" => Variable::Address(one_of(qualifier, ADDRESSES)?),
        "INBOUND" => one_of(qualifier, INBOUND)?,
        "CIDR" => cidr(qualifier)?,
        "LAST-CAPTURE" => Variable::LastCapture(index(qualifier, 9, "the number of the group")?),
        "NEXT-HOP" => next_hop(qualifier, hook)?,
        "STATE-FLAG" => Variable::Flag(Lifetime::Transaction, index(qualifier, 15, FLAG)?),
        "SESSION-FLAG" => Variable::Flag(Lifetime::Session, index(qualifier, 15, FLAG)?),
        "STATE-INT8" => Variable::Int8(Lifetime::Transaction, index(qualifier, 3, INT8)?),
        "SESSION-INT8" => Variable::Int8(Lifetime::Session, index(qualifier, 3, INT8)?),
        "STATE-INT16" | "SESSION-INT16" => {
            number_in(qualifier, 0..=0, ONLY_INT16)?;
            plain(word, name, hook)?
        }
        "HTTP-CNTL" => Variable::Control(control(qualifier)?),
        _ => return Err(no_qualifier(word, name, qualifier)),
    })
}

const FLAG: &str = "the number of the flag";
const INT8: &str = "the number of an INT8";
/// Continues as "… must be 0, not 5".
pub(super) const ONLY_INT16: &str = "there is only one INT16, so its number";

fn no_qualifier(word: &SourceWord, name: &str, qualifier: &SourceWord) -> Diagnostic {
    const PLAIN: &[&str] = &[
        "TRUE",
        "FALSE",
        "INTERNAL-TRANSACTION",
        "INTERNAL-TXN",
        "METHOD",
        "STATUS",
        "CACHE",
        "TXN-COUNT",
    ];
    if PLAIN.contains(&name) {
        return Diagnostic::error(qualifier.at, format!("%{{{name}}} takes no qualifier"));
    }
    if name == "GROUP" {
        return Diagnostic::error(
            qualifier.at,
            "a group begins with %{GROUP} and ends with %{GROUP:END}",
        );
    }
    unknown(word, name)
}
