//! Classifies a line: a condition, an operator, or a keyword of a branch.

use crate::{
    diagnostic::{Diagnostic, Findings, RuleSpan},
    lex::{SourceWord, lex},
    limits::LINE_BYTES_MAX,
};

/// A line that is neither empty nor a comment.
#[derive(Debug)]
pub(crate) struct ParsedLine {
    /// The whole line without surrounding white space.
    pub(crate) at: RuleSpan,
    /// The kind of line. The errors of the line have been reported.
    pub(crate) kind: LineKind,
}

/// The kinds of lines.
#[derive(Debug)]
pub(crate) enum LineKind {
    /// A condition: `cond %{…} operand [flags]`.
    Condition {
        /// The text between `%{` and `}`.
        variable: SourceWord,
        /// All words of the operand, joined; `None` if the condition has no operand.
        operand: Option<SourceWord>,
        /// The flags with their brackets.
        flags: Option<SourceWord>,
    },
    /// An operator: `name value … [flags]`.
    Operator {
        /// The operator's name.
        name: SourceWord,
        /// The words after the name.
        arguments: Vec<SourceWord>,
        /// The flags with their brackets.
        flags: Option<SourceWord>,
    },
    /// A condition that cannot be read.
    BrokenCondition,
    /// An operator that cannot be read.
    BrokenOperator,
    /// The keyword `else`.
    Else,
    /// The keyword `elif`.
    Elif,
    /// The keyword `if`.
    If,
    /// The keyword `endif`.
    Endif,
}

/// Reads one line, without its line break.
pub(crate) fn parse_line(number: u32, text: &str, findings: &mut Findings) -> Option<ParsedLine> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if trimmed.is_empty() || trimmed.starts_with('#') {
        return None;
    }
    let indent = text.len() - text.trim_start_matches(|c: char| c.is_ascii_whitespace()).len();
    let at = RuleSpan { line: number, column: indent as u32 + 1, len: trimmed.len() as u32 };
    let words =
        findings
            .keep(check_bytes(at, text).and_then(|()| {
                lex(number, text.get(..indent + trimmed.len()).unwrap_or_default())
            }));
    let Some(words) = words else {
        return Some(ParsedLine { at, kind: kind_of_broken(trimmed) });
    };
    let kind = kind_of(words, findings)?;
    Some(ParsedLine { at, kind })
}

/// Checks the length of a line, and rejects control bytes, so that none can reach a message head or
/// a terminal.
fn check_bytes(at: RuleSpan, text: &str) -> Result<(), Diagnostic> {
    if text.len() > LINE_BYTES_MAX {
        let message =
            format!("the line has {} bytes, but {LINE_BYTES_MAX} are allowed", text.len());
        return Err(Diagnostic::error(RuleSpan { len: 1, ..at }, message));
    }
    match text.bytes().position(|byte| byte.is_ascii_control() && byte != b'\t') {
        // This byte is the CR of a line end CR LF.
        Some(place) if place + 1 == text.len() && text.ends_with('\r') => Ok(()),
        Some(place) => {
            let byte = text.as_bytes().get(place).copied().unwrap_or_default();
            let at = RuleSpan { column: place as u32 + 1, len: 1, ..at };
            Err(Diagnostic::error(at, format!("the line contains a control byte, {byte:#04x}"))
                .hint("remove the byte; a field value cannot contain it"))
        }
        None => Ok(()),
    }
}

/// Guesses the kind of a line that could not be split into words.
fn kind_of_broken(text: &str) -> LineKind {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    match first {
        "else" => LineKind::Else,
        "elif" => LineKind::Elif,
        "if" => LineKind::If,
        "endif" => LineKind::Endif,
        "cond" => LineKind::BrokenCondition,
        _ if first.starts_with("%{") => LineKind::BrokenCondition,
        _ => LineKind::BrokenOperator,
    }
}

fn kind_of(mut words: Vec<SourceWord>, findings: &mut Findings) -> Option<LineKind> {
    let first = words.first()?.clone();
    let kind = match first.as_str() {
        "else" => LineKind::Else,
        "elif" => LineKind::Elif,
        "if" => LineKind::If,
        "endif" => LineKind::Endif,
        "cond" => {
            words.remove(0);
            return Some(keep_condition(first.at, words, findings));
        }
        text if text.starts_with("%{") => {
            return Some(keep_condition(first.at, words, findings));
        }
        _ => return Some(operator(words, findings)),
    };
    if let Some(second) = words.get(1) {
        let name = first.as_str();
        let message = format!("nothing may follow `{name}` on the same line");
        findings.push(
            Diagnostic::error(second.at, message).hint("put conditions on lines of their own"),
        );
    }
    Some(kind)
}

fn keep_condition(at: RuleSpan, words: Vec<SourceWord>, findings: &mut Findings) -> LineKind {
    let condition = condition(at, words);
    findings.keep(condition).unwrap_or(LineKind::BrokenCondition)
}

fn condition(at: RuleSpan, mut words: Vec<SourceWord>) -> Result<LineKind, Diagnostic> {
    let flags = take_flags(&mut words)?;
    let mut words = words.into_iter().peekable();
    let Some(subject) = words.next() else {
        return Err(
            Diagnostic::error(at, "the condition has no name").hint("write cond %{NAME} =value")
        );
    };
    let variable = braced(&subject)?;
    let Some(mut operand) = words.next() else {
        return Ok(LineKind::Condition { variable, operand: None, flags });
    };
    let comparison_alone = matches!(operand.as_str(), "=" | "<" | ">") && !operand.quoted;
    if comparison_alone && let Some(word) = words.next_if(|word| !word.is_comment()) {
        if let Some(problem) = doubled_comparison(&operand, &word) {
            return Err(problem);
        }
        operand.join("", &word);
    }
    // A comment may follow an operand: the language ignores the rest of the line.
    match words.next() {
        Some(word) if word.as_str().starts_with('[') => Err(misplaced_flags(&word)),
        Some(word) if !word.is_comment() => Err(surplus(&operand, &word)),
        _ => Ok(LineKind::Condition { variable, operand: Some(operand), flags }),
    }
}

