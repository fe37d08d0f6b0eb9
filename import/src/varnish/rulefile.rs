//! Files of header rules (`docs/rules.md`).

use super::outcome::{Cond, FieldChange, RequestRule, RuleAction, SynthAnswer};
use super::regex;

/// Fields that rules must not change.
const FIXED: &[&str] = &[
    "content-length",
    "transfer-encoding",
    "trailer",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "upgrade",
    "host",
];

/// Whether rules may change the field.
pub(super) fn is_free(field: &str) -> bool {
    is_name(field) && !FIXED.contains(&field)
}

/// Whether conditions of rules may have the field.
pub(super) fn is_name(field: &str) -> bool {
    !field.is_empty() && field.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// A line with a condition.
pub(super) fn cond_line(cond: &Cond, positive: bool) -> Option<String> {
    let (name, operand) = match cond {
        Cond::Field(name) => (format!("CLIENT-HEADER:{name}"), "/./".to_owned()),
        Cond::FieldIs(name, value) => {
            let whole = format!("^{}$", regex::literal(value));
            (format!("CLIENT-HEADER:{name}"), regex::in_rules(&whole))
        }
        Cond::FieldMatches(name, pattern) => {
            (format!("CLIENT-HEADER:{name}"), regex::in_rules(pattern))
        }
        Cond::HasQuery => ("CLIENT-URL:QUERY".to_owned(), "/./".to_owned()),
        Cond::Url(pattern) => ("CLIENT-URL:URL".to_owned(), regex::in_rules(pattern)),
        Cond::Path(pattern) => ("CLIENT-URL:PATH".to_owned(), regex::in_rules(pattern)),
        Cond::Method(list) => ("METHOD".to_owned(), format!("({})", list.join(","))),
        Cond::Client(list) => ("IP:CLIENT".to_owned(), format!("{{{}}}", list.join(","))),
        Cond::Other(..) => return None,
    };
    let not = if positive { "" } else { " [NOT]" };
    Some(format!("cond %{{{name}}} {operand}{not}\n"))
}

/// A rule for requests.
pub(super) fn request_rule(rule: &RequestRule, has_purge: bool) -> Option<String> {
    let hook = match &rule.action {
        RuleAction::Change(change) if !is_free(&change.name) => return Some(String::new()),
        RuleAction::Change(change) => hook_of(change),
        _ => "REMAP_PSEUDO_HOOK",
    };
    let mut out = format!("cond %{{{hook}}}\n");
    for (cond, positive) in &rule.conds {
        out.push_str(&cond_line(cond, *positive)?);
    }
    match &rule.action {
        RuleAction::Bypass | RuleAction::Pipe => {
            out.push_str("set-http-cntl REQ_CACHEABLE off\nset-http-cntl SERVER_NO_STORE on\n");
        }
        RuleAction::Answer(answer) => {
            let names_method = rule
                .conds
                .iter()
                .any(|(cond, positive)| matches!(cond, Cond::Method(_)) && *positive);
            if has_purge && !names_method {
                out.push_str("cond %{METHOD} (PURGE,BAN) [NOT]\n");
            }
            out.push_str(&answer_lines(answer));
        }
        RuleAction::Change(change) => out.push_str(&change_lines(change)),
    }
    out.push('\n');
    Some(out)
}

fn answer_lines(answer: &SynthAnswer) -> String {
    let Some(location) = &answer.location else {
        let body = match is_plain(&answer.body) && !answer.body.is_empty() {
            true => format!("set-body \"{}\"\n", answer.body),
            false => String::new(),
        };
        return format!("set-status {} [L]\n{body}", answer.status);
    };
    let (flags, path) = match location.contains("$uri") {
        true => ("[QSA,L]", location.replace("$uri", "/%{CLIENT-URL:PATH}")),
        false => ("[L]", location.clone()),
    };
    let url = path.replace("$host", "%{CLIENT-URL:HOST}");
    format!("set-redirect {} \"{url}\" {flags}\n", answer.status)
}

fn is_plain(text: &str) -> bool {
    text.chars().all(|c| (c.is_ascii_graphic() || c == ' ') && !"\"%\\".contains(c))
}

/// Lines that change a field.
pub(super) fn change_lines(change: &FieldChange) -> String {
    let FieldChange { name, value } = change;
    match value {
        // A variable that is empty would leave a field of the client as it is.
        Some(value) if !value.contains('%') => format!("set-header {name} \"{value}\"\n"),
        Some(value) => format!("rm-header {name}\nset-header {name} \"{value}\"\n"),
        None => format!("rm-header {name}\n"),
    }
}

/// Changes of requests on their way to the origin.
pub(super) fn request_changes(changes: &[FieldChange]) -> String {
    let mut out = String::new();
    for change in changes.iter().filter(|change| is_free(&change.name)) {
        let hook = hook_of(change);
        out.push_str(&format!("cond %{{{hook}}}\n{}\n", change_lines(change)));
    }
    out
}

fn hook_of(change: &FieldChange) -> &'static str {
    // Forebay writes these fields itself, just before it sends the request.
    match change.name.starts_with("x-forwarded-") {
        true => "SEND_REQUEST_HDR_HOOK",
        false => "REMAP_PSEUDO_HOOK",
    }
}
