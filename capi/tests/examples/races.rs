//! Processes that change one key by compare-and-set.

use crate::build::{Language, languages};
use crate::program::{Program, run};

#[test]
fn additions_of_several_processes_are_all_there() {
    const COUNT: u64 = 1000;
    let languages = languages();
    let dir = tempfile::tempdir().unwrap();
    let region = &dir.path().join("own/region");
    // Each language runs two processes, so that some of them always overlap.
    let begin = |language: &Language| {
        Program::start(language, region, &["add", "counter", &COUNT.to_string()])
    };
    let programs: Vec<_> = languages.iter().chain(&languages).map(begin).collect();
    let count = programs.len() as u64;
    let mut again = 0;
    for mut program in programs {
        let output = program.hear().unwrap();
        let tried = output.split_once("tried again ").and_then(|(_, rest)| rest.split_once(' '));
        again += tried.unwrap().0.parse::<u64>().unwrap();
        assert!(program.end(), "{output}");
    }
    println!("{again} of {} additions were too late and were tried again", count * COUNT);
    for language in &languages {
        let expected = format!("counter = {}\n", count * COUNT);
        assert_eq!(run(language, region, &["get", "counter"]), (true, expected), "{language:?}");
    }
}
