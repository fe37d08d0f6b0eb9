//! Tests of counter files: writing, reading, and damaged files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::layout::{self, HEADER_BYTES, HEADER_FIELDS, SLOT_ALIGN_BYTES};

const DEFS: &[CounterDef] = &[
    CounterDef { name: "requests_total", kind: CounterKind::Counter, help: "Requests answered." },
    CounterDef { name: "connections", kind: CounterKind::Gauge, help: "Open connections – now." },
    CounterDef { name: "no_help", kind: CounterKind::Counter, help: "" },
    CounterDef { name: "turn_us", kind: CounterKind::Histogram(BOUNDS), help: "Turns." },
    CounterDef { name: "behind", kind: CounterKind::Gauge, help: "After a histogram." },
];

const BOUNDS: &[u64] = &[16, 32, 1000];

/// The index in a slot of the histogram's first word, and of the word of the gauge behind it.
const TURN_WORD: usize = 3;
const BEHIND_WORD: usize = TURN_WORD + histogram_words(BOUNDS.len());

fn fresh() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/counters");
    (dir, path)
}

fn open_error(path: &Path) -> CounterErrorKind {
    match CounterReader::open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error.kind,
    }
}

#[test]
fn a_second_mapping_sees_names_and_values_while_they_change() {
    let (_dir, path) = fresh();
    let file = CounterFile::create(Some(&path), DEFS, 3).unwrap();
    let reader = CounterReader::open(&path).unwrap();
    assert_eq!(reader.slot_count(), 3);
    assert!(reader.writer().is_alive());
    assert_eq!(reader.writer(), Writer::this_process());
    assert_eq!(reader.defs().len(), DEFS.len());
    for (read, written) in reader.defs().iter().zip(DEFS) {
        assert_eq!((&*read.name, &*read.help), (written.name, written.help));
        assert_eq!(read.kind.name(), written.kind.name());
        assert_eq!(read.kind.bounds(), written.kind.bounds());
    }

    let (first, last) = (file.slot(0), file.slot(2));
    first.add(0, 5);
    last.add(0, 7);
    first.set(1, 3);
    last.set(1, 4);
    assert_eq!((first.get(0), last.get(0)), (5, 7));
    assert_eq!((file.sum(0), reader.sum(0)), (12, 12));
    assert_eq!((file.sum(1), reader.sum(1)), (7, 7));
    assert_eq!((file.slot_value(1, 0), reader.slot_value(2, 0)), (0, 7));
}

#[test]
fn a_histogram_puts_each_value_into_its_bucket_and_adds_all_up() {
    let (_dir, path) = fresh();
    let file = CounterFile::create(Some(&path), DEFS, 2).unwrap();
    let (first, last) = (file.slot(0), file.slot(1));
    for value in [0, 16, 17, 32, 33, 1000] {
        first.observe(TURN_WORD, BOUNDS, value, value);
    }
    // Rounded up, but added exactly.
    last.observe(TURN_WORD, BOUNDS, 1001, 1000);
    last.set(BEHIND_WORD, 7);
    let buckets = [(Some(16), 2), (Some(32), 2), (Some(1000), 2), (None, 1)];
    let buckets = buckets.map(|(bound, count)| Bucket { bound, count });
    let expected = [
        CounterValue::Number(0),
        CounterValue::Number(0),
        CounterValue::Number(0),
        CounterValue::Histogram(HistogramValue { buckets: buckets.to_vec(), sum: 2098 }),
        CounterValue::Number(7),
    ];
    let reader = CounterReader::open(&path).unwrap();
    let read: Vec<_> = reader.values().map(|(_, value)| value).collect();
    let written: Vec<_> = file.values(DEFS).map(|(_, value)| value).collect();
    assert_eq!((&read[..], &written[..]), (&expected[..], &expected[..]));
}

#[test]
fn a_file_of_the_layout_before_is_read() {
    let (_dir, path) = fresh();
    let file = CounterFile::create(Some(&path), &DEFS[..3], 1).unwrap();
    file.slot(0).add(2, 5);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 1;
    fs::write(&path, bytes).unwrap();
    let reader = CounterReader::open(&path).unwrap();
    assert_eq!((reader.defs().len(), reader.sum(2)), (3, 5));
}

#[test]
fn counters_work_without_a_file() {
    let file = CounterFile::create(None, DEFS, 2).unwrap();
    std::thread::scope(|scope| {
        for index in 0..2 {
            let slot = file.slot(index);
            scope.spawn(move || (0..1000).for_each(|_| slot.add(0, 1)));
        }
    });
    assert_eq!(file.sum(0), 2000);
}

