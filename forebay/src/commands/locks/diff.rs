//! `forebay locks diff`: the change of each number from one report to another.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use clap::ArgMatches;
use forebay_shm::ProfileFile;
use serde_json::{Map, Value, json};

use super::abbreviate::abbreviate;
use super::columns::{COLUMNS, SortOrder, is_time, numbers, shown, us};
use super::summary::{LockSite, Summary};
use super::table::TableRow;
use super::{counted, json, lines_max, stale_binaries, table};
use crate::commands::is_set;
use crate::stdout::outln;

/// Size of the largest report that is read, in bytes.
const REPORT_BYTES_MAX: u64 = 256 << 20;

type ColumnValues = [u64; COLUMNS.len()];
type ColumnChanges = [i128; COLUMNS.len()];

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let side = |name: &str| {
        let path = args.get_one::<String>(name).map(Path::new).unwrap_or(Path::new(""));
        numbers_of(path).map_err(|why| format!("{}: {why}", path.display()))
    };
    let changes = changes(&side("before")?, &side("after")?);
    let sort = SortOrder::named(args.get_one("sort"));
    let mut rows: Vec<_> = changes.into_iter().collect();
    rows.sort_by_key(|(_, changes)| std::cmp::Reverse(sort.weight(&sizes(changes))));
    match is_set(args, "json") {
        true => outln!("{}", as_json(&rows, lines_max(args))),
        false => outln!("{}", text(&rows, lines_max(args))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the numbers of a profile or a saved report, by the names of call sites.
fn numbers_of(path: &Path) -> Result<BTreeMap<String, ColumnValues>, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    let mut first = [0; 1];
    let is_report = std::fs::File::open(path)
        .and_then(|file| std::os::unix::fs::FileExt::read_at(&file, &mut first, 0))
        .is_ok_and(|count| count == 1 && first == *b"{");
    if is_report {
        if length > REPORT_BYTES_MAX {
            return Err(format!(
                "the file has {length} bytes, but a report has at most {REPORT_BYTES_MAX}"
            ));
        }
        let text = std::fs::read(path).map_err(|error| error.to_string())?;
        return of_report(&text);
    }
    let read = ProfileFile::open(path).and_then(|file| file.read());
    // Only the kind of the error is used: the text of the whole error begins with the path, which
    // the caller adds.
    let reading = read.map_err(|error| error.kind.to_string())?;
    for line in stale_binaries::lines(&reading) {
        eprintln!("forebay: {}: {line}", path.display());
    }
    let summary = Summary::of(&reading);
    let sites = summary.sites.iter();
    Ok(sites.map(|(site, site_summary)| (site.full_name(), numbers(site_summary))).collect())
}

fn of_report(text: &[u8]) -> Result<BTreeMap<String, ColumnValues>, String> {
    let value: Value = serde_json::from_slice(text)
        .map_err(|error| format!("this is neither a lock profile nor a report: {error}"))?;
    let sites = value.get("sites").and_then(Value::as_array);
    let sites = sites
        .ok_or("this is not a report of `forebay locks report --json`, because it has no sites")?;
    // A call site that the report omits would count as 0.
    let left_out = value.pointer("/left_out/sites").and_then(Value::as_u64).unwrap_or(0);
    if left_out > 0 {
        let count =
            counted(usize::try_from(left_out).unwrap_or(usize::MAX), "call site", "call sites");
        return Err(format!(
            "the report omits {count}; compare profiles, or reports without --lines"
        ));
    }
    let mut all = BTreeMap::new();
    for site in sites {
        let name = full_name(site).ok_or("damaged report: a call site has no name")?;
        let mut numbers = ColumnValues::default();
        for (column, number) in numbers.iter_mut().enumerate() {
            let found = site.pointer(&format!("/numbers/{}", json::key(column)));
            let found = found.and_then(Value::as_u64);
            *number = found
                .ok_or_else(|| format!("damaged report: {name} has no {}", json::key(column)))?;
        }
        all.insert(name, numbers);
    }
    Ok(all)
}

/// Returns the full name of a call site in a report, as
/// [`LockSite::full_name`](super::summary::LockSite::full_name) does.
fn full_name(site: &Value) -> Option<String> {
    let site = site.get("site")?;
    let text = |name: &str| site.get(name).and_then(Value::as_str).map(str::to_owned);
    let frames = site.get("stack").and_then(Value::as_array).into_iter().flatten();
    let stack = frames.map(|frame| frame.as_str().map(Rc::from)).collect::<Option<_>>()?;
    Some(LockSite { lock: text("lock")?, stack }.full_name())
}

/// Returns the change of each number. A call site that only one side has counts as 0 on the other
/// side.
fn changes(
    before: &BTreeMap<String, ColumnValues>,
    after: &BTreeMap<String, ColumnValues>,
) -> BTreeMap<String, ColumnChanges> {
    let names = before.keys().chain(after.keys());
    let change = |name: &String| {
        let at =
            |side: &BTreeMap<String, ColumnValues>| side.get(name).copied().unwrap_or_default();
        let (before, after) = (at(before), at(after));
        let change = |column: usize| {
            let number = |side: ColumnValues| side.get(column).copied().map_or(0, i128::from);
            number(after) - number(before)
        };
        (name.clone(), std::array::from_fn(change))
    };
    names.map(change).collect()
}

fn text(rows: &[(String, ColumnChanges)], lines_max: usize) -> String {
    let changed: Vec<_> =
        rows.iter().filter(|(_, changes)| *changes != [0; COLUMNS.len()]).collect();
    let sizes: Vec<_> = changed.iter().map(|(_, changes)| sizes(changes)).collect();
    let columns = shown(sizes.iter());
    let mut names = BTreeMap::<_, usize>::new();
    for (name, _) in &changed {
        *names.entry(without_callers(name)).or_default() += 1;
    }
    let lines = changed.iter().take(lines_max).map(|(name, changes)| {
        let cell = |(column, change): (usize, &i128)| signed(*change, is_time(column));
        let alone = without_callers(name);
        let name = if names.get(alone) == Some(&1) { alone } else { name };
        TableRow::new(changes.iter().enumerate().map(cell), abbreviate(name))
    });
    let headings = COLUMNS.get(..columns).unwrap_or(&COLUMNS);
    let mut lines = table::grid(headings, "name", lines.collect());
    match changed.is_empty() {
        true => lines.push("no number has changed".to_owned()),
        false => lines.extend(table::note(changed.len(), lines_max, "call site")),
    }
    lines.join("\n")
}

/// Returns the name of a call site without its callers.
fn without_callers(full_name: &str) -> &str {
    let end = full_name.find(") < ").map(|at| at + 1);
    end.and_then(|end| full_name.get(..end)).unwrap_or(full_name)
}

/// Returns the absolute values of the changes.
fn sizes(changes: &ColumnChanges) -> ColumnValues {
    changes.map(|change| u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX))
}

