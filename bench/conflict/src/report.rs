//! The counts as a table in Markdown.

use std::fmt::Write;

use forebay_conflict::Counts;
use serde::Serialize;

use crate::workloads::Expected;

/// One operation's counts.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The counts with one thread.
    pub(crate) alone: Counts,
    /// The counts with many threads at once.
    pub(crate) together: Counts,
    pub(crate) expected: String,
    pub(crate) is_met: bool,
    /// Whether thread 0 writes while the other threads run the operation.
    #[serde(skip)]
    has_writer: bool,
}

impl Row {
    pub(crate) fn new(
        name: &'static str,
        expected: Expected,
        alone: Counts,
        together: Counts,
    ) -> Row {
        let is_met = expected.is_met_by(&together);
        let has_writer = matches!(expected, Expected::OthersAtMost(_));
        let expected = match expected {
            Expected::NoConflict => "0".into(),
            Expected::Rmws(count) => format!("{count} or more"),
            Expected::AtMost(count) => format!("at most {count} writes"),
            Expected::OthersAtMost(count) => {
                format!("at most {count} writes by threads other than 0")
            }
        };
        Row { name, alone, together, expected, is_met, has_writer }
    }
}

/// Returns all rows as a table in Markdown.
pub(crate) fn table(rows: &[Row], threads: usize) -> String {
    let mut text = format!(
        "| operation | alone: RMWs | alone: fences | {threads} threads, on lines in conflict: RMWs \
         | stores | loads | lines |\n|---|--:|--:|--:|--:|--:|--:|\n"
    );
    for Row { name, alone, together, .. } in rows {
        let Counts { lines, rmws, stores, loads, .. } = together;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {name} | {:.2} | {:.2} | **{rmws:.2}** | {stores:.2} | {loads:.2} | {lines} |",
            alone.own_rmws, alone.fences
        );
    }
    text + &others(rows)
}

/// Returns the writes of all threads except number 0, for the operations with a writer.
fn others(rows: &[Row]) -> String {
    let is_shown = |row: &&Row| row.has_writer;
    let line = |row: &Row| format!("| {} | {:.2} |\n", row.name, row.together.others_writes);
    let lines: String = rows.iter().filter(is_shown).map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\n| beside a writer | writes of the others on lines in conflict |\n|---|--:|\n{lines}")
}
