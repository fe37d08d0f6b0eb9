//! Checks operands: the values that conditions require. The first character of an operand
//! determines its kind.

use regex::bytes::Regex;

use crate::{
    ast::{Comparison, Matcher, Variable},
    check::{
        condition::allowed, impossible::impossible_operands, missing_braces::missing_braces,
        number::number, pattern::compile_regex, range::ranges, set::members, variable::ValueKind,
    },
    diagnostic::{Diagnostic, Findings, RuleSpan},
    lex::SourceWord,
    parse::ConditionFlags,
    pattern::PatternCompiler,
};

/// Returns the matcher of a condition; `name` is the text in its braces.
pub(crate) fn matcher(
    name: &SourceWord,
    subject: &Variable,
    operand: Option<&SourceWord>,
    flags: &ConditionFlags,
    regexes: &mut PatternCompiler,
    findings: &mut Findings,
) -> Option<Matcher> {
    let kind = ValueKind::of(subject);
    let Some(operand) = operand else {
        return without_operand(name, kind, flags, findings);
    };
    let matcher = match operand.as_str() {
        text if text.starts_with('/') && kind != ValueKind::Number && kind != ValueKind::Flag => {
            Matcher::Regex(findings.keep(regex(operand, flags, regexes)).flatten()?)
        }
        _ => findings.keep(with_operand(name, kind, operand, flags))?,
    };
    let flags_ok = findings.keep(check_flags(&matcher, flags));
    let mut odd = hints(operand, flags);
    if odd.is_empty() {
        odd = impossible_operands(name, subject, &matcher, operand, flags.not.is_some());
    }
    odd.into_iter().for_each(|finding| findings.push(finding));
    flags_ok.map(|()| matcher)
}

/// Returns the matcher of a condition without an operand. Such a condition holds if a flag is set,
/// or if a text is empty: Apache Traffic Server compares the text with the empty text, although its
/// documentation says otherwise.
fn without_operand(
    name: &SourceWord,
    kind: ValueKind,
    flags: &ConditionFlags,
    findings: &mut Findings,
) -> Option<Matcher> {
    let how = flags.how.map(|how| how.1);
    if let Some(at) = flags.nocase.or(flags.case).or(how) {
        findings.push(Diagnostic::error(at, "this flag needs an operand, but there is none"));
        return None;
    }
    let text = name.as_str();
    match kind {
        ValueKind::Flag => return Some(Matcher::Is),
        ValueKind::Number => {
            let message = format!("%{{{text}}} is a number and must be compared with a number");
            findings.push(Diagnostic::error(name.at, message).hint(allowed(kind)));
            return None;
        }
        ValueKind::Text | ValueKind::Address => {}
    }
    let message = format!("without an operand, this condition holds if %{{{text}}} is empty");
    let hint = format!("write %{{{text}}} =\"\" to test for empty, or /./ to test for not empty");
    findings.push(Diagnostic::warning(name.at, message).hint(hint));
    Some(Matcher::Text { how: Comparison::Equal, with: Box::default(), nocase: false })
}

fn regex(
    operand: &SourceWord,
    flags: &ConditionFlags,
    regexes: &mut PatternCompiler,
) -> Result<Option<Regex>, Diagnostic> {
    let text = operand.as_str();
    if text.len() < 2 || !text.ends_with('/') {
        return Err(unclosed(operand, '/'));
    }
    compile_regex(regexes, &operand.part(1..text.len() - 1), flags)
}

/// Reads any operand except a regex.
fn with_operand(
    name: &SourceWord,
    kind: ValueKind,
    operand: &SourceWord,
    flags: &ConditionFlags,
) -> Result<Matcher, Diagnostic> {
    let text = operand.as_str();
    let rest = operand.part(first_len(text)..text.len());
    let inside = || operand.part(1..text.len().saturating_sub(1).max(1));
    let wrong = || {
        let message = format!("%{{{}}} cannot be compared with this operand", name.as_str());
        let is_network = name.as_str().starts_with("CIDR") && text.starts_with('{');
        let hint = if is_network { "compare ranges only with %{IP:CLIENT}" } else { allowed(kind) };
        Err(Diagnostic::error(operand.at, message).hint(hint))
    };
    if kind == ValueKind::Flag {
        return wrong();
    }
    match text.chars().next() {
        Some('/') => wrong(),
        Some('{') if kind != ValueKind::Address => wrong(),
        Some('{') if !text.ends_with('}') => Err(unclosed(operand, '}')),
        Some('{') => ranges(&inside()).map(Matcher::Ranges),
        Some('(') if !text.ends_with(')') => Err(unclosed(operand, ')')),
        Some('(') => set(kind, operand, &inside(), flags),
        Some('<') => one(kind, Comparison::Less, &rest, operand, flags),
        Some('>') => one(kind, Comparison::Greater, &rest, operand, flags),
        _ => one(kind, Comparison::Equal, &rest, operand, flags),
    }
}

/// Returns the length of the comparison sign; 0 if the text has none, so that it is compared as a
/// whole.
fn first_len(text: &str) -> usize {
    usize::from(text.starts_with(['=', '<', '>']))
}

