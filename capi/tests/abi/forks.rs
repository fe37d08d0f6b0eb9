//! A forked child that uses copies of its parent's handles.

use forebay_capi::*;

use crate::scene::{OutPlace, Scene, answered, by, by_mut, bytes, closing, take, text};

/// Runs a check in a forked child and returns its exit status. The child executes nothing else.
fn in_child(run: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child ends by `_exit`. It takes no lock that another thread of the parent may
    // have held, except malloc's, which libc takes care of.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let status = run();
        // SAFETY: the call ends the process.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: it is our child.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "the child did not exit: wait status {status}");
    libc::WEXITSTATUS(status)
}

/// Returns the position of the first wrong result, counted from 1; 0 if all results are right.
fn first_wrong(codes: &[(Code, Code)]) -> i32 {
    codes.iter().position(|(found, expected)| found != expected).map_or(0, |at| at as i32 + 1)
}

#[test]
fn a_child_can_do_nothing_by_the_handles_of_its_parent() {
    let mut scene = Scene::open(2);
    scene.put("key", "old");
    let entry = scene.entry("key").unwrap();
    let cursor = scene.cursor();
    let item = answered(|place| forebay_cursor_first(by_mut(cursor), place)).unwrap();
    let key = bytes(b"key");
    let status = in_child(|| {
        let map = || by(scene.map);
        // SAFETY: the bytes are valid during the call.
        let (put, held, contained) = unsafe {
            let put = forebay_map_put(map(), key, bytes(b"child"), None);
            let held = answered(|place| forebay_map_get(map(), key, place, None));
            (put, held.unwrap_err(), forebay_map_contains(map(), key))
        };
        let codes = [
            (put, Code::Forked),
            (held, Code::Forked),
            (forebay_cursor_first(by_mut(cursor), None), Code::Forked),
            (forebay_map_remove_if_same(map(), by(entry)), Code::Forked),
            // Reading takes no lease, and closing a handle in the child does not affect the parent.
            (contained, Code::Ok),
            (forebay_cursor_close(closing(cursor)), Code::Ok),
            (forebay_entry_release(closing(entry)), Code::Ok),
            (forebay_map_close(take(&mut scene.map)), Code::Ok),
            (forebay_participant_leave(take(&mut scene.participant)), Code::Ok),
            (forebay_region_close(take(&mut scene.region)), Code::Ok),
        ];
        first_wrong(&codes)
    });
    assert_eq!(status, 0, "a call in the child had a wrong result; the status is its number");
    scene.put("key", "new");
    let freed = answered(|freed| forebay_map_reclaim(by(scene.map), freed));
    assert_eq!(freed, Ok(0), "the child ended no lease of its parent");
    assert_eq!(text(item.value), "old");
    forebay_entry_release(closing(entry));
    forebay_cursor_close(closing(cursor));
    assert_eq!(answered(|freed| forebay_map_reclaim(by(scene.map), freed)), Ok(1));
}

#[test]
fn a_child_that_joins_takes_part() {
    let scene = Scene::open(2);
    let path = scene.path();
    let join = |region| {
        let participant = answered(|place| forebay_participant_join(by(region), place)).unwrap();
        // SAFETY: the string is valid during the call.
        let map = answered(|place| unsafe {
            forebay_participant_existing_map(by(participant), c"map".as_ptr(), place)
        });
        // SAFETY: the bytes are valid during the call.
        unsafe { forebay_map_put(by(map.unwrap()), bytes(b"key"), bytes(b"child"), None) }
    };
    // The child joins through its parent's region, or through a region that it opens itself.
    for opens in [false, true] {
        let status = in_child(|| {
            // SAFETY: the string is valid during the call.
            let attach =
                |place: OutPlace<'_, _>| unsafe { forebay_region_attach(path.as_ptr(), place) };
            let region = if opens { answered(attach).unwrap() } else { scene.region };
            first_wrong(&[(join(region), Code::Ok)])
        });
        assert_eq!(status, 0, "opens: {opens}");
        let entry = scene.entry("key").unwrap();
        let item = answered(|place| forebay_entry_item(by(entry), place)).unwrap();
        assert_eq!(text(item.value), "child");
        forebay_entry_release(closing(entry));
        // The child ended without closing anything, so that there is one participant to sweep.
        assert_eq!(answered(|swept| forebay_region_sweep(by(scene.region), swept)), Ok(1));
        scene.put("key", "parent");
    }
}
