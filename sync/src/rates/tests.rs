use super::table::SET_WORDS;
use super::{CellRate, RateDecision, RateTable};

const ADMITTED: RateDecision = RateDecision::Admitted { replaces: false };
const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 86_400 * SECOND_US;

fn rate(count: u64, period_us: u64, burst: u64) -> CellRate {
    CellRate::new(count, period_us, burst).expect("a valid rate")
}

/// A key of the first set.
fn key(number: u64) -> u64 {
    number + 1
}

#[test]
fn a_rate_has_bounds() {
    for (count, period_us, burst, is_valid) in [
        (1, SECOND_US, 1, true),
        (0, SECOND_US, 1, false),
        (1, 0, 1, false),
        (1, SECOND_US, 0, false),
        (100_000, SECOND_US, 1, true),
        (100_001, SECOND_US, 1, false),
        (1, DAY_US, 1, true),
        (1, DAY_US, 2, false),
        (1, SECOND_US, 86_400, true),
        (1, SECOND_US, 86_401, false),
        (1, SECOND_US, u64::MAX, false),
    ] {
        let rate = CellRate::new(count, period_us, burst);
        assert_eq!(rate.is_some(), is_valid, "{count} in {period_us}, burst {burst}");
    }
}

#[test]
fn a_burst_comes_at_once_and_then_one_request_in_each_interval() {
    let start_us = 5 * SECOND_US;
    for (count, burst) in [(1, 1), (10, 1), (10, 10), (10, 25), (3, 2)] {
        let table = RateTable::new(64);
        let rate = rate(count, SECOND_US, burst);
        let interval_us = SECOND_US.div_ceil(count);
        let case = format!("{count} in a second, burst {burst}");
        for number in 0..burst {
            assert_eq!(table.wait_us(key(1), rate, start_us), 0, "{case}: {number}");
            assert_eq!(table.take(key(1), rate, start_us), ADMITTED, "{case}: {number}");
        }
        for turn in 1..=3 * count {
            let due_us = start_us + turn * interval_us;
            let refused = RateDecision::Refused { wait_us: 1 };
            assert_eq!(table.wait_us(key(1), rate, due_us - 1), 1, "{case}: {turn}");
            assert_eq!(table.take(key(1), rate, due_us - 1), refused, "{case}: {turn}");
            assert_eq!(table.take(key(1), rate, due_us), ADMITTED, "{case}: {turn}");
        }
        // After a long pause the whole burst is available again, and no more.
        let later_us = start_us + 86_400 * SECOND_US;
        let admitted = (0..2 * burst).filter(|_| table.take(key(1), rate, later_us) == ADMITTED);
        assert_eq!(admitted.count() as u64, burst, "{case}");
    }
}

#[test]
fn keys_do_not_share_a_limit() {
    let table = RateTable::new(4096);
    let rate = rate(1, SECOND_US, 1);
    for number in 0..100u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        assert_eq!(table.take(key, rate, 7), ADMITTED, "{number}");
        assert_eq!(table.take(key, rate, 7), RateDecision::Refused { wait_us: SECOND_US });
    }
}

#[test]
fn a_full_set_replaces_the_key_that_has_used_least() {
    let table = RateTable::new(SET_WORDS);
    let rate = rate(1, SECOND_US, 100);
    let now_us = SECOND_US;
    // Key 0 has used least, the last key most.
    for number in 0..SET_WORDS as u64 {
        for _ in 0..=number {
            assert_eq!(table.take(key(number), rate, now_us), ADMITTED, "key {number}");
        }
    }
    let replaces = RateDecision::Admitted { replaces: true };
    assert_eq!(table.take(key(99), rate, now_us), replaces);
    // A flood of other keys replaces keys of the flood, and never the one that has used most.
    let most = key(SET_WORDS as u64 - 1);
    let used_up = 100 - SET_WORDS;
    for number in 0..used_up as u64 {
        assert_eq!(table.take(most, rate, now_us), ADMITTED, "{number}");
        assert_eq!(table.take(key(1000 + number), rate, now_us), replaces, "{number}");
    }
    assert_eq!(table.take(most, rate, now_us), RateDecision::Refused { wait_us: SECOND_US });
    // A word whose time has passed is free.
    let later_us = now_us + 200 * SECOND_US;
    assert_eq!(table.take(key(5000), rate, later_us), ADMITTED);
}

#[test]
fn keys_of_slow_limits_do_not_replace_a_key_that_has_used_up_its_burst() {
    let table = RateTable::new(SET_WORDS);
    let (logins, calls) = (rate(10, 60 * SECOND_US, 10), rate(100, DAY_US, 100));
    let now_us = SECOND_US;
    for number in 0..10 {
        assert_eq!(table.take(key(0), logins, now_us), ADMITTED, "{number}");
    }
    for number in 1..1000 {
        let decision = table.take(key(number), calls, now_us);
        assert!(matches!(decision, RateDecision::Admitted { .. }), "{number}: {decision:?}");
    }
    assert_eq!(table.take(key(0), logins, now_us), RateDecision::Refused { wait_us: 6_000_000 });
}

/// The time of an old word seems to be ahead of the present before the clock wraps.
#[test]
fn a_key_that_was_quiet_for_fifty_days_is_admitted() {
    for (until_wrap_us, rate) in [
        (100 * SECOND_US, rate(1, SECOND_US, 1)),
        (3600 * SECOND_US, rate(50, SECOND_US, 200)),
        (20 * 3600 * SECOND_US, rate(10, 60 * SECOND_US, 10)),
    ] {
        let table = RateTable::new(SET_WORDS);
        let start_us = 5 * SECOND_US;
        assert_eq!(table.take(key(1), rate, start_us), ADMITTED);
        let later_us = start_us + (1 << 42) - until_wrap_us;
        assert_eq!(table.take(key(1), rate, later_us), ADMITTED, "{until_wrap_us}");
        // Words of zeros stay free.
        assert_eq!(table.take(key(2), rate, later_us), ADMITTED, "{until_wrap_us}");
    }
}

/// The clock wraps after 50 days.
#[test]
fn the_end_of_the_clock_frees_no_key_and_refuses_none() {
    let table = RateTable::new(SET_WORDS);
    let rate = rate(1, 60 * SECOND_US, 2);
    let wraps_us = 1 << 42;
    for now_us in [1, wraps_us / 2, wraps_us - 30 * SECOND_US, wraps_us + wraps_us / 3] {
        assert_eq!(table.take(key(1), rate, now_us), ADMITTED, "{now_us}");
        assert_eq!(table.take(key(1), rate, now_us), ADMITTED, "{now_us}");
        let wait_us = 60 * SECOND_US;
        assert_eq!(table.take(key(1), rate, now_us), RateDecision::Refused { wait_us });
        assert_eq!(table.take(key(1), rate, now_us + wait_us), ADMITTED, "{now_us}");
    }
}

#[test]
fn threads_together_admit_no_more_than_the_limit() {
    let table = RateTable::new(64);
    let rate = rate(1, 3600 * SECOND_US, 20);
    let admitted = |thread: u64| {
        let decide = |turn| table.take(key(turn % 3), rate, thread * 10 + turn);
        (0..300).map(decide).filter(|decision| *decision == ADMITTED).count()
    };
    let total: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || admitted(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(total, 3 * 20);
}
