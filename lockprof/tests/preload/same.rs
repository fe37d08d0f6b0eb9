//! Tests that the replaced functions return the same results as without the library.

use std::process::Command;

use crate::scene::Scene;

#[test]
fn times_and_clocks_that_are_none_are_answered_as_without_us() {
    let Some(scene) = Scene::compile("times.c") else { return };
    let text = |command: &mut Command| String::from_utf8(scene.run(command).stdout).unwrap();
    let bare = text(&mut Command::new(scene.path("program")));
    let recorded = text(&mut scene.command(&[]));
    let mut lines = bare.lines().zip(recorded.lines());
    let other = lines.find(|(bare, recorded)| bare != recorded);
    assert_eq!((other, bare.len()), (None, recorded.len()));
    assert!(bare.lines().count() > 5000 && bare.contains(": 22 "), "cases are missing");
    assert_eq!(scene.take("profile").counts.lost, 0);
}

#[test]
fn errno_stays_as_it_was_while_profiles_are_made_and_signals_come_in() {
    let Some(scene) = Scene::compile("errno.c") else { return };
    scene.compare_all(&[], 20);
}
