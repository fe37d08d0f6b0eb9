//! Files that are not valid TOML: describes the parser's errors in the words of an operator.
//!
//! After most errors the parser guesses how the file continues, and reports further errors that are
//! only consequences. So the reports end with the first such error.

use std::ops::Range;

use super::setting::ValueProblem;

/// A syntax error, and the text around it.
struct ErrorSpot<'a> {
    /// The text of the file before the line of the error.
    above: &'a str,
    /// The part of the line before the error.
    before: &'a str,
    /// The rest of the line, from the error on, without a comment.
    rest: &'a str,
    /// The text that the parser blames.
    blamed: &'a str,
    /// The parser's sentence.
    message: &'a str,
}

/// The description of an error, and whether the parser has read the text behind it correctly.
struct SyntaxMistake {
    problem: ValueProblem,
    is_local: bool,
}

/// Words of other languages for true and false.
const TRUE_WORDS: [&str; 3] = ["yes", "on", "true"];
const FALSE_WORDS: [&str; 3] = ["no", "off", "false"];

/// The hint for an error that has none of its own.
const FORM: &str = "a line is a [[section]], or a key, = and a value; text is in double quotes";

/// Returns the problems of a file with this text, each with its range of bytes, at most one in each
/// line.
pub(super) fn problems(
    text: &str,
    errors: &[toml::de::Error],
) -> Vec<(Range<usize>, ValueProblem)> {
    if errors.is_empty() {
        return Vec::new();
    }
    if let Some(problem) = other_format(text) {
        let start = text.find(|c: char| !c.is_whitespace()).unwrap_or_default();
        return vec![(start..text.len(), problem)];
    }
    let mut found: Vec<(Range<usize>, ValueProblem)> = Vec::new();
    for error in errors {
        let mut span = error.span().unwrap_or_default();
        let spot = ErrorSpot::new(text, &span, error.message());
        if spot.is_conflict_marker() {
            span = spot.above.len()..span.end;
        }
        if found.last().is_some_and(|(last, _)| last.start >= spot.above.len()) {
            continue;
        }
        let SyntaxMistake { problem, is_local } = spot.explain();
        found.push((span, problem));
        if !is_local {
            break;
        }
    }
    found
}

