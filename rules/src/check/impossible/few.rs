//! Finds texts that a variable never matches, for variables with only a few possible values.

use super::{Mismatch, TextComparison, without_it};
use crate::{
    ast::{Comparison, ConnectionPart, UrlPart, Variable},
    check::suggest::nearest,
    lex::SourceWord,
};

/// Returns all possible values of a variable that has only a few; `None` for other variables.
pub(super) fn values_of(subject: &Variable) -> Option<&'static [&'static str]> {
    Some(match subject {
        Variable::Cache => &["none", "miss", "hit-stale", "hit-fresh", "skipped"],
        Variable::Url(_, UrlPart::Scheme) => &["http", "https"],
        Variable::Connection(part) => match part {
            ConnectionPart::IpFamily => &["ipv4", "ipv6"],
            ConnectionPart::Ipv4 => &["ipv4", ""],
            ConnectionPart::Ipv6 => &["ipv6", ""],
            ConnectionPart::Stack => &[
                "http/1.1,tcp,ipv4",
                "http/1.1,tcp,ipv6",
                "http/1.1,tls/1.2,tcp,ipv4",
                "http/1.1,tls/1.2,tcp,ipv6",
                "http/1.1,tls/1.3,tcp,ipv4",
                "http/1.1,tls/1.3,tcp,ipv6",
                "h2,tcp,ipv4",
                "h2,tcp,ipv6",
                "h2,tls/1.2,tcp,ipv4",
                "h2,tls/1.2,tcp,ipv6",
                "h2,tls/1.3,tcp,ipv4",
                "h2,tls/1.3,tcp,ipv6",
            ],
            ConnectionPart::Tls => &["tls/1.2", "tls/1.3", ""],
            ConnectionPart::H2 => &["h2", ""],
        },
        _ => return None,
    })
}

/// Returns a warning if none of the values matches the text.
pub(super) fn never(
    name: &SourceWord,
    values: &[&str],
    how: TextComparison,
    text: &str,
) -> Option<Mismatch> {
    let with = if how.nocase { text.to_ascii_lowercase() } else { text.to_owned() };
    let holds = |value: &&str| match how.compare {
        Comparison::Prefix => value.starts_with(&with),
        Comparison::Suffix => value.ends_with(&with),
        Comparison::Middle => value.contains(&with),
        Comparison::Extension => value.rsplit_once('.').is_some_and(|(_, ending)| ending == with),
        _ => *value == with,
    };
    if values.iter().any(holds) {
        return None;
    }
    let verb = match how.compare {
        Comparison::Prefix => "never begins with",
        Comparison::Suffix => "never ends with",
        Comparison::Middle => "never contains",
        Comparison::Extension => "never has the extension",
        _ => "is never",
    };
    Some((format!("{} {verb} {text:?}", name.as_str()), instead(values, text, how.negated)))
}

/// Returns the hint: the value that was probably meant.
pub(super) fn instead(values: &[&str], text: &str, negated: bool) -> String {
    if let [only] = values {
        return format!("the value is always {only}, {}", without_it(negated));
    }
    let lower = text.to_ascii_lowercase();
    let begin_so: Vec<&str> =
        values.iter().copied().filter(|value| value.starts_with(&lower)).collect();
    match nearest(text, values) {
        _ if !text.is_empty() && !begin_so.is_empty() => format!("write {}", begin_so.join(" or ")),
        Some(near) => format!("did you mean {near}?"),
        None => {
            let shown = values.iter().map(|value| if value.is_empty() { "\"\"" } else { value });
            format!("write one of {}", shown.collect::<Vec<_>>().join(", "))
        }
    }
}
