//! Tables of real counter files, on terminals of different sizes.

use std::path::PathBuf;

use forebay_shm::{CounterDef, CounterFile, CounterKind, CounterSlot};
use forebay_testkit::server::Folder;

use super::super::follow::FileFollower;
use super::*;

const BOUNDS: &[u64] = &[16, 32, 64, 128, 256, 512, 1024, 2048];

const DEFS: &[CounterDef] = &[
    CounterDef { name: "hits_total", kind: CounterKind::Counter, help: "" },
    CounterDef { name: "connections_open", kind: CounterKind::Gauge, help: "" },
    CounterDef { name: "never_total", kind: CounterKind::Counter, help: "" },
    CounterDef { name: "seldom_total", kind: CounterKind::Counter, help: "" },
    CounterDef { name: "turn_us", kind: CounterKind::Histogram(BOUNDS), help: "" },
];

const TURN_WORD: usize = 4;

/// A counter file with one slot, and a follower that reads it.
struct FollowedFile {
    _folder: Folder,
    slot: CounterSlot,
    path: PathBuf,
    follower: FileFollower,
}

fn followed() -> FollowedFile {
    let folder = Folder::new();
    let path = folder.path("run/1.counters");
    let file = CounterFile::create(Some(&path), DEFS, 1).expect("a file");
    let follower = FileFollower::open(path.clone()).expect("it is there");
    FollowedFile { _folder: folder, slot: file.slot(0), path, follower }
}

impl FollowedFile {
    fn read(&mut self) -> CounterSnapshot {
        self.follower.read().expect("whole")
    }

    /// Adds 20 values to the histogram, half of them small.
    fn turns(&self) {
        for index in 0..20 {
            let value = if index % 2 == 0 { 10 } else { 100 << (index / 5) };
            self.slot.observe(TURN_WORD, BOUNDS, value, value);
        }
    }
}

#[test]
fn a_table_has_each_number_and_a_bar_for_each_bucket_between_the_first_and_last() {
    let mut followed = followed();
    followed.slot.add(0, 12);
    followed.slot.set(1, 3);
    followed.turns();
    let now = followed.read();
    let table = CounterTable { path: &followed.path, now: &now, before: None, has_rates: false };
    let text = table.text(None, BarStyle::Plain);
    let lines: Vec<&str> = text.lines().collect();
    let pid = std::process::id();
    assert_eq!(lines[0], format!("{}: server {pid} is running", followed.path.display()));
    let row = |name: &str, value: u64| format!("{name:<44} {value:>15}");
    let bar = |label: &str, cells: usize, value: u64| {
        row(&format!("  {label:<8} {}", "#".repeat(cells)), value)
    };
    assert_eq!(
        lines[1..],
        [
            format!("{:<44} {:>15}", "COUNTER", "VALUE"),
            row("hits_total", 12),
            row("connections_open", 3),
            row("never_total", 0),
            row("seldom_total", 0),
            row("turn_us: mean 205, 99% ≤ 1024", 20),
            bar("≤ 16", 33, 10),
            bar("≤ 32", 0, 0),
            bar("≤ 64", 0, 0),
            bar("≤ 128", 6, 2),
            bar("≤ 256", 9, 3),
            bar("≤ 512", 6, 2),
            bar("≤ 1024", 9, 3),
        ]
    );
    assert!(!text.contains('\x1b'), "colour without a terminal: {text}");
}