#[test]
fn a_slot_has_one_writer_at_a_time_and_keeps_its_counts() {
    let file = CounterFile::create(None, DEFS, 1).unwrap();
    let slot = file.slot(0);
    slot.add(0, 4);
    let second = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| file.slot(0)));
    assert!(second.is_err(), "one slot was given to two writers");
    drop(slot);
    assert_eq!(file.slot(0).get(0), 4);
}

#[test]
fn slots_share_no_line_and_the_file_is_private_and_allocated() {
    use std::os::unix::fs::MetadataExt;
    let (_dir, path) = fresh();
    let file = CounterFile::create(Some(&path), DEFS, 4).unwrap();
    file.slot(3).set(2, 0x0102_0304_0506_0708);
    let bytes = fs::read(&path).unwrap();
    let names = layout::encode_names(DEFS).unwrap();
    let header = layout::Header::plan(4, DEFS.len(), BEHIND_WORD + 1, names.len());
    assert_eq!(header.slot_stride_bytes % SLOT_ALIGN_BYTES, 0);
    assert_eq!(header.slots_offset % SLOT_ALIGN_BYTES, 0);
    let at = header.slots_offset + 3 * header.slot_stride_bytes + 2 * 8;
    assert_eq!(bytes[at..at + 8], [8, 7, 6, 5, 4, 3, 2, 1]);

    let meta = fs::metadata(&path).unwrap();
    assert_eq!(meta.permissions().mode() & 0o7777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o7777, 0o700);
    assert!(meta.blocks() * 512 >= meta.len(), "sparse: {} blocks", meta.blocks());
    let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "a temporary file is left");
}

#[test]
fn a_new_file_replaces_the_old_one_under_its_readers() {
    let (_dir, path) = fresh();
    let old = CounterFile::create(Some(&path), DEFS, 1).unwrap();
    old.slot(0).add(0, 1);
    let old_reader = CounterReader::open(&path).unwrap();
    // A process with this process's number may have died while it made a file, and left this one.
    let temp = format!("counters.{}.new", std::process::id());
    fs::write(path.with_file_name(temp), "half").unwrap();
    let new = CounterFile::create(Some(&path), &DEFS[..1], 2).unwrap();
    new.slot(1).add(0, 9);
    assert_eq!(old_reader.sum(0), 1);
    let new_reader = CounterReader::open(&path).unwrap();
    assert_eq!(new_reader.sum(0), 9);
    assert_eq!((old_reader.is_at(&path), new_reader.is_at(&path)), (Some(false), Some(true)));
    fs::remove_file(&path).unwrap();
    assert_eq!(new_reader.is_at(&path), None);
}

#[test]
fn a_file_without_a_name_leaves_the_one_that_has_it() {
    let (_dir, path) = fresh();
    let _old = CounterFile::create(Some(&path), DEFS, 1).unwrap();
    let left = || fs::read_dir(path.parent().unwrap()).unwrap().count();
    let dropped = CounterFile::prepare(&path, DEFS, 2).unwrap();
    assert_eq!((CounterReader::open(&path).unwrap().slot_count(), left()), (1, 2));
    let file = dropped.file();
    drop(dropped);
    file.slot(1).add(0, 1);
    assert_eq!((CounterReader::open(&path).unwrap().slot_count(), left()), (1, 1));
    CounterFile::prepare(&path, DEFS, 2).unwrap().name().unwrap();
    assert_eq!((CounterReader::open(&path).unwrap().slot_count(), left()), (2, 1));
}

