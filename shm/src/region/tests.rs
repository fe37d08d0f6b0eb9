//! Tests of a region's file, and of other files in its place.

mod members;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_sync::{Barrier, Words};
use std::sync::atomic::Ordering::Relaxed;
use tempfile::TempDir;

mod unnamed;

use super::layout::{self, AREA_ENTRY_BYTES, HEADER_BYTES, Layout, offset};
use super::place::RegionPath;
use super::*;
use crate::map::WORD_BYTES;
use crate::participant::*;
use crate::robust_lock;

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
    assert!(first.area(17).is_none(), "area 17 exists although the plan lacks it");

    let reader = Region::attach_read_only(&path).unwrap();
    assert_eq!(reader.area(16).unwrap().load(9), 7);
    assert_eq!((reader.seed(), reader.bytes()), (first.seed(), first.bytes()));
    let participant = first.join().unwrap();
    assert_eq!(reader.list(), second.list());
    assert_eq!(
        reader.list()[0].status,
        ParticipantStatus::Alive,
        "a living participant looks dead through a read-only file"
    );
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
    let second = Region::open_or_create(&path, &SPEC).unwrap();
    assert_eq!(second.opened(), &Opened::Attached);
    assert_eq!(names_beside(&path), ["region", "region.new"], "the next maker removes it");
}

#[test]
fn what_cannot_be_used_is_replaced_and_named() {
    let (_dir, path) = fresh();
    let damaged =
        |what| ReplacedWhy::Damaged { what, kept: Some(path.with_file_name("region.damaged")) };
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
            damaged("the file does not begin with the magic bytes of a region"),
        ),
        ("an empty file", Box::new(Vec::clear), damaged("the file is cut off")),
        ("half a file", Box::new(|head| head.truncate(32 << 10)), damaged("the file is cut off")),
        ("a file with holes", Box::new(|_| {}), damaged("it has holes")),
        (
            "one flipped bit",
            Box::new(|head| head[offset::SEED] ^= 1),
            damaged("the checksum of the header is wrong"),
        ),
        (
            "an unknown barrier",
            Box::new(move |head| sealed(&word_at(offset::BARRIER, 9), head)),
            damaged("the kind of barrier is unknown"),
        ),
    ];
    drop(Region::open_or_create(&path, &SPEC).unwrap());
    let whole = fs::read(&path).unwrap();
    for (case, change, why) in cases {
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        if case == "a file with holes" {
            fs::write(&path, &bytes[..4096]).unwrap();
            fs::File::options().write(true).open(&path).unwrap().set_len(SPEC.bytes).unwrap();
        }
        let region = Region::open_or_create(&path, &SPEC).unwrap();
        assert_eq!(region.opened(), &Opened::Replaced { why: why.clone() }, "{case}");
        let kept = path.with_file_name("region.damaged");
        match why {
            ReplacedWhy::Damaged { .. } => assert_eq!(fs::read(&kept).unwrap(), bytes, "{case}"),
            _ => assert!(!kept.exists(), "{case}: kept a file that is not damaged"),
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
        ("no participants", RegionSpec { participants_max: 0, ..SPEC }, "region can have 1 to"),
        (
            "many participants",
            RegionSpec { participants_max: 4097, ..SPEC },
            "region can have 1 to",
        ),
        ("many areas", RegionSpec { areas: &many, ..SPEC }, "at most 63 areas"),
        ("our kind", RegionSpec { areas: &[area(1, 8)], ..SPEC }, "the region's own"),
        ("twice", RegionSpec { areas: &[area(16, 8), area(16, 8)], ..SPEC }, "two areas of kind"),
        ("half a word", RegionSpec { areas: &[area(16, 12)], ..SPEC }, "whole words"),
        (
            "too small",
            RegionSpec { bytes: 4096, ..SPEC },
            "4096 bytes is too small; at least 20480",
        ),
        ("huge", RegionSpec { areas: &[area(16, u64::MAX - 7)], ..SPEC }, "larger than any file"),
        ("huge file", RegionSpec { bytes: u64::MAX, ..SPEC }, "is larger than any mapping"),
    ];
    for (case, spec, expected) in cases {
        let error = Region::anonymous(spec).unwrap_err().to_string();
        assert!(error.contains(expected), "{case}: {error}");
    }
}

#[test]
fn a_full_disk_is_an_error_with_both_numbers_and_leaves_nothing() {
    let (_dir, path) = fresh();
    assert_has_no_room(&path, 1 << 60);
    let Ok(in_memory) = TempDir::new_in("/dev/shm") else {
        println!("skipped: there is no /dev/shm that may be written");
        return;
    };
    let stat = rustix::fs::statvfs(in_memory.path()).unwrap();
    if stat.f_blocks == 0 {
        println!("skipped: /dev/shm has no limit");
        return;
    }
    let bytes = stat.f_blocks * stat.f_frsize + (1 << 20);
    assert_has_no_room(&in_memory.path().join("run/region"), bytes);
}

