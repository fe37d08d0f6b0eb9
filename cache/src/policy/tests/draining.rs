//! Tests of the fate of records.

use super::*;

const SEGMENT_BYTES: u64 = 1000;

/// The fate of a record that stays in the main queue, with this use count.
const fn stays(uses: u8) -> RecordFate {
    RecordFate::Move(Queue::Main, uses)
}

/// Returns the fates of records with these use counts and lengths, drained in this order.
fn drained(choice: Victim, rules: &EvictionRules, records: &[(u8, u64)]) -> Vec<RecordFate> {
    let mut census = UseCensus::default();
    records.iter().for_each(|(uses, bytes)| census.count(*uses, *bytes));
    let mut drain = DrainPlan::new(choice, &census, SEGMENT_BYTES, rules);
    records.iter().map(|(uses, bytes)| drain.fate(seen(*uses, *bytes))).collect()
}

#[test]
fn used_records_of_small_move_to_main_and_the_others_leave_ghosts() {
    let small = choice(Queue::Small, DrainCause::Oldest);
    for promote_uses in 1..=USES_MAX {
        let rules = EvictionRules { promote_uses, ..RULES };
        for uses in 0..=USES_MAX {
            let expected = match uses >= promote_uses {
                true => RecordFate::Move(Queue::Main, 0),
                false => RecordFate::Ghost,
            };
            let fates = drained(small, &rules, &[(uses, 100)]);
            assert_eq!(fates, [expected], "used {uses} times, {promote_uses} are needed");
        }
    }
}

#[test]
fn a_segment_of_small_with_only_used_records_moves_completely() {
    let records = [(1, 400), (3, 400), (2, 200)];
    let fates = drained(choice(Queue::Small, DrainCause::Oldest), &RULES, &records);
    assert_eq!(fates, [RecordFate::Move(Queue::Main, 0); 3]);
}

#[test]
fn the_most_used_records_of_main_stay_up_to_the_limit() {
    /// A case: its name, the use counts and lengths of the records, their fates.
    type Case<'a> = (&'a str, &'a [(u8, u64)], &'a [RecordFate]);
    const GOES: RecordFate = RecordFate::Leave;
    let cases: &[Case<'_>] = &[
        ("no record was used, so none is moved", &[(0, 500), (0, 500)], &[GOES, GOES]),
        ("all used records fit", &[(1, 300), (0, 200), (3, 500)], &[stays(0), GOES, stays(2)]),
        ("no bytes are no use", &[(0, 0), (1, 500)], &[GOES, stays(0)]),
        ("just so", &[(1, 800), (0, 200)], &[stays(0), GOES]),
        ("one byte too many", &[(1, 801), (0, 199)], &[GOES, GOES]),
        (
            "the least used give way, wherever they stand",
            &[(1, 300), (2, 300), (3, 400)],
            &[GOES, stays(1), stays(2)],
        ),
        (
            "of equals the first stay",
            &[(1, 200), (1, 200), (3, 500), (1, 100)],
            &[stays(0), GOES, stays(2), stays(0)],
        ),
        (
            "all have the highest use count",
            &[(3, 500), (3, 300), (3, 200)],
            &[stays(2), stays(2), GOES],
        ),
        (
            "records with even fewer uses get nothing of the rest",
            &[(3, 600), (2, 300), (1, 100)],
            &[stays(2), GOES, GOES],
        ),
    ];
    for cause in [DrainCause::Oldest, DrainCause::Stale] {
        for (name, records, expected) in cases {
            let fates = drained(choice(Queue::Main, cause), &RULES, records);
            assert_eq!(fates, *expected, "{name}, {cause:?}");
        }
    }
}

#[test]
fn the_share_of_main_that_stays_is_a_parameter() {
    for (keep_percent, kept) in [(0, 0), (9, 0), (10, 1), (55, 5), (80, 8), (100, 10)] {
        let rules = EvictionRules { keep_percent, ..RULES };
        let fates = drained(choice(Queue::Main, DrainCause::Oldest), &rules, &[(2, 100); 10]);
        let found = fates.iter().filter(|fate| **fate == RecordFate::Move(Queue::Main, 1)).count();
        assert_eq!(found, kept, "{keep_percent} percent");
    }
}

#[test]
fn records_of_a_compacted_segment_keep_their_queue_and_uses() {
    for queue in [Queue::Small, Queue::Main] {
        let records = [(0, 300), (1, 300), (3, 399)];
        let fates = drained(choice(queue, DrainCause::Dead), &RULES, &records);
        let expected = [0, 1, 3].map(|uses| RecordFate::Move(queue, uses));
        assert_eq!(fates, expected, "{queue:?}");
    }
}

#[test]
fn a_stale_record_leaves_however_often_it_was_used() {
    let ghosts = [(Queue::Small, RecordFate::Ghost), (Queue::Main, RecordFate::Leave)];
    for (queue, expected) in ghosts {
        for cause in [DrainCause::Oldest, DrainCause::Stale, DrainCause::Dead] {
            let mut drain =
                DrainPlan::new(choice(queue, cause), &UseCensus::default(), SEGMENT_BYTES, &RULES);
            let stale = DrainRecord { is_stale: true, ..seen(USES_MAX, 100) };
            assert_eq!(drain.fate(stale), expected, "{queue:?}, {cause:?}");
        }
    }
}

#[test]
fn a_census_is_needed_only_where_records_compete() {
    let records = [(0, 100), (1, 200), (2, 200), (3, 500)];
    for queue in [Queue::Small, Queue::Main] {
        for cause in [DrainCause::Oldest, DrainCause::Stale, DrainCause::Dead] {
            let choice = choice(queue, cause);
            let mut blind = DrainPlan::new(choice, &UseCensus::default(), SEGMENT_BYTES, &RULES);
            let blind: Vec<RecordFate> =
                records.iter().map(|(uses, bytes)| blind.fate(seen(*uses, *bytes))).collect();
            let is_same = blind == drained(choice, &RULES, &records);
            assert_eq!(is_same, !choice.needs_census(), "{choice:?}");
        }
    }
}

#[test]
fn hits_after_the_census_do_not_raise_the_limit() {
    for counted in 0..USES_MAX {
        let mut census = UseCensus::default();
        (0..10).for_each(|_| census.count(counted, 100));
        let main = choice(Queue::Main, DrainCause::Oldest);
        for uses in counted..=USES_MAX {
            let mut drain = DrainPlan::new(main, &census, SEGMENT_BYTES, &RULES);
            let fates = (0..10).map(|_| drain.fate(seen(uses, 100)));
            let kept = fates.filter(|fate| matches!(fate, RecordFate::Move(..))).count();
            assert!(kept <= 8, "counted with {counted} uses, seen with {uses}: {kept} of 10 stay");
        }
    }
}

#[test]
fn a_record_used_after_the_census_stays_if_there_is_room() {
    let mut census = UseCensus::default();
    [(0, 300), (1, 500), (0, 200)].iter().for_each(|(uses, bytes)| census.count(*uses, *bytes));
    let mut drain =
        DrainPlan::new(choice(Queue::Main, DrainCause::Oldest), &census, SEGMENT_BYTES, &RULES);
    let fates = [(2, 300), (1, 500), (1, 200)].map(|(uses, bytes)| drain.fate(seen(uses, bytes)));
    assert_eq!(fates, [stays(1), stays(0), RecordFate::Leave]);
}