/// This test runs in two processes: the first process starts the second one, which only reads.
#[test]
fn a_second_process_reads_while_this_one_writes() {
    const NAME: &str = "tests::a_second_process_reads_while_this_one_writes";
    if let Some(path) = std::env::var_os("FOREBAY_SHM_TEST_FILE") {
        let reader = CounterReader::open(Path::new(&path)).unwrap();
        assert!(reader.writer().is_alive());
        let (mut last, mut changes) = (reader.sum(0), 0);
        while changes < 100 {
            let now = reader.sum(0);
            assert!(now >= last, "a counter went back from {last} to {now}");
            changes += u32::from(now != last);
            last = now;
        }
        return;
    }
    let (_dir, path) = fresh();
    let file = CounterFile::create(Some(&path), DEFS, 1).unwrap();
    let slot = file.slot(0);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env("FOREBAY_SHM_TEST_FILE", &path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let status = loop {
        (0..1000).for_each(|_| slot.add(0, 1));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::yield_now();
    };
    assert!(status.success(), "the reading process failed: {status}");
}

#[test]
fn definitions_that_do_not_fit_are_refused() {
    let def = |name, help| CounterDef { name, kind: CounterKind::Counter, help };
    let bounded =
        |bounds| vec![CounterDef { name: "a", kind: CounterKind::Histogram(bounds), help: "" }];
    let many: &'static [u64] = (0..=BOUNDS_MAX as u64).collect::<Vec<_>>().leak();
    let wide = vec![bounded(&many[..BOUNDS_MAX]).swap_remove(0); COUNTERS_MAX / BOUNDS_MAX];
    let long: &'static str = "a".repeat(600).leak();
    let cases: &[(&str, Vec<CounterDef>, usize, &str)] = &[
        ("no counters", vec![], 1, "a slot can hold 1 to"),
        ("too many counters", vec![def("a", ""); COUNTERS_MAX + 1], 1, "a slot can hold 1 to"),
        ("too many words", wide, 1, "a slot can hold 1 to"),
        ("no bounds", bounded(&[]), 1, "the bounds of a"),
        ("too many bounds", bounded(many), 1, "the bounds of a"),
        ("equal bounds", bounded(&[1, 2, 2]), 1, "the bounds of a"),
        ("no slots", vec![def("a", "")], 0, "a counter file can have 1 to"),
        ("too many slots", vec![def("a", "")], SLOTS_MAX + 1, "a counter file can have 1 to"),
        ("empty name", vec![def("", "")], 1, "not a counter name"),
        ("capital", vec![def("Requests", "")], 1, "not a counter name"),
        ("digit first", vec![def("9lives", "")], 1, "not a counter name"),
        ("long name", vec![def(long, "")], 1, "not a counter name"),
        ("long help", vec![def("a", long)], 1, "the help of a"),
        ("two lines", vec![def("a", "x\ny")], 1, "the help of a"),
        ("twice", vec![def("a", ""), def("a", "")], 1, "counter a is defined twice"),
    ];
    for (case, defs, slots, expected) in cases {
        let error = CounterFile::create(None, defs, *slots).err().unwrap().to_string();
        assert!(error.contains(expected), "{case}: {error}");
    }
}

#[test]
fn directories_and_files_that_others_control_are_refused() {
    use CounterErrorKind::*;
    let (dir, path) = fresh();
    let parent = path.parent().unwrap();
    fs::create_dir(parent).unwrap();
    fs::set_permissions(parent, fs::Permissions::from_mode(0o755)).unwrap();
    let error = CounterFile::create(Some(&path), DEFS, 1).err().unwrap();
    assert!(matches!(error.kind, NotPrivate { mode: 0o755 }), "{error}");
    fs::set_permissions(parent, fs::Permissions::from_mode(0o700)).unwrap();
    let _file = CounterFile::create(Some(&path), DEFS, 1).unwrap();

    let link = dir.path().join("link");
    symlink(parent, &link).unwrap();
    let error = CounterFile::create(Some(&link.join("counters")), DEFS, 1).err().unwrap();
    assert!(matches!(error.kind, Io { doing: "open the directory", .. }), "{error}");
    symlink(&path, parent.join("alias")).unwrap();
    assert!(matches!(open_error(&parent.join("alias")), Io { doing: "open the file", .. }));
    assert!(matches!(open_error(parent), NotAFile));
    assert!(matches!(open_error(&parent.join("none")), Io { doing: "open the file", .. }));
    assert!(CounterFile::create(Some(Path::new("/")), DEFS, 1).is_err());
}

#[test]
fn files_that_are_something_else_say_what_they_are() {
    use CounterErrorKind::*;
    let (_dir, path) = fresh();
    drop(CounterFile::create(Some(&path), DEFS, 2).unwrap());
    let whole = fs::read(&path).unwrap();
    let write = |at: usize, bytes: &[u8]| {
        let mut damaged = whole.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(&path, damaged).unwrap();
        open_error(&path)
    };
    assert!(matches!(write(0, b"GIF89a"), NotCounters));
    assert!(matches!(write(8, &[3, 0, 0, 0]), NewerLayout { found: 3, known: 2 }));
    assert!(matches!(write(8, &[0, 0, 0, 0]), Damaged { what: "the layout version is wrong" }));
    assert!(matches!(write(20, &[0xff; 4]), Damaged { what: "the slot count is wrong" }));
    assert!(matches!(write(24, &[0; 4]), Damaged { what: "the counter count is wrong" }));
    assert!(matches!(write(28, &[64, 0, 0, 0]), Damaged { what: "the slot stride is wrong" }));
    assert!(matches!(write(64, &[0xff; 8]), Damaged { .. }));
    assert!(matches!(write(72, &[0xff; 8]), Damaged { what: "the slots' offset is wrong" }));
    assert!(matches!(write(80, &[0xff; 8]), Damaged { what: "the file's size is wrong" }));
    assert!(matches!(write(HEADER_BYTES, &[0xff]), Damaged { what: "the name table is wrong" }));
    assert!(matches!(write(HEADER_BYTES + 4, &[9]), Damaged { what: "the name table is wrong" }));
    // A counter must have no bounds, and a histogram must have at least one.
    assert!(matches!(write(HEADER_BYTES + 5, &[1]), Damaged { what: "the name table is wrong" }));
    assert!(matches!(write(HEADER_BYTES + 4, &[2]), Damaged { what: "the name table is wrong" }));
}

#[test]
fn histograms_that_do_not_fit_into_a_slot_are_refused() {
    let (_dir, path) = fresh();
    let bounds: &'static [u64] = (1..=14).collect::<Vec<_>>().leak();
    let wide = |name| CounterDef { name, kind: CounterKind::Histogram(bounds), help: "" };
    // Each histogram has 16 words, so three histograms need three times the space of one.
    let (one, three) = (&[wide("a")], &[wide("a"), wide("b"), wide("c")]);
    drop(CounterFile::create(Some(&path), three, 1).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let names_bytes = layout::encode_names(three).unwrap().len();
    let header = layout::Header::plan(1, 3, layout_words(one), names_bytes);
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
    fs::write(&path, bytes).unwrap();
    assert!(matches!(
        open_error(&path),
        CounterErrorKind::Damaged { what: "the slot stride is wrong" }
    ));
}

fn layout_words(defs: &[CounterDef]) -> usize {
    defs.iter().map(|def| def.kind.word_count()).sum()
}

#[test]
fn a_file_cut_anywhere_is_refused_and_never_panics() {
    let (_dir, path) = fresh();
    drop(CounterFile::create(Some(&path), DEFS, 2).unwrap());
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let error = open_error(&path);
        match length {
            0..8 => assert!(matches!(error, CounterErrorKind::NotCounters), "{length}: {error}"),
            _ => assert!(matches!(error, CounterErrorKind::Truncated { .. }), "{length}: {error}"),
        }
    }
}

#[test]
fn no_changed_byte_of_header_or_names_causes_a_panic() {
    let (_dir, path) = fresh();
    drop(CounterFile::create(Some(&path), DEFS, 2).unwrap());
    let whole = fs::read(&path).unwrap();
    let names = layout::encode_names(DEFS).unwrap();
    for at in 0..HEADER_BYTES + names.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            fs::write(&path, &damaged).unwrap();
            let Ok(reader) = CounterReader::open(&path) else {
                continue;
            };
            for (def, value) in reader.values() {
                let sum = match value {
                    CounterValue::Number(number) => number,
                    CounterValue::Histogram(histogram) => histogram.sum + histogram.count(),
                };
                assert_eq!(sum, 0, "{def:?}, byte {at} changed by {flip:#x}");
            }
        }
    }
}

