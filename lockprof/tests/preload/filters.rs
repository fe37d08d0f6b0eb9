//! Tests with programs that forbid themselves system calls, and would be killed for making one.

use crate::scene::{Scene, compare};

#[test]
fn a_program_that_filters_its_calls_ends_as_it_would_and_is_counted_exactly() {
    let Some(scene) = Scene::compile("filters.c") else { return };
    for (case, profile_count) in [
        ("first", 1),
        ("late", 1),
        ("in a child", 2),
        ("all at once", 1),
        ("strict", 1),
        ("strict by system call", 1),
    ] {
        for stacks in ["1", "8"] {
            let mut command = scene.command(&[case]);
            let readings =
                scene.compare_all_of(command.env("LOCKPROF_STACKS", stacks), profile_count);
            let locks = readings.iter().flat_map(|reading| &reading.threads).count();
            assert!(locks > 0, "{case}");
        }
    }
}

#[test]
fn threads_that_begin_while_a_filter_is_set_up_end_well() {
    let Some(scene) = Scene::compile("filters.c") else { return };
    scene.compare_all(&["amid"], 40);
}

#[test]
fn a_thread_that_may_not_read_the_clock_records_nothing() {
    let Some(scene) = Scene::compile("filters.c") else { return };
    for case in ["no clock", "no clock from the beginning"] {
        let output = scene.run(&mut scene.command(&[case]));
        if case == "no clock" {
            compare(&output, &scene.take("profile"), case);
        }
        assert_eq!(scene.profiles(), [""; 0], "{case}");
    }
}

#[test]
fn a_filter_that_is_refused_changes_nothing() {
    let Some(scene) = Scene::compile("filters.c") else { return };
    scene.compare_all(&["refused"], 2);
}

#[test]
fn a_child_in_the_memory_of_its_parent_leaves_that_to_its_parent() {
    let Some(scene) = Scene::compile("filters.c") else { return };
    scene.compare_all(&["in a vfork"], 3);
}

#[test]
fn a_library_that_was_loaded_before_the_filter_is_known() {
    let Some(scene) = Scene::compile("filters.c") else { return };
    scene.compile_plugin("plugin.so", &[]);
    let reading = scene.compare(&["plugin"]);
    let is_plugin = |path: &str| path.ends_with("/plugin.so");
    assert!(reading.modules.iter().any(|module| is_plugin(&module.path)), "{:?}", reading.modules);
}
