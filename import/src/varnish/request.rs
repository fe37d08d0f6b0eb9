//! Statements that change the request.

use super::lexer::VclPlace;
use super::outcome::{Cookies, FieldChange, RequestState};
use super::regex;
use super::source::{HostName, VclSource, is_tidy_host};
use super::syntax::{Expr, Statement, StatementKind, field_of, seconds};

/// The origin would get another URL than from Varnish.
pub(super) struct Untold;

/// Fields that Forebay writes itself, or that need no change.
const OWN: &[&str] = &["x-forwarded-for", "accept-encoding", "surrogate-capability", "via"];

/// Functions without a meaning for Forebay.
pub(super) const HARMLESS: &[&str] = &[
    "std.log",
    "std.syslog",
    "std.collect",
    "cookie.parse",
    "std.cache_req_body",
    "std.timestamp",
    "std.random",
    "std.set_ip_tos",
];

/// Calls of `regsub` and `regsuball` for cookies that only tidy the separators.
const TIDY: &[&str] = &[
    "; +",
    ";\\s+",
    "^[; ]+|[; ]+$",
    "^;\\s*",
    "^; *",
    "^;",
    ";$",
    "^\\s*$",
    "^[;\\s]+|[;\\s]+$",
    ";\\s*;",
    "^\\s+|\\s+$",
    "; *$",
    "^; ",
    "^ *",
];

