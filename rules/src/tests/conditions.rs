use forebay_http::edit::FieldName;

use crate::ast::{
    AddressKind, CertificatePart, ConnectionPart, HttpControl, IdKind, Lifetime, MessageKind,
    PortKind, TimePart, UrlKind, UrlPart, Variable,
};

use super::test_at;

fn field(name: &str) -> FieldName {
    FieldName::parse(name.as_bytes()).expect("a name")
}

fn certificate(part: CertificatePart) -> Variable {
    Variable::ClientCertificate(part)
}

/// Checks the variable of each condition at SEND_RESPONSE_HDR_HOOK. Each condition has an operand
/// of the variable's type.
fn check(cases: &[(&str, Variable)]) {
    for (condition, subject) in cases {
        let found = test_at("SEND_RESPONSE_HDR_HOOK", &format!("cond %{{{condition}"));
        assert_eq!(found.subject, *subject, "{condition}");
        assert!(!found.negated, "{condition}");
    }
}

#[test]
fn every_condition_is_parsed_to_its_variable() {
    let parameter = UrlPart::QueryParameter(b"page".as_slice().into());
    check(&[
        ("TRUE}", Variable::Constant(true)),
        ("FALSE}", Variable::Constant(false)),
        ("INTERNAL-TRANSACTION}", Variable::Constant(false)),
        ("INTERNAL-TXN}", Variable::Constant(false)),
        ("HEADER:X-A} =a", Variable::Header(MessageKind::AtHand, field("x-a"))),
        ("CLIENT-HEADER:X-A} =a", Variable::Header(MessageKind::ClientRequest, field("x-a"))),
        ("COOKIE:id} =a", Variable::Cookie(b"id".as_slice().into())),
        ("CLIENT-URL} =a", Variable::Url(UrlKind::Original, UrlPart::Whole)),
        ("CLIENT-URL:URL} =a", Variable::Url(UrlKind::Original, UrlPart::Whole)),
        ("CLIENT-URL:HOST} =a", Variable::Url(UrlKind::Original, UrlPart::Host)),
        ("CLIENT-URL:PORT} =80", Variable::Url(UrlKind::Original, UrlPart::Port)),
        ("CLIENT-URL:PATH} =a", Variable::Url(UrlKind::Original, UrlPart::Path)),
        ("CLIENT-URL:QUERY} =a", Variable::Url(UrlKind::Original, UrlPart::Query)),
        ("CLIENT-URL:QUERY:page} =a", Variable::Url(UrlKind::Original, parameter)),
        ("CLIENT-URL:SCHEME} =http", Variable::Url(UrlKind::Original, UrlPart::Scheme)),
        ("URL:PATH} =a", Variable::Url(UrlKind::Client, UrlPart::Path)),
        ("SERVER-URL:PATH} =a", Variable::Url(UrlKind::Server, UrlPart::Path)),
        ("PATH} =a", Variable::Url(UrlKind::Client, UrlPart::Path)),
        ("QUERY} =a", Variable::Url(UrlKind::Client, UrlPart::Query)),
        ("METHOD} =GET", Variable::Method),
        ("STATUS} =200", Variable::Status),
        ("CACHE} =hit-fresh", Variable::Cache),
    ]);
}

