//! Replays every corpus file of the fuzz targets, so that a plain `cargo test` covers the fuzzer's
//! findings. With `FUZZ_RUNS=n` each target also runs on n mutations of its corpus, for machines
//! without a fuzzer; a failure prints the seed and the text.

use std::{fs, path::Path};

#[path = "../../fuzz/rules_bodies.rs"]
mod bodies;
#[path = "../../fuzz/rules_run_body.rs"]
mod run_body;

fn replay(target: &str, body: fn(&[u8])) {
    let corpus = files(target);
    for (name, bytes) in &corpus {
        println!("{name}");
        body(bytes);
    }
    assert!(corpus.len() >= 10, "only {} files", corpus.len());
    let run_count = std::env::var("FUZZ_RUNS").ok().and_then(|text| text.parse().ok());
    if let Some(run_count) = run_count {
        mutate(target, &corpus, run_count, body);
    }
}

fn files(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let paths = fs::read_dir(&folder).expect("the target has a corpus").map(|file| {
        let path = file.expect("the corpus can be listed").path();
        (path.display().to_string(), fs::read(&path).expect("a corpus holds files"))
    });
    let mut files: Vec<_> = paths.collect();
    files.sort();
    files
}

/// A generator of pseudorandom numbers (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

fn mutate(target: &str, corpus: &[(String, Vec<u8>)], run_count: u64, body: fn(&[u8])) {
    for seed in 1..=run_count {
        if seed % 10_000 == 0 {
            println!("{target}: {seed} mutations");
        }
        let mut random = Random(seed << 32 | 0x9e37_79b9);
        let mut bytes = corpus[random.below(corpus.len())].1.clone();
        for _ in 0..1 + random.below(4) {
            let other = &corpus[random.below(corpus.len())].1;
            change(&mut bytes, other, &mut random);
        }
        bytes.truncate(4_096);
        if std::panic::catch_unwind(|| body(&bytes)).is_err() {
            panic!("seed {seed}: {:?}", String::from_utf8_lossy(&bytes));
        }
    }
}

/// Makes one random change to a text: sets a byte, removes a range, replaces it by a range of
/// another file, inserts a line of that file, or appends the whole file.
fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let stretch = |text: &[u8], random: &mut Random| {
        let start = random.below(text.len());
        start..(start + random.below(40)).min(text.len())
    };
    let lines = |text: &[u8], random: &mut Random| {
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        lines.get(random.below(lines.len())).map(|line| line.to_vec()).unwrap_or_default()
    };
    let line_start = |text: &[u8], random: &mut Random| {
        let at = random.below(text.len() + 1);
        text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
    };
    match random.below(6) {
        0 if !bytes.is_empty() => {
            let at = random.below(bytes.len());
            bytes[at] = random.below(256) as u8;
        }
        1 => drop(bytes.drain(stretch(bytes, random))),
        2 => {
            let from = other[stretch(other, random)].to_vec();
            let at = stretch(bytes, random);
            drop(bytes.splice(at, from));
        }
        3 => bytes.extend_from_slice(other),
        _ => {
            let (at, line) = (line_start(bytes, random), lines(other, random));
            drop(bytes.splice(at..at, line));
        }
    }
}

#[test]
fn every_corpus_file_is_read() {
    replay("rules_read", bodies::rules_read);
}

#[test]
fn every_corpus_file_runs() {
    replay("rules_run", run_body::rules_run);
}