/// Applies a statement.
pub(super) fn apply(
    source: &VclSource<'_>,
    host: &HostName,
    statement: &Statement,
    state: &mut RequestState,
) -> Result<(), Untold> {
    let place = &statement.place;
    match &statement.kind {
        StatementKind::Set(name, value) => {
            set(source, host, place, (&name.to_ascii_lowercase(), value), state)
        }
        StatementKind::Unset(name) => {
            unset(source, place, &name.to_ascii_lowercase(), state);
            Ok(())
        }
        StatementKind::Do(Expr::Call(name, arguments)) => {
            call(source, place, name, arguments, state);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn set(
    source: &VclSource<'_>,
    host: &HostName,
    place: &VclPlace,
    (name, value): (&str, &Expr),
    state: &mut RequestState,
) -> Result<(), Untold> {
    match name {
        "req.url" => return url(source, place, value, state),
        "req.backend_hint" | "req.backend" => {
            state.backend = Some(match value {
                Expr::Name(name) => name.clone(),
                Expr::Call(name, _) => name.trim_end_matches(".backend").to_owned(),
                _ => {
                    source.note(place, name, "left out: the backend cannot be read");
                    return Err(Untold);
                }
            });
            return Ok(());
        }
        "req.grace" => {
            let Expr::Number(number) = value else { return Ok(()) };
            state.grace = seconds(number).map(|time| time as u64);
            return Ok(());
        }
        "req.hash_ignore_busy" | "req.esi" => return Ok(()),
        "req.hash_always_miss" => {
            source.note(place, name, "left out: clients validate by `Cache-Control: no-cache`");
            return Ok(());
        }
        _ => {}
    }
    let Some(field) = field_of(name, "req.http.") else {
        source.note(place, name, "left out: Forebay has no such variable");
        return Ok(());
    };
    match field.as_str() {
        "host" => return set_host(source, host, place, value, state),
        "cookie" => cookie(source, place, value, state),
        _ if OWN.contains(&field.as_str()) => {
            state.unknown.insert(field);
        }
        _ => match template(value).filter(|_| !mentions_changed(value, state)) {
            // The field is there, but rules cannot send it.
            Some(value) if value.is_empty() => change_unknown(state, &field),
            Some(value) => change(state, &field, Some(value)),
            None => {
                source.note(
                    place,
                    name,
                    "the value cannot be carried over, so the origin does not get the field; \
                     write a rule (docs/rules.md)",
                );
                change_unknown(state, &field);
            }
        },
    }
    Ok(())
}

/// Whether the value has a field that differs from that of the client.
fn mentions_changed(value: &Expr, state: &RequestState) -> bool {
    match value {
        Expr::Name(_) => match field_of(&value.name(), "req.http.").as_deref() {
            Some("cookie") => state.cookies != Cookies::All,
            Some("host") => state.host.is_some() || state.unknown.contains("host"),
            Some(field) => {
                state.unknown.contains(field)
                    || state.fields.iter().any(|change| change.name == field)
            }
            None => false,
        },
        Expr::Concat(parts) => parts.iter().any(|part| mentions_changed(part, state)),
        _ => false,
    }
}

/// Removes the client's field: the value that the origin should get is not known.
fn change_unknown(state: &mut RequestState, field: &str) {
    change(state, field, None);
    state.unknown.insert(field.to_owned());
}

fn change(state: &mut RequestState, field: &str, value: Option<String>) {
    state.unknown.remove(field);
    state.fields.retain(|known| known.name != field);
    state.fields.push(FieldChange { name: field.to_owned(), value });
}

fn unset(source: &VclSource<'_>, place: &VclPlace, name: &str, state: &mut RequestState) {
    match field_of(name, "req.http.").as_deref() {
        Some("cookie") => state.cookies = Cookies::None,
        Some("host") | None => source.note(place, name, "left out"),
        Some(field) if OWN.contains(&field) => {
            state.unknown.insert(field.to_owned());
        }
        Some(field) => change(state, field, None),
    }
}

fn call(
    source: &VclSource<'_>,
    place: &VclPlace,
    name: &str,
    arguments: &[Expr],
    state: &mut RequestState,
) {
    match name {
        "std.rollback" => {
            let (backend, grace) = (state.backend.take(), state.grace);
            *state = RequestState { backend, grace, ..RequestState::default() };
        }
        "cookie.keep" | "cookie.filter_except" => {
            let names = arguments.first().and_then(Expr::text).unwrap_or_default();
            let names = names.split(',').map(|name| name.trim().to_owned()).collect();
            state.cookies = Cookies::Only(names);
        }
        "cookie.delete_all" | "cookie.clean" => state.cookies = Cookies::None,
        _ if HARMLESS.contains(&name) => {}
        _ if name.starts_with("cookie.") && !name.starts_with("cookie.set") => {
            filtered(source, place, state, Cookies::Fewer);
        }
        _ if name.starts_with("cookie.") => filtered(source, place, state, Cookies::Other),
        _ => {
            is_changed(arguments, state);
            source.note(place, name, "left out: Forebay has no such function; see docs/rules.md");
        }
    }
}

/// Modules may change the fields that they are given.
fn is_changed(arguments: &[Expr], state: &mut RequestState) {
    for field in arguments.iter().filter_map(|one| field_of(&one.name(), "req.http.")) {
        state.unknown.insert(field);
    }
}

fn filtered(source: &VclSource<'_>, place: &VclPlace, state: &mut RequestState, by: Cookies) {
    if state.cookies == Cookies::None && by == Cookies::Fewer {
        return;
    }
    state.cookies = by;
    source.note(
        place,
        "req.http.Cookie",
        "this filter cannot be carried over, so requests with any cookie bypass the cache; name \
         the cookies that the application needs in bypass_cookies and keep_cookies, and take \
         Cookie out of bypass_fields",
    );
}

/// The value of the field `Cookie`: filters that keep some names are recognised.
fn cookie(source: &VclSource<'_>, place: &VclPlace, value: &Expr, state: &mut RequestState) {
    let (name, arguments) = match value {
        Expr::Call(name, arguments) => (name.as_str(), arguments.as_slice()),
        Expr::Text(text) if text.is_empty() => {
            state.cookies = Cookies::None;
            return;
        }
        // `";" + req.http.Cookie` only begins a filter.
        Expr::Concat(parts)
            if parts.iter().all(|part| {
                part.name() == "req.http.cookie"
                    || part.text().is_some_and(|text| text.trim() == ";")
            }) =>
        {
            return;
        }
        _ => return filtered(source, place, state, Cookies::Other),
    };
    if name == "cookie.get_string" {
        return;
    }
    let (pattern, by) = (
        arguments.get(1).and_then(Expr::text).unwrap_or_default(),
        arguments.get(2).and_then(Expr::text).unwrap_or_default(),
    );
    let is_filter = arguments.first().is_some_and(|one| one.name() == "req.http.cookie");
    if !matches!(name, "regsub" | "regsuball") || !is_filter {
        return filtered(source, place, state, Cookies::Other);
    }
    if TIDY.contains(&pattern.as_str()) {
        return;
    }
    // First the names that stay get a space, then all others are removed.
    let marked = pattern
        .strip_prefix(';')
        .and_then(|rest| rest.strip_suffix('='))
        .filter(|_| by == "; \\1=")
        .and_then(regex::names_of);
    if let Some(names) = marked {
        state.cookies = Cookies::Only(names);
    } else if pattern == ";[^ ][^;]*" && by.is_empty() && matches!(state.cookies, Cookies::Only(_))
    {
        // The second step of that filter.
    } else {
        let is_removal = by.trim_matches([';', ' ']).is_empty();
        let by = if is_removal { Cookies::Fewer } else { Cookies::Other };
        filtered(source, place, state, by);
    }
}

/// `set req.url`: queries without some parameters, or in order.
fn url(
    source: &VclSource<'_>,
    place: &VclPlace,
    value: &Expr,
    state: &mut RequestState,
) -> Result<(), Untold> {
    let untold = || {
        source.note(
            place,
            "req.url",
            "not carried over: the origin would get another URL, so the requests get 503; use \
             origin_strip_prefix and origin_add_prefix, or set-destination in a rule",
        );
        Untold
    };
    let (name, arguments) = match value {
        Expr::Name(_) if value.name() == "req.url" => return Ok(()),
        Expr::Call(name, arguments) => (name.as_str(), arguments.as_slice()),
        _ => return Err(untold()),
    };
    let Some(first) = arguments.first() else { return Err(untold()) };
    match name {
        "std.querysort" | "querystring.sort" => {
            state.sort_query = true;
            url(source, place, first, state)
        }
        "querystring.clean" => url(source, place, first, state),
        "regsub" | "regsuball" => {
            url(source, place, first, state)?;
            let pattern = arguments.get(1).and_then(Expr::text).unwrap_or_default();
            match dropped(&pattern) {
                Some(names) => {
                    state.drop_query.extend(names);
                    Ok(())
                }
                None => Err(untold()),
            }
        }
        _ => Err(untold()),
    }
}

/// The names of the parameters that an expression removes from the query.
fn dropped(pattern: &str) -> Option<Vec<String>> {
    // Marks without parameters behind them, and fragments, which clients do not send.
    const NOTHING: &[&str] = &[
        "\\?$",
        "\\?&",
        "&$",
        "(\\?&|\\?|&)$",
        "(\\?|&)$",
        "[?&]$",
        "(\\?|\\?&|&)$",
        "(\\?&|\\?)$",
        "(\\?&?)$",
        "#.*$",
        "\\#.*$",
        "#.*",
        "(\\?&|&&)",
        "&&+",
        "[?|&]+$",
        "\\?+$",
    ];
    if NOTHING.contains(&pattern) {
        return Some(Vec::new());
    }
    const STARTS: &[&str] = &[
        "(\\?|&)",
        "(\\?|\\&)",
        "[?&]",
        "[&?]",
        "[\\?&]",
        "(?:\\?|&)",
        "(&|\\?)",
        "\\?",
        "\\&",
        "&",
        "(\\?|&|^)",
        "?",
    ];
    let rest = pattern.strip_prefix("(?i)").unwrap_or(pattern);
    let rest = STARTS.iter().find_map(|start| rest.strip_prefix(start)).unwrap_or(rest);
    let (names, value) = rest.split_once('=')?;
    // The value may be any text of a parameter.
    let is_value = value.starts_with(['[', '.', '(', '\\']) || value.is_empty();
    if !is_value || value.contains('/') {
        return None;
    }
    regex::names_of(names)
}

fn set_host(
    source: &VclSource<'_>,
    host: &HostName,
    place: &VclPlace,
    value: &Expr,
    state: &mut RequestState,
) -> Result<(), Untold> {
    // Ports and letters in upper case make no difference in Forebay.
    if is_tidy_host(value) {
        return Ok(());
    }
    if let Some(text) = value.text() {
        state.unknown.remove("host");
        state.host = Some(text.to_ascii_lowercase());
        return Ok(());
    }
    if let Expr::Call(name, arguments) = value {
        let pattern = arguments.get(1).and_then(Expr::text).unwrap_or_default();
        let by = arguments.get(2).and_then(Expr::text);
        let is_own = arguments.first().is_some_and(|one| one.name() == "req.http.host");
        let is_www = matches!(pattern.as_str(), "^www\\." | "^www.") && by.as_deref() == Some("");
        if name == "regsub" && is_own && is_www && !state.unknown.contains("host") {
            let known = state.host.clone().map(HostName::Exact);
            match known.as_ref().unwrap_or(host) {
                HostName::Exact(name) => {
                    if let Some(rest) = name.strip_prefix("www.") {
                        state.host = Some(rest.to_owned());
                    }
                }
                HostName::Below(_) | HostName::Rest => {
                    source.note(
                        place,
                        "req.http.host",
                        "left out for hosts that the VCL does not name: the origin gets the \
                         client's host; use origin_host",
                    );
                    state.unknown.insert("host".to_owned());
                }
            }
            return Ok(());
        }
    }
    source.note(
        place,
        "req.http.host",
        "not carried over: the origin would get another host, so the requests get 503; use \
         origin_host",
    );
    Err(Untold)
}

/// A value as rules write it.
pub(super) fn template(value: &Expr) -> Option<String> {
    match value {
        Expr::Text(text) => {
            let is_plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !"\"%\\".contains(c);
            text.chars().all(is_plain).then(|| text.clone())
        }
        Expr::Number(number) => Some(number.clone()),
        Expr::Name(_) => match value.name().as_str() {
            "client.ip" => Some("%{IP:CLIENT}".to_owned()),
            "req.method" | "bereq.method" => Some("%{METHOD}".to_owned()),
            "req.http.host" => Some("%{CLIENT-URL:HOST}".to_owned()),
            "now" | "req.http.x-forwarded-for" | "bereq.http.x-forwarded-for" => None,
            name => {
                let field =
                    field_of(name, "req.http.").or_else(|| field_of(name, "bereq.http."))?;
                Some(format!("%{{CLIENT-HEADER:{field}}}"))
            }
        },
        Expr::Concat(parts) => parts.iter().map(template).collect(),
        _ => None,
    }
}
