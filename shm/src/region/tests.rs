//! The file as programs find it, and what becomes of other files in its place.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use forebay_sync::{Barrier, Words};
use std::sync::atomic::Ordering::Relaxed;
use tempfile::TempDir;

use super::layout::{self, AREA_ENTRY_BYTES, HEADER_BYTES, Layout, offset};
use super::*;
use crate::map::WORD_BYTES;
use crate::participant::*;
use crate::{Liveness, RobustLock, robust_lock};

const AREAS: &[AreaSpec] =
    &[AreaSpec { kind: 16, version: 3, bytes: 80 }, AreaSpec { kind: 20, version: 1, bytes: 5000 }];

const SPEC: RegionSpec =
    RegionSpec { bytes: 64 << 10, participants_max: 10, barrier: BarrierWish::Best, areas: AREAS };

fn fresh() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/region");
    (dir, path)
}

fn names_beside(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn open_error(path: &Path) -> RegionErrorKind {
    Region::open_or_create(path, &SPEC).unwrap_err().kind
}

#[test]
fn a_second_opening_sees_the_same_memory() {
    let (_dir, path) = fresh();
    let first = Region::open_or_create(&path, &SPEC).unwrap();
    let second = Region::open_or_create(&path, &SPEC).unwrap();
    assert_eq!((first.opened(), second.opened()), (&Opened::Created, &Opened::Attached));
    assert_eq!(first.seed(), second.seed());
    assert_ne!(first.seed(), [0; 16]);
    assert_eq!((first.bytes(), first.participants_max()), (64 << 10, 10));
    let (here, there) = (first.area(16).unwrap(), second.area(16).unwrap());
    assert_eq!((here.word_count(), here.version()), (10, 3));
    here.word(9).store(7, Relaxed);
    assert_eq!(there.word(9).load(Relaxed), 7);
    assert_eq!(second.area(20).unwrap().word_count(), 625);
    assert!(first.area(17).is_none(), "there is no such area");

    let reader = Region::attach_read_only(&path).unwrap();
    assert_eq!(reader.area(16).unwrap().load(9), 7);
    assert_eq!((reader.seed(), reader.bytes()), (first.seed(), first.bytes()));
    let participant = first.join().unwrap();
    assert_eq!(reader.list(), second.list());
    assert_eq!(reader.list()[0].status, ParticipantStatus::Alive, "asked through a read-only file");
    participant.leave();
}

#[test]
fn the_file_is_private_allocated_and_alone() {
    let (_dir, path) = fresh();
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(path.with_file_name("region.new"), "left by a process that died").unwrap();
    let _region = Region::open_or_create(&path, &SPEC).unwrap();
    let meta = fs::metadata(&path).unwrap();
    assert_eq!(meta.permissions().mode() & 0o7777, 0o600);
    assert_eq!(meta.len(), SPEC.bytes);
    assert!(meta.blocks() * 512 >= meta.len(), "sparse: {} blocks", meta.blocks());
    assert_eq!(names_beside(&path), ["region"]);

    fs::write(path.with_file_name("region.new"), "left by a process that died").unwrap();
    let _second = Region::open_or_create(&path, &SPEC).unwrap();
    assert_eq!(names_beside(&path), ["region"], "who attaches sweeps too");
}

#[test]
fn what_cannot_be_used_is_replaced_and_named() {
    let (_dir, path) = fresh();
    let damaged = |what| ReplacedWhy::Damaged { what, kept: path.with_file_name("region.damaged") };
    let word_at = |at: usize, value: u32| {
        move |head: &mut Vec<u8>| head[at..at + 4].copy_from_slice(&value.to_le_bytes())
    };
    type Change = Box<dyn Fn(&mut Vec<u8>)>;
    let sealed = |change: &dyn Fn(&mut Vec<u8>), head: &mut Vec<u8>| {
        change(head);
        layout::seal(&mut head[..HEADER_BYTES + 3 * AREA_ENTRY_BYTES]);
    };
    let cases: Vec<(&str, Change, ReplacedWhy)> = vec![
        (
            "of another boot",
            Box::new(move |head| sealed(&word_at(offset::BOOT_ID, 0), head)),
            ReplacedWhy::OtherBoot,
        ),
        (
            "of a newer layout",
            Box::new(word_at(offset::LAYOUT_VERSION, 2)),
            ReplacedWhy::OtherLayout { found: 2 },
        ),
        (
            "with other areas",
            Box::new(move |head| sealed(&word_at(HEADER_BYTES + AREA_ENTRY_BYTES, 17), head)),
            ReplacedWhy::OtherPlan,
        ),
        (
            "something else",
            Box::new(|head| head[..6].copy_from_slice(b"GIF89a")),
            damaged("it does not begin as a region does"),
        ),
        ("an empty file", Box::new(Vec::clear), damaged("it is cut off")),
        ("a file cut at half", Box::new(|head| head.truncate(32 << 10)), damaged("it is cut off")),
        (
            "one flipped bit",
            Box::new(|head| head[offset::SEED] ^= 1),
            damaged("the checksum of the header"),
        ),
        (
            "a barrier that nobody knows",
            Box::new(move |head| sealed(&word_at(offset::BARRIER, 9), head)),
            damaged("the barrier"),
        ),
    ];
    drop(Region::open_or_create(&path, &SPEC).unwrap());
    let whole = fs::read(&path).unwrap();
    for (case, change, why) in cases {
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        let region = Region::open_or_create(&path, &SPEC).unwrap();
        assert_eq!(region.opened(), &Opened::Replaced { why: why.clone() }, "{case}");
        let kept = path.with_file_name("region.damaged");
        match why {
            ReplacedWhy::Damaged { .. } => assert_eq!(fs::read(&kept).unwrap(), bytes, "{case}"),
            _ => assert!(!kept.exists(), "{case}: keeps what is not damaged"),
        }
        let again = Region::open_or_create(&path, &SPEC).unwrap();
        assert_eq!(again.opened(), &Opened::Attached, "{case}");
        let _ = fs::remove_file(kept);
    }
}

#[test]
fn a_region_that_was_replaced_stays_with_those_who_have_it() {
    let (_dir, path) = fresh();
    let old = Region::open_or_create(&path, &SPEC).unwrap();
    let participant = old.join().unwrap();
    let larger = RegionSpec { bytes: 128 << 10, ..SPEC };
    let new = Region::open_or_create(&path, &larger).unwrap();
    assert_eq!(new.opened(), &Opened::Replaced { why: ReplacedWhy::OtherPlan });
    assert_ne!(old.seed(), new.seed());
    let second = old.join().unwrap();
    assert_eq!((old.list().len(), new.list().len()), (2, 0));
    participant.leave();
    second.leave();
}

#[test]
fn plans_that_do_not_fit_are_refused() {
    let area = |kind, bytes| AreaSpec { kind, version: 1, bytes };
    let many: Vec<_> = (16..16 + AREAS_MAX as u32).map(|kind| area(kind, 8)).collect();
    let cases: &[(&str, RegionSpec, &str)] = &[
        ("no participants", RegionSpec { participants_max: 0, ..SPEC }, "participants fit"),
        ("many participants", RegionSpec { participants_max: 4097, ..SPEC }, "participants fit"),
        ("many areas", RegionSpec { areas: &many, ..SPEC }, "at most 63 areas"),
        ("our kind", RegionSpec { areas: &[area(1, 8)], ..SPEC }, "the region's own"),
        ("twice", RegionSpec { areas: &[area(16, 8), area(16, 8)], ..SPEC }, "two areas of kind"),
        ("half a word", RegionSpec { areas: &[area(16, 12)], ..SPEC }, "whole words"),
        ("too small", RegionSpec { bytes: 4096, ..SPEC }, "4096 bytes are too few, at least 20480"),
        ("huge", RegionSpec { areas: &[area(16, u64::MAX - 7)], ..SPEC }, "larger than any file"),
        ("huge file", RegionSpec { bytes: u64::MAX, ..SPEC }, "no region can have"),
    ];
    for (case, spec, expected) in cases {
        let error = Region::anonymous(spec).unwrap_err().to_string();
        assert!(error.contains(expected), "{case}: {error}");
    }
}

#[test]
fn a_full_disk_is_an_error_with_both_numbers_and_leaves_nothing() {
    let (_dir, path) = fresh();
    let spec = RegionSpec { bytes: 1 << 60, ..SPEC };
    let error = Region::open_or_create(&path, &spec).unwrap_err();
    // Some file systems say that no file of theirs can be as large.
    match error.kind {
        RegionErrorKind::NoSpace { need, have } => assert!(need == 1 << 60 && have < need),
        RegionErrorKind::Io { doing, .. } => assert_eq!(doing, "allocate the file"),
        other => panic!("{other}"),
    }
    assert_eq!(names_beside(&path), [""; 0]);
}

#[test]
fn directories_and_files_that_others_control_are_refused() {
    use RegionErrorKind::*;
    let (dir, path) = fresh();
    let parent = path.parent().unwrap();
    fs::create_dir(parent).unwrap();
    fs::set_permissions(parent, fs::Permissions::from_mode(0o750)).unwrap();
    assert!(matches!(open_error(&path), NotPrivate { mode: 0o750 }));
    fs::set_permissions(parent, fs::Permissions::from_mode(0o700)).unwrap();
    let link = dir.path().join("link");
    symlink(parent, &link).unwrap();
    assert!(matches!(open_error(&link.join("region")), Io { doing: "open the directory", .. }));
    symlink(dir.path().join("elsewhere"), &path).unwrap();
    assert!(matches!(open_error(&path), NotAFile), "a link in the file's place");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(open_error(&path), NotAFile), "a directory in the file's place");
    fs::remove_dir(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(open_error(&path), NotAFile), "a pipe in the file's place");
    assert!(matches!(open_error(Path::new("/")), NotAFile));
    let error = Region::open_or_create(&path, &SPEC).unwrap_err().to_string();
    assert!(error.starts_with(&path.display().to_string()), "{error}");
    fs::remove_file(&path).unwrap();
    // Only the superuser can give files away.
    if rustix::process::geteuid().is_root() {
        drop(Region::open_or_create(&path, &SPEC).unwrap());
        std::os::unix::fs::chown(&path, Some(4321), None).unwrap();
        assert!(matches!(open_error(&path), NotOurs { owner: 4321 }));
        std::os::unix::fs::chown(parent, Some(4321), None).unwrap();
        assert!(matches!(open_error(&path), NotOurs { owner: 4321 }));
    }
}

