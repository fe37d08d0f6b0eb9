//! Checks qualifiers: the part of a condition's name after the colon.

use crate::{
    ast::{
        AddressKind, CertificatePart, ConnectionPart, Hook, HttpControl, IdKind, PortKind,
        TimePart, UrlKind, UrlPart, Variable,
    },
    check::{hook, number::number_in, suggest::did_you_mean, unsupported},
    diagnostic::{CheckResult, Diagnostic},
    lex::SourceWord,
};

pub(super) fn one_of<T: Clone>(word: &SourceWord, table: &[(&str, T)]) -> CheckResult<T> {
    let found = table.iter().find(|(name, _)| *name == word.as_str());
    found.map(|(_, value)| value.clone()).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        Diagnostic::error(word.at, format!("unknown qualifier {}", word.as_str()))
            .hint(did_you_mean(word.as_str(), &names))
    })
}

pub(super) const TIMES: &[(&str, TimePart)] = &[
    ("EPOCH", TimePart::Epoch),
    ("YEAR", TimePart::Year),
    ("MONTH", TimePart::Month),
    ("DAY", TimePart::Day),
    ("HOUR", TimePart::Hour),
    ("MINUTE", TimePart::Minute),
    ("WEEKDAY", TimePart::Weekday),
    ("YEARDAY", TimePart::YearDay),
];

pub(super) const IDS: &[(&str, IdKind)] =
    &[("REQUEST", IdKind::Request), ("PROCESS", IdKind::Process), ("UNIQUE", IdKind::Unique)];

pub(super) const ADDRESSES: &[(&str, AddressKind)] = &[
    ("CLIENT", AddressKind::Client),
    ("INBOUND", AddressKind::Inbound),
    ("SERVER", AddressKind::Server),
    ("OUTBOUND", AddressKind::Outbound),
];

pub(super) const INBOUND: &[(&str, Variable)] = &[
    ("LOCAL-ADDR", Variable::Address(AddressKind::Inbound)),
    ("LOCAL-PORT", Variable::Port(PortKind::Local)),
    ("REMOTE-ADDR", Variable::Address(AddressKind::Client)),
    ("REMOTE-PORT", Variable::Port(PortKind::Remote)),
    ("TLS", Variable::Connection(ConnectionPart::Tls)),
    ("H2", Variable::Connection(ConnectionPart::H2)),
    ("IPV4", Variable::Connection(ConnectionPart::Ipv4)),
    ("IPV6", Variable::Connection(ConnectionPart::Ipv6)),
    ("IP-FAMILY", Variable::Connection(ConnectionPart::IpFamily)),
    ("STACK", Variable::Connection(ConnectionPart::Stack)),
    ("CLIENT-CERT:SUBJECT", Variable::ClientCertificate(CertificatePart::Subject)),
    ("CLIENT-CERT:ISSUER", Variable::ClientCertificate(CertificatePart::Issuer)),
    ("CLIENT-CERT:SERIAL", Variable::ClientCertificate(CertificatePart::Serial)),
    ("CLIENT-CERT:FINGERPRINT", Variable::ClientCertificate(CertificatePart::Fingerprint)),
    ("CLIENT-CERT:SAN:DNS", Variable::ClientCertificate(CertificatePart::DnsNames)),
    ("CLIENT-CERT:SAN:EMAIL", Variable::ClientCertificate(CertificatePart::Emails)),
    ("CLIENT-CERT:SAN:URI", Variable::ClientCertificate(CertificatePart::Uris)),
    ("CLIENT-CERT:SAN:IP", Variable::ClientCertificate(CertificatePart::Addresses)),
];

/// Reads the name of a control that rules may set.
pub(crate) fn control(word: &SourceWord) -> CheckResult<HttpControl> {
    if let Some((why, hint)) = unsupported::control(word.as_str()) {
        return Err(Diagnostic::error(word.at, format!("{}: {why}", word.as_str())).hint(hint));
    }
    one_of(
        word,
        &[
            ("LOGGING", HttpControl::Logging),
            ("RESP_CACHEABLE", HttpControl::ResponseCacheable),
            ("REQ_CACHEABLE", HttpControl::RequestCacheable),
            ("SERVER_NO_STORE", HttpControl::ServerNoStore),
        ],
    )
}

