//! Tests of the states that the next owner of the purge lock may find. The tests make each state of
//! the table in the module `purge` by hand.

use super::*;

#[test]
fn a_store_without_purges_has_no_last_purge() {
    assert_eq!(made(SLOTS).purges.last(), None);
}

/// The step at which a purger of the key "dead" dies, and the last purge after its death.
struct Death {
    died: &'static str,
    die: fn(&Made),
    last: (u64, &'static [u8]),
}

const DEATHS: &[Death] = &[
    Death { died: "before it wrote anything", die: |_| {}, last: (4, b"4") },
    Death {
        died: "behind the number",
        die: |made| made.word(5, 0).store(5, Relaxed),
        last: (4, b"4"),
    },
    Death {
        died: "behind kind and length",
        die: |made| {
            made.word(5, 0).store(5, Relaxed);
            made.word(5, 1).store(kind::PREFIX | 4 << 32, Relaxed);
        },
        last: (4, b"4"),
    },
    Death {
        died: "at purge.written",
        die: |made| {
            made.purges.write(Predicate::Key(b"dead"));
        },
        last: (4, b"4"),
    },
    Death {
        died: "at purge.announced, or in the walk",
        die: |made| made.purges.raise(made.purges.write(Predicate::Key(b"dead"))),
        last: (5, b"dead"),
    },
    Death {
        died: "after the walk",
        die: |made| {
            made.purge(b"dead");
        },
        last: (5, b"dead"),
    },
];

/// Returns a ring in which all slots are used: the next purge overwrites the slot of the first one.
fn full() -> Made {
    let made = made(SLOTS);
    for key in [b"1", b"2", b"3", b"4"] {
        made.purge(key);
    }
    made
}

#[test]
fn the_next_owner_repeats_the_last_announced_purge() {
    for Death { died, die, last: (number, key) } in DEATHS {
        let made = full();
        die(&made);
        let last = made.purges.last();
        assert_eq!(last, Some((*number, Predicate::Key(key).into())), "died {died}");
        assert_eq!(made.purge(b"next"), number + 1, "died {died}");
        let last = made.purges.last();
        assert_eq!(last, Some((number + 1, Predicate::Key(b"next").into())), "died {died}");
        assert_eq!(made.check(*number, b"next"), PurgeVerdict::Purged, "died {died}");
        assert_eq!(made.check(*number, b"other"), clear(number + 1), "died {died}");
    }
}

#[test]
fn a_check_after_a_death_finds_all_announced_purges() {
    for Death { died, die, last: (number, _) } in DEATHS {
        let made = full();
        die(&made);
        let is_known = *number == 5;
        for noted in 0..=*number {
            let is_too_old = number - noted >= SLOTS as u64;
            let purged = |is_newer| if is_newer { PurgeVerdict::Purged } else { clear(*number) };
            let case = format!("died {died}, noted {noted}");
            assert_eq!(made.check(noted, b"other"), purged(is_too_old), "{case}");
            let is_dead_newer = is_known && noted < 5;
            assert_eq!(made.check(noted, b"dead"), purged(is_too_old || is_dead_newer), "{case}");
            for (of, key) in (1..).zip([b"1", b"2", b"3", b"4"]) {
                assert_eq!(made.check(noted, key), purged(is_too_old || noted < of), "{case}");
            }
        }
    }
}
