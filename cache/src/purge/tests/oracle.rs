//! Random purges and fills, whose verdicts are compared with those of a list of all purges.

use super::super::sites::site_of_matches;
use super::*;
use forebay_testkit::Rng;

const STEPS: usize = 20_000;

/// Returns a random short key. The keys are of a few sites and consist of two different bytes, so
/// that many share a prefix.
fn key(rng: &mut Rng) -> Vec<u8> {
    let site: &[u8] = [&b"x\0"[..], b"y\0", b""][rng.below(3)];
    let rest = (0..1 + rng.below(5)).map(|_| b'a' + rng.below(2) as u8);
    site.iter().copied().chain(rest).collect()
}

/// A random predicate, sometimes one that does not fit into a slot.
fn predicate(rng: &mut Rng) -> OwnedPredicate {
    let mut bytes = key(rng);
    if rng.below(10) == 0 {
        bytes.resize(PREDICATE_BYTES_MAX - 2 + rng.below(8), b'a');
    }
    match rng.below(20) {
        0 => OwnedPredicate::All,
        1..8 => OwnedPredicate::Prefix(bytes.into()),
        _ => OwnedPredicate::Key(bytes.into()),
    }
}

/// The verdict of a ring that keeps all purges.
fn is_purged(all: &[OwnedPredicate], noted: u64, key: &[u8]) -> bool {
    let newer = &all[noted as usize..];
    newer.iter().map(|one| one.borrowed().fitted()).any(|one| match newer.len() < SLOTS {
        true => one.may_match(key),
        // The ring has lost some of them.
        false => site_of_matches(&one).is_none_or(|site| site == site_of(key)),
    })
}

#[test]
fn every_fill_gets_the_verdict_of_the_oracle() {
    let mut rng = Rng::of("every_fill_gets_the_verdict_of_the_oracle");
    let made = made(SLOTS);
    let mut all: Vec<OwnedPredicate> = Vec::new();
    let mut fills: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut counts = [0; 2];
    for step in 0..STEPS {
        match rng.below(3) {
            0 => {
                let predicate = predicate(&mut rng);
                let number = made.purges.announce(predicate.borrowed());
                all.push(predicate);
                assert_eq!(number, all.len() as u64, "step {step}");
            }
            1 => fills.push((made.purges.noted(), key(&mut rng))),
            _ if fills.is_empty() => {}
            _ => {
                let (noted, key) = fills.swap_remove(rng.below(fills.len()));
                let is_purged = is_purged(&all, noted, &key);
                let mut newer = all[noted as usize..].iter();
                let matches = newer.any(|one| one.borrowed().may_match(&key));
                assert!(is_purged || !matches, "step {step}: the oracle misses a purge");
                counts[usize::from(is_purged)] += 1;
                let now = all.len() as u64;
                let expected = if is_purged { PurgeVerdict::Purged } else { clear(now) };
                assert_eq!(
                    made.check(noted, &key),
                    expected,
                    "step {step}, noted {noted} of {now}"
                );
                assert_eq!(made.purges.widen(noted as u32), noted, "step {step}");
            }
        }
        let last = all.last().map(|one| (all.len() as u64, one.borrowed().fitted().into()));
        assert_eq!(made.purges.last(), last, "step {step}");
    }
    assert!(counts.iter().all(|count| *count > STEPS / 100), "a verdict is too rare: {counts:?}");
}
