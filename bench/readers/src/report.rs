//! Prints the samples as tables in Markdown: medians, with the quartiles in brackets.

use crate::samples::{Figure, Samples, Spread};

/// A column: its heading and its figure.
type Column = (String, Figure);

/// Returns all tables that have samples.
pub(crate) fn markdown(all: &[Samples], operations: u32) -> String {
    let figures: Vec<Figure> = all.iter().map(|samples| samples.figure).collect();
    let mut text = String::new();
    for percent in distinct(figures.iter().filter_map(Figure::write_percent)) {
        let share = match percent {
            0.0 => "only reads".into(),
            _ => format!("{percent} % writes"),
        };
        let title = format!("{operations} operations on each thread, {share}: completion time, ms");
        let is_here = |figure: &&Figure| figure.write_percent() == Some(percent);
        let columns = columns(figures.iter().filter(is_here));
        text += &table(&title, &columns, all, |ns| significant(ns / 1e6));
    }
    let alone = [("read".into(), Figure::ReadNs), ("write".into(), Figure::WriteNs)];
    text += &table("One thread alone: ns for each operation", &alone, all, significant);
    let lost = columns(figures.iter().filter(|f| matches!(f, Figure::LostPercent { .. })));
    let title = "Share of a writer's time that goes into revocations, %";
    text + &table(title, &lost, all, significant)
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn columns<'a>(figures: impl Iterator<Item = &'a Figure>) -> Vec<Column> {
    let with_heading = |figure: &Figure| (figure.to_string(), *figure);
    distinct(figures).into_iter().map(with_heading).collect()
}

fn table(title: &str, columns: &[Column], all: &[Samples], show: fn(f64) -> String) -> String {
    let is_shown = |samples: &&Samples| columns.iter().any(|(_, figure)| *figure == samples.figure);
    let locks = distinct(all.iter().filter(is_shown).map(|samples| samples.lock));
    if locks.is_empty() {
        return String::new();
    }
    let headings: String = columns.iter().map(|(heading, _)| format!(" {heading} |")).collect();
    let rule = "--:|".repeat(columns.len());
    let mut text = format!("### {title}\n\n| |{headings}\n|---|{rule}\n");
    for lock in locks {
        let cell = |(_, figure): &Column| {
            let is_it = |samples: &&Samples| samples.lock == lock && samples.figure == *figure;
            let cell = all.iter().find(is_it).map(|samples| spread(&samples.samples, show));
            format!(" {} |", cell.unwrap_or_default())
        };
        let cells: String = columns.iter().map(cell).collect();
        text += &format!("| {lock} |{cells}\n");
    }
    text + "\n"
}

fn spread(samples: &[f64], show: fn(f64) -> String) -> String {
    let Spread { low, median, high } = Spread::of(samples);
    format!("**{}** ({}–{})", show(median), show(low), show(high))
}

/// Formats a value with three significant digits.
fn significant(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_stand_beside_their_quartiles() {
        let load = |threads| Figure::CompletionNs { threads, write_percent: 0.1 };
        let samples =
            |lock, figure, samples: &[f64]| Samples { lock, figure, samples: samples.into() };
        let all = [
            samples("one", load(1), &[1e6, 2e6, 3e6]),
            samples("two", load(64), &[123.4e6]),
            samples("two", Figure::LostPercent { inhibit_factor: 3 }, &[12.34]),
        ];
        let want = "\
### 10 operations on each thread, 0.1 % writes: completion time, ms

| | 1 thread | 64 threads |
|---|--:|--:|
| one | **2.00** (1.50–2.50) |  |
| two |  | **123** (123–123) |

### Share of a writer's time that goes into revocations, %

| | N = 3 (at most 25 %) |
|---|--:|
| two | **12.3** (12.3–12.3) |

";
        assert_eq!(markdown(&all, 10), want);
    }
}
