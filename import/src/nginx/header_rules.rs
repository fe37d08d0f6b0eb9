//! `proxy_set_header`, `proxy_hide_header`, `add_header` and `expires` as header rules.

use forebay_rules::ast::RuleScope;

use super::caching;
use super::fields;
use super::real_ip;
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

const TO_ORIGIN: &str = "cond %{SEND_REQUEST_HDR_HOOK}";
const TO_CLIENT: &str = "cond %{SEND_RESPONSE_HDR_HOOK}";

/// The statuses of responses that get `add_header` without `always`, and `expires`.
const SUCCESSES: &str = "cond %{STATUS} (200,201,204,206,301,302,303,304,307,308)";

/// Fields that Forebay writes itself, or needs for requests of its own, such as for the rest of a
/// response.
const OWN_FIELDS: &[&str] = &[
    "host",
    "connection",
    "upgrade",
    "te",
    "expect",
    "via",
    "accept-encoding",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
];

/// Spellings of a name that are removed: those of three hyphens.
const SPELLINGS_MAX: usize = 8;

/// Variables, and their counterparts in rules.
const VARIABLES: &[(&str, &str)] = &[
    ("host", "%{CLIENT-URL:HOST}"),
    ("scheme", "%{CLIENT-URL:SCHEME}"),
    ("remote_addr", "%{IP:CLIENT}"),
    ("realip_remote_addr", "%{IP:CLIENT}"),
    ("remote_port", "%{INBOUND:REMOTE-PORT}"),
    ("server_addr", "%{IP:INBOUND}"),
    ("server_port", "%{INBOUND:LOCAL-PORT}"),
];

/// The operators for a field of the request to the origin, if rules can set it.
pub(super) fn of_request(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    directive: &NginxDirective,
) -> Option<Vec<String>> {
    let name = directive.arg(0);
    if OWN_FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
        return None;
    }
    // A client may send the field, and `set-header` with an empty value changes nothing.
    let names = spellings(name)?.into_iter();
    let mut operators = names
        .map(|name| checked(TO_ORIGIN, format!("rm-header {name}")))
        .collect::<Option<Vec<_>>>()?;
    let value = value(source, scope, directive.arg(1))?;
    if !value.is_empty() {
        operators.push(checked(TO_ORIGIN, format!("set-header {name} \"{value}\""))?);
    }
    Some(operators)
}

/// The names that programs behind CGI and similar interfaces take for this one, itself first. nginx
/// drops names with an underscore.
fn spellings(name: &str) -> Option<Vec<String>> {
    let mut names = vec![String::new()];
    for character in name.chars() {
        let others = match character {
            '-' => names.iter().map(|name| format!("{name}_")).collect(),
            _ => Vec::new(),
        };
        names.iter_mut().for_each(|name| name.push(character));
        names.extend(others);
        if names.len() > SPELLINGS_MAX {
            return None;
        }
    }
    Some(names)
}

/// Writes the rules of a route to a file beside the configuration.
pub(super) fn write(source: &NginxSource<'_>, scope: &BlockScope<'_>, table: &mut TomlTable) {
    let answers = ["redirect", "respond", "files"].iter().any(|name| table.has(name));
    let is_proxied = scope.pass().is_some() && !answers;
    let mut text = String::new();
    if is_proxied {
        let set = scope.sent_fields().into_iter().filter(|one| !fields::is_done(one));
        let operators = set.filter_map(|one| of_request(source, scope, one)).flatten();
        add_rule(&mut text, &[TO_ORIGIN], operators.collect());
        let operators = scope.hidden_fields().into_iter().filter_map(|one| {
            let operator = checked(TO_CLIENT, format!("rm-header {}", one.arg(0)));
            operator.or_else(|| note(source, one, "the field cannot be removed"))
        });
        add_rule(&mut text, &[TO_CLIENT], operators.collect());
    }
    let (mut always, mut successes) = (Vec::new(), expires(source, scope));
    for directive in scope.all(&["add_header"]).into_iter().filter(|one| !fields::is_known(one)) {
        let operator = value(source, scope, directive.arg(1)).and_then(|value| {
            checked(TO_CLIENT, format!("add-header {} \"{value}\"", directive.arg(0)))
        });
        match (operator, directive.arg(2)) {
            (Some(_), _) if directive.arg(1).is_empty() => {}
            (Some(operator), "always") => always.push(operator),
            (Some(operator), _) => successes.push(operator),
            (None, _) => note(source, directive, "its value has no counterpart").unwrap_or(()),
        }
    }
    if is_proxied && table.value("cache").is_some_and(|value| value == "true") {
        text.push_str(&caching::rules(scope));
    }
    add_rule(&mut text, &[TO_CLIENT, SUCCESSES], successes);
    add_rule(&mut text, &[TO_CLIENT], always);
    if text.is_empty() {
        return;
    }
    let text = format!("# Rules of directives of nginx (docs/rules.md).\n{text}");
    match source.rule_files.borrow_mut().name_of(text) {
        Some(name) => table.texts("rules", &[name]),
        None => {
            let first = source.http.iter().take(1);
            first.for_each(|first| source.note(first, "there are too many header rules"));
        }
    }
}

