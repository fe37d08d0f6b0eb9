//! Parses a table of requirements.
//!
//! ```text
//! # a comment
//! = 9111 the title of the RFC
//! [4.2.1 the title of a section]
//! 1 MUST the first requirement of this section, in our own words.
//! 2 SHOULD NOT the second one.
//!   not applicable: why it does not concern Forebay.
//! ```
//! The other reasons are `not followed:` and `except:`, for a requirement that is followed with an
//! exception.

use super::super::Problem;

/// The requirements of one RFC.
#[derive(Debug)]
pub(super) struct Rfc {
    /// The path of the table, for problems.
    pub(super) path: String,
    pub(super) number: String,
    pub(super) title: String,
    pub(super) sections: Vec<RfcSection>,
}

#[derive(Debug)]
pub(super) struct RfcSection {
    pub(super) number: String,
    pub(super) title: String,
    pub(super) requirements: Vec<Requirement>,
}

#[derive(Debug)]
pub(super) struct Requirement {
    /// The number of the RFC, of the section, and of the requirement.
    pub(super) id: String,
    /// The line of the table, counted from 1.
    pub(super) line: usize,
    pub(super) level: &'static str,
    pub(super) text: String,
    pub(super) deviation: Option<Deviation>,
    /// The reason of the deviation.
    pub(super) reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deviation {
    NotApplicable,
    NotFollowed,
    /// The requirement is followed with an exception.
    Exception,
}

/// The levels of requirements. A level comes before any level that is its prefix.
const LEVELS: [&str; 4] = ["MUST NOT", "MUST", "SHOULD NOT", "SHOULD"];

impl Deviation {
    pub(super) const ALL: [(Deviation, &'static str); 3] = [
        (Deviation::NotApplicable, "not applicable"),
        (Deviation::NotFollowed, "not followed"),
        (Deviation::Exception, "except"),
    ];
}

impl Rfc {
    pub(super) fn parse(path: &str, text: &str) -> Result<Rfc, Problem> {
        let mut rfc = Rfc {
            path: path.into(),
            number: String::new(),
            title: String::new(),
            sections: Vec::new(),
        };
        for (index, line) in text.lines().enumerate() {
            if !line.is_empty() && !line.starts_with('#') {
                let message = || format!("neither title, section, requirement nor reason: {line}");
                rfc.add(index + 1, line)
                    .ok_or_else(|| Problem::new(path, index + 1, "rfc", message()))?;
            }
        }
        Ok(rfc)
    }

    pub(super) fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        self.sections.iter().flat_map(|section| &section.requirements)
    }

    fn add(&mut self, line: usize, text: &str) -> Option<()> {
        if let Some(title) = text.strip_prefix("= ") {
            let (number, title) = title.split_once(' ')?;
            (self.number, self.title) = (number.into(), title.into());
            return Some(());
        }
        if let Some(section) = text.strip_prefix('[') {
            let (number, title) = section.strip_suffix(']')?.split_once(' ')?;
            let (number, title) = (number.into(), title.into());
            self.sections.push(RfcSection { number, title, requirements: Vec::new() });
            return Some(());
        }
        let section = self.sections.last_mut()?;
        if let Some(reason) = text.strip_prefix("  ") {
            let requirement = section.requirements.last_mut()?;
            let (kind, reason) = reason.split_once(": ")?;
            let (deviation, _) = Deviation::ALL.into_iter().find(|(_, name)| *name == kind)?;
            let is_second = requirement.deviation.replace(deviation).is_some();
            requirement.reason = reason.into();
            return (!is_second).then_some(());
        }
        let (number, rest) = text.split_once(' ')?;
        // Requirements are numbered in order, so that no number is used twice.
        if number.parse() != Ok(section.requirements.len() + 1) {
            return None;
        }
        let level = LEVELS.into_iter().find(|level| rest.starts_with(level))?;
        section.requirements.push(Requirement {
            id: format!("{}-{}-{number}", self.number, section.number),
            line,
            level,
            text: rest.strip_prefix(level)?.strip_prefix(' ')?.into(),
            deviation: None,
            reason: String::new(),
        });
        Some(())
    }
}
