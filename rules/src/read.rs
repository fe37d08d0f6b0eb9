//! Reads a rule file: from text to checked rules.

use crate::{
    ast::{RuleList, RuleScope},
    check::find_unreachable,
    diagnostic::{Diagnostic, Findings, RuleSpan},
    filter::Filters,
    limits::FILE_BYTES_MAX,
    parse::{RuleAssembler, parse_line},
};

/// The result of reading a file.
#[derive(Clone, Debug)]
pub struct ParsedFile {
    /// The rules, without those that have errors. They may be used only if no finding is an error.
    pub rules: RuleList,
    /// All findings, in the order of the lines.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a rule file in a build without filters. See [`read_with`].
pub fn read(file: &str, text: &str, scope: RuleScope) -> ParsedFile {
    read_with(file, text, scope, &Filters::default())
}

/// Reads a rule file whose rules may run these filters. Reading continues after an error, so that
/// all errors are reported.
pub fn read_with(file: &str, text: &str, scope: RuleScope, filters: &Filters) -> ParsedFile {
    // Some editors put a byte order mark before the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut findings = Findings::default();
    let mut assembler = RuleAssembler::new(scope, filters);
    if text.len() > FILE_BYTES_MAX {
        let message = format!("the file has {} bytes; {FILE_BYTES_MAX} are allowed", text.len());
        findings.push(Diagnostic::error(RuleSpan { line: 1, column: 1, len: 1 }, message));
    } else {
        for (number, line) in (1..).zip(text.split('\n')) {
            if let Some(line) = parse_line(number, line, &mut findings) {
                assembler.add(line, &mut findings);
            }
        }
    }
    let (rules, counters) = assembler.finish(&mut findings);
    find_unreachable(&rules, &mut findings);
    let rules = RuleList { file: file.to_owned(), rules, counters };
    ParsedFile { rules, diagnostics: findings.into_list() }
}

/// Reads the bytes of a rule file. Also returns the text of the file, which is needed to show
/// findings.
pub fn read_bytes(
    file: &str,
    bytes: Vec<u8>,
    scope: RuleScope,
    filters: &Filters,
) -> (String, ParsedFile) {
    // The caller may have cut a file that is too large in the middle of a character, so the size is
    // reported instead of that character.
    if bytes.len() > FILE_BYTES_MAX {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let read = read_with(file, &text, scope, filters);
        return (text, read);
    }
    match decode(bytes) {
        Ok(text) => {
            let read = read_with(file, &text, scope, filters);
            (text, read)
        }
        Err((text, problem)) => {
            let rules = RuleList { file: file.to_owned(), rules: Vec::new(), counters: Vec::new() };
            (text, ParsedFile { rules, diagnostics: vec![problem] })
        }
    }
}

/// Decodes the bytes of a rule file as UTF-8.
///
/// # Errors
/// Returns a finding for the first byte that is not UTF-8, and the text with replacement characters
/// for such bytes.
pub fn decode(bytes: Vec<u8>) -> Result<String, (String, Diagnostic)> {
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let bytes = error.as_bytes();
    let (before, rest) = bytes.split_at(error.utf8_error().valid_up_to());
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.len() - line_start + 1;
    let at = RuleSpan { line: line as u32, column: column as u32, len: 1 };
    let byte = rest.first().copied().unwrap_or_default();
    let problem = Diagnostic::error(at, format!("the byte {byte:#04x} is not UTF-8"));
    let problem = problem.hint(match byte {
        0xfe | 0xff => "the file looks like UTF-16: save it as UTF-8".to_owned(),
        _ => format!("in Latin-1 the byte is `{}`: save the file as UTF-8", char::from(byte)),
    });
    Err((String::from_utf8_lossy(bytes).into_owned(), problem))
}

impl ParsedFile {
    /// Whether no finding is an error.
    pub fn is_usable(&self) -> bool {
        use crate::diagnostic::Severity;
        self.diagnostics.iter().all(|finding| finding.severity < Severity::Error)
    }
}
