//! The flags at the end of a line: `[A,B]`.

use crate::{
    ast::Comparison,
    check::suggest::did_you_mean,
    diagnostic::{Diagnostic, Findings, RuleSpan},
    lex::SourceWord,
};

/// Flags of a condition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConditionFlags {
    /// `[OR]`: joins the condition with the next one by OR.
    pub(crate) or: Option<RuleSpan>,
    /// `[AND]`, the default.
    pub(crate) and: Option<RuleSpan>,
    /// `[NOT]`: negates the condition.
    pub(crate) not: Option<RuleSpan>,
    /// `[NOCASE]`: compares texts ignoring case.
    pub(crate) nocase: Option<RuleSpan>,
    /// `[CASE]`, the default.
    pub(crate) case: Option<RuleSpan>,
    /// `[L]`: if a branch is taken, no later rule of the file runs at this hook.
    pub(crate) last: Option<RuleSpan>,
    /// `[PRE]`, `[SUF]`, `[MID]`, `[EXT]`: the kind of comparison.
    pub(crate) how: Option<(Comparison, RuleSpan)>,
}

/// Flags of an operator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OperatorFlags {
    /// `[L]`, `[LAST]`: no later rule of the file runs at this hook.
    pub(crate) last: Option<RuleSpan>,
    /// `[QSA]`: appends the request's query.
    pub(crate) append_query: Option<RuleSpan>,
    /// `[I]`, `[INV]`: keeps the named parameters instead of removing them.
    pub(crate) keep: Option<RuleSpan>,
}

impl ConditionFlags {
    /// Reads the flags; reports unknown, repeated and contradictory flags.
    pub(crate) fn parse(word: Option<&SourceWord>, findings: &mut Findings) -> ConditionFlags {
        let mut flags = ConditionFlags::default();
        for name in names(word) {
            let result = flags.set(&name);
            findings.keep(result);
        }
        if let (Some(at), Some(_)) = (flags.or, flags.and) {
            flags.or = None;
            findings.push(Diagnostic::error(at, "[AND] and [OR] contradict each other"));
        }
        flags
    }

    fn set(&mut self, name: &SourceWord) -> Result<(), Diagnostic> {
        const NAMES: &[&str] = &["AND", "OR", "NOT", "NOCASE", "PRE", "SUF", "MID", "EXT", "L"];
        let compare = match name.as_str() {
            "OR" => return once(&mut self.or, name),
            "AND" => return once(&mut self.and, name),
            "NOT" => return once(&mut self.not, name),
            "NOCASE" => return once(&mut self.nocase, name),
            "CASE" => return once(&mut self.case, name),
            "L" => return once(&mut self.last, name),
            "PRE" => Comparison::Prefix,
            "SUF" => Comparison::Suffix,
            "MID" => Comparison::Middle,
            "EXT" => Comparison::Extension,
            _ => return Err(unknown(name, "a condition", NAMES)),
        };
        if self.how.replace((compare, name.at)).is_some() {
            return Err(Diagnostic::error(
                name.at,
                "only one of PRE, SUF, MID and EXT may be given",
            ));
        }
        Ok(())
    }
}

impl OperatorFlags {
    /// Reads the flags; reports unknown and repeated flags.
    pub(crate) fn parse(word: Option<&SourceWord>, findings: &mut Findings) -> OperatorFlags {
        let mut flags = OperatorFlags::default();
        for name in names(word) {
            let result = match name.as_str() {
                "L" | "LAST" => once(&mut flags.last, &name),
                "QSA" => once(&mut flags.append_query, &name),
                "I" | "INV" => once(&mut flags.keep, &name),
                _ => Err(unknown(&name, "an operator", &["L", "QSA", "I"])),
            };
            findings.keep(result);
        }
        flags
    }
}

/// Returns the comma-separated names in the brackets.
fn names(word: Option<&SourceWord>) -> Vec<SourceWord> {
    let Some(word) = word else {
        return Vec::new();
    };
    let inside = word.part(1..word.as_str().len().saturating_sub(1).max(1));
    let mut begin = 0;
    let mut names = Vec::new();
    for name in inside.as_str().split(',') {
        let end = begin + name.len();
        names.push(if name.is_empty() { word.part(0..1) } else { inside.part(begin..end) });
        begin = end + 1;
    }
    names
}

fn once(place: &mut Option<RuleSpan>, name: &SourceWord) -> Result<(), Diagnostic> {
    match place.replace(name.at) {
        Some(_) => {
            Err(Diagnostic::error(name.at, format!("the flag [{}] is given twice", name.as_str())))
        }
        None => Ok(()),
    }
}

fn unknown(name: &SourceWord, whose: &str, names: &[&str]) -> Diagnostic {
    let message = match name.as_str() {
        "[" => "a flag is empty".to_owned(),
        text => format!("{whose} has no flag [{text}]"),
    };
    Diagnostic::error(name.at, message).hint(did_you_mean(name.as_str(), names))
}