#[test]
fn a_reader_refuses_what_it_cannot_read() {
    let (_dir, path) = fresh();
    let missing = Region::attach_read_only(&path).unwrap_err();
    assert!(matches!(missing.kind, RegionErrorKind::Io { doing: "open the file", .. }));
    drop(Region::open_or_create(&path, &SPEC).unwrap());
    let whole = fs::read(&path).unwrap();
    let cases = [
        ("another layout", offset::LAYOUT_VERSION, "another version"),
        ("damage", offset::REGION_BYTES, "checksum"),
    ];
    for (case, at, expected) in cases {
        let mut bytes = whole.clone();
        bytes[at] ^= 2;
        fs::write(&path, bytes).unwrap();
        let error = Region::attach_read_only(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{case}: {error}");
    }
}

#[test]
fn no_header_causes_a_panic_or_an_area_outside() {
    let plan = Layout::plan(&SPEC).unwrap();
    let whole = plan.encode();
    assert_eq!(Layout::decode(&whole, SPEC.bytes), Ok(plan));
    for length in 0..whole.len() {
        assert!(Layout::decode(&whole[..length], SPEC.bytes).is_err(), "cut at {length}");
    }
    for at in 0..whole.len() {
        for flip in [0x01, 0x10, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            assert!(Layout::decode(&bytes, SPEC.bytes).is_err(), "byte {at} by {flip:#x}");
            // Even with a checksum that fits.
            layout::seal(&mut bytes);
            let Ok(layout) = Layout::decode(&bytes, SPEC.bytes) else {
                continue;
            };
            let word_count = SPEC.bytes as usize / WORD_BYTES;
            let is_inside = |area: &layout::AreaPlace| area.words().end <= word_count;
            assert!(layout.areas.iter().all(is_inside), "byte {at} by {flip:#x}");
        }
    }
}

#[test]
fn the_barrier_is_the_region_s() {
    let (_dir, path) = fresh();
    let fenced = RegionSpec { barrier: BarrierWish::Fence, ..SPEC };
    assert_eq!(Region::open_or_create(&path, &fenced).unwrap().barrier(), Barrier::fence());
    let second = Region::open_or_create(&path, &SPEC).unwrap();
    assert_eq!((second.opened(), second.barrier()), (&Opened::Attached, Barrier::fence()));
    assert!(!Region::attach_read_only(&path).unwrap().needs_membarrier());
    let best = Barrier::fence();
    assert_eq!(Region::anonymous(&SPEC).unwrap().barrier(), best);
}

#[test]
fn rows_are_taken_from_below_and_die_without_being_left() {
    let spec = RegionSpec { participants_max: 2, ..SPEC };
    let region = Region::anonymous(&spec).unwrap();
    let first = region.join().unwrap();
    let second = region.join().unwrap();
    let full = region.join().unwrap_err().to_string();
    assert_eq!(full, "all 2 rows for participants are taken");
    let (first_id, second_id) = (first.id(), second.id());
    assert_eq!((first_id.row, second_id.row), (0, 1));
    assert!(first.is_alive(second_id) && first.is_alive(first_id));
    let unknown = ParticipantId { row: 2, generation: 1 };
    assert!(!first.is_alive(unknown), "a row that is not there");

    drop(second);
    assert!(!first.is_alive(second_id));
    assert_eq!(region.list()[1].status, ParticipantStatus::Dead);
    assert!(region.join().is_err(), "a dead row is not free");
    let mut swept = Vec::new();
    let count = region
        .sweep(|dead| {
            assert_eq!(region.list()[1].status, ParticipantStatus::Sweeping);
            assert!(!first.is_alive(dead), "dead while it is being swept");
            swept.push(dead);
        })
        .unwrap();
    assert_eq!((count, swept), (1, vec![second_id]));
    assert_eq!(region.sweep(|_| panic!("nobody is dead")).unwrap(), 0);

    let third = region.join().unwrap();
    assert_eq!((third.id().row, third.id().generation), (1, second_id.generation + 1));
    assert!(first.is_alive(third.id()) && !first.is_alive(second_id));
    first.leave();
    third.leave();
    assert_eq!(region.list(), []);
}

#[test]
fn the_owner_of_a_lock_cannot_wait_for_itself_and_others_can_give_up() {
    let region = Region::anonymous(&SPEC).unwrap();
    let lock = RobustLock::new(region.area(16).unwrap(), 0);
    let (first, second) = (region.join().unwrap(), region.join().unwrap());
    let guard = lock.lock(&first).unwrap();
    assert!(!guard.must_repair());
    assert_eq!(lock.owner(), Some(first.id()));
    assert_eq!(lock.lock(&first).unwrap_err(), crate::LockError::AlreadyHeld);
    assert!(lock.try_lock(&second).unwrap().is_none());
    let at_most = std::time::Duration::from_millis(1);
    assert_eq!(lock.lock_within(&second, at_most).unwrap_err(), crate::LockError::TimedOut);
    drop(guard);
    assert!(lock.lock_within(&second, at_most).is_ok());
    assert_eq!(lock.owner(), None);
}

#[test]
fn need_of_repair_stays_until_somebody_has_repaired() {
    let region = Region::anonymous(&SPEC).unwrap();
    let lock = RobustLock::new(region.area(16).unwrap(), 0);
    let (dying, member) = (region.join().unwrap(), region.join().unwrap());
    std::mem::forget(lock.lock(&dying).unwrap());
    let dead = dying.id();
    drop(dying);
    for attempt in 0..2 {
        let guard = lock.lock(&member).unwrap();
        assert!(guard.must_repair(), "attempt {attempt}");
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut guard = lock.lock(&member).unwrap();
        guard.repaired();
        panic!("in the middle of a change");
    }));
    assert!(panicked.is_err());
    let mut guard = lock.try_lock(&member).unwrap().unwrap();
    assert!(guard.must_repair(), "a panic leaves it as a death does");
    guard.repaired();
    assert!(!guard.must_repair());
    drop(guard);
    assert!(!lock.lock(&member).unwrap().must_repair());

    assert!(!lock.abandon(dead), "it is not the dead one's any more");
    let word = region.area(16).unwrap();
    word.word(0).store(u64::from(dead.generation) << 32 | (u64::from(dead.row) + 1), Relaxed);
    region.sweep(|dead| assert!(lock.abandon(dead))).unwrap();
    assert_eq!(word.word(0).load(Relaxed), robust_lock::REPAIR);
    assert!(lock.lock(&member).unwrap().must_repair());
}

