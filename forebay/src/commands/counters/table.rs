//! Formats the table of counters as text.

use std::path::Path;

use forebay_shm::CounterValue;

use super::follow::CounterSnapshot;
use super::rows::{CounterRow, HistogramRows};
use crate::bars::{BarStyle, Highlight};
use crate::screen::Screen;

/// Width of the column of names, which also holds the summaries of histograms.
const NAME_CELLS: usize = 44;

/// Width of a bucket's label; the rest of the column is for its bar.
const LABEL_CELLS: usize = 8;

/// Smallest number of bars to which a histogram is reduced before numbers are hidden.
const BARS_MIN: usize = 3;

/// The content of one table.
pub(super) struct CounterTable<'a> {
    pub(super) path: &'a Path,
    pub(super) now: &'a CounterSnapshot,
    /// The previous snapshot, and the seconds since then.
    pub(super) before: Option<(&'a CounterSnapshot, f64)>,
    /// Whether the table has a column for changes, which shows `-` for unknown changes.
    pub(super) has_rates: bool,
}

/// All rows of a table, of which a screen shows a part.
struct TableContent {
    numbers: Vec<CounterRow>,
    histograms: Vec<HistogramRows>,
}

/// The rows that are shown.
struct VisibleRows {
    rows: Vec<CounterRow>,
    hidden: usize,
    /// Number of hidden rows whose value is not zero.
    hidden_counts: usize,
}

impl CounterTable<'_> {
    /// Returns the table with as many rows as fit on the screen, or with all rows if there is no
    /// screen.
    pub(super) fn text(&self, screen: Option<Screen>, style: BarStyle) -> String {
        let head = format!("{}\n{}\n", self.title(), self.columns());
        let shown = self.content().shown(screen.map_or(usize::MAX, |screen| {
            // Each row is as long as the line of headings, and a note may follow the rows.
            screen.lines_beside(&format!("{head}-")) / screen.lines_of(&self.columns())
        }));
        let rows = shown.rows.iter().map(|row| self.line(row, style));
        let mut lines: Vec<String> =
            std::iter::once(head.trim_end().to_owned()).chain(rows).collect();
        lines.extend(shown.note());
        lines.join("\n")
    }

    fn title(&self) -> String {
        let (path, pid) = (self.path.display(), self.now.pid);
        let mut title = match self.now.is_alive {
            true => format!("{path}: server {pid} is running"),
            false => format!("{path}: server {pid} is dead; these are its last values"),
        };
        if let Some(earlier) = self.now.earlier_pid {
            title += &format!("; it replaced server {earlier}");
        }
        if self.now.is_removed {
            title += "; the file has been deleted";
        }
        title
    }

    fn columns(&self) -> String {
        let rate = if self.has_rates { "PER SECOND" } else { "" };
        format!("{:<NAME_CELLS$} {:>15} {rate:>12}", "COUNTER", "VALUE").trim_end().to_owned()
    }

    fn content(&self) -> TableContent {
        let mut content = TableContent { numbers: Vec::new(), histograms: Vec::new() };
        for (index, (def, now)) in self.now.counters().enumerate() {
            let before = self.before.and_then(|(before, _)| before.values().get(index));
            match (now, before) {
                (CounterValue::Number(now), Some(CounterValue::Number(before))) => {
                    content.numbers.push(CounterRow::number(&def.name, *now, Some(*before)));
                }
                (CounterValue::Number(now), _) => {
                    content.numbers.push(CounterRow::number(&def.name, *now, None));
                }
                (CounterValue::Histogram(now), Some(CounterValue::Histogram(before))) => {
                    content.histograms.push(HistogramRows::new(&def.name, now, Some(before)));
                }
                (CounterValue::Histogram(now), _) => {
                    content.histograms.push(HistogramRows::new(&def.name, now, None));
                }
            }
        }
        content
    }

    fn line(&self, row: &CounterRow, style: BarStyle) -> String {
        let name = match row.bar {
            None => format!("{:<NAME_CELLS$}", row.name),
            Some((share, whole)) => {
                let cells = NAME_CELLS - LABEL_CELLS - 3;
                let bar = style.bar(share, whole, cells as u64);
                let bar = style.paint(Highlight::Bar, &format!("{bar:<cells$}"));
                format!("  {:<LABEL_CELLS$} {bar}", row.name)
            }
        };
        let rate = match (self.before, row.change) {
            (Some((_, seconds)), Some(change)) => format!("{:.1}", change as f64 / seconds),
            _ if self.has_rates => "-".to_owned(),
            _ => String::new(),
        };
        let numbers = format!("{:>15} {rate:>12}", row.value);
        let numbers = match row.has_changed() {
            true => style.paint(Highlight::Changed, &numbers),
            false => numbers,
        };
        format!("{name} {numbers}").trim_end().to_owned()
    }
}

impl TableContent {
    /// Selects the rows for a table of at most `room` rows. Rows with zeros are hidden first; then
    /// bars are merged down to a few for each histogram; then the last numbers are hidden.
    fn shown(self, room: usize) -> VisibleRows {
        let TableContent { numbers, histograms } = self;
        let counts = numbers.iter().filter(|row| !row.is_nothing()).count();
        let beside_bars = room.saturating_sub(counts + histograms.len());
        let bars_max = (beside_bars / histograms.len().max(1)).max(BARS_MIN);
        let below: Vec<CounterRow> = histograms
            .into_iter()
            .flat_map(|bars| {
                let drawn = bars.drawn(bars_max);
                std::iter::once(bars.head).chain(drawn)
            })
            .collect();
        let room_for_numbers = room.saturating_sub(below.len());
        let all = numbers.len();
        let mut rows = numbers;
        if all > room_for_numbers {
            rows.retain(|row| !row.is_nothing());
            rows.truncate(room_for_numbers);
        }
        let (hidden, hidden_counts) = (all - rows.len(), counts.saturating_sub(rows.len()));
        rows.extend(below);
        // A screen shows at least one row.
        rows.truncate(room.max(1));
        VisibleRows { rows, hidden, hidden_counts }
    }
}

impl VisibleRows {
    fn note(&self) -> Option<String> {
        match (self.hidden, self.hidden_counts) {
            (0, _) => None,
            (hidden, counts) => {
                Some(format!("counters not shown: {hidden} (at 0: {})", hidden - counts))
            }
        }
    }
}

#[cfg(test)]
mod tests;
