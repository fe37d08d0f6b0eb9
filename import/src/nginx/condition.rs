//! `if`, `return` and `rewrite` as access rules: whether a redirect only moves a page, or keeps
//! clients away from it.

use super::syntax::NginxDirective;

/// Parts of a URL to which clients are sent that may not see a page.
const LOGIN: &[&str] = &[
    "login",
    "logon",
    "signin",
    "sign-in",
    "sign_in",
    "auth",
    "sso",
    "saml",
    "denied",
    "deny",
    "forbidden",
    "blocked",
    "captcha",
    "challenge",
    "401",
    "403",
];

/// Variables that name a host or a port: a redirect for them leads to the usual form of the URL.
const AUTHORITY: &[&str] =
    &["$host", "$http_host", "$scheme", "$https", "$server_port", "$http_x_forwarded_proto"];

/// Variables with the path, of which a redirect moves some.
const PATHS: &[&str] = &["$uri", "$request_uri", "$document_uri"];

/// Whether the block of an `if` does more than set variables and fields, or move pages.
pub(super) fn refuses(condition: &NginxDirective) -> bool {
    condition.inner().iter().any(|directive| match directive.name.as_str() {
        "set" | "add_header" | "expires" | "access_log" | "error_log" | "break" => false,
        "return" if is_preflight(condition) => !directive.arg(0).starts_with('2'),
        "return" => !is_move(directive) || !is_about_urls(condition, directive),
        "rewrite" => {
            let is_redirect = matches!(directive.arg(2), "permanent" | "redirect");
            !is_redirect || is_login(directive) || !is_about_urls(condition, directive)
        }
        _ => true,
    })
}

/// Whether a `return` or `rewrite` keeps its requests away from the origin, and does not only tell
/// clients that a page has moved.
pub(super) fn turns_away(directive: &NginxDirective) -> bool {
    match directive.name.as_str() {
        "return" if directive.arg(0).starts_with('2') => false,
        "return" => !is_move(directive) || !is_permanent(directive),
        "rewrite" => {
            let is_url = directive.arg(1).starts_with("http") || directive.arg(1).starts_with('$');
            let is_redirect = is_url || matches!(directive.arg(2), "permanent" | "redirect");
            is_login(directive) || (is_redirect && !is_permanent(directive))
        }
        _ => false,
    }
}

/// The longest prefix, up to a slash, of all paths that a regular expression matches.
pub(super) fn prefix_of(pattern: &str) -> &str {
    let Some(pattern) = pattern.strip_prefix('^').filter(|rest| !rest.contains('|')) else {
        return "/";
    };
    let is_literal = |c: char| c.is_ascii_alphanumeric() || "/-_~".contains(c);
    let end = pattern.find(|c| !is_literal(c)).unwrap_or(pattern.len());
    // The character before such a sign may be absent.
    let is_counted = pattern[end..].starts_with(['?', '*', '{']);
    let literal = &pattern[..end - usize::from(is_counted && end > 0)];
    match literal.rfind('/') {
        Some(slash) if literal.starts_with('/') && !literal.contains("//") => &literal[..=slash],
        _ => "/",
    }
}

/// A redirect to a page that is no login.
fn is_move(directive: &NginxDirective) -> bool {
    let is_redirect = directive.arg(0).starts_with('3')
        || directive.arg(0).starts_with("http")
        || directive.arg(0).starts_with('$');
    is_redirect && !is_login(directive)
}

fn is_login(directive: &NginxDirective) -> bool {
    let is_return = directive.name == "return";
    let target = directive.args.get(1).filter(|_| directive.args.len() > 1 || !is_return);
    let target = target.map_or(directive.arg(0), String::as_str).to_ascii_lowercase();
    LOGIN.iter().any(|word| target.contains(word))
}

fn is_permanent(directive: &NginxDirective) -> bool {
    matches!(directive.arg(0), "301" | "308") || directive.arg(2) == "permanent"
}

/// Whether the condition is one of the host or scheme, or a page has moved for good.
fn is_about_urls(condition: &NginxDirective, answer: &NginxDirective) -> bool {
    let (variable, operator) = (subject(condition), condition.arg(1));
    AUTHORITY.contains(&variable)
        || (PATHS.contains(&variable)
            && matches!(operator, "=" | "~" | "~*")
            && is_permanent(answer))
}

/// The variable of a condition.
fn subject(condition: &NginxDirective) -> &str {
    condition.arg(0).trim_start_matches('(').trim_end_matches(')')
}

/// A request by which a browser asks for permission; the origin answers it.
fn is_preflight(condition: &NginxDirective) -> bool {
    let method = condition.arg(2).trim_end_matches(')').trim_matches(['"', '\'']);
    subject(condition) == "$request_method" && condition.arg(1) == "=" && method == "OPTIONS"
}
