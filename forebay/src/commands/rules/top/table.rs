//! The table of rules.

use serde_json::{Value, json};

use super::count::RuleLine;
use crate::screen::Screen;

/// The column by which rules are sorted, largest first.
#[derive(Clone, Copy, Debug)]
pub(super) enum RuleSort {
    Ns,
    Runs,
    Matches,
    Bytes,
    Failures,
}

/// The content of one table.
pub(super) struct RuleTable {
    pub(super) lines: Vec<RuleLine>,
    /// Whether the numbers are rates per second; otherwise they are totals since the rules were
    /// loaded.
    pub(super) is_rate: bool,
    /// The limit that `--lines` sets for the text form.
    pub(super) lines_max: usize,
    /// The terminal, whose height also limits the number of lines.
    pub(super) screen: Option<Screen>,
}

impl RuleSort {
    pub(super) fn named(word: &str) -> RuleSort {
        match word {
            "runs" => RuleSort::Runs,
            "matches" => RuleSort::Matches,
            "bytes" => RuleSort::Bytes,
            "failures" => RuleSort::Failures,
            _ => RuleSort::Ns,
        }
    }

    pub(super) fn sorted(self, mut lines: Vec<RuleLine>) -> Vec<RuleLine> {
        let key = |line: &RuleLine| match self {
            RuleSort::Ns => line.ns(),
            RuleSort::Runs => line.runs,
            RuleSort::Matches => line.matches,
            RuleSort::Bytes => line.bytes,
            RuleSort::Failures => line.failures,
        };
        lines.sort_by(|left, right| key(right).total_cmp(&key(left)));
        lines
    }
}

impl RuleTable {
    pub(super) fn text(&self) -> String {
        let names = match self.is_rate {
            true => ["runs/s", "matches/s", "%", "ns/run", "ns/s", "bytes/s", "failures/s"],
            false => ["runs", "matches", "%", "ns/run", "ns", "bytes", "failures"],
        };
        let title = if self.is_rate { "" } else { "since the rules were loaded\n" };
        let head = title.to_owned() + &row(&names.map(str::to_owned), "RULE HOOK");
        let rows = self.lines.iter().take(self.lines_max);
        let rows: Vec<String> =
            rows.map(|line| row(&cells(line), &format!("{} {}", line.rule, line.hook))).collect();
        let sum = |shown: usize| {
            let count = self.lines.len();
            let name = match count - shown {
                0 => "all".to_owned(),
                hidden => format!("all {count}; {hidden} not shown"),
            };
            row(&cells(&self.sum()), &name)
        };
        let shown = match self.screen {
            Some(screen) => screen.room_for(&rows, &(head.clone() + &sum(0))),
            None => rows.len(),
        };
        let mut out = head;
        rows.iter().take(shown).for_each(|row| out.push_str(row));
        out.push_str(&sum(shown));
        out.truncate(out.trim_end().len());
        out
    }

    fn sum(&self) -> RuleLine {
        let of = |part: fn(&RuleLine) -> f64| self.lines.iter().map(part).sum::<f64>();
        let (runs, ns) = (of(|line| line.runs), of(RuleLine::ns));
        RuleLine {
            rule: String::new(),
            hook: String::new(),
            runs,
            matches: of(|line| line.matches),
            bytes: of(|line| line.bytes),
            failures: of(|line| line.failures),
            mean_ns: (ns > 0.0).then(|| ns / runs),
        }
    }

    pub(super) fn json(&self) -> Value {
        let line = |line: &RuleLine| {
            let mut value = numbers_json(line);
            value["rule"] = json!(line.rule);
            value["hook"] = json!(line.hook);
            value
        };
        json!({
            "per_second": self.is_rate,
            "rules": self.lines.iter().map(line).collect::<Vec<_>>(),
            "all": numbers_json(&self.sum()),
        })
    }
}

fn numbers_json(line: &RuleLine) -> Value {
    json!({
        "runs": line.runs,
        "matches": line.matches,
        "mean_ns": line.mean_ns,
        "ns": line.ns(),
        "bytes": line.bytes,
        "failures": line.failures,
    })
}

fn cells(line: &RuleLine) -> [String; 7] {
    let percent = if line.runs > 0.0 { 100.0 * line.matches / line.runs } else { 0.0 };
    let whole = |number: f64| format!("{number:.0}");
    [
        whole(line.runs),
        whole(line.matches),
        format!("{percent:.1}"),
        line.mean_ns.map_or("-".to_owned(), |ns| format!("{ns:.1}")),
        whole(line.ns()),
        whole(line.bytes),
        whole(line.failures),
    ]
}

/// Returns a line: the numbers right-aligned in columns, then the name of the rule.
fn row(cells: &[String; 7], name: &str) -> String {
    let [runs, matches, percent, mean, ns, bytes, failures] = cells;
    let left = format!("{runs:>11} {matches:>11} {percent:>5} {mean:>8}");
    format!("{left} {ns:>12} {bytes:>11} {failures:>10}  {name}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_shows_as_many_rules_as_fit_and_says_how_many_it_omits() {
        let line = |number: usize| RuleLine {
            rule: format!("a.rules:{number}"),
            hook: "REMAP_PSEUDO_HOOK".to_owned(),
            ..RuleLine::default()
        };
        for (height, width, lines_max, shown) in [
            (24, 200, usize::MAX, 21),
            (24, 200, 5, 5),
            // On a narrow screen, the row of a rule takes two lines, and the row of headings takes
            // one.
            (24, 90, usize::MAX, 10),
            (4, 200, usize::MAX, 1),
            (0, 1, usize::MAX, 1),
            (100, 200, usize::MAX, 30),
        ] {
            let screen = Some(Screen { height, width });
            let lines = (1..=30).map(line).collect();
            let text = RuleTable { lines, is_rate: true, lines_max, screen }.text();
            let case = format!("{height} x {width}, {lines_max}:\n{text}");
            assert_eq!(text.lines().count(), 1 + shown + 1, "{case}");
            let end = match 30 - shown {
                0 => "  all".to_owned(),
                hidden => format!("  all 30; {hidden} not shown"),
            };
            assert!(text.ends_with(&end) && text.contains(" a.rules:1 "), "{case}");
        }
    }
}
