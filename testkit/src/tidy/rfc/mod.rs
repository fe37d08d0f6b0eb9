//! Conformance to RFCs: tables of their requirements, and the code and the tests of each.
//!
//! A comment `// RFC: 9111-4.2.1-2` above or in a function says that the function implements this
//! requirement: number 2 of section 4.2.1 in the table of RFC 9111. In test code, and as
//! `# RFC: 9111-4.2.1-2` above a test vector, it says that the test fails if the requirement is not
//! followed. Several requirements are separated by commas.

mod page;
mod table;
mod tags;

#[cfg(test)]
mod tests;

use std::path::Path;

use super::Problem;
use super::tree;
use table::{Deviation, Rfc};
use tags::RequirementTag;

/// The page with every requirement, its code and its tests; from the root of the tree.
pub const PAGE: &str = "docs/rfc.md";

/// The tables, with their paths from the root.
const TABLES: [(&str, &str); 6] = [
    ("testkit/src/tidy/rfc/9111.txt", include_str!("9111.txt")),
    ("testkit/src/tidy/rfc/9110.txt", include_str!("9110.txt")),
    ("testkit/src/tidy/rfc/9211.txt", include_str!("9211.txt")),
    ("testkit/src/tidy/rfc/9213.txt", include_str!("9213.txt")),
    ("testkit/src/tidy/rfc/5861.txt", include_str!("5861.txt")),
    ("testkit/src/tidy/rfc/9875.txt", include_str!("9875.txt")),
];

/// The requirements of the RFCs, and the places in the tree that name them.
#[derive(Debug)]
pub struct Conformance {
    rfcs: Vec<Rfc>,
    tags: Vec<RequirementTag>,
    /// Lines of the tables that cannot be parsed.
    malformed: Vec<Problem>,
}

impl Conformance {
    /// Reads the built-in tables, and the tags of the tree at `root`.
    pub fn of_tree(root: &Path) -> Conformance {
        Conformance::new(&TABLES, &tree::texts(root))
    }

    fn new(tables: &[(&str, &str)], files: &[(String, String)]) -> Conformance {
        let (mut rfcs, mut malformed) = (Vec::new(), Vec::new());
        for (path, text) in tables {
            match Rfc::parse(path, text) {
                Ok(rfc) => rfcs.push(rfc),
                Err(problem) => malformed.push(problem),
            }
        }
        let tags = files.iter().flat_map(|(path, text)| tags::tags(path, text)).collect();
        Conformance { rfcs, tags, malformed }
    }

    /// Returns the requirements without code, test and reason, and the tags that name no
    /// requirement.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.malformed.clone();
        for rfc in &self.rfcs {
            for requirement in rfc.requirements() {
                let has = |is_test| self.tags_of(&requirement.id, is_test).next().is_some();
                let message = match requirement.deviation {
                    Some(Deviation::NotApplicable | Deviation::NotFollowed) => {
                        (has(false) || has(true)).then_some("has a tag, although it has a reason")
                    }
                    _ if !has(false) => Some("has no code: tag the code, or give a reason"),
                    _ if !has(true) => Some("has no test: tag a test that fails without it"),
                    _ => None,
                };
                problems.extend(message.map(|message| {
                    let message = format!("{} {message}", requirement.id);
                    Problem::new(&rfc.path, requirement.line, "rfc", message)
                }));
            }
        }
        let is_known = |tag: &&RequirementTag| {
            self.rfcs.iter().any(|rfc| rfc.requirements().any(|known| known.id == tag.id))
        };
        let unknown = self.tags.iter().filter(|tag| !is_known(tag));
        problems.extend(unknown.map(|tag| {
            let message = format!("no table has the requirement {}", tag.id);
            Problem::new(&tag.path, tag.line, "rfc", message)
        }));
        problems
    }

    /// Returns the text of the page.
    pub fn page(&self) -> String {
        page::page(self)
    }

    fn tags_of<'a>(
        &'a self,
        id: &'a str,
        is_test: bool,
    ) -> impl Iterator<Item = &'a RequirementTag> {
        self.tags.iter().filter(move |tag| tag.id == id && tag.is_test == is_test)
    }
}