#[test]
fn words_that_nobody_wrote_are_survived() {
    let region = Region::anonymous(&SPEC).unwrap();
    let lock = RobustLock::new(region.area(16).unwrap(), 0);
    let member = region.join().unwrap();
    for word in [u64::MAX, 0x00ff_ffff, 5, 1 << 63, u64::from(u32::MAX) << 32 | 1] {
        region.area(16).unwrap().word(0).store(word, Relaxed);
        let Ok(guard) = lock.lock(&member) else {
            panic!("{word:#x} stays locked");
        };
        drop(guard);
    }
    let rows = region.area(1).unwrap();
    for index in ROW_WORDS..rows.word_count() {
        rows.word(index).store(u64::MAX - index as u64, Relaxed);
    }
    assert_eq!(region.list().len(), 10);
    assert_eq!(region.sweep(|_| {}).unwrap(), 9);
    assert_eq!(region.list().len(), 1);
}

#[test]
fn the_document_describes_what_the_code_writes() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format/region.md");
    let text = fs::read_to_string(page).unwrap();
    let header = [
        ("magic", offset::MAGIC, 8),
        ("layout_version", offset::LAYOUT_VERSION, 4),
        ("header_bytes", offset::HEADER_BYTES, 4),
        ("region_bytes", offset::REGION_BYTES, 8),
        ("participants_max", offset::PARTICIPANTS_MAX, 4),
        ("barrier", offset::BARRIER, 4),
        ("boot_id", offset::BOOT_ID, 16),
        ("seed", offset::SEED, 16),
        ("area_count", offset::AREA_COUNT, 4),
        ("area_entry_bytes", offset::AREA_ENTRY_BYTES, 4),
        ("reserved", offset::RESERVED, 48),
        ("checksum", offset::CHECKSUM, 8),
    ];
    let entry = [
        ("kind", offset::KIND, 4),
        ("version", offset::VERSION, 4),
        ("area_offset", offset::AREA_OFFSET, 8),
        ("area_bytes", offset::AREA_BYTES, 8),
        ("zero", 24, 8),
    ];
    let row = [
        ("state", STATE_WORD * WORD_BYTES, 4),
        ("generation", STATE_WORD * WORD_BYTES + 4, 4),
        ("pid", PID_WORD * WORD_BYTES, 8),
        ("start_ticks", START_WORD * WORD_BYTES, 8),
        ("joined_ns", JOINED_WORD * WORD_BYTES, 8),
        ("spare", 32, 32),
    ];
    let tables: [(&[_], usize); 3] =
        [(&header, HEADER_BYTES), (&entry, AREA_ENTRY_BYTES), (&row, ROW_WORDS * WORD_BYTES)];
    for (fields, bytes) in tables {
        let mut end = 0;
        for (name, offset, bytes) in fields {
            assert_eq!(*offset, end, "{name} leaves a gap");
            end = offset + bytes;
            let row = format!("| `{name}` | {offset} | {bytes} |");
            assert!(text.contains(&row), "docs/format/region.md lacks {row}");
        }
        assert_eq!(end, bytes);
    }
    let (owner, repair) = (robust_lock::OWNER_BITS, robust_lock::REPAIR);
    let sentences = [
        format!("Layout version {}.", layout::LAYOUT_VERSION),
        format!("the ASCII letters `{}`", std::str::from_utf8(&layout::MAGIC).unwrap()),
        format!("a multiple of {}; the file", layout::PAGE_BYTES),
        format!("participants' area, 1 to {PARTICIPANTS_MAX} |"),
        format!("the directory, 1 to {AREAS_MAX} |"),
        format!("Kinds 1 to {} belong", layout::FIRST_PROGRAM_KIND - 1),
        format!(
            "| {} | {} | participants |",
            layout::PARTICIPANTS_KIND,
            layout::PARTICIPANTS_VERSION
        ),
        format!("{}: both sides", layout::BARRIER_FENCE),
        format!("{}: only the rare side", layout::BARRIER_MEMBARRIER),
        format!("{FREE} free, {TAKEN} taken, {SWEPT} being swept"),
        format!("A row is {} bytes", ROW_WORDS * WORD_BYTES),
        format!("| 0–{} | the owner's row + 1", owner.count_ones() - 1),
        format!("| {} | `REPAIR`", repair.trailing_zeros()),
        format!("| {} | `WAITERS`", robust_lock::WAITERS.trailing_zeros()),
        format!("at most {} ms", crate::SLEEP_MAX.as_millis()),
    ];
    for sentence in sentences {
        assert!(text.contains(&sentence), "docs/format/region.md lacks {sentence:?}");
    }
}