#[test]
fn the_document_describes_the_header_that_the_code_writes() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format/counters.md");
    let text = fs::read_to_string(page).unwrap();
    let mut end = 0;
    for (name, offset, bytes) in HEADER_FIELDS {
        assert_eq!(*offset, end, "{name} leaves a gap");
        end = offset + bytes;
        let row = format!("| `{name}` | {offset} | {bytes} |");
        assert!(text.contains(&row), "docs/format/counters.md lacks {row}");
    }
    assert_eq!(end, HEADER_BYTES);
    let sentences = [
        format!("Layout version {}.", layout::LAYOUT_VERSION),
        format!("the ASCII letters `{}`", std::str::from_utf8(&layout::MAGIC).unwrap()),
        format!("a multiple of {SLOT_ALIGN_BYTES}"),
        format!("| `name` | {} |", layout::NAME_ENTRY_HEAD_BYTES),
        format!("| 1 to {NAME_BYTES_MAX} |"),
        format!("| 0 to {HELP_BYTES_MAX} |"),
        format!("| 1 to {BOUNDS_MAX} for a histogram"),
        format!("Limits: {COUNTERS_MAX} words in a slot, {SLOTS_MAX} slots."),
    ];
    for sentence in sentences {
        assert!(text.contains(&sentence), "docs/format/counters.md lacks {sentence:?}");
    }
}
