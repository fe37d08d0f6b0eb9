//! Writers that are killed while others continue.

use std::path::Path;

use crate::build::{Language, languages};
use crate::program::{Program, run};
use forebay_testkit::Rng;

fn kill_count() -> u64 {
    std::env::var("FOREBAY_KILLS").map_or(20, |count| count.parse().unwrap())
}

/// Runs a writer until it is killed. Returns the last row that it reported.
fn killed_writer(language: &Language, region: &Path, after: usize) -> u64 {
    let mut writer = Program::start(language, region, &["fill"]);
    let mut last = None;
    for _ in 0..=after {
        last = writer.hear();
    }
    writer.kill();
    while let Some(line) = writer.hear() {
        last = Some(line);
    }
    last.unwrap().parse().unwrap()
}

#[test]
fn writers_that_are_killed_have_written_what_they_said() {
    let languages = languages();
    let Some(writer) = languages.first() else { return };
    let mut random = Rng::of("writers_that_are_killed_have_written_what_they_said");
    let dir = tempfile::tempdir().unwrap();
    let region = &dir.path().join("own/region");
    for kill in 1..=kill_count() {
        let row = killed_writer(writer, region, random.below(600));
        // Python takes longer to start than all other steps together.
        let survivor = &languages[kill as usize % languages.len()];
        let case = format!("kill {kill}, {survivor:?}");
        let key = format!("row {:08}", row % 5000);
        let expected = format!("{key} = this is {key}, {row}\n");
        assert_eq!(run(survivor, region, &["get", &key]), (true, expected), "{case}");
        // This command needs a lock that the killed writer may have held.
        assert!(run(survivor, region, &["add", "counter", "3"]).0, "{case}");
        let (_, output) = run(survivor, region, &["check"]);
        assert!(output.starts_with("sound: 1 maps, "), "{case}: {output}");
    }
    let expected = format!("counter = {}\n", 3 * kill_count());
    for language in &languages {
        let found = run(language, region, &["get", "counter"]);
        assert_eq!(found, (true, expected.clone()), "{language:?}");
        println!("{} kills, {}", kill_count(), run(language, region, &["stats"]).1.trim_end());
    }
}
