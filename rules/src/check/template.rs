//! Checks values of operators: text with `%{…}` in it.

use crate::{
    ast::{Hook, Template, TemplatePart},
    check::{suspicious_value, variable::variable},
    diagnostic::{Diagnostic, Findings},
    lex::SourceWord,
};

/// Joins the words of a value with single spaces, as the language does.
pub(crate) fn joined(words: &[SourceWord], findings: &mut Findings) -> Option<SourceWord> {
    let (first, rest) = words.split_first()?;
    let mut value = first.clone();
    for word in rest {
        value.join(" ", word);
    }
    suspicious_value::findings(words, &value)
        .into_iter()
        .for_each(|finding| findings.push(finding));
    Some(value)
}

/// Reads a value. Reports each variable in it that cannot be read.
pub(crate) fn template(word: &SourceWord, hook: Hook, findings: &mut Findings) -> Option<Template> {
    let text = word.as_str();
    if let Some(place) = text.bytes().position(|byte| byte.is_ascii_control()) {
        let problem = Diagnostic::error(
            word.at_part(place..place + 1),
            "a value cannot contain a control byte",
        );
        findings.push(problem.hint("write a space instead of a tab"));
        return None;
    }
    let mut parts = Vec::new();
    let mut complete = true;
    let mut place = 0;
    while let Some(begin) = text.get(place..).and_then(|rest| rest.find("%{")) {
        let begin = place + begin;
        push_text(&mut parts, text.get(place..begin).unwrap_or_default());
        let Some(end) = text.get(begin..).and_then(|rest| rest.find('}')).map(|end| begin + end)
        else {
            let at = word.at_part(begin..begin + 2);
            findings.push(Diagnostic::error(at, "this `%{` has no `}`"));
            return None;
        };
        let found = findings.keep(variable(&word.part(begin + 2..end), hook));
        complete &= found.is_some();
        parts.extend(found.map(TemplatePart::Variable));
        place = end + 1;
    }
    push_text(&mut parts, text.get(place..).unwrap_or_default());
    let old = findings.keep(check_old_expansions(word));
    (complete && old.is_some()).then_some(Template { parts })
}

fn push_text(parts: &mut Vec<TemplatePart>, text: &str) {
    if !text.is_empty() {
        parts.push(TemplatePart::Text(text.as_bytes().into()));
    }
}

/// Refuses notations such as `%<proto>`. Apache Traffic Server filled them in before version 9.0;
/// since then they are plain text, which the author probably does not intend.
fn check_old_expansions(word: &SourceWord) -> Result<(), Diagnostic> {
    const OLD: &[(&str, &str)] = &[
        ("%<proto>", "%{CLIENT-URL:SCHEME}"),
        ("%<port>", "%{CLIENT-URL:PORT}"),
        ("%<chi>", "%{IP:CLIENT}"),
        ("%<cqhl>", "%{CLIENT-HEADER:Content-Length}"),
        ("%<cqhm>", "%{METHOD}"),
        ("%<cque>", "%{CLIENT-URL}"),
        ("%<cquup>", "%{CLIENT-URL:PATH}"),
    ];
    for (old, new) in OLD {
        if let Some(place) = word.as_str().find(old) {
            let message = format!("{old} is plain text: it is no longer replaced by a value");
            return Err(Diagnostic::error(word.at_part(place..place + old.len()), message)
                .hint(format!("write {new}")));
        }
    }
    Ok(())
}
