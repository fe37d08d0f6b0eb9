//! One program writes and another one reads.

use std::process::Command;

use forebay_testkit::has_compiler;

use crate::build::{compile, crate_dir, languages, library_dir, pairs, table_c};
use crate::program::{Program, run};

#[test]
fn each_language_reads_the_writes_of_the_other() {
    for (writer, reader) in pairs() {
        let case = format!("{writer:?} writes, {reader:?} reads");
        let dir = tempfile::tempdir().unwrap();
        let region = &dir.path().join("own/region");
        for (key, value) in [("lyon", "Rhone"), ("london", "Thames"), ("paris", "Seine")] {
            assert!(run(&writer, region, &["put", key, value]).0, "{case}");
        }
        let cases: &[(&[&str], bool, &str)] = &[
            (&["get", "lyon"], true, "lyon = Rhone\n"),
            (&["get", "rome"], false, "absent\n"),
            (&["list"], true, "london = Thames\nlyon = Rhone\nparis = Seine\n"),
            (&["list", "lo"], true, "london = Thames\n"),
            (&["back", "l"], true, "lyon = Rhone\nlondon = Thames\n"),
            (&["list", "x"], true, ""),
        ];
        for (arguments, is_found, output) in cases {
            let expected = (*is_found, (*output).to_owned());
            assert_eq!(run(&reader, region, arguments), expected, "{case}: {arguments:?}");
        }
        assert!(run(&writer, region, &["put", "lyon", ""]).0, "{case}");
        assert_eq!(run(&reader, region, &["get", "lyon"]), (true, "lyon =\n".to_owned()), "{case}");
        assert!(run(&reader, region, &["remove", "lyon"]).0, "{case}");
        assert!(!run(&writer, region, &["remove", "lyon"]).0, "{case}");
        let (_, output) = run(&reader, region, &["check"]);
        assert_eq!(output, "sound: 1 maps, 2 entries, 0 dead swept\n", "{case}");
        let (_, output) = run(&writer, region, &["stats"]);
        assert!(output.starts_with("len 2, "), "{case}: {output}");
    }
}

#[test]
fn a_cursor_goes_on_over_the_changes_of_another_process() {
    for (walker, changer) in pairs() {
        let case = format!("{walker:?} walks, {changer:?} changes");
        let dir = tempfile::tempdir().unwrap();
        let region = &dir.path().join("own/region");
        let change = |arguments: &[&str]| assert!(run(&changer, region, arguments).0, "{case}");
        for key in ["a", "b", "c", "d"] {
            change(&["put", key, "first"]);
        }
        let mut walk = Program::start(&walker, region, &["walk"]);
        let mut asks = |asked: &str, output: &str| {
            assert_eq!(walk.ask(asked), output, "{case}: {asked}");
        };
        asks("item", "nowhere");
        asks("next", "a = first");
        asks("next", "b = first");
        change(&["put", "b", "second"]);
        asks("item", "b = first");
        change(&["remove", "b"]);
        asks("item", "b = first");
        change(&["put", "bb", "between"]);
        asks("next", "bb = between");
        asks("next", "c = first");
        change(&["remove", "c"]);
        change(&["put", "b", "third"]);
        asks("previous", "bb = between");
        asks("previous", "b = third");
        asks("next", "bb = between");
        asks("next", "d = first");
        asks("next", "nowhere");
        asks("previous", "d = first");
        drop(walk);
        let (_, output) = run(&changer, region, &["check"]);
        assert_eq!(output, "sound: 1 maps, 4 entries, 1 dead swept\n", "{case}");
    }
}

#[test]
fn a_failure_names_the_side_of_its_cause() {
    for language in languages() {
        let dir = tempfile::tempdir().unwrap();
        let region = dir.path().join("own/region");
        let of = |key: &str| language.command().arg(&region).args(["put", key, ""]).output();
        let output = of(&"x".repeat(9000)).unwrap();
        assert_eq!(output.status.code(), Some(2), "{language:?}");
        let output = String::from_utf8_lossy(&output.stderr);
        let expected = "caller: the key is too long: the key is longer than 8192 bytes";
        assert_eq!(output.trim_end(), expected, "{language:?}");
        std::fs::remove_file(&region).unwrap();
        std::fs::create_dir(&region).unwrap();
        let output = of("key").unwrap();
        let output = String::from_utf8_lossy(&output.stderr);
        assert!(output.starts_with("caller: an argument is invalid: "), "{language:?}: {output}");
        assert!(output.contains("is not a plain file"), "{language:?}: {output}");
    }
}

#[test]
fn the_static_library_is_whole() {
    let archive = library_dir().join("libforebay_capi.a");
    let system = ["-lpthread", "-ldl", "-lm", "-lgcc_s"];
    let Some(program) = compile("table-static", &table_c(), |cc| cc.arg(archive).args(system))
    else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let put = Command::new(program).arg(dir.path().join("own/region")).args(["fill", "3"]).output();
    assert_eq!(String::from_utf8_lossy(&put.unwrap().stdout), "0\n1\n2\n");
}

#[test]
fn the_header_is_one_of_other_languages_too() {
    let header = crate_dir().join("include/forebay_ordmap.h");
    let compilers: [(&str, &[&str]); 4] = [
        ("cc", &["-x", "c", "-std=c99"]),
        ("cc", &["-x", "c", "-std=c2x"]),
        ("c++", &["-x", "c++", "-std=c++11"]),
        ("c++", &["-x", "c++", "-std=c++20"]),
    ];
    for (compiler, arguments) in compilers {
        if !has_compiler(compiler) {
            continue;
        }
        let mut command = Command::new(compiler);
        command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror"]).args(arguments);
        let output = command.arg(&header).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{compiler} {arguments:?}: {errors}");
    }
}
