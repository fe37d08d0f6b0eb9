//! The counts as a table in Markdown.

use std::fmt::Write;

use forebay_conflict::Counts;
use serde::Serialize;

use crate::workloads::Expected;

/// One operation's counts.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// By one thread.
    pub(crate) alone: Counts,
    /// By many threads at once.
    pub(crate) together: Counts,
    pub(crate) expected: String,
    pub(crate) is_met: bool,
}

impl Row {
    pub(crate) fn new(
        name: &'static str,
        expected: Expected,
        alone: Counts,
        together: Counts,
    ) -> Row {
        let is_met = expected.is_met_by(&together);
        let expected = match expected {
            Expected::NoConflict => "0".into(),
            Expected::Rmws(count) => format!("{count} or more"),
            Expected::AtMost(count) => format!("at most {count} writes"),
        };
        Row { name, alone, together, expected, is_met }
    }
}

/// All rows, in Markdown.
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
    text
}