impl<'a> ErrorSpot<'a> {
    fn new(text: &'a str, span: &Range<usize>, message: &'a str) -> ErrorSpot<'a> {
        let start = text.floor_char_boundary(span.start.min(text.len()));
        let end = text.floor_char_boundary(span.end.clamp(start, text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let rest = text[start..].lines().next().unwrap_or_default();
        let rest = rest.split('#').next().unwrap_or_default().trim_end();
        ErrorSpot {
            above: &text[..line_start],
            before: &text[line_start..start],
            rest,
            blamed: &text[start..end],
            message,
        }
    }

    fn explain(&self) -> SyntaxMistake {
        let rest = self.rest;
        if self.is_conflict_marker() {
            return misleading(
                "this line is a marker of a merge conflict",
                "keep one of the two versions, and remove the lines with <<<<<<<, ======= and \
                 >>>>>>>",
            );
        }
        if rest.contains("{{") || self.before.ends_with('{') && rest.starts_with('{') {
            return misleading(
                "the file is a template: {{ }} has not been replaced by a value",
                "write the file with the program that fills in the template",
            );
        }
        if rest.contains(['\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}']) {
            let straight = |c| if "\u{2018}\u{2019}".contains(c) { '\'' } else { '"' };
            let quotes = "\u{201c}\u{201d}\u{201e}\u{2018}\u{2019}";
            let fixed = rest.chars().map(|c| if quotes.contains(c) { straight(c) } else { c });
            let hint = format!("write {}", fixed.collect::<String>());
            return local("typographic quotes are no quotes in TOML", hint);
        }
        match self.message.split(',').next().unwrap_or_default() {
            "duplicate key" => self.duplicate(),
            "string values must be quoted"
            | "invalid value"
            | "missing value"
            | "missing value for key" => self.unquoted(),
            "invalid boolean" => self.unquoted(),
            "missing comma between array elements" => self.comma(),
            "unclosed array" => {
                misleading("an array has no end", "write ] behind its last element")
            }
            "unclosed array table" | "unclosed table" => self.header(),
            "missing escaped value" | "invalid escape sequence" => misleading(
                "a backslash in double quotes must be followed by one of b e f n r t x u U \\ \"",
                "put a regular expression in single quotes, where a backslash is just a character",
            ),
            "key with no value" | "invalid unquoted key" => self.key(),
            "unexpected key or value" => self.behind_value(),
            "invalid basic string" | "invalid literal string" => misleading(
                "the text in quotes has no end in this line, or a character that text cannot have",
                format!("end the text with the quote with which it begins: {}", self.quote()),
            ),
            _ => misleading(self.message, FORM),
        }
    }

    /// Whether the line is one that version control systems write around a conflict.
    fn is_conflict_marker(&self) -> bool {
        let markers = ["<<<<<<<", "=======", ">>>>>>>"];
        let line_rest = format!("{}{}", self.before, self.rest);
        markers.iter().any(|marker| line_rest.starts_with(marker))
    }

    /// The quote with which the last text before the error begins.
    fn quote(&self) -> char {
        self.before.chars().find(|c| matches!(c, '"' | '\'')).unwrap_or('"')
    }

    fn duplicate(&self) -> SyntaxMistake {
        let key = self.blamed;
        if self.before.trim_start().starts_with('[') {
            return misleading(
                format!("[[{key}]] comes after a section that belongs to it"),
                format!("write [[{key}]] first, and its [[{key}.route]] sections below it"),
            );
        }
        let is_same = |line: &str| {
            let rest = line.trim_start().strip_prefix(key);
            rest.is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        let lines: Vec<_> = self.above.lines().collect();
        let in_section = |line: &&&str| !line.trim_start().starts_with('[');
        let above = lines.iter().rev().take_while(in_section).position(|line| is_same(line));
        let first = above.map(|above| lines.len() - above);
        local(
            format!("`{key}` is set twice in this section"),
            match first {
                Some(number) => format!("the first use is in line {number}; leave one of them out"),
                None => "leave one of them out".to_owned(),
            },
        )
    }

    /// Describes a value that is none, usually text without quotes.
    fn unquoted(&self) -> SyntaxMistake {
        let in_array = self.before.contains('[');
        let value = match in_array {
            true => self.blamed.trim(),
            false => self.rest.trim().trim_end_matches([';', ',']).trim_end(),
        };
        let is_one_of = |words: [&str; 3]| words.contains(&value.to_ascii_lowercase().as_str());
        if value.is_empty() {
            return local("the value is missing", "write a value behind the =");
        }
        if is_one_of(TRUE_WORDS) {
            return local(format!("`{value}` is not a value"), "write true, without quotes");
        }
        if is_one_of(FALSE_WORDS) {
            let hint = "write false, without quotes; or \"off\", if the setting is text";
            return local(format!("`{value}` is not a value"), hint);
        }
        if let Some(name) = value.strip_prefix('$') {
            let name = name.trim_start_matches('{').trim_end_matches('}');
            let hint = format!("for an environment variable, write {{ env = \"{name}\" }}");
            return local("the value begins with a $", hint);
        }
        let hint = match value.contains(['"', '\'', '\\']) || value.chars().any(char::is_control) {
            true => "put the value in double quotes".to_owned(),
            false => format!("write \"{value}\""),
        };
        local("text, and a number with a unit, must be in quotes", hint)
    }

    fn comma(&self) -> SyntaxMistake {
        if !self.before.trim().is_empty() {
            let hint = "write a comma in front of this element";
            return misleading("a comma is missing between two elements of an array", hint);
        }
        let lines = self.above.lines().collect::<Vec<_>>();
        let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        let last = lines.iter().rposition(|line| !is_blank(line)).unwrap_or_default() + 1;
        match self.rest.contains('=') {
            true => misleading(
                "the array above this line has no end",
                format!("write ] at the end of line {last}"),
            ),
            false => misleading(
                "the array above this line has no end, or a comma is missing",
                format!("write a comma or ] at the end of line {last}"),
            ),
        }
    }

    fn header(&self) -> SyntaxMistake {
        let line = format!("{}{}", self.before, self.rest);
        let is_list = line.trim_start().starts_with("[[");
        let name = line.trim().trim_matches(['[', ']']).trim();
        let hint = if is_list { format!("write [[{name}]]") } else { format!("write [{name}]") };
        misleading("the brackets of the section are not closed", hint)
    }

    fn key(&self) -> SyntaxMistake {
        let line = format!("{}{}", self.before, self.rest);
        let line = line.trim();
        let end = line.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.\"".contains(c));
        let (key, rest) = line.split_at(end.unwrap_or(line.len()));
        let rest = rest.trim_start();
        if key.is_empty() {
            return misleading("a key has only letters, digits, - and _", FORM);
        }
        let value = rest.strip_prefix(':').unwrap_or(rest).trim().trim_end_matches([';', ',']);
        let what = match rest.starts_with(':') {
            true => format!("`{key}` is followed by a colon in place of ="),
            false if rest.starts_with(|c: char| !c.is_ascii() || ".,;!/\\".contains(c)) => {
                return misleading("a key has only letters, digits, - and _", FORM);
            }
            false => format!("`{key}` is not followed by ="),
        };
        let is_value = value.starts_with(['"', '\'', '[', '{'])
            || value.bytes().all(|byte| byte.is_ascii_digit());
        let hint = match value {
            "" => FORM.to_owned(),
            value if is_value => format!("write {key} = {value}"),
            value if !value.contains(['"', '\\']) => format!("write {key} = \"{value}\""),
            _ => FORM.to_owned(),
        };
        misleading(what, hint)
    }

    fn behind_value(&self) -> SyntaxMistake {
        match self.rest.starts_with(';') {
            true => local("a line does not end with a semicolon", "leave the ; out"),
            false => misleading(
                "there is text behind the value",
                "write each setting in a line of its own; a comment begins with #",
            ),
        }
    }
}

/// Describes an error behind which the parser continues correctly.
fn local(message: impl Into<String>, hint: impl Into<String>) -> SyntaxMistake {
    SyntaxMistake { problem: ValueProblem::new(message).hint(hint), is_local: true }
}

/// Describes an error with consequences.
fn misleading(message: impl Into<String>, hint: impl Into<String>) -> SyntaxMistake {
    SyntaxMistake { problem: ValueProblem::new(message).hint(hint), is_local: false }
}

/// Returns the problem of a file that is written for another program, or in another language.
fn other_format(text: &str) -> Option<ValueProblem> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    let lines: Vec<_> = lines.filter(|line| !line.starts_with('#')).take(100).collect();
    let first = lines.first()?;
    let has_block = |words: &[&str]| {
        let opens = |line: &&&str| line.ends_with('{');
        let mut openings = lines.iter().filter(opens);
        openings.any(|line| line.split([' ', '{']).next().is_some_and(|word| words.contains(&word)))
    };
    let is_yaml_line = |line: &&&str| {
        let key = line.trim_start_matches("- ").split_once(':').map(|(key, _)| key);
        key.is_some_and(|key| {
            !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        })
    };
    let has_mapping = lines.iter().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("map") && words.filter(|word| word.contains("://")).count() == 2
    });
    let has_section = |words: &[&str]| {
        let is_one = |line: &&str| line.split(' ').next().is_some_and(|word| words.contains(&word));
        lines.iter().filter(|line| is_one(line)).count() >= 2
    };
    let has_equals = lines.iter().any(|line| line.contains(" = "));
    let (language, hint) = if lines.iter().any(|line| line.starts_with("vcl ")) {
        ("VCL (Varnish)", "`forebay import varnish FILE` translates VCL of Varnish")
    } else if has_block(&["server", "http", "location", "upstream", "events"]) {
        ("nginx", "`forebay import nginx FILE` translates a configuration of nginx")
    } else if has_mapping {
        ("remap.config (Traffic Server)", "`forebay import trafficserver FILE` translates it")
    } else if !has_equals && has_section(&["frontend", "backend", "defaults", "global", "listen"]) {
        ("HAProxy", EXAMPLE)
    } else if lines.iter().any(|line| line.starts_with("<VirtualHost")) {
        ("Apache httpd", EXAMPLE)
    } else if first.starts_with('{') {
        ("JSON", EXAMPLE)
    } else if !has_equals && (*first == "---" || lines.iter().filter(is_yaml_line).count() >= 2) {
        ("YAML", EXAMPLE)
    } else {
        return None;
    };
    let message = format!("this file has the syntax of {language}; a configuration is TOML");
    Some(ValueProblem::new(message).hint(hint))
}

const EXAMPLE: &str = "`forebay config --defaults` shows a configuration in TOML; a small one is: \
                       [[site]], and below it the lines name = \"shop\", \
                       names = [\"example.org\"], origin = \"http://127.0.0.1:3000\"";