#[test]
fn conditions_on_time_and_connection_are_read() {
    check(&[
        ("NOW} >5", Variable::Now(TimePart::Epoch)),
        ("NOW:EPOCH} >5", Variable::Now(TimePart::Epoch)),
        ("NOW:YEAR} =2026", Variable::Now(TimePart::Year)),
        ("NOW:MONTH} =0", Variable::Now(TimePart::Month)),
        ("NOW:DAY} =1", Variable::Now(TimePart::Day)),
        ("NOW:HOUR} =0", Variable::Now(TimePart::Hour)),
        ("NOW:MINUTE} =0", Variable::Now(TimePart::Minute)),
        ("NOW:WEEKDAY} =0", Variable::Now(TimePart::Weekday)),
        ("NOW:YEARDAY} =0", Variable::Now(TimePart::YearDay)),
        ("RANDOM:500} >290", Variable::Random(500)),
        ("ID} =a", Variable::Id(IdKind::Unique)),
        ("ID:UNIQUE} =a", Variable::Id(IdKind::Unique)),
        ("ID:PROCESS} =a", Variable::Id(IdKind::Process)),
        ("ID:REQUEST} >100", Variable::Id(IdKind::Request)),
        ("IP:CLIENT} =10.0.0.1", Variable::Address(AddressKind::Client)),
        ("CLIENT-IP} =10.0.0.1", Variable::Address(AddressKind::Client)),
        ("IP:INBOUND} =10.0.0.1", Variable::Address(AddressKind::Inbound)),
        ("IP:SERVER} =10.0.0.1", Variable::Address(AddressKind::Server)),
        ("IP:OUTBOUND} =10.0.0.1", Variable::Address(AddressKind::Outbound)),
        ("INBOUND:LOCAL-ADDR} =10.0.0.1", Variable::Address(AddressKind::Inbound)),
        ("INBOUND:REMOTE-ADDR} =10.0.0.1", Variable::Address(AddressKind::Client)),
        ("INBOUND:LOCAL-PORT} =80", Variable::Port(PortKind::Local)),
        ("INCOMING-PORT} =80", Variable::Port(PortKind::Local)),
        ("INBOUND:REMOTE-PORT} >1023", Variable::Port(PortKind::Remote)),
        ("INBOUND:TLS} /./", Variable::Connection(ConnectionPart::Tls)),
        ("INBOUND:H2} =h2", Variable::Connection(ConnectionPart::H2)),
        ("INBOUND:IPV4} =ipv4", Variable::Connection(ConnectionPart::Ipv4)),
        ("INBOUND:IPV6} =ipv6", Variable::Connection(ConnectionPart::Ipv6)),
        ("INBOUND:IP-FAMILY} =ipv4", Variable::Connection(ConnectionPart::IpFamily)),
        ("INBOUND:STACK} /tcp/", Variable::Connection(ConnectionPart::Stack)),
        ("INBOUND:CLIENT-CERT:SUBJECT} =\"CN=a\"", certificate(CertificatePart::Subject)),
        ("INBOUND:CLIENT-CERT:ISSUER} =\"CN=a\"", certificate(CertificatePart::Issuer)),
        ("INBOUND:CLIENT-CERT:SERIAL} =0A", certificate(CertificatePart::Serial)),
        ("INBOUND:CLIENT-CERT:FINGERPRINT} =0a", certificate(CertificatePart::Fingerprint)),
        ("INBOUND:CLIENT-CERT:SAN:DNS} =a", certificate(CertificatePart::DnsNames)),
        ("INBOUND:CLIENT-CERT:SAN:EMAIL} =a@b", certificate(CertificatePart::Emails)),
        ("INBOUND:CLIENT-CERT:SAN:URI} =a:b", certificate(CertificatePart::Uris)),
        ("INBOUND:CLIENT-CERT:SAN:IP} =::1", certificate(CertificatePart::Addresses)),
        ("CIDR} =10.0.0.0", Variable::Cidr { v4_bits: 24, v6_bits: 48 }),
        ("CIDR:16} =10.0.0.0", Variable::Cidr { v4_bits: 16, v6_bits: 48 }),
        ("CIDR:18,42} =10.0.0.0", Variable::Cidr { v4_bits: 18, v6_bits: 42 }),
        ("CIDR:,8} =fd00::", Variable::Cidr { v4_bits: 24, v6_bits: 8 }),
    ]);
}

#[test]
fn conditions_on_variables_and_captures_are_read() {
    check(&[
        ("LAST-CAPTURE} =a", Variable::LastCapture(0)),
        ("LAST-CAPTURE:9} =a", Variable::LastCapture(9)),
        ("NEXT-HOP:HOST} =a", Variable::NextHopHost),
        ("NEXT-HOP:PORT} =80", Variable::NextHopPort),
        ("STATE-FLAG:15}", Variable::Flag(Lifetime::Transaction, 15)),
        ("SESSION-FLAG:0}", Variable::Flag(Lifetime::Session, 0)),
        ("STATE-INT8:3} =1", Variable::Int8(Lifetime::Transaction, 3)),
        ("SESSION-INT8:0} =1", Variable::Int8(Lifetime::Session, 0)),
        ("STATE-INT16} =1", Variable::Int16(Lifetime::Transaction)),
        ("STATE-INT16:0} =1", Variable::Int16(Lifetime::Transaction)),
        ("SESSION-INT16} =1", Variable::Int16(Lifetime::Session)),
        ("TXN-COUNT} =1", Variable::TransactionCount),
        ("HTTP-CNTL:LOGGING}", Variable::Control(HttpControl::Logging)),
        ("HTTP-CNTL:RESP_CACHEABLE}", Variable::Control(HttpControl::ResponseCacheable)),
        ("HTTP-CNTL:REQ_CACHEABLE}", Variable::Control(HttpControl::RequestCacheable)),
        ("HTTP-CNTL:SERVER_NO_STORE}", Variable::Control(HttpControl::ServerNoStore)),
    ]);
}

#[test]
fn the_origin_request_is_readable_until_its_response() {
    let found = test_at("SEND_REQUEST_HDR_HOOK", "cond %{SERVER-HEADER:X-A} =a");
    assert_eq!(found.subject, Variable::Header(MessageKind::ServerRequest, field("x-a")));
}

#[test]
fn the_meaning_of_url_depends_on_the_hook() {
    for (hook, condition, of) in [
        ("READ_REQUEST_HDR_HOOK", "CLIENT-URL", UrlKind::Client),
        ("READ_REQUEST_HDR_HOOK", "URL", UrlKind::Client),
        ("REMAP_PSEUDO_HOOK", "CLIENT-URL", UrlKind::Original),
        ("REMAP_PSEUDO_HOOK", "FROM-URL", UrlKind::Original),
        ("REMAP_PSEUDO_HOOK", "TO-URL", UrlKind::Server),
        ("REMAP_PSEUDO_HOOK", "URL", UrlKind::Client),
        ("SEND_REQUEST_HDR_HOOK", "URL", UrlKind::Server),
        ("SEND_REQUEST_HDR_HOOK", "SERVER-URL", UrlKind::Server),
        ("READ_RESPONSE_HDR_HOOK", "URL", UrlKind::Client),
    ] {
        let found = test_at(hook, &format!("cond %{{{condition}:HOST}} =a"));
        assert_eq!(found.subject, Variable::Url(of, UrlPart::Host), "{hook} {condition}");
    }
}
