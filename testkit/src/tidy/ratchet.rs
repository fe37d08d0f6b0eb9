//! Counts hard phrases and names in each crate. The counts may only fall.
//!
//! `ratchet.txt` has the counts of the tree. A count above its entry is a problem. A count below
//! its entry is a problem too, because the table must be updated. [`Words::write_table`] never
//! raises an entry.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use super::prose::{self, Phrase};
use super::source::Source;
use super::{names, tree};

/// The table's path from the root.
pub const TABLE: &str = "testkit/src/tidy/ratchet.txt";

/// The command that writes the table.
pub const UPDATE: &str = "UPDATE_RATCHET=1 cargo test -p forebay-testkit --test tidy words";

/// The command that lists the counted lines.
const LIST: &str =
    "WORDS_IN=cache/src cargo test -p forebay-testkit --test tidy -- --nocapture words";

/// The table's columns: phrases in comments, all phrases in messages, and type names.
const COLUMNS: [&str; 8] =
    ["what", "who", "somebody", "question", "archaic", "messages", "twice", "participle"];

/// One line with a counted phrase or name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file's path from the root of the tree.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// The column that counts the line.
    column: usize,
    /// The text of the line.
    text: String,
}

/// The counts of a crate or of the pages, in the order of the columns, and the number of comment
/// lines.
type Row = ([usize; COLUMNS.len()], usize);

/// Findings and counts of a tree.
#[derive(Debug, Default)]
pub struct Words {
    /// All findings, ordered by path.
    pub findings: Vec<Finding>,
    rows: BTreeMap<String, Row>,
}

impl Words {
    /// Counts the phrases and names of the tree at `root`.
    pub fn of_tree(root: &Path) -> Words {
        let mut words = Words::default();
        let mut sources = Vec::new();
        for (path, text) in tree::texts(root) {
            if path.ends_with(".rs") {
                sources.push(Source::new(&path, &text));
            }
            if path.ends_with(".md") {
                words.add_page(&path, &text);
            }
        }
        words.add_sources(&sources);
        words.findings.sort();
        words
    }

    /// Counts the phrases of a page. Each of its lines counts as a comment line.
    pub(super) fn add_page(&mut self, path: &str, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        self.rows.entry(row_of(path)).or_default().1 += lines.len();
        for (line, phrase) in prose::in_page(text) {
            self.add(path, line, column_of(phrase), lines[line - 1]);
        }
    }

    pub(super) fn add_sources(&mut self, sources: &[Source]) {
        for source in sources {
            let comments = source.comments.iter().filter(|line| !line.trim().is_empty()).count();
            self.rows.entry(row_of(&source.path)).or_default().1 += comments;
            for (line, phrase) in prose::in_comments(source) {
                self.add(&source.path, line, column_of(phrase), &source.lines[line - 1]);
            }
            for (line, _) in prose::in_messages(source) {
                self.add(&source.path, line, 5, &source.lines[line - 1]);
            }
        }
        let types = names::types(sources);
        for (path, line, name) in names::twice(&types) {
            self.add(path, line, 6, &name);
        }
        for (path, line, name) in names::participles(&types) {
            self.add(path, line, 7, &name);
        }
    }

    fn add(&mut self, path: &str, line: usize, column: usize, text: &str) {
        self.rows.entry(row_of(path)).or_default().0[column] += 1;
        let text = text.trim().to_string();
        self.findings.push(Finding { path: path.into(), line, column, text });
    }

    /// Returns the counts in the form of the table's file.
    pub fn table(&self) -> String {
        let mut table = String::from("# crate");
        COLUMNS.iter().for_each(|column| table.push_str(&format!(" {column}")));
        table.push('\n');
        for (name, (counts, _)) in self.rows.iter().filter(|(_, (counts, _))| counts != &[0; 8]) {
            table.push_str(name);
            counts.iter().for_each(|count| table.push_str(&format!(" {count}")));
            table.push('\n');
        }
        table
    }

