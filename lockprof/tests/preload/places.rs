//! Tests of call sites: the callers, and the modules that they lie in.

use std::collections::BTreeSet;

use forebay_sync::profile::{ModuleRead, ProfileSnapshot, SiteRead};

use crate::scene::{Scene, compare};

/// Runs the program with its plugin, and returns the profile. `None` if there is no compiler.
fn run(variables: &[(&str, &str)]) -> Option<ProfileSnapshot> {
    let scene = Scene::compile("plugin.c")?;
    scene.compile_plugin("plugin.so", &[]);
    let output = scene.run(scene.command(&["./plugin.so"]).envs(variables.iter().copied()));
    let reading = scene.take("profile");
    compare(&output, &reading, "a plugin");
    Some(reading)
}

/// The file that each caller of a site lies in, without its directory.
fn files(reading: &ProfileSnapshot, site: &SiteRead) -> Vec<String> {
    let file_of = |address: &u64| {
        // A row without a path says that the module at these addresses was unloaded later.
        let is_it = |module: &&ModuleRead| {
            !module.path.is_empty() && (module.start..module.end).contains(address)
        };
        let module = reading.modules.iter().rfind(is_it);
        let path = &module.unwrap_or_else(|| panic!("{address:#x} lies in no module")).path;
        path.rsplit('/').next().unwrap_or_default().to_owned()
    };
    site.frames.iter().map(file_of).collect()
}

#[test]
fn a_library_that_is_loaded_later_is_known() {
    let Some(reading) = run(&[]) else { return };
    let files: BTreeSet<_> = reading.sites.values().map(|site| files(&reading, site)).collect();
    let expected = [vec!["plugin.so".to_owned()], vec!["program".to_owned()]];
    assert_eq!(files, BTreeSet::from(expected));
}

#[test]
fn a_library_that_lies_where_another_lay_is_known() {
    let Some(scene) = Scene::compile("plugin.c") else { return };
    scene.compile_plugin("one.so", &[]);
    scene.compile_plugin("two.so", &["-DPADDING"]);
    let names = ["./one.so", "./two.so", "./two.so", "./one.so", "./one.so"];
    let reading = scene.compare(&names);
    let rows_of = |name: &str| {
        let rows = reading.modules.iter().enumerate();
        let of_name = rows.filter(|(_, module)| module.path.ends_with(name));
        of_name.map(|(index, module)| (index, module.start)).collect::<Vec<_>>()
    };
    let (one, two) = (rows_of("/one.so"), rows_of("/two.so"));
    // The linker may map the two libraries at different addresses.
    if one[0].1 != two[0].1 {
        return println!("the libraries have different addresses: {one:?}, {two:?}");
    }
    // A library that was loaded again took no lock at a new call site, so no scan found it again.
    assert!(one.len() == 1 && two.len() == 1 && one[0].0 < two[0].0, "{one:?}, {two:?}");
    let last = reading.modules.iter().rfind(|module| module.start == one[0].1);
    assert_eq!(
        last.map(|module| &*module.path),
        Some(""),
        "a module is still reported there at the end"
    );
    assert_eq!(rows_of("/program").len(), 1, "a module that stays loaded is reported once");
}

#[test]
fn callers_of_callers_are_found_by_their_frames() {
    let Some(reading) = run(&[("LOCKPROF_STACKS", "4")]) else { return };
    let files: BTreeSet<_> = reading.sites.values().map(|site| files(&reading, site)).collect();
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    // The C library calls `main` of the program, and may have been built with or without frames.
    let is_as_expected = |files: &Vec<String>| {
        files.starts_with(&names(&["plugin.so", "plugin.so", "plugin.so", "program"]))
            || files.starts_with(&names(&["program", "program", "program"]))
    };
    assert!(files.len() == 2 && files.iter().all(is_as_expected), "{files:?}");
}

#[test]
fn a_lock_can_be_a_place_of_its_own() {
    let Some(reading) = run(&[("LOCKPROF_BY_LOCK", "1")]) else { return };
    let locks: BTreeSet<_> = reading.sites.values().map(|site| site.lock).collect();
    assert!(locks.len() == 2 && !locks.contains(&0), "{locks:?}");
}
