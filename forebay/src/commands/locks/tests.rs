//! Damaged and malicious profiles.

use std::path::Path;

use forebay_sync::profile::{
    LockNow, ModuleRead, PairTotals, ProfileSnapshot, SampleRead, SiteKind, StackRead, ThreadNow,
    hash_words,
};

use super::columns::SortOrder;
use super::names::SiteNames;
use super::summary::Summary;
use super::summary::tests::bytes;
use super::{call_stacks, flame, json, matrix, now, stale_binaries, table, threads};

#[test]
fn any_content_of_a_profile_can_be_shown() {
    const HEADER_BYTES: usize = 1024;
    let whole = bytes();
    let dir = tempfile::tempdir().expect("a folder");
    let pipe = dir.path().join("pipe").display().to_string();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()));
    let paths = ["", "/", "x", "[vdso]", "/dev/zero", "/no/such.so", "/bin/sh", &pipe];
    let mut random = 1;
    let mut next = || {
        random = hash_words(&[random]);
        random
    };
    for round in 0..300 {
        let mut changed = whole.clone();
        for _ in 0..=next() % 200 {
            let word = HEADER_BYTES / 8 + next() as usize % ((whole.len() - HEADER_BYTES) / 8);
            let value = [u64::MAX, 1, next(), next() >> 40][next() as usize % 4];
            changed[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
        }
        let mut reading = ProfileSnapshot::of(&changed[..]).expect("its header is whole");
        for kind in [SiteKind::Places, SiteKind::Stacks] {
            reading.about.kind = kind;
            let shown = shown(&reading);
            assert!(shown.iter().all(|text| !text.is_empty()), "round {round}");
            spoil(&mut reading, &paths, |below| next() % below);
        }
    }
}

/// Returns all texts that are printed for a profile.
fn shown(reading: &ProfileSnapshot) -> Vec<String> {
    let mut names = SiteNames::of(reading);
    let summary = Summary::named(&mut names);
    let sort = SortOrder::Lost;
    let form =
        threads::ThreadOptions { sort, lines_max: usize::MAX, with_bars: true, is_running: false };
    let listed = json::ReportOptions { sort, lines_max: usize::MAX };
    stale_binaries::lines(reading);
    let mut shown = vec![
        table::text(&summary, SortOrder::Lost, usize::MAX),
        table::histograms(&summary, SortOrder::Lost, usize::MAX),
        threads::text(&mut names, &summary, form),
        matrix::text(&summary, usize::MAX),
        call_stacks::text(&call_stacks::of(&mut names, &reading.threads), usize::MAX, "none"),
        json::report(Path::new("x"), &mut names, &summary, listed).to_string(),
    ];
    let [svg, folded] = flame::picture(&mut names, &summary);
    // A profile without waits has nothing to draw.
    shown.extend([svg, format!("{folded}.")]);
    shown.extend(now::shown(reading));
    shown
}

/// Replaces the modules, stacks, samples and current locks of a profile by random values.
fn spoil(reading: &mut ProfileSnapshot, paths: &[&str], mut next: impl FnMut(u64) -> u64) {
    let keys: Vec<u64> = reading.sites.keys().copied().chain([0, 7]).collect();
    reading.modules = (0..next(20))
        .map(|_| {
            let path = paths[next(paths.len() as u64) as usize].into();
            let (start, end) = (next(1 << 20), next(1 << 20));
            ModuleRead { start, end, file_offset: [0, next(1 << 20), !0][next(3) as usize], path }
        })
        .collect();
    let frame = [0, 1, 1 << 19, !0];
    for key in &keys {
        let count = [0, 1, 20, 300][next(4) as usize];
        let mut frames = || -> Vec<u64> {
            (0..count).map(|_| frame[next(4) as usize] ^ next(1 << 20)).collect()
        };
        let stack = StackRead { site: *key, frames: frames() };
        reading.stacks.insert(*key, stack);
        if let Some(site) = reading.sites.get_mut(key) {
            site.frames = frames();
        }
    }
    let mut key = || keys[next(keys.len() as u64) as usize];
    for thread in &mut reading.threads {
        let sampled = PairTotals { wait_count: key(), wait_ns: key(), ..PairTotals::default() };
        let sample = || SampleRead { stack: key(), holder: key(), waiter: key(), totals: sampled };
        thread.samples = std::iter::repeat_with(sample).take(20).collect();
    }
    let mut lock =
        || LockNow { since_unix_ns: key(), lock: key(), site: key(), is_shared: key() % 2 == 0 };
    let thread = |tid| ThreadNow {
        tid,
        name: String::new(),
        holds: [lock(), lock()].into(),
        awaited: Some(lock()),
    };
    reading.now = (0..20).map(thread).collect();
}