fn assert_has_no_room(path: &Path, bytes: u64) {
    let spec = RegionSpec { bytes, ..SPEC };
    let error = Region::open_or_create(path, &spec).unwrap_err();
    let RegionErrorKind::NoSpace { need, have, old_is_kept: false } = error.kind else {
        panic!("{error}");
    };
    assert!(need == bytes && have < need, "{have} of {need}");
    assert_eq!(names_beside(path), [""; 0]);
}

#[test]
fn memory_beyond_what_is_available_is_not_even_tried() {
    // This size is below the limit of a file, and far above the memory of any machine, so
    // allocating would never end.
    let spec = RegionSpec { bytes: 1 << 50, ..SPEC };
    let error = Region::anonymous(&spec).unwrap_err();
    assert!(
        matches!(error.kind, RegionErrorKind::NoSpace { have, .. } if have > 0 && have < 1 << 50),
        "{error}"
    );
}

#[test]
fn who_makes_a_region_is_waited_for_but_not_for_ever_and_not_for_its_children() {
    let (_dir, path) = fresh();
    let (maker, other) = (RegionPath::open(&path).unwrap(), RegionPath::open(&path).unwrap());
    let soon = Duration::from_millis(5);
    let lock = maker.lock(soon).unwrap();
    // A child that was forked at this moment would have such a copy.
    let copy = maker.dir.try_clone().unwrap();
    let error = other.lock(soon).map(drop).unwrap_err();
    assert!(matches!(error.kind, RegionErrorKind::Busy { waited } if waited == soon));
    let text = error.to_string();
    let parent = path.parent().unwrap().display().to_string();
    assert!(text.starts_with(&parent) && text.contains("another process"), "{text}");
    drop(lock);
    drop(other.lock(soon).unwrap());
    drop(maker);
    drop(other.lock(soon).unwrap());
    drop(copy);
}

#[test]
fn what_is_there_is_only_lost_when_there_is_a_new_one_or_it_is_useless() {
    let too_large = RegionSpec { bytes: 1 << 60, ..SPEC };
    let (_dir, path) = fresh();
    let old = Region::open_or_create(&path, &SPEC).unwrap();
    let error = Region::open_or_create(&path, &too_large).unwrap_err();
    assert!(matches!(error.kind, RegionErrorKind::NoSpace { old_is_kept: true, .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&path.display().to_string()) && text.contains("old region"), "{text}");
    let again = Region::open_or_create(&path, &SPEC).unwrap();
    assert_eq!((again.opened(), again.seed()), (&Opened::Attached, old.seed()));

    fs::write(&path, "junk").unwrap();
    fs::write(path.with_file_name("region.damaged"), "older junk").unwrap();
    let error = Region::open_or_create(&path, &too_large).unwrap_err();
    assert!(matches!(error.kind, RegionErrorKind::NoSpace { old_is_kept: false, .. }), "{error}");
    assert_eq!(names_beside(&path), [""; 0], "a file is left although there was too little room");
}

#[test]
fn neighbours_are_left_alone_until_they_are_in_the_way() {
    let (_dir, path) = fresh();
    for name in ["region.new", "x.damaged"] {
        let error = open_error(&path.with_file_name(name));
        assert!(matches!(error, RegionErrorKind::Spec { .. }), "{name}: {error}");
    }
    drop(Region::open_or_create(&path, &SPEC).unwrap());
    let (new, damaged) = (path.with_file_name("region.new"), path.with_file_name("region.damaged"));
    fs::create_dir(&new).unwrap();
    fs::create_dir(&damaged).unwrap();
    drop(Region::open_or_create(&path, &SPEC).unwrap());
    fs::write(&path, "junk").unwrap();
    for in_the_way in [&new, &damaged] {
        let error = Region::open_or_create(&path, &SPEC).unwrap_err();
        assert_eq!(error.path.as_deref(), Some(in_the_way.as_path()), "{error}");
        assert!(matches!(error.kind, RegionErrorKind::NotAFile), "{error}");
        assert_eq!(
            fs::read(&path).unwrap(),
            b"junk",
            "the old file was removed before there was a new one"
        );
        fs::remove_dir(in_the_way).unwrap();
    }
    drop(Region::open_or_create(&path, &SPEC).unwrap());
    assert_eq!(names_beside(&path), ["region", "region.damaged"]);
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
fn no_mapping_gets_into_a_core_dump() {
    let (_dir, path) = fresh();
    let _region = Region::open_or_create(&path, &SPEC).unwrap();
    let _reader = Region::attach_read_only(&path).unwrap();
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let name = path.to_str().unwrap();
    let parts: Vec<_> = maps.split("VmFlags:").collect();
    let is_left_out = |pair: &[&str]| {
        let flags = pair[1].lines().next().unwrap();
        pair[0].contains(name).then(|| flags.split(' ').any(|flag| flag == "dd"))
    };
    let left_out: Vec<_> = parts.windows(2).filter_map(is_left_out).collect();
    assert_eq!(left_out, [true, true]);
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
            // With a checksum that fits, the bytes may be valid, but every area is inside the
            // region.
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
        format!("{}: only the side that runs rarely", layout::BARRIER_MEMBARRIER),
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