/// Returns the text between `%{` and `}`.
fn braced(word: &SourceWord) -> Result<SourceWord, Diagnostic> {
    let text = word.as_str();
    if text.starts_with("%{") && text.ends_with('}') {
        return Ok(word.part(2..text.len() - 1));
    }
    let problem = Diagnostic::error(word.at, "a condition is written %{NAME} or %{NAME:qualifier}");
    Err(match text.strip_prefix("%{") {
        Some(inside) if inside.contains('}') => {
            problem.hint("put a space after the `}`; a condition cannot concatenate texts")
        }
        Some(_) => problem.hint("the `}` is missing, or a space or `=` precedes it"),
        None => problem.hint(format!("cond %{{{}}}", text.trim_matches(['%', '$', '{', '}']))),
    })
}

/// Recognises `==`, `>=` and `<=`, which the language does not have.
fn doubled_comparison(first: &SourceWord, second: &SourceWord) -> Option<Diagnostic> {
    let text = second.as_str();
    let hint = match first.as_str() {
        "=" if text == "=" && !second.quoted => "write a single `=`",
        // The lexer has dropped the `=`, because it ended the word before it.
        ">" if second.glued || text == "=" => "there is no `>=`: write `<` with the flag [NOT]",
        "<" if second.glued || text == "=" => "there is no `<=`: write `>` with the flag [NOT]",
        _ => return None,
    };
    let len = (second.at.column + 1).saturating_sub(first.at.column).min(2);
    let at = RuleSpan { len, ..first.at };
    Some(Diagnostic::error(at, "no comparison sign of the language has two characters").hint(hint))
}

fn misplaced_flags(word: &SourceWord) -> Diagnostic {
    let closed = word.as_str().ends_with(']');
    let problem = Diagnostic::error(word.at, "these flags would be ignored");
    problem.hint(if closed {
        "flags must come last on the line; put comments on lines of their own"
    } else {
        "write flags without spaces: [NOT,OR]"
    })
}

fn surplus(operand: &SourceWord, word: &SourceWord) -> Diagnostic {
    let problem = Diagnostic::error(word.at, "the condition has more than one operand");
    match (operand.as_str(), word.as_str()) {
        ("!", _) => problem.hint("there is no `!=`: write `=` with the flag [NOT]"),
        ("~" | "~*" | "=~" | "=~*", _) => problem.hint("write only the regex, in slashes: /…/"),
        ("!~" | "!~*", _) => problem.hint("write the regex in slashes, with a flag: /…/ [NOT]"),
        (regex, flags) if regex.starts_with('/') && word.glued => {
            problem.hint(behind_regex(regex, flags))
        }
        (_, flag @ ("AND" | "OR" | "NOT" | "NOCASE" | "PRE" | "SUF" | "MID" | "EXT" | "L")) => {
            problem.hint(format!("write flags in brackets: [{flag}]"))
        }
        _ if operand.is_comment() => problem.hint("put the comment on a line of its own"),
        _ => problem.hint(
            "put a text in quotes if it contains spaces; to match one of several, write (a,b,c)",
        ),
    }
}

/// Returns the hint for `/a/i`, or for a slash that ends a regex too early.
fn behind_regex(regex: &str, letters: &str) -> String {
    match letters {
        "i" => format!("write flags in brackets: {regex} [NOCASE]"),
        _ if !letters.is_empty() && letters.bytes().all(|byte| b"imsx".contains(&byte)) => {
            format!(
                "put regex flags into the pattern: /(?{letters}){}",
                regex.get(1..).unwrap_or("/")
            )
        }
        _ => "write a slash in a regex as \\/".to_owned(),
    }
}

fn operator(mut words: Vec<SourceWord>, findings: &mut Findings) -> LineKind {
    let flags = match take_flags(&mut words) {
        Ok(flags) => flags,
        Err(finding) => {
            findings.push(finding);
            return LineKind::BrokenOperator;
        }
    };
    if words.is_empty() {
        let at = flags.map(|word| word.at).unwrap_or_default();
        findings.push(Diagnostic::error(at, "flags need a condition or an operator"));
        return LineKind::BrokenOperator;
    }
    let name = words.remove(0);
    LineKind::Operator { name, arguments: words, flags }
}

/// Removes and returns the flags: the last word of a line, if it begins with a bracket.
fn take_flags(words: &mut Vec<SourceWord>) -> Result<Option<SourceWord>, Diagnostic> {
    let Some(last) = words.last() else {
        return Ok(None);
    };
    let text = last.as_str();
    if text.starts_with('[') && !text.ends_with(']') {
        return Err(Diagnostic::error(last.at, "the flags have no closing bracket"));
    }
    let (flags, before) = (text.starts_with('['), words.len() - 1);
    if flags && words.iter().take(before).any(SourceWord::is_comment) {
        // Apache Traffic Server reads flags even in a comment, which no author expects.
        return Err(Diagnostic::error(last.at, "these flags are in a comment")
            .hint("put the comment on a line of its own"));
    }
    if flags {
        return Ok(words.pop());
    }
    // `[NOT, OR]` splits into two words, neither of which the language reads as flags.
    let opened = words.iter().rev().nth(1).filter(|word| word.as_str().starts_with('['));
    match opened {
        Some(word) if text.ends_with(']') && word.as_str().ends_with(',') => {
            Err(misplaced_flags(word))
        }
        _ => Ok(None),
    }
}
