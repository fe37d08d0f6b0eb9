//! Tests of reading bytes that are a truncated or changed profile, or no profile at all.

use super::*;
use crate::profile::plan::{HEADER_WORDS, header};

/// A profile in which something was recorded.
fn used() -> Vec<u8> {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    visit(profile, &mut recorder, 1, 5);
    profile.set_stack_sample(1);
    recorder.try_failed(profile, &Line(5), 64, 9);
    profile.add_module(1, 2, 3, "/lib");
    bytes(profile)
}

fn error(bytes: &[u8]) -> String {
    ProfileSnapshot::of(bytes).err().map_or_else(String::new, |error| error.to_string())
}

#[test]
fn a_profile_that_is_cut_off_is_reported_as_such() {
    let whole = used();
    assert_eq!(error(&whole), "");
    assert_eq!(error(&[&whole[..], &[0; 8]].concat()), "", "bytes after the profile are ignored");
    let all = whole.len();
    for (length, expected) in [
        (0, "this is not a lock profile".to_owned()),
        (7, "this is not a lock profile".to_owned()),
        (8, "the profile is cut off: it has 8 of 1024 bytes".to_owned()),
        (1023, "the profile is cut off: it has 1023 of 1024 bytes".to_owned()),
        (1024, format!("the profile is cut off: it has 1024 of {all} bytes")),
        (all - 1, format!("the profile is cut off: it has {} of {all} bytes", all - 1)),
    ] {
        assert_eq!(error(&whole[..length]), expected, "{length} bytes");
    }
}

#[test]
fn every_changed_bit_of_the_header_is_noticed() {
    let whole = used();
    for byte in 0..(header::CHECK + 1) * 8 {
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[byte] ^= 1 << bit;
            assert_ne!(error(&changed), "", "bit {bit} of byte {byte}");
        }
    }
    let mut newer = whole.clone();
    newer[8] = 3;
    assert_eq!(
        error(&newer),
        "the profile has layout version 3, but this program reads version 2: use a newer program"
    );
    let mut older = whole.clone();
    older[8] = 1;
    assert_eq!(
        error(&older),
        "the profile has layout version 1, but this program reads version 2: record a new profile"
    );
    let mut other = whole;
    other[0] = b'X';
    assert_eq!(error(&other), "this is not a lock profile");
}

#[test]
fn a_header_that_fits_itself_and_not_the_bounds_is_damaged() {
    let whole = used();
    for (word, value) in [
        (header::SITES, u64::MAX),
        (header::MODULES, 1 << 63),
        (header::ROWS, u64::MAX),
        (header::TEXT_BYTES, u64::MAX),
        (header::STACKS, u64::MAX),
        (header::STACKS, 8),
        (header::SAMPLES, 1 << 40),
        (header::SAMPLES, 0),
        (header::FILE_BYTES, 8),
        (header::PID, u64::MAX),
    ] {
        let mut changed = whole.clone();
        changed[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
        let words: Vec<u64> = changed[..header::CHECK * 8]
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        changed[header::CHECK * 8..][..8].copy_from_slice(&hash_words(&words).to_le_bytes());
        assert!(
            error(&changed).starts_with("the profile is damaged: "),
            "{word}: {}",
            error(&changed)
        );
    }
}

#[test]
fn no_changed_record_harms_a_reader() {
    let whole = used();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..3000 {
        let mut changed = whole.clone();
        for _ in 0..1 + round % 200 {
            random = hash_words(&[random]);
            let from = HEADER_WORDS / 4 * 8;
            let at = from + random as usize % (changed.len() - from);
            changed[at] = (random >> 40) as u8;
        }
        let reading = ProfileSnapshot::of(&changed[..]).unwrap();
        let mut all = SiteTotals::default();
        for (_, row) in reading.threads.iter().flat_map(|thread| &thread.rows) {
            all.add(row);
        }
        assert!(reading.sites.len() <= 1 && reading.modules.len() <= 1, "round {round}");
        let samples: usize = reading.threads.iter().map(|thread| thread.samples.len()).sum();
        assert!(reading.stacks.len() <= 1 && samples <= 3 * 8, "round {round}");
    }
}

#[test]
fn a_changed_site_is_ignored() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    visit(profile, &mut recorder, 1, 5);
    let row = profile.plan().sites_start() + 5 * profile.plan().site_words();
    for word in 0..profile.plan().site_words() {
        let mut changed = bytes(profile);
        changed[(row + word) * 8] ^= 1;
        let reading = ProfileSnapshot::of(&changed[..]).unwrap();
        assert!(reading.sites.is_empty(), "word {word}: {:?}", reading.sites);
        assert_eq!(total(&reading, 5).count, 1);
    }
}

#[test]
fn a_changed_stack_is_ignored() {
    let profile = profile(SMALL);
    profile.set_stack_sample(1);
    let mut recorder = Recorder::new();
    assert!(recorder.begin(profile, || thread(1)));
    recorder.try_failed(profile, &Line(5), 64, 9);
    let whole = read(profile);
    let (key, plan) = (whole.threads[0].samples[0].stack, profile.plan());
    assert!(whole.stacks.contains_key(&key));
    let row = plan.stacks_start()
        + (key as usize & (plan.stacks.stacks as usize - 1)) * plan.stack_words();
    for word in 0..plan.stack_words() {
        let mut changed = bytes(profile);
        changed[(row + word) * 8] ^= 1;
        let reading = ProfileSnapshot::of(&changed[..]).unwrap();
        assert!(reading.stacks.is_empty(), "word {word}: {:?}", reading.stacks);
        assert_eq!(reading.threads[0].samples[0].totals.try_failed_count, 1);
    }
}

#[test]
fn a_name_has_nothing_that_a_terminal_obeys() {
    let profile = profile(SMALL);
    let name = "\x1b[2Jred\n\u{202e}der\u{2066}\u{ffff}\u{e9}";
    profile.describe(1, &SiteDescription { name, ..SiteDescription::default() });
    let plain = "\u{fffd}[2Jred\u{fffd}\u{fffd}der\u{fffd}\u{fffd}\u{e9}";
    assert_eq!(&*read(profile).sites[&1].name, plain);
}