fn note<T>(source: &NginxSource<'_>, directive: &NginxDirective, reason: &str) -> Option<T> {
    source.note(directive, format!("left out: {reason} in header rules (docs/rules.md)"));
    None
}

fn add_rule(text: &mut String, conditions: &[&str], operators: Vec<String>) {
    if operators.is_empty() {
        return;
    }
    text.push('\n');
    for condition in conditions {
        text.push_str(condition);
        text.push('\n');
    }
    for operator in operators {
        text.push_str(&format!("  {operator}\n"));
    }
}

/// The operators of `expires`, which replaces `Cache-Control`.
fn expires(source: &NginxSource<'_>, scope: &BlockScope<'_>) -> Vec<String> {
    let Some(directive) = scope.one("expires") else { return Vec::new() };
    let value = match directive.args.as_slice() {
        [time] => match time.as_str() {
            "off" => return Vec::new(),
            "epoch" => Some("no-cache".to_owned()),
            "max" => Some("max-age=315360000".to_owned()),
            time if time.starts_with('-') => Some("no-cache".to_owned()),
            time => caching::seconds(time).map(|seconds| format!("max-age={seconds}")),
        },
        _ => None,
    };
    match value {
        Some(value) => vec![
            "rm-header Expires".to_owned(),
            "rm-header Cache-Control".to_owned(),
            format!("set-header Cache-Control \"{value}\""),
        ],
        None => note(source, directive, "this time has no counterpart").unwrap_or_default(),
    }
}

/// An operator that the rules accept at this hook.
fn checked(hook: &str, operator: String) -> Option<String> {
    let rule = format!("{hook}\n  {operator}\n");
    forebay_rules::read("", &rule, RuleScope::Route).is_usable().then_some(operator)
}

/// A value of nginx as a value of rules.
fn value(source: &NginxSource<'_>, scope: &BlockScope<'_>, text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(&literal(before)?);
        let (name, behind) = super::redirect::name_of(after)?;
        out.push_str(&variable(source, scope, name)?);
        rest = behind;
    }
    out.push_str(&literal(rest)?);
    Some(out)
}

/// Text without variables, for a value in quotes.
fn literal(text: &str) -> Option<String> {
    let is_plain = |c: char| (' '..='~').contains(&c);
    let is_usable = text.chars().all(is_plain) && !text.contains("%{") && !text.contains("%<");
    is_usable.then(|| text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn variable(source: &NginxSource<'_>, scope: &BlockScope<'_>, name: &str) -> Option<String> {
    let is_address = matches!(name, "remote_addr" | "realip_remote_addr");
    if is_address && !real_ip::is_known(source, scope) {
        return None;
    }
    if name == "server_name" {
        let server = scope.everything().find(|one| one.name == "server_name")?;
        return literal(server.arg(0)).filter(|name| !name.contains(['*', '~']));
    }
    if let Some((_, known)) = VARIABLES.iter().find(|(known, _)| *known == name) {
        return Some((*known).to_owned());
    }
    let is_token = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if let Some(field) = name.strip_prefix("http_").filter(|field| is_token(field)) {
        return Some(format!("%{{CLIENT-HEADER:{}}}", field.replace('_', "-")));
    }
    let cookie = name.strip_prefix("cookie_").filter(|cookie| is_token(cookie))?;
    Some(format!("%{{COOKIE:{cookie}}}"))
}
