//! A stored record that turns out to be good: its head is replaced, its body stays where it is.

use super::*;

fn validate(store: &Arc<Store>, known: &Arc<Record>) -> (Leader, Follower) {
    match store.join(b"a", None, Some(known), 0) {
        Join::Leader(leader, follower) => (leader, follower),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_head_shares_the_old_body() {
    let store = store(config(1 << 20));
    assert!(fill(&store, b"a", None, &content(1, 5000)));
    let known = found(&store, b"a").unwrap();
    let (leader, mut follower) = validate(&store, &known);
    leader.validated(b"new head");
    let Outcome::Validated(new) = outcome(&mut follower) else { panic!("no record") };
    let stored = found(&store, b"a").unwrap();
    assert!(Arc::ptr_eq(&new, &stored));
    assert_eq!((stored.head(), known.head()), (&b"new head"[..], &b"a"[..]));
    let [old, new] = [&known, &stored].map(|record| record.body().fragments(0..1).next().unwrap());
    assert!(std::ptr::eq(old, new), "the body was copied");
    // The one that is stored now is another than the one that was known.
    assert!(matches!(store.join(b"a", None, Some(&known), 0), Join::Stored));
    assert!(matches!(store.join(b"a", None, Some(&stored), 0), Join::Leader(..)));
    check(&store);
}

#[test]
fn a_variant_is_validated_alone() {
    let store = store(config(1 << 20));
    for variant in ["1", "2"] {
        assert!(fill(&store, b"a", base("n", variant), b"x"));
    }
    let known = store.lookup_variant(b"a", b"n", b"2").unwrap();
    let Join::Leader(leader, _) = store.join(b"a", Some(b"2"), Some(&known), 0) else { panic!() };
    leader.validated(b"new head");
    for (variant, head) in [(b"1", &b"a"[..]), (b"2", b"new head")] {
        assert_eq!(store.lookup_variant(b"a", b"n", variant).unwrap().head(), head);
    }
    drop(known);
    check_at_rest(&store);
}

/// What happens to the known record while it is validated; the followers are served in any case.
#[test]
fn a_record_that_left_while_it_was_validated_does_not_come_back() {
    type Act = fn(&Arc<Store>);
    let cases: [(&str, Act, bool); 3] = [
        ("nothing", |_| (), true),
        ("purge", |store| _ = store.purge(b"a"), false),
        (
            "replaced after a purge",
            |store| {
                store.purge(b"a");
                assert!(fill(store, b"a", None, b"other"));
            },
            false,
        ),
    ];
    for (name, act, stays) in cases {
        let store = store(config(1 << 20));
        assert!(fill(&store, b"a", None, b"body"));
        let known = found(&store, b"a").unwrap();
        let (leader, mut follower) = validate(&store, &known);
        act(&store);
        leader.validated(b"new head");
        let Outcome::Validated(new) = outcome(&mut follower) else { panic!("{name}") };
        assert_eq!((new.head(), body_of(&new)), (&b"new head"[..], b"body".to_vec()), "{name}");
        let stored = found(&store, b"a").is_some_and(|stored| Arc::ptr_eq(&stored, &new));
        assert_eq!(stored, stays, "{name}");
        drop((known, new));
        check_at_rest(&store);
    }
}

/// Else a request that begins after the purge could follow the validation and get what was purged.
#[test]
fn a_record_that_has_left_cannot_be_validated() {
    let store = store(config(1 << 20));
    for base in [None, base("n", "1")] {
        let variant = base.as_ref().map(|_| &b"1"[..]);
        assert!(fill(&store, b"a", base, b"old"));
        let known = match variant {
            None => found(&store, b"a").unwrap(),
            Some(variant) => store.lookup_variant(b"a", b"n", variant).unwrap(),
        };
        store.purge(b"a");
        assert!(matches!(store.join(b"a", variant, Some(&known), 0), Join::Stored), "{variant:?}");
        assert!(matches!(store.join(b"a", variant, None, 0), Join::Leader(..)), "{variant:?}");
    }
    check_at_rest(&store);
}

#[test]
fn another_response_replaces_the_known_record() {
    let store = store(config(1 << 20));
    assert!(fill(&store, b"a", None, b"old"));
    let known = found(&store, b"a").unwrap();
    let (leader, _) = validate(&store, &known);
    // Who finds the stale record meanwhile follows the same fetch.
    assert!(matches!(store.join(b"a", None, Some(&known), 0), Join::Follower(_)));
    let mut filling = begin(leader, b"", None);
    filling.append(b"new").unwrap();
    assert!(filling.finish());
    assert_eq!(body_of(&found(&store, b"a").unwrap()), b"new");
    assert_eq!(store.stats().record_count, 1);
    drop(known);
    check_at_rest(&store);
}
