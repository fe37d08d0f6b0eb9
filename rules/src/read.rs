//! The way from text to rules.

use crate::{
    ast::{Rules, Scope},
    check::look_for_unreachable,
    diagnostic::{At, Diagnostic, Findings},
    filter::Filters,
    limits::FILE_BYTES_MAX,
    parse::{Structure, parse_line},
};

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Usable if no finding is an error: rules with an error in them are left out.
    pub rules: Rules,
    /// All that is wrong, in the order of the lines.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a rule file that knows no filters. See [`read_with`].
pub fn read(file: &str, text: &str, scope: Scope) -> Read {
    read_with(file, text, scope, &Filters::default())
}

/// Reads a rule file; its rules may run these filters. Never stops at the first error.
pub fn read_with(file: &str, text: &str, scope: Scope, filters: &Filters) -> Read {
    // Editors of other systems put it before a text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut findings = Findings::default();
    let mut structure = Structure::new(scope, filters);
    if text.len() > FILE_BYTES_MAX {
        let message = format!("the file has {} bytes; {FILE_BYTES_MAX} are allowed", text.len());
        findings.push(Diagnostic::error(At { line: 1, column: 1, len: 1 }, message));
    } else {
        for (number, line) in (1..).zip(text.split('\n')) {
            if let Some(line) = parse_line(number, line, &mut findings) {
                structure.add(line, &mut findings);
            }
        }
    }
    let (rules, counters) = structure.finish(&mut findings);
    look_for_unreachable(&rules, &mut findings);
    let rules = Rules { file: file.to_owned(), rules, counters };
    Read { rules, diagnostics: findings.into_list() }
}

impl Read {
    /// Nothing in the file is refused.
    pub fn is_usable(&self) -> bool {
        use crate::diagnostic::Severity;
        self.diagnostics.iter().all(|finding| finding.severity < Severity::Error)
    }
}
