//! Replays every corpus file of the fuzz targets, and mutations of each.
//!
//! `FUZZ_RUNS` is the number of mutations of each file; a failure prints the seed, which
//! `FOREBAY_SEED` accepts.

use std::path::Path;
use std::{env, fs};

#[path = "../../fuzz/http2_bodies.rs"]
mod bodies;

/// Marsaglia's xorshift generator.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    /// Changes a few bytes, or repeats, removes or exchanges pieces.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const SPICE: &[u8] = &[0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 32, 0x40, 0x7f, 0x80, 0xbe, 0xff];
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len());
            let end = bytes.len().min(at + 1 + self.below(30));
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = SPICE[self.below(SPICE.len())],
                2 => drop(bytes.drain(at..end.max(at))),
                3 => {
                    let piece = bytes[at..end.max(at)].to_vec();
                    bytes.splice(at..at, piece);
                }
                4 => {
                    let piece = bytes[at..end.max(at)].to_vec();
                    bytes.extend(piece);
                }
                _ => bytes.insert(at, SPICE[self.below(SPICE.len())]),
            }
        }
    }
}

#[test]
fn every_corpus_file_and_its_mutations_have_the_properties() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let runs = number("FUZZ_RUNS").unwrap_or(300);
    let seed = number("FOREBAY_SEED").unwrap_or(0x6c62_272e_07bb_0142);
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (target, body) in
        [("http2_connection", bodies::http2_connection as fn(&[u8])), ("hpack", bodies::hpack)]
    {
        let mut file_count = 0;
        for file in fs::read_dir(corpora.join(target)).expect("each target has a corpus") {
            let path = file.expect("the corpus can be listed").path();
            let bytes = fs::read(&path).expect("a corpus holds files");
            println!("{} FOREBAY_SEED={seed}", path.display());
            body(&bytes);
            let mut random = Xorshift(seed);
            for _ in 0..runs {
                let mut mutated = bytes.clone();
                random.mutate(&mut mutated);
                body(&mutated);
            }
            file_count += 1;
        }
        assert!(file_count >= 20, "{target} has only {file_count} files");
    }
}
