//! `synth`, with the answer that `vcl_synth` makes of it.

use super::lexer::VclPlace;
use super::outcome::SynthAnswer;
use super::source::VclSource;
use super::syntax::{Expr, Statement, StatementKind, field_of};

/// Statements that one answer may pass.
const STEPS_MAX: usize = 10_000;
const DEPTH_MAX: usize = 32;

/// The answer as `vcl_synth` has changed it so far.
struct SynthState<'s> {
    source: &'s VclSource<'s>,
    status: u16,
    reason: Expr,
    /// The URL, if it can be carried over.
    location: Option<String>,
    body: Option<String>,
    media: Option<String>,
    host: Option<&'s str>,
    steps: usize,
    is_over: bool,
}

/// The answer of `return(synth(status, reason))`.
pub(super) fn of_synth(
    source: &VclSource<'_>,
    place: &VclPlace,
    arguments: &[Expr],
    host: Option<&str>,
) -> SynthAnswer {
    let status = match arguments.first() {
        Some(Expr::Number(number)) => number.parse::<u16>().unwrap_or(0),
        _ => 0,
    };
    let reason = arguments.get(1).cloned().unwrap_or(Expr::Text(String::new()));
    let mut state = SynthState {
        source,
        status,
        reason,
        location: None,
        body: None,
        media: None,
        host,
        steps: 0,
        is_over: false,
    };
    state.run(source.vcl.sub("vcl_synth"), 0);
    // Varnish sends the last three digits.
    let status = state.status % 1000;
    if (300..400).contains(&status) {
        let location = state.location.filter(|url| is_target(url));
        if location.is_none() || !matches!(status, 301 | 302 | 303 | 307 | 308) {
            source.note(
                place,
                "synth",
                "not carried over: redirect cannot have this URL (docs/redirects.md), so the \
                 requests get 503",
            );
            return SynthAnswer::unavailable();
        }
        return SynthAnswer { status, location, body: String::new(), media: None };
    }
    if !(200..600).contains(&status) {
        source.note(place, "synth", "not carried over: the status is none of HTTP; it becomes 503");
        return SynthAnswer::unavailable();
    }
    let status = match status {
        205 | 206 | 401 | 407 | 416 | 426 => {
            source.note(
                place,
                "synth",
                format!("{status} needs further fields, so it becomes 403; see basic_auth"),
            );
            403
        }
        other => other,
    };
    let body = state.body.or_else(|| state.reason.text()).unwrap_or_default();
    let is_text = body.len() <= 4096 && !body.contains('\0');
    let body = if is_text { body.trim().to_owned() } else { String::new() };
    SynthAnswer { status, location: None, body, media: state.media }
}

/// Whether `redirect` may have the URL: a client must not choose the host.
fn is_target(url: &str) -> bool {
    let is_absolute = url.starts_with("https://") || url.starts_with("http://");
    let is_path = url.starts_with('/') && !url.starts_with("//");
    (is_absolute || is_path)
        && url.matches("$uri").count() <= 1
        && url.matches("$host").count() <= 1
}

/// Whether the text is made of itself.
fn mentions_reason(value: &Expr) -> bool {
    match value {
        Expr::Name(_) => value.name().ends_with(".reason"),
        Expr::Concat(parts) | Expr::Call(_, parts) => parts.iter().any(mentions_reason),
        _ => false,
    }
}

impl SynthState<'_> {
    fn run(&mut self, statements: &[Statement], depth: usize) {
        for statement in statements {
            self.steps += 1;
            if self.is_over || self.steps > STEPS_MAX || depth > DEPTH_MAX {
                return;
            }
            match &statement.kind {
                StatementKind::If(branches, last) => {
                    let found = branches.iter().find(|(test, _)| self.holds(test));
                    let inner = found.map_or(last, |(_, inner)| inner);
                    self.run(inner, depth + 1);
                }
                StatementKind::Set(name, value) => self.set(&name.to_ascii_lowercase(), value),
                StatementKind::Do(Expr::Call(name, arguments)) if name == "synthetic" => {
                    self.body = arguments.first().and_then(Expr::text);
                }
                StatementKind::Call(name) => self.run(self.source.vcl.sub(name), depth + 1),
                StatementKind::Return(action, _) if !action.is_empty() => self.is_over = true,
                _ => {}
            }
        }
    }

    fn set(&mut self, name: &str, value: &Expr) {
        match name {
            "resp.status" | "obj.status" => {
                if let Expr::Number(number) = value {
                    self.status = number.parse().unwrap_or(0);
                }
                // Varnish replaces the reason by the usual one of the new status.
                self.reason = Expr::Other;
            }
            "resp.reason" | "obj.reason" if !mentions_reason(value) => self.reason = value.clone(),
            "resp.body" => self.body = value.text(),
            _ => match field_of(name, "resp.http.").as_deref() {
                Some("location") => self.location = self.url(value),
                Some("content-type") => self.media = value.text(),
                _ => {}
            },
        }
    }

    fn holds(&self, test: &Expr) -> bool {
        match test {
            Expr::Not(inner) => !self.holds(inner),
            Expr::All(parts) => parts.iter().all(|part| self.holds(part)),
            Expr::Any(parts) => parts.iter().any(|part| self.holds(part)),
            Expr::Compare(left, symbol, right)
                if matches!(left.name().as_str(), "resp.status" | "obj.status") =>
            {
                let Expr::Number(number) = &**right else { return false };
                let number = number.parse::<u16>().unwrap_or(0);
                match *symbol {
                    "==" => self.status == number,
                    "!=" => self.status != number,
                    "<" => self.status < number,
                    ">" => self.status > number,
                    "<=" => self.status <= number,
                    ">=" => self.status >= number,
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// A URL with `$uri` and `$host`.
    fn url(&self, value: &Expr) -> Option<String> {
        match value {
            Expr::Text(text) => (!text.contains(['$', '%'])).then(|| text.clone()),
            Expr::Concat(parts) => parts.iter().map(|part| self.url(part)).collect(),
            Expr::Name(_) => match value.name().as_str() {
                "resp.reason" | "obj.reason" if !mentions_reason(&self.reason) => {
                    self.url(&self.reason)
                }
                "req.url" => Some("$uri".to_owned()),
                "req.http.host" => Some(self.host.unwrap_or("$host").to_owned()),
                _ => None,
            },
            _ => None,
        }
    }
}
