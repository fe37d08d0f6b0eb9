//! The table of rules.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::count::Line;

/// By what lines are sorted, the largest first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sort {
    Ns,
    Runs,
    Matches,
    Bytes,
    Failures,
}

/// All that is shown at once.
pub(super) struct Table {
    pub(super) lines: Vec<Line>,
    /// In one second; else since the rules were loaded.
    pub(super) is_rate: bool,
    /// So many rules are printed as text.
    pub(super) lines_max: usize,
}

impl Sort {
    pub(super) fn named(word: &str) -> Sort {
        match word {
            "runs" => Sort::Runs,
            "matches" => Sort::Matches,
            "bytes" => Sort::Bytes,
            "failures" => Sort::Failures,
            _ => Sort::Ns,
        }
    }

    pub(super) fn sorted(self, mut lines: Vec<Line>) -> Vec<Line> {
        let key = |line: &Line| match self {
            Sort::Ns => line.ns(),
            Sort::Runs => line.runs,
            Sort::Matches => line.matches,
            Sort::Bytes => line.bytes,
            Sort::Failures => line.failures,
        };
        lines.sort_by(|left, right| key(right).total_cmp(&key(left)));
        lines
    }
}

impl Table {
    pub(super) fn text(&self) -> String {
        let names = match self.is_rate {
            true => ["runs/s", "matches/s", "%", "ns/run", "ns/s", "bytes/s", "failures/s"],
            false => ["runs", "matches", "%", "ns/run", "ns", "bytes", "failures"],
        };
        let mut out = String::new();
        if !self.is_rate {
            out.push_str("since the rules were loaded\n");
        }
        push_row(&mut out, &names.map(str::to_owned), "RULE HOOK");
        for line in self.lines.iter().take(self.lines_max) {
            push_row(&mut out, &cells(line), &format!("{} {}", line.rule, line.hook));
        }
        let name = match self.lines.len() {
            count if count > self.lines_max => format!("all {count}; --lines shows more"),
            _ => "all".to_owned(),
        };
        push_row(&mut out, &cells(&self.sum()), &name);
        out.truncate(out.trim_end().len());
        out
    }

    fn sum(&self) -> Line {
        let of = |part: fn(&Line) -> f64| self.lines.iter().map(part).sum::<f64>();
        let (runs, ns) = (of(|line| line.runs), of(Line::ns));
        Line {
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
        let line = |line: &Line| {
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

fn numbers_json(line: &Line) -> Value {
    json!({
        "runs": line.runs,
        "matches": line.matches,
        "mean_ns": line.mean_ns,
        "ns": line.ns(),
        "bytes": line.bytes,
        "failures": line.failures,
    })
}

fn cells(line: &Line) -> [String; 7] {
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

/// Numbers to the right, in columns; what they are of behind them.
fn push_row(out: &mut String, cells: &[String; 7], name: &str) {
    let [runs, matches, percent, mean, ns, bytes, failures] = cells;
    // Writing to a string cannot fail.
    let _ = write!(out, "{runs:>11} {matches:>11} {percent:>5} {mean:>8} {ns:>12} ");
    let _ = writeln!(out, "{bytes:>11} {failures:>10}  {name}");
}
