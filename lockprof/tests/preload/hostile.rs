//! Tests with programs and systems that interfere with the recording.

use std::fs;
use std::process::Command;

use crate::scene::{Scene, by_kind, compare, library};

#[test]
fn nothing_is_allocated_while_an_allocator_takes_locks() {
    let Some(scene) = Scene::compile("allocator.c") else { return };
    let output = scene.run(&mut scene.command(&[]));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "allocations 0\n");
    let kinds = by_kind(&scene.take("profile"));
    let mutex = kinds["mutex"];
    assert!(mutex.count > 100_000 && mutex.try_failed_count == 100_000, "{mutex:?}");
    // Handlers that ran while a hook was at work are not recorded; most ran at other times.
    assert!(kinds["spinlock"].count > 0, "{kinds:?}");
}

#[test]
fn without_a_place_for_a_profile_the_program_runs_all_the_same() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    for (variable, value) in [
        ("LOCKPROF_FILE", "/nowhere/at/all"),
        ("LOCKPROF_FILE", ""),
        ("LOCKPROF_ROWS", "100"),
        ("LOCKPROF_THREADS", "0"),
    ] {
        scene.run(scene.command(&["plain", "10"]).env(variable, value));
        assert_eq!(scene.profiles(), [""; 0], "{variable}={value}");
    }
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1 && exec ./program plain 10"]).current_dir(scene.path(""));
    limited.env("LD_PRELOAD", library()).env("LOCKPROF_FILE", scene.path("profile"));
    scene.run(&mut limited);
    assert_eq!(scene.profiles(), [""; 0], "a profile was made beyond the limit on file sizes");
    scene.run(scene.command(&["conditions", "10"]).env_remove("LOCKPROF_FILE"));
    assert_eq!(scene.profiles(), [""; 0]);
}

#[test]
fn no_file_is_made_for_a_profile_that_would_be_too_large() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    let changed = || fs::metadata(scene.path("")).unwrap().modified().unwrap();
    let before = changed();
    let mut command = scene.command(&["plain", "10"]);
    scene.run(command.env("LOCKPROF_THREADS", "65536").env("LOCKPROF_ROWS", "4096"));
    assert_eq!(changed(), before, "a file was made in the directory for a moment");
    scene.run(&mut scene.command(&["plain", "10"]));
    assert_ne!(changed(), before, "the check does not see a file that is made");
}

#[test]
fn a_file_that_is_there_is_left_alone() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    fs::write(scene.path("profile"), "precious").unwrap();
    scene.run(&mut scene.command(&["plain", "10"]));
    assert_eq!(fs::read_to_string(scene.path("profile")).unwrap(), "precious");
    assert_eq!(scene.profiles().len(), 2);
}

#[test]
fn more_threads_than_blocks_are_lost_and_counted() {
    let Some(scene) = Scene::compile("lives.c") else { return };
    scene.run(scene.command(&["short lives", "400"]).env("LOCKPROF_THREADS", "1"));
    let reading = scene.take("profile");
    let mutex = by_kind(&reading)["mutex"];
    assert_eq!(mutex.count + reading.counts.lost, 800, "{:?}", reading.counts);
}

/// Returns a function that runs a script in the scene's directory, after the mount command `mount`.
/// Prints a message and returns `None` if nothing can be mounted.
fn mounted(scene: &Scene, mount: &str, what: &str) -> Option<impl Fn(&str) -> Command> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-ec"]).current_dir(scene.path(""));
        command.env("LIBRARY", library()).arg(script);
        command
    };
    if unshare(mount).output().is_ok_and(|output| output.status.success()) {
        return Some(move |run: &str| unshare(&format!("{mount}; {run}")));
    }
    println!("nothing can be mounted: {what} is not tried");
    None
}

#[test]
fn where_nothing_can_be_allocated_zeros_are_written() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    // A ramfs cannot allocate a part of a file in advance.
    let mount = "mkdir -p plain; mount -t ramfs none plain";
    let Some(shell) = mounted(&scene, mount, "a plain file system") else { return };
    let run = "if fallocate -l 4096 plain/file 2>/dev/null; then echo allocates; fi
               env LD_PRELOAD=\"$LIBRARY\" LOCKPROF_FILE=plain/profile LOCKPROF_THREADS=16 \
               ./program threads 8; cp plain/profile .";
    let output = scene.run(&mut shell(run));
    assert!(
        !String::from_utf8_lossy(&output.stdout).contains("allocates"),
        "ramfs can allocate now"
    );
    let reading = scene.take("profile");
    compare(&output, &reading, "a plain file system");
    assert_eq!(reading.counts.lost, 0);
}

#[test]
fn on_a_full_disk_threads_without_room_are_lost_and_none_is_killed() {
    let Some(scene) = Scene::compile("lives.c") else { return };
    let mount = "mkdir -p full; mount -t tmpfs -o size=1400k none full";
    let Some(shell) = mounted(&scene, mount, "a full disk") else { return };
    // The disk has enough room for the shared part of a profile and the block of one thread.
    let run = "env LD_PRELOAD=\"$LIBRARY\" LOCKPROF_FILE=full/profile LOCKPROF_THREADS=256 \
               ./program 'short lives' 400; cp full/profile .";
    scene.run(&mut shell(run));
    let reading = scene.take("profile");
    assert_eq!(reading.threads.len(), 1, "{:?}", reading.counts);
    let mutex = by_kind(&reading)["mutex"];
    assert_eq!(mutex.count + reading.counts.lost, 800, "{:?}", reading.counts);
}
