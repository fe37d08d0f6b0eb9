//! Operands: what a condition's value has to be. The first character says which kind it is.

use regex::bytes::Regex;

use crate::{
    ast::{Compare, Matcher, Variable},
    check::{
        braceless::braceless, condition::allowed, never::never, number::number, pattern::Regexes,
        range::ranges, set::members, variable::Kind,
    },
    diagnostic::{Diagnostic, Findings, RuleSpan},
    lex::Word,
    parse::ConditionFlags,
};

/// The matcher of a condition; `name` is what stands in its braces.
pub(crate) fn matcher(
    name: &Word,
    subject: &Variable,
    operand: Option<&Word>,
    flags: &ConditionFlags,
    regexes: &mut Regexes,
    findings: &mut Findings,
) -> Option<Matcher> {
    let kind = Kind::of(subject);
    let Some(operand) = operand else {
        return without_operand(name, kind, flags, findings);
    };
    let matcher = match operand.as_str() {
        text if text.starts_with('/') && kind != Kind::Number && kind != Kind::Flag => {
            Matcher::Regex(findings.keep(regex(operand, flags, regexes)).flatten()?)
        }
        _ => findings.keep(with_operand(name, kind, operand, flags))?,
    };
    let flags_ok = findings.keep(check_flags(&matcher, flags));
    let mut odd = hints(operand, flags);
    if odd.is_empty() {
        odd = never(name, subject, &matcher, operand, flags.not.is_some());
    }
    odd.into_iter().for_each(|finding| findings.push(finding));
    flags_ok.map(|()| matcher)
}

/// Without an operand a flag has to be set. A text is compared with the empty text: so the original
/// does it, whatever its documentation says.
fn without_operand(
    name: &Word,
    kind: Kind,
    flags: &ConditionFlags,
    findings: &mut Findings,
) -> Option<Matcher> {
    let how = flags.how.map(|how| how.1);
    if let Some(at) = flags.nocase.or(flags.case).or(how) {
        findings.push(Diagnostic::error(at, "this flag is for an operand, and there is none"));
        return None;
    }
    let text = name.as_str();
    match kind {
        Kind::Flag => return Some(Matcher::Is),
        Kind::Number => {
            let message = format!("%{{{text}}} is a number, to be compared with one");
            findings.push(Diagnostic::error(name.at, message).hint(allowed(kind)));
            return None;
        }
        Kind::Text | Kind::Address => {}
    }
    let message = format!("without an operand this holds if %{{{text}}} is empty");
    let hint = format!("write %{{{text}}} =\"\" if it is meant so, /./ if it must not be empty");
    findings.push(Diagnostic::warning(name.at, message).hint(hint));
    Some(Matcher::Text { how: Compare::Equal, with: Box::default(), nocase: false })
}

fn regex(
    operand: &Word,
    flags: &ConditionFlags,
    regexes: &mut Regexes,
) -> Result<Option<Regex>, Diagnostic> {
    let text = operand.as_str();
    if text.len() < 2 || !text.ends_with('/') {
        return Err(unclosed(operand, '/'));
    }
    regexes.compile(&operand.part(1..text.len() - 1), flags)
}

/// Any operand but a regex.
fn with_operand(
    name: &Word,
    kind: Kind,
    operand: &Word,
    flags: &ConditionFlags,
) -> Result<Matcher, Diagnostic> {
    let text = operand.as_str();
    let rest = operand.part(first_len(text)..text.len());
    let inside = || operand.part(1..text.len().saturating_sub(1).max(1));
    let wrong = || {
        let message = format!("%{{{}}} cannot be compared with this", name.as_str());
        let is_network = name.as_str().starts_with("CIDR") && text.starts_with('{');
        let hint = if is_network { "ranges are for %{IP:CLIENT}" } else { allowed(kind) };
        Err(Diagnostic::error(operand.at, message).hint(hint))
    };
    if kind == Kind::Flag {
        return wrong();
    }
    match text.chars().next() {
        Some('/') => wrong(),
        Some('{') if kind != Kind::Address => wrong(),
        Some('{') if !text.ends_with('}') => Err(unclosed(operand, '}')),
        Some('{') => ranges(&inside()).map(Matcher::Ranges),
        Some('(') if !text.ends_with(')') => Err(unclosed(operand, ')')),
        Some('(') => set(kind, operand, &inside(), flags),
        Some('<') => one(kind, Compare::Less, &rest, operand, flags),
        Some('>') => one(kind, Compare::Greater, &rest, operand, flags),
        _ => one(kind, Compare::Equal, &rest, operand, flags),
    }
}

/// A text that begins with none of these is compared as a whole.
fn first_len(text: &str) -> usize {
    usize::from(text.starts_with(['=', '<', '>']))
}

fn unclosed(operand: &Word, end: char) -> Diagnostic {
    let what = if end == '/' { "the regex" } else { "the operand" };
    Diagnostic::error(operand.at, format!("{what} has no `{end}` at its end"))
}

