use forebay_http::edit::FieldName;

use crate::ast::{
    HttpControl, IdKind, Lifetime, MessageKind, Operator, PortKind, Template, TemplatePart,
    TimePart, UrlKind, UrlPart, Variable,
};

use super::{operator_at, rules};

pub(super) fn text(text: &str) -> Template {
    Template { parts: vec![part(text)] }
}

fn part(text: &str) -> TemplatePart {
    TemplatePart::Text(text.as_bytes().into())
}

fn field(name: &str) -> FieldName {
    FieldName::parse(name.as_bytes()).expect("a name")
}

fn bytes(text: &str) -> Box<[u8]> {
    text.as_bytes().into()
}

#[test]
fn operators_on_fields_and_cookies_are_parsed() {
    for (operator, expected) in [
        ("set-header X-A b", Operator::SetHeader(field("X-A"), text("b"))),
        ("set-header X-A \"b c\"", Operator::SetHeader(field("X-A"), text("b c"))),
        ("set-header X-A b c", Operator::SetHeader(field("X-A"), text("b c"))),
        ("set-header X-A b  c", Operator::SetHeader(field("X-A"), text("b c"))),
        ("set-header X-A \"a=b\"", Operator::SetHeader(field("X-A"), text("a=b"))),
        ("set-header X-A a=b", Operator::SetHeader(field("X-A"), text("a b"))),
        ("set-header X-A a\\=b", Operator::SetHeader(field("X-A"), text("a=b"))),
        ("set-header X-A \"\\\"q\\\"\"", Operator::SetHeader(field("X-A"), text("\"q\""))),
        ("set-header X-A http://x/y", Operator::SetHeader(field("X-A"), text("http://x/y"))),
        ("set-header X-A /a/b", Operator::SetHeader(field("X-A"), text("/a/ b"))),
        ("set-header X-A \"/a/b\"", Operator::SetHeader(field("X-A"), text("/a/b"))),
        ("set-header X-A (a b)", Operator::SetHeader(field("X-A"), text("(a b)"))),
        ("set-header X-A \"\"", Operator::SetHeader(field("X-A"), Template::default())),
        ("set-header X-A é", Operator::SetHeader(field("X-A"), text("é"))),
        ("add-header X-A b", Operator::AddHeader(field("X-A"), text("b"))),
        ("rm-header X-A", Operator::RemoveHeader(field("X-A"))),
        ("  rm-header   X-A\t", Operator::RemoveHeader(field("X-A"))),
        ("set-cookie a b", Operator::SetCookie(bytes("a"), text("b"))),
        ("add-cookie a \"b\"", Operator::AddCookie(bytes("a"), text("b"))),
        ("rm-cookie a", Operator::RemoveCookie(bytes("a"))),
    ] {
        assert_eq!(operator_at("REMAP_PSEUDO_HOOK", operator), expected, "{operator}");
    }
}

#[test]
fn operators_on_the_response_and_on_variables_are_parsed() {
    let one = |name: &str| Template {
        parts: vec![TemplatePart::Variable(Variable::Cookie(bytes(name)))],
    };
    for (operator, expected) in [
        ("set-status 404", Operator::SetStatus(404)),
        ("set-status-reason \"Not There\"", Operator::SetReason(text("Not There"))),
        ("counter shop.teapots", Operator::Counter(0)),
        ("no-op", Operator::NoOp),
        ("set-body \"gone away\"", Operator::SetBody(text("gone away"))),
        ("set-conn-dscp 10", Operator::SetDscp(10)),
        ("set-http-cntl LOGGING off", Operator::SetControl(HttpControl::Logging, false)),
        ("set-http-cntl LOGGING enable", Operator::SetControl(HttpControl::Logging, true)),
        ("set-http-cntl LOGGING 1", Operator::SetControl(HttpControl::Logging, true)),
        ("set-plugin-cntl TIMEZONE GMT", Operator::NoOp),
        ("set-plugin-cntl INBOUND_IP_SOURCE PEER", Operator::NoOp),
        ("set-state-flag 15 on", Operator::SetFlag(Lifetime::Transaction, 15, true)),
        ("set-session-flag 0 false", Operator::SetFlag(Lifetime::Session, 0, false)),
        ("set-state-int8 3 255", Operator::SetInt8(Lifetime::Transaction, 3, text("255"))),
        ("set-session-int8 0 %{COOKIE:n}", Operator::SetInt8(Lifetime::Session, 0, one("n"))),
        ("set-state-int16 65535", Operator::SetInt16(Lifetime::Transaction, text("65535"))),
        ("set-state-int16 0 7", Operator::SetInt16(Lifetime::Transaction, text("7"))),
        ("set-session-int16 %{COOKIE:n}", Operator::SetInt16(Lifetime::Session, one("n"))),
    ] {
        assert_eq!(operator_at("SEND_RESPONSE_HDR_HOOK", operator), expected, "{operator}");
    }
}

