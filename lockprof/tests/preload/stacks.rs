//! Tests that callers of callers are found on a thread's own stack, and that no other memory is
//! searched for them.

use forebay_sync::profile::ProfileSnapshot;

use crate::scene::{Scene, compare};

fn run(scene: &Scene, case: &str) -> ProfileSnapshot {
    let output = scene.run(scene.command(&[case]).env("LOCKPROF_STACKS", "6"));
    let reading = scene.take("profile");
    compare(&output, &reading, case);
    reading
}

#[test]
fn no_stack_and_no_frame_makes_a_program_crash() {
    let Some(scene) = Scene::compile("stacks.c") else { return };
    run(&scene, "hostile");
}

#[test]
fn callers_are_found_on_stacks_of_threads_and_on_one_that_has_grown() {
    let Some(scene) = Scene::compile("stacks.c") else { return };
    for (case, frame_count_min) in [("thread", 3), ("deep", 4)] {
        let reading = run(&scene, case);
        let counts: Vec<_> = reading.sites.values().map(|site| site.frames.len()).collect();
        assert!(counts.iter().all(|count| *count >= frame_count_min), "{case}: {counts:?}");
    }
}

#[test]
fn of_a_foreign_stack_the_nearest_caller_is_known() {
    let Some(scene) = Scene::compile("stacks.c") else { return };
    let reading = run(&scene, "coroutine");
    let counts: Vec<_> = reading.sites.values().map(|site| site.frames.len()).collect();
    assert_eq!(counts, [1]);
}