fn unclosed(operand: &SourceWord, end: char) -> Diagnostic {
    let what = if end == '/' { "the regex" } else { "the operand" };
    Diagnostic::error(operand.at, format!("{what} does not end with `{end}`"))
}

fn one(
    kind: ValueKind,
    how: Comparison,
    word: &SourceWord,
    operand: &SourceWord,
    flags: &ConditionFlags,
) -> Result<Matcher, Diagnostic> {
    if kind == ValueKind::Number {
        let empty_at = if word.as_str().is_empty() { operand } else { word };
        let with = number(word).map_err(|problem| Diagnostic { at: empty_at.at, ..problem })?;
        return Ok(Matcher::Number { how, with });
    }
    let nocase = flags.nocase.is_some();
    let how = match (how, flags.how) {
        (Comparison::Equal, Some((how, _))) => how,
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
    kind: ValueKind,
    operand: &SourceWord,
    inside: &SourceWord,
    flags: &ConditionFlags,
) -> Result<Matcher, Diagnostic> {
    let members = members(operand, inside)?;
    if kind == ValueKind::Number {
        return members.iter().map(number).collect::<Result<_, _>>().map(Matcher::NumberSet);
    }
    let nocase = flags.nocase.is_some();
    let how = flags.how.map_or(Comparison::Equal, |(how, _)| how);
    let with = members.iter().map(|word| folded(word.as_str(), nocase)).collect();
    Ok(Matcher::TextSet { how, with, nocase })
}

/// Refuses flags that have no meaning for the operand.
fn check_flags(matcher: &Matcher, flags: &ConditionFlags) -> Result<(), Diagnostic> {
    let refuse = |at: RuleSpan, hint: &str| {
        Err(Diagnostic::error(at, "this flag has no meaning for this operand").hint(hint))
    };
    let how = flags.how.map(|(_, at)| at);
    match matcher {
        Matcher::Text { how: Comparison::Less | Comparison::Greater, .. } => {
            match flags.nocase.or(how) {
                Some(at) => refuse(at, "< and > compare texts by their bytes"),
                None => Ok(()),
            }
        }
        Matcher::Text { .. } | Matcher::TextSet { .. } | Matcher::Is => Ok(()),
        Matcher::Regex(_) => match how {
            Some(at) => refuse(at, "in a regex use ^ for the beginning and $ for the end"),
            None => Ok(()),
        },
        Matcher::Number { .. } | Matcher::NumberSet(_) | Matcher::Ranges(_) => {
            match flags.nocase.or(how) {
                Some(at) => refuse(at, "this flag applies only to texts"),
                None => Ok(()),
            }
        }
    }
}

/// Whether a text looks like a regex: `^a`, `a$`, `a.*b`.
fn looks_like_regex(operand: &SourceWord) -> bool {
    let text = operand.as_str();
    let text = text.strip_prefix('=').unwrap_or(text);
    let has_signs = text.ends_with('$') || text.contains(".*");
    let is_other = text.starts_with(['/', '(', '{', '<', '>']) || text.len() < 2;
    !is_other && (text.starts_with('^') || has_signs && !operand.quoted)
}

/// Returns warnings for operands whose meaning is probably not the one that the author intended.
fn hints(operand: &SourceWord, flags: &ConditionFlags) -> Vec<Diagnostic> {
    let text = operand.as_str();
    let mut list = Vec::new();
    let mut warn = |message: &str, hint: &str| {
        list.push(Diagnostic::warning(operand.at, message).hint(hint));
    };
    let compared = text.strip_prefix('=').unwrap_or_default();
    let encloses = |first: char, last: char| {
        compared.len() > 1 && compared.starts_with(first) && compared.ends_with(last)
    };
    // With [PRE], [SUF] or [MID] the slashes are probably meant as text.
    if encloses('/', '/') && flags.how.is_none() {
        warn("the value is compared with this text, slashes included", "write a regex without `=`");
    } else if encloses('(', ')') || encloses('{', '}') {
        warn(
            "the value is compared with this text, brackets included",
            "write a set or a range without `=`",
        );
    } else if text.ends_with(']') && text.contains('[') && !operand.quoted && !text.starts_with('/')
    {
        let hint = match compared.split_once(" [") {
            Some((path, flags)) => {
                format!(
                    "a word that begins with / ends at the next slash: write =\"{path}\" [{flags}"
                )
            }
            None => "put a space before the flags".to_owned(),
        };
        warn("the bracket is read as part of the text", &hint);
    } else if operand.is_comment() {
        warn("the value is compared with this text", "put the comment on a line of its own");
    } else if compared.contains("%{") || missing_braces(compared).is_some() {
        warn(
            "the value is compared with this text: variables are not filled in here",
            "variables are filled in only in the values of operators",
        );
    } else if looks_like_regex(operand) {
        let regex = text.trim_start_matches('=');
        warn(
            "the value is compared with this text, special characters included",
            &format!("write a regex in slashes: /{regex}/"),
        );
    }
    list
}