#[test]
fn storing_is_switched_before_it_is_decided() {
    for (control, expected) in [
        ("RESP_CACHEABLE FALSE", Operator::SetControl(HttpControl::ResponseCacheable, false)),
        ("REQ_CACHEABLE 0", Operator::SetControl(HttpControl::RequestCacheable, false)),
        ("SERVER_NO_STORE TRUE", Operator::SetControl(HttpControl::ServerNoStore, true)),
    ] {
        let found = operator_at("REMAP_PSEUDO_HOOK", &format!("set-http-cntl {control}"));
        assert_eq!(found, expected, "{control}");
    }
}

#[test]
fn values_are_texts_with_variables() {
    let variable = |variable| TemplatePart::Variable(variable);
    for (value, expected) in [
        ("%{METHOD}", vec![variable(Variable::Method)]),
        ("\"a %{METHOD} b\"", vec![part("a "), variable(Variable::Method), part(" b")]),
        ("a%{METHOD}", vec![part("a"), variable(Variable::Method)]),
        ("%{STATUS}%{METHOD}", vec![variable(Variable::Status), variable(Variable::Method)]),
        ("%{ID:UNIQUE}", vec![variable(Variable::Id(IdKind::Unique))]),
        ("%{CIDR:24,48}", vec![variable(Variable::Cidr { v4_bits: 24, v6_bits: 48 })]),
        ("%{INBOUND:LOCAL-PORT}", vec![variable(Variable::Port(PortKind::Local))]),
        ("%{NOW:YEAR}/%{NOW:MONTH}", {
            let (year, month) = (TimePart::Year, TimePart::Month);
            vec![variable(Variable::Now(year)), part("/"), variable(Variable::Now(month))]
        }),
        ("\"100%\"", vec![part("100%")]),
        ("\"{a}\"", vec![part("{a}")]),
        ("\"%<unknown>\"", vec![part("%<unknown>")]),
    ] {
        let found = operator_at("SEND_RESPONSE_HDR_HOOK", &format!("set-header X-A {value}"));
        let wanted = Operator::SetHeader(field("X-A"), Template { parts: expected });
        assert_eq!(found, wanted, "{value}");
    }
}

#[test]
fn a_redirect_accepts_old_names_and_the_query() {
    let path = TemplatePart::Variable(Variable::Url(UrlKind::Client, UrlPart::Path));
    let location = Template { parts: vec![part("http://x/"), path] };
    let found = operator_at("REMAP_PSEUDO_HOOK", "set-redirect 301 http://x/%{PATH} [QSA,L]");
    assert_eq!(found, Operator::SetRedirect { status: 301, location, append_query: true });
}

#[test]
fn a_counter_has_one_number_per_file() {
    let text = "counter a\ncounter b\ncounter a";
    let read = crate::read("test", text, crate::ast::RuleScope::Route);
    assert_eq!(read.rules.counters, ["a", "b"]);
    let steps = &rules(text, crate::ast::RuleScope::Route)[0].branches[0].steps;
    let numbers: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
    for (step, number) in numbers.iter().zip([0, 1, 0]) {
        assert!(step.contains(&format!("Counter({number})")), "{step}");
    }
}

#[test]
fn some_fields_can_be_read_but_not_set() {
    let name = field("Content-Length");
    let parts = vec![TemplatePart::Variable(Variable::Header(MessageKind::ClientRequest, name))];
    let found = operator_at("REMAP_PSEUDO_HOOK", "set-header A %{CLIENT-HEADER:Content-Length}");
    assert_eq!(found, Operator::SetHeader(field("A"), Template { parts }));
}