    /// Returns the counts as an aligned table for the terminal, with the number of comment lines
    /// and the totals.
    pub fn report(&self) -> String {
        let mut sum: Row = ([0; 8], 0);
        for (counts, lines) in self.rows.iter().filter(|(name, _)| *name != "docs").map(|row| row.1)
        {
            (0..8).for_each(|column| sum.0[column] += counts[column]);
            sum.1 += lines;
        }
        let mut report = format!("{:<10}", "crate");
        COLUMNS.iter().for_each(|column| _ = write!(report, "{column:>11}"));
        report.push_str("  comment lines\n");
        let crates = ("all crates".to_string(), sum);
        let rows = self.rows.clone().into_iter().chain([crates]);
        for (name, (counts, lines)) in rows {
            _ = write!(report, "{name:<10}");
            counts.iter().for_each(|count| _ = write!(report, "{count:>11}"));
            _ = writeln!(report, "{lines:>15}");
        }
        report
    }

    /// Returns the findings in the files whose path starts with `beginning`, one per line.
    pub fn list(&self, beginning: &str) -> String {
        let listed = self.findings.iter().filter(|finding| finding.path.starts_with(beginning));
        listed.fold(String::new(), |mut list, Finding { path, line, column, text }| {
            _ = writeln!(list, "{path}:{line}: {}: {text}", COLUMNS[*column]);
            list
        })
    }

    /// Returns one line for each count that differs from its entry in `table`.
    pub fn differences(&self, table: &str) -> Vec<String> {
        self.differences_where(table, Ordering::is_ne)
    }

    fn differences_where(&self, table: &str, counts_too: impl Fn(Ordering) -> bool) -> Vec<String> {
        let mut differences = Vec::new();
        let entries: BTreeMap<&str, Vec<usize>> = table.lines().filter_map(entry).collect();
        let none = vec![0; COLUMNS.len()];
        for (name, (counts, _)) in &self.rows {
            let allowed = entries.get(name.as_str()).unwrap_or(&none);
            for (column, (count, allowed)) in counts.iter().zip(allowed).enumerate() {
                let column = COLUMNS[column];
                let order = count.cmp(allowed);
                if !counts_too(order) {
                    continue;
                }
                match order {
                    Ordering::Equal => {}
                    Ordering::Greater => differences.push(format!(
                        "{name}: {column}: {count}, at most {allowed}; for the lines: {LIST}"
                    )),
                    Ordering::Less => differences.push(format!(
                        "{name}: {column}: {count}, fewer than {allowed}; write the table: {UPDATE}"
                    )),
                }
            }
        }
        differences
    }

    /// Returns one line for each count that is above its entry in `table`.
    pub fn raised(&self, table: &str) -> Vec<String> {
        self.differences_where(table, |order| order == Ordering::Greater)
    }

    /// Writes the table of the tree at `root`, unless that would raise a count. If it would,
    /// returns the raised counts and writes nothing.
    ///
    /// # Errors
    /// The existing table cannot be read, or the new one cannot be written.
    pub fn write_table(&self, root: &Path) -> io::Result<Vec<String>> {
        let path = root.join(TABLE);
        let raised = self.raised(&fs::read_to_string(&path)?);
        if raised.is_empty() {
            fs::write(path, self.table())?;
        }
        Ok(raised)
    }
}

/// Parses a row of the table's file.
fn entry(line: &str) -> Option<(&str, Vec<usize>)> {
    let mut cells = line.split(' ');
    let name = cells.next().filter(|name| !name.starts_with('#'))?;
    let counts: Vec<usize> = cells.filter_map(|cell| cell.parse().ok()).collect();
    (counts.len() == COLUMNS.len()).then_some((name, counts))
}

/// Returns the row that counts a file: its first folder, or one row for all pages.
fn row_of(path: &str) -> String {
    let folder = path.split('/').next().unwrap_or_default();
    if path.ends_with(".md") { "docs".into() } else { folder.into() }
}

fn column_of(phrase: Phrase) -> usize {
    match phrase {
        Phrase::WhatClause => 0,
        Phrase::BareWho => 1,
        Phrase::Somebody => 2,
        Phrase::Question => 3,
        Phrase::Archaic => 4,
    }
}
