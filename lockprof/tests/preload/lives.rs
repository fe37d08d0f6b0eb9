//! Tests with processes and threads that begin and end.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::scene::{Scene, by_kind, compare};

/// Runs a case, and compares the report of each process with its profile.
fn run(arguments: &[&str], profile_count: usize) {
    let Some(scene) = Scene::compile("lives.c") else { return };
    scene.compare_all(arguments, profile_count);
}

#[test]
fn each_child_of_a_fork_has_a_profile_of_its_own() {
    run(&["forks", "3"], 4);
}

#[test]
fn processes_beyond_their_number_have_no_profile_and_are_counted() {
    let Some(scene) = Scene::compile("lives.c") else { return };
    let mut command = scene.command(&["forks", "9"]);
    scene.run(command.env("LOCKPROF_PROCESSES", "4"));
    assert_eq!(scene.profiles().len(), 4, "{:?}", scene.profiles());
    let counts = scene.take("profile").counts;
    assert_eq!((counts.processes, counts.processes_refused), (3, 6));
}

#[test]
fn a_fork_past_the_c_library_is_one_too() {
    run(&["system forks", "3"], 3);
}

#[test]
fn children_of_a_process_that_is_about_to_begin_start_over() {
    run(&["forks at once", "6"], 1 + 6 * 7);
}

#[test]
fn a_signal_that_jumps_out_of_a_first_lock_leaves_no_thread_waiting() {
    let Some(scene) = Scene::compile("lives.c") else { return };
    scene.run(&mut scene.command(&["jumps", "100"]));
    let counts = scene.profiles().into_iter().map(|name| {
        let kinds = by_kind(&scene.take(&name));
        kinds.get("mutex").map_or(0, |mutex| mutex.count)
    });
    let (of_children, others): (Vec<_>, Vec<_>) = counts.partition(|count| *count >= 7);
    assert_eq!(
        (of_children.len(), others),
        (100, vec![3]),
        "100 profiles of children, and one of the parent"
    );
}

#[test]
fn a_started_program_has_its_own_profile() {
    run(&["starts"], 3);
}

#[test]
fn a_process_that_becomes_another_program_goes_on_in_another_profile() {
    let Some(scene) = Scene::compile("lives.c") else { return };
    let output = scene.run(&mut scene.command(&["becomes"]));
    let first = scene.take("profile");
    assert_eq!(by_kind(&first)["mutex"].count, 4);
    let second = scene.take(&format!("profile.{}", first.about.pid));
    assert_eq!(second.about.pid, first.about.pid);
    assert!(second.about.program.ends_with("program plain 9"), "{}", second.about.program);
    compare(&output, &second, "the second life");
}

#[test]
fn threads_give_their_blocks_back() {
    let Some(scene) = Scene::compile("lives.c") else { return };
    let mut command = scene.command(&["short lives", "10000"]);
    let output = scene.run(command.env("LOCKPROF_THREADS", "5"));
    let reading = scene.take("profile");
    compare(&output, &reading, "short lives");
    assert_eq!((reading.counts.threads_started, reading.counts.lost), (10_000, 0));
    assert!(reading.threads.len() <= 5, "{}", reading.threads.len());
    assert!(
        reading.threads.iter().all(|thread| !thread.is_taken),
        "a thread that has ended still has a block"
    );
}

#[test]
fn a_thread_that_is_cancelled_while_it_waits_unwinds_through_us() {
    let Some(scene) = Scene::compile("lives.c") else { return };
    scene.compare(&["cancelled", "20"]);
}

#[test]
fn a_process_that_gives_its_rights_up_has_made_its_profile_before() {
    run(&["gives up"], 1);
}

#[test]
fn the_smallest_stack_is_large_enough() {
    run(&["small stack", "100"], 1);
}

#[test]
fn a_process_takes_room_for_the_threads_that_it_has() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    let taken = |arguments: &[&str]| {
        let mut command = scene.command(arguments);
        scene.run(command.env_remove("LOCKPROF_THREADS").env_remove("LOCKPROF_ROWS"));
        let found = fs::metadata(scene.path("profile")).unwrap();
        assert!(found.len() > 80_000_000, "the file has no room for 256 threads: {}", found.len());
        assert_eq!(scene.take("profile").counts.lost, 0);
        found.blocks() * 512
    };
    let one = taken(&["plain", "10"]);
    assert!(one < 1_400_000, "{one}");
    // Two threads at the same time, in any order.
    let more = taken(&["waits", "5"]);
    assert!((one + 300_000..20_000_000).contains(&more), "{more}");
}
