//! A forked child has copies of everything in its parent, and may change nothing.

use forebay_ordmap::{Map, MapError, MapOptions, MapsError, OrdRegion};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use crate::scene::Scene;

/// Runs a check in a child, which exits with the number of the first wrong result.
fn in_child(check: impl FnOnce() -> i32) -> WaitStatus {
    // SAFETY: the child allocates, which its allocator allows after a fork, and makes system calls;
    // no lock that another thread may have held is taken.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => waitpid(child, None).unwrap(),
        ForkResult::Child => {
            let wrong = check();
            // SAFETY: `_exit` ends the process without running anything else.
            unsafe { nix::libc::_exit(wrong) }
        }
    }
}

fn first_wrong(checks: &[bool]) -> i32 {
    checks.iter().position(|is_right| !is_right).map_or(0, |index| index as i32 + 1)
}

/// Operations that a child must not do with its parent's handles.
fn misuse(map: &Map<'_>) -> [bool; 6] {
    [
        map.insert(b"key", b"child") == Err(MapError::Forked),
        map.remove(b"key") == Err(MapError::Forked),
        map.reclaim() == Err(MapError::Forked),
        map.entry(b"key") == Err(MapError::Forked),
        map.first() == Err(MapError::Forked),
        map.get(b"key") == Ok(Some(b"parent".to_vec())),
    ]
}

/// Whether the child can join by itself.
fn joins(region: &OrdRegion) -> bool {
    let Ok(participant) = region.join() else { return false };
    let Ok(map) = participant.existing_map("ledger") else { return false };
    map.insert(b"child", b"its own") == Ok(false)
        && map.entry(b"child").is_ok_and(|entry| entry.is_some())
}

#[test]
fn a_child_that_was_forked_off_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let scene = Scene::open(dir.path());
    let participant = scene.region.join().unwrap();
    let map = scene.map(&participant);
    map.insert(b"key", b"parent").unwrap();
    map.insert(b"held", b"held").unwrap();
    let held = map.entry(b"held").unwrap().unwrap();
    let mut held = Some(held);
    map.remove(b"held").unwrap();
    let status = in_child(|| {
        let mut checks = misuse(&map).to_vec();
        let made = participant.map("made by a child", &MapOptions::default());
        checks.push(made.is_err_and(|error| error == MapsError::Forked));
        // A copy of the parent's entry.
        checks.push(held.take().is_some());
        checks.push(joins(&scene.region));
        first_wrong(&checks)
    });
    assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
    assert_eq!(map.reclaim().unwrap(), 0, "the parent still holds it");
    assert_eq!(held.as_ref().unwrap().value(), b"held");
    drop(held);
    assert_eq!(map.reclaim().unwrap(), 1);
    assert_eq!(map.get(b"child").unwrap().as_deref(), Some(&b"its own"[..]));
    map.insert(b"key", b"again").unwrap();
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{report}");
}