/// Reads a part of a URL, as conditions and `set-destination` name it.
pub(crate) fn url_part(word: &SourceWord) -> CheckResult<UrlPart> {
    if let Some(name) = word.as_str().strip_prefix("QUERY:")
        && !name.is_empty()
    {
        return Ok(UrlPart::QueryParameter(name.as_bytes().into()));
    }
    if word.as_str() == "MATRIX" {
        let problem = Diagnostic::error(word.at, "MATRIX is not separate from the path");
        return Err(problem.hint("use PATH, which includes the parameters"));
    }
    one_of(
        word,
        &[
            ("SCHEME", UrlPart::Scheme),
            ("HOST", UrlPart::Host),
            ("PORT", UrlPart::Port),
            ("PATH", UrlPart::Path),
            ("QUERY", UrlPart::Query),
            ("URL", UrlPart::Whole),
        ],
    )
}

pub(super) fn url_of(word: &SourceWord, name: &str, hook: Hook) -> CheckResult<UrlKind> {
    let early = hook == Hook::ReadRequest;
    match name {
        // From the remap hook on, `CLIENT-URL` is the URL that the client requested, unchanged by
        // rules.
        "CLIENT-URL" if early => Ok(UrlKind::Client),
        "CLIENT-URL" => Ok(UrlKind::Original),
        "URL" if hook == Hook::SendRequest => Ok(UrlKind::Server),
        "URL" => Ok(UrlKind::Client),
        "SERVER-URL" if !early => Ok(UrlKind::Server),
        "FROM-URL" if hook == Hook::Remap => Ok(UrlKind::Original),
        "TO-URL" if hook == Hook::Remap => Ok(UrlKind::Server),
        _ => Err(not_at(
            word,
            name,
            hook,
            "use CLIENT-URL, or URL for the request in its current form",
        )),
    }
}

/// Returns the error for a condition or an operator that is not available at this hook.
pub(crate) fn not_at(word: &SourceWord, name: &str, hook: Hook, hint: &str) -> Diagnostic {
    let message = format!("{name} is not available at {}", hook::name(hook));
    Diagnostic::error(word.at, message).hint(hint)
}

pub(super) fn status(word: &SourceWord, hook: Hook) -> CheckResult<Variable> {
    match hook {
        Hook::ReadResponse | Hook::SendResponse => Ok(Variable::Status),
        _ => Err(not_at(
            word,
            "STATUS",
            hook,
            "there is no response yet: use READ_RESPONSE_HDR_HOOK or SEND_RESPONSE_HDR_HOOK",
        )),
    }
}

pub(super) fn next_hop(qualifier: &SourceWord, hook: Hook) -> CheckResult<Variable> {
    if hook == Hook::ReadRequest {
        let hint = "the origin is known only from REMAP_PSEUDO_HOOK on";
        return Err(not_at(qualifier, "NEXT-HOP", hook, hint));
    }
    one_of(qualifier, &[("HOST", Variable::NextHopHost), ("PORT", Variable::NextHopPort)])
}

pub(super) fn index(word: &SourceWord, max: u8, what: &str) -> CheckResult<u8> {
    let found = number_in(word, 0..=i64::from(max), what)?;
    Ok(u8::try_from(found).unwrap_or(max))
}

/// Reads `24`, `24,48` or `,48`: the numbers of bits of an IPv4 and an IPv6 address.
pub(super) fn cidr(word: &SourceWord) -> CheckResult<Variable> {
    let text = word.as_str();
    let v4_len = text.find([',', '/', ':']).unwrap_or(text.len());
    let v4 = word.part(0..v4_len);
    let v6 = word.part((v4_len + 1).min(text.len())..text.len());
    let bits = |word: &SourceWord, max: u8, default: u8, what: &str| match word.as_str() {
        "" => Ok(default),
        _ => index(word, max, what),
    };
    Ok(Variable::Cidr {
        v4_bits: bits(&v4, 32, 24, "the number of bits of an IPv4 address")?,
        v6_bits: bits(&v6, 128, 48, "the number of bits of an IPv6 address")?,
    })
}