#[test]
fn changed_values_have_a_rate_and_are_highlighted_on_a_terminal() {
    let mut followed = followed();
    followed.slot.add(0, 10);
    followed.slot.set(1, 5);
    followed.slot.add(3, 1);
    let before = followed.read();
    followed.slot.add(0, 25);
    followed.slot.set(1, 2);
    followed.turns();
    let now = followed.read();
    let before = Some((&before, 2.0));
    let table = CounterTable { path: &followed.path, now: &now, before, has_rates: true };
    for (name, numbers, is_changed) in [
        ("hits_total", format!("{:>15} {:>12}", 35, "12.5"), true),
        ("connections_open", format!("{:>15} {:>12}", 2, "-1.5"), true),
        ("never_total", format!("{:>15} {:>12}", 0, "0.0"), false),
        ("seldom_total", format!("{:>15} {:>12}", 1, "0.0"), false),
        ("turn_us:", format!("{:>15} {:>12}", 20, "10.0"), true),
        ("  ≤ 16 ", format!("{:>15} {:>12}", 10, "5.0"), true),
        ("  ≤ 32 ", format!("{:>15} {:>12}", 0, "0.0"), false),
    ] {
        let line = |style: BarStyle| {
            let text = table.text(None, style);
            let line = text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
            line.unwrap_or_else(|| panic!("no {name} in {text}"))
        };
        let stressed = format!("\x1b[1;32m{numbers}\x1b[0m");
        let wanted = if is_changed { &stressed } else { &numbers };
        let (colourful, plain) = (line(BarStyle::Blocks), line(BarStyle::Plain));
        assert!(colourful.ends_with(&format!(" {wanted}")), "{colourful:?}");
        assert_eq!(colourful.contains("\x1b[1;32m"), is_changed, "{colourful:?}");
        assert!(plain.ends_with(&numbers) && !plain.contains('\x1b'), "{plain:?}");
    }
}

#[test]
fn an_unknown_change_has_no_rate() {
    let mut followed = followed();
    followed.slot.add(0, 10);
    let now = followed.read();
    let table = CounterTable { path: &followed.path, now: &now, before: None, has_rates: true };
    let text = table.text(None, BarStyle::Blocks);
    let rows = text.lines().skip(2);
    assert!(rows.clone().count() == 5 && rows.clone().all(|row| row.ends_with(" -")), "{text}");
    assert!(!text.contains('\x1b'), "no earlier value is known: {text:?}");
}

#[test]
fn a_screen_shows_as_much_as_fits_and_prefers_bars_to_zeros() {
    let mut followed = followed();
    followed.slot.add(0, 10);
    followed.slot.add(3, 10);
    followed.turns();
    let now = followed.read();
    let table = CounterTable { path: &followed.path, now: &now, before: None, has_rates: true };
    let wide = followed.path.display().to_string().len() + 80;
    // Title, headings and cursor take three lines; a note takes one more.
    for (height, width, numbers, bars, note) in [
        (3 + 1 + 4 + 1 + 7, wide, 4, 7, None),
        (3 + 1 + 2 + 1 + 7, wide, 2, 7, Some("counters not shown: 2 (at 0: 2)")),
        // With merged bars, more numbers fit.
        (3 + 1 + 2 + 1 + 6, wide, 4, 4, None),
        (3 + 1 + 2 + 1 + 3, wide, 2, 3, Some("counters not shown: 2 (at 0: 2)")),
        (3 + 1 + 1 + 1 + 3, wide, 1, 3, Some("counters not shown: 3 (at 0: 2)")),
        (3 + 1 + 1 + 3, wide, 0, 3, Some("counters not shown: 4 (at 0: 2)")),
        // Only one row of the histogram is shown.
        (0, wide, 0, 0, Some("counters not shown: 4 (at 0: 2)")),
        // Each row takes two lines, as do the headings; the title takes more.
        (followed.path.display().to_string().len() / 40 + 30, 40, 4, 7, None),
    ] {
        let text = table.text(Some(Screen { height, width }), BarStyle::Plain);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        let begins = |start: &str| rows.iter().filter(|row| row.starts_with(start)).count();
        let shown_numbers =
            rows.iter().filter(|row| row.contains("_total") || row.contains("_open"));
        let case = format!("{height} x {width}:\n{text}");
        assert_eq!((shown_numbers.count(), begins("  ")), (numbers, bars), "{case}");
        assert_eq!(begins("turn_us"), 1, "{case}");
        let last = rows.last().filter(|row| row.starts_with("counters not shown"));
        assert_eq!(last.copied(), note, "{case}");
        if height > 0 {
            let lines: usize = text.lines().map(|row| Screen { height, width }.lines_of(row)).sum();
            assert!(lines < height, "{lines} lines and the cursor: {case}");
        }
    }
}
