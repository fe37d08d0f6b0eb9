//! The budget is never exceeded, whatever is stored, held or growing.

use super::*;

#[test]
fn mixed_sizes_never_exceed_the_budget() {
    let mut rng = Rng::from_environment("mixed sizes");
    let store = seeded_store(config(512 * 1024), rng.next());
    let mut held = Vec::new();
    for round in 0..20_000_u64 {
        let key = rng.below(400).to_le_bytes();
        if let Some(record) = found(&store, &key) {
            // Some clients are slow: what they hold leaves the table, but not the budget.
            if rng.below(8) == 0 && held.len() < 20 {
                held.push(record);
            }
        } else {
            let body = content(round, rng.size(60_000) as usize);
            fill(&store, &key, None, &body);
        }
        if rng.below(16) == 0 {
            held.clear();
        }
        let stats = store.stats();
        assert!(stats.used_bytes <= stats.budget_bytes, "round {round}: {stats:?}");
        if round % 500 == 0 {
            check(&store);
        }
    }
    drop(held);
    check_at_rest(&store);
    assert!(store.stats().evicted > 1000, "{:?}", store.stats());
}

#[test]
fn a_record_that_is_still_sent_stays_charged() {
    let store = store(config(1 << 20));
    assert!(fill(&store, b"a", None, &content(1, 50_000)));
    let record = found(&store, b"a").unwrap();
    store.purge(b"a");
    assert!(store.stats().lent_bytes >= 50_000);
    assert_eq!(body_of(&record), content(1, 50_000));
    drop(record);
    check_at_rest(&store);
}

#[test]
fn without_room_nothing_is_stored_and_nothing_fails() {
    let store = store(config(256 * 1024));
    // Clients hold everything that was ever stored.
    let mut held = Vec::new();
    for i in 0..200_u64 {
        if fill(&store, &i.to_le_bytes(), None, &content(i, 8000)) {
            held.extend(found(&store, &i.to_le_bytes()));
        }
        check(&store);
    }
    let stats = store.stats();
    assert!(held.len() < 40 && stats.refused_no_room > 100, "{} held, {stats:?}", held.len());
    for (i, record) in held.iter().enumerate() {
        assert_eq!(body_of(record)[..8], (i as u64).to_le_bytes());
    }
    held.clear();
    assert!(fill(&store, b"a", None, &content(1, 8000)), "room is back");
    check_at_rest(&store);
}