fn one(
    kind: Kind,
    how: Compare,
    word: &Word,
    operand: &Word,
    flags: &ConditionFlags,
) -> Result<Matcher, Diagnostic> {
    if kind == Kind::Number {
        let empty_at = if word.as_str().is_empty() { operand } else { word };
        let with = number(word).map_err(|problem| Diagnostic { at: empty_at.at, ..problem })?;
        return Ok(Matcher::Number { how, with });
    }
    let nocase = flags.nocase.is_some();
    let how = match (how, flags.how) {
        (Compare::Equal, Some((how, _))) => how,
        _ => how,
    };
    Ok(Matcher::Text { how, with: folded(word.as_str(), nocase), nocase })
}

fn folded(text: &str, nocase: bool) -> Box<[u8]> {
    let mut bytes = text.as_bytes().to_vec();
    if nocase {
        bytes.make_ascii_lowercase();
    }
    bytes.into_boxed_slice()
}

fn set(
    kind: Kind,
    operand: &Word,
    inside: &Word,
    flags: &ConditionFlags,
) -> Result<Matcher, Diagnostic> {
    let members = members(operand, inside)?;
    if kind == Kind::Number {
        return members.iter().map(number).collect::<Result<_, _>>().map(Matcher::NumberSet);
    }
    let nocase = flags.nocase.is_some();
    let how = flags.how.map_or(Compare::Equal, |(how, _)| how);
    let with = members.iter().map(|word| folded(word.as_str(), nocase)).collect();
    Ok(Matcher::TextSet { how, with, nocase })
}

/// Flags that the operand gives no meaning to.
fn check_flags(matcher: &Matcher, flags: &ConditionFlags) -> Result<(), Diagnostic> {
    let refuse = |at: RuleSpan, hint: &str| {
        Err(Diagnostic::error(at, "this flag means nothing for this operand").hint(hint))
    };
    let how = flags.how.map(|(_, at)| at);
    match matcher {
        Matcher::Text { how: Compare::Less | Compare::Greater, .. } => match flags.nocase.or(how) {
            Some(at) => refuse(at, "texts are ordered by their bytes"),
            None => Ok(()),
        },
        Matcher::Text { .. } | Matcher::TextSet { .. } | Matcher::Is => Ok(()),
        Matcher::Regex(_) => match how {
            Some(at) => refuse(at, "in a regex ^ is the beginning and $ the end"),
            None => Ok(()),
        },
        Matcher::Number { .. } | Matcher::NumberSet(_) | Matcher::Ranges(_) => {
            match flags.nocase.or(how) {
                Some(at) => refuse(at, "it is for texts"),
                None => Ok(()),
            }
        }
    }
}

/// `^a`, `a$`, `a.*b`
fn looks_like_regex(operand: &Word) -> bool {
    let text = operand.as_str();
    let text = text.strip_prefix('=').unwrap_or(text);
    let has_signs = text.ends_with('$') || text.contains(".*");
    let is_other = text.starts_with(['/', '(', '{', '<', '>']) || text.len() < 2;
    !is_other && (text.starts_with('^') || has_signs && !operand.quoted)
}

/// Operands that are hardly meant as they are read.
fn hints(operand: &Word, flags: &ConditionFlags) -> Vec<Diagnostic> {
    let text = operand.as_str();
    let mut list = Vec::new();
    let mut warn = |message: &str, hint: &str| {
        list.push(Diagnostic::warning(operand.at, message).hint(hint));
    };
    let compared = text.strip_prefix('=').unwrap_or_default();
    let encloses = |first: char, last: char| {
        compared.len() > 1 && compared.starts_with(first) && compared.ends_with(last)
    };
    // Who asks for a part of a text means no regex.
    if encloses('/', '/') && flags.how.is_none() {
        warn("compared with this text, slashes included", "a regex stands without `=`");
    } else if encloses('(', ')') || encloses('{', '}') {
        warn("compared with this text, brackets included", "a set or a range stands without `=`");
    } else if text.ends_with(']') && text.contains('[') && !operand.quoted && !text.starts_with('/')
    {
        let hint = match compared.split_once(" [") {
            Some((path, flags)) => {
                format!("a word that begins with / ends at a slash: =\"{path}\" [{flags}")
            }
            None => "a blank has to stand before flags".to_owned(),
        };
        warn("the bracket belongs to the text", &hint);
    } else if operand.is_comment() {
        warn("compared with this text", "a comment stands on a line of its own");
    } else if compared.contains("%{") || braceless(compared).is_some() {
        warn("compared with this text: nothing is filled in here", "in values of operators it is");
    } else if looks_like_regex(operand) {
        let regex = text.trim_start_matches('=');
        warn(
            "compared with this text, signs and all",
            &format!("a regex stands in slashes: /{regex}/"),
        );
    }
    list
}