fn signed(change: i128, is_time: bool) -> String {
    let size = u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX);
    let size = if is_time { us(size) } else { size.to_string() };
    match change {
        0 => "0".to_owned(),
        1.. => format!("+{size}"),
        _ => format!("-{size}"),
    }
}

fn as_json(rows: &[(String, ColumnChanges)], lines_max: usize) -> Value {
    let row = |(name, changes): &(String, ColumnChanges)| {
        let numbers = changes.iter().enumerate().map(|(column, change)| {
            (json::key(column), json!(i64::try_from(*change).unwrap_or(i64::MAX)))
        });
        json!({ "name": name, "change": numbers.collect::<Map<_, _>>() })
    };
    let mut list = json::BoundedList::new(lines_max);
    let sites = list.of(rows, row);
    json!({ "sites": sites, "left_out": list.left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rows: &[(&str, u64)]) -> Vec<u8> {
        let sites = rows.iter().map(|(name, count)| {
            let numbers: Map<_, _> =
                (0..COLUMNS.len()).map(|column| (json::key(column), json!(count))).collect();
            json!({ "site": { "lock": name }, "numbers": numbers })
        });
        json!({ "sites": sites.collect::<Vec<_>>() }).to_string().into_bytes()
    }

    #[test]
    fn a_change_is_the_difference_and_a_missing_call_site_counts_as_zero() {
        let before = of_report(&report(&[("a", 5), ("gone", 7), ("same", 1)])).expect("whole");
        let after = of_report(&report(&[("a", 12_005), ("new", 3), ("same", 1)])).expect("whole");
        let changes: Vec<_> = changes(&before, &after).into_iter().collect();
        let of = |name: &str| changes.iter().find(|row| row.0 == name).expect("a row").1[4];
        assert_eq!((of("a"), of("gone"), of("new"), of("same")), (12_000, -7, 3, 0));
        let text = text(&changes, usize::MAX);
        assert!(
            text.contains("+12000 ") && text.contains("+12.0 ") && text.contains("-7 "),
            "{text}"
        );
        assert!(!text.contains("same"), "{text}");
    }

    #[test]
    fn call_sites_that_differ_only_in_callers_stay_apart() {
        let numbers: Map<_, _> =
            (0..COLUMNS.len()).map(|column| (json::key(column), json!(1))).collect();
        let site = |caller: &str| {
            let site = json!({ "lock": "mutex", "stack": ["f", caller] });
            json!({ "site": site, "numbers": numbers })
        };
        let report = json!({ "sites": [site("a"), site("b")] }).to_string();
        let names: Vec<_> = of_report(report.as_bytes()).expect("whole").into_keys().collect();
        assert_eq!(names, ["f (mutex) < a", "f (mutex) < b"]);
        let rows = |names: &[&str]| {
            let changes = [1; COLUMNS.len()];
            let rows: Vec<_> = names.iter().map(|name| ((*name).to_owned(), changes)).collect();
            text(&rows, usize::MAX)
        };
        assert!(rows(&["f (mutex) < a"]).ends_with(" f (mutex)"));
        assert!(rows(&["f (mutex) < a", "f (mutex) < b"]).ends_with(" f (mutex) < b"));
    }

    #[test]
    fn a_file_that_is_no_report_is_refused() {
        for (text, expected) in [
            ("{", "neither a lock profile nor a report"),
            ("{}", "it has no sites"),
            ("{\"sites\": [], \"left_out\": {\"sites\": 7}}", "omits 7 call sites"),
            ("{\"sites\": [{}]}", "a call site has no name"),
            ("{\"sites\": [{\"site\": {\"lock\": \"x\"}}]}", "x has no max_ns"),
        ] {
            let error = of_report(text.as_bytes()).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
