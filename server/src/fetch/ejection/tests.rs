//! Ejections: their reasons, their lengths and their ends.

use super::*;

#[test]
fn an_origin_is_ejected_for_longer_each_time_and_never_for_one_reset() {
    let ejection = Ejection::default();
    assert_eq!(ejection.note_failed(100, true), None);
    assert_eq!(ejection.note_failed(100, true), None);
    assert_eq!(ejection.note_failed(100, false), None, "no other origin gets requests");
    assert_eq!(ejection.note_failed(100, true), Some(EJECT_MS));
    assert_eq!(ejection.note_unreachable(101), None, "it is ejected already");
    assert_eq!(ejection.until_ms(101), 100 + EJECT_MS);
    assert_eq!(ejection.until_ms(100 + EJECT_MS), 0);
    assert_eq!(ejection.note_unreachable(2000), Some(2 * EJECT_MS));
    let mut now_ms = 10_000;
    for _ in 0..40 {
        ejection.note_unreachable(now_ms);
        now_ms += EJECT_MS_MAX;
    }
    assert_eq!(ejection.note_unreachable(now_ms), Some(EJECT_MS_MAX));
}

#[test]
fn failed_checks_eject_an_origin_until_a_check_passes() {
    let ejection = Ejection::default();
    assert!(!ejection.note_check_failed(0, false, 3000));
    assert!(!ejection.note_check_passed(1000), "it was not ejected");
    for now_ms in [2000, 4000] {
        assert!(!ejection.note_check_failed(now_ms, false, 3000));
        ejection.note_answered(now_ms);
    }
    assert!(ejection.note_check_failed(6000, false, 3000), "answers to requests do not count");
    assert_eq!(ejection.until_ms(6001), 9000);
    for now_ms in [8000, 10_000, 12_000] {
        assert!(!ejection.note_check_failed(now_ms, false, 3000), "it is ejected already");
        assert_eq!(ejection.until_ms(now_ms), now_ms + 3000, "requests check nothing");
    }
    assert!(ejection.note_check_passed(14_000));
    assert_eq!((ejection.until_ms(14_000), ejection.ramped(1, 14_000)), (0, 100));
    assert!(ejection.note_check_failed(20_000, true, 3000), "no connection");
}

#[test]
fn a_passed_check_does_not_shorten_an_ejection_by_failed_requests() {
    let ejection = Ejection::default();
    for _ in 0..5 {
        ejection.note_unreachable(0);
        ejection.until_ms.set(0);
    }
    assert_eq!(ejection.note_unreachable(0), Some(EJECT_MS_MAX));
    assert!(!ejection.note_check_failed(1000, true, 3000), "it is ejected already");
    assert!(!ejection.note_check_passed(2000), "the ejection by requests goes on");
    assert_eq!(ejection.until_ms(2001), EJECT_MS_MAX);
    assert!(ejection.note_answered(EJECT_MS_MAX));
}

#[test]
fn a_short_ejection_by_requests_does_not_end_one_by_checks() {
    let ejection = Ejection::default();
    ejection.note_unreachable(0);
    assert!(!ejection.note_check_failed(100, true, 60_000), "it is ejected already");
    assert!(!ejection.note_answered(EJECT_MS), "failed checks keep it out");
    assert_eq!(ejection.until_ms(EJECT_MS), 60_100);
    assert!(ejection.note_check_passed(5_000));
}

#[test]
fn error_statuses_and_broken_bodies_eject_an_origin_beside_another_one() {
    let ejection = Ejection::default();
    let errors = |ms, has_other| ejection.note_error_status(ms, has_other);
    assert!((1..EJECT_STATUSES).all(|number| errors(number.into(), true).is_none()));
    assert!(!ejection.note_answered(4));
    assert!((1..EJECT_STATUSES).all(|number| errors(number.into(), true).is_none()));
    assert_eq!(errors(5, false), None, "no other origin gets requests");
    assert_eq!(errors(6, true), Some(EJECT_MS));

    let ejection = Ejection::default();
    let errors = |ms| ejection.note_error_status(ms, true);
    assert_eq!((errors(0), errors(1), ejection.note_failed(2, true)), (None, None, None));
    assert_eq!((errors(3), errors(4), ejection.note_failed(5, true)), (None, None, None));
    assert_eq!(ejection.note_failed(6, true), Some(EJECT_MS), "the third of its kind");

    let ejection = Ejection::default();
    let alone = |ms| ejection.note_failed(ms, false);
    assert!((1..EJECT_FAILURES_ALONE).all(|number| alone(number.into()).is_none()));
    assert_eq!(alone(30), Some(EJECT_MS), "the others have to be asked again");

    let ejection = Ejection::default();
    let broken = |ms, has_other| ejection.note_broken_body(ms, has_other);
    assert_eq!((broken(0, true), broken(1, true)), (None, None));
    ejection.note_whole_body();
    assert_eq!((broken(2, true), broken(3, true)), (None, None));
    assert!(!ejection.note_answered(4), "a head says nothing about bodies");
    assert_eq!((broken(4, false), broken(5, true)), (None, Some(EJECT_MS)));
}

#[test]
fn an_origin_that_is_slow_is_ejected_for_longer_and_its_share_grows_afterwards() {
    let ejection = Ejection::default();
    let mut now_ms = 0;
    for for_ms in [EJECT_OUTLIER_MS, 2 * EJECT_OUTLIER_MS, EJECT_MS_MAX, EJECT_MS_MAX] {
        assert_eq!(ejection.note_outlier(now_ms), Some(for_ms));
        assert_eq!(ejection.note_outlier(now_ms + 1), None, "it is ejected already");
        now_ms += for_ms;
        assert_eq!((ejection.until_ms(now_ms), ejection.ramped(1, now_ms)), (0, 100));
        assert!(ejection.note_answered(now_ms), "it is back");
    }
    ejection.note_answered(now_ms + SLOW_START_MS + 1);
    assert_eq!(ejection.note_outlier(now_ms + 60_000), Some(EJECT_OUTLIER_MS));
}

#[test]
fn an_origin_that_is_left_out_as_slow_may_still_turn_out_to_fail() {
    let ejection = Ejection::default();
    assert_eq!(ejection.standing(0), Standing::Available);
    ejection.note_outlier(0);
    assert_eq!(ejection.standing(1), Standing::Slow);
    assert_eq!((ejection.note_failed(1, true), ejection.note_failed(2, true)), (None, None));
    assert_eq!(ejection.standing(2), Standing::Slow);
    let left_ms = EJECT_OUTLIER_MS - 3;
    assert_eq!(ejection.note_failed(3, true), Some(left_ms), "its pause is not shortened");
    assert_eq!(ejection.standing(4), Standing::Failing);
    assert_eq!(ejection.note_outlier(4), None, "it is ejected already");
    assert_eq!(ejection.standing(EJECT_OUTLIER_MS - 1), Standing::Failing);
    assert_eq!(ejection.standing(EJECT_OUTLIER_MS), Standing::Available);
    assert_eq!(ejection.note_outlier(15_000), Some(EJECT_MS_MAX));
    ejection.note_check_failed(15_001, true, 1_000);
    assert_eq!(ejection.standing(15_002), Standing::Failing);
}

#[test]
fn hedges_that_an_ejected_origin_loses_do_not_count() {
    let ejection = Ejection::default();
    ejection.note_outlier(0);
    let lost = |ms| ejection.note_lost_hedge(ms, true);
    assert!((0..2 * EJECT_LOST_HEDGES).all(|number| lost(number.into()).is_none()));
    assert_eq!(ejection.standing(100), Standing::Slow);
    assert_eq!(lost(EJECT_OUTLIER_MS), None, "none has counted before");
}

#[test]
fn the_share_of_an_origin_that_is_back_grows() {
    let ejection = Ejection::default();
    assert_eq!(ejection.ramped(2, 5), 2000);
    assert_eq!(ejection.ramped(0, 5), 10, "a hundredth of the weight 1");
    ejection.note_unreachable(0);
    assert!(!ejection.note_answered(EJECT_MS / 2), "a request from before");
    assert_eq!(ejection.ramped(2, EJECT_MS), 200);
    assert!(ejection.note_answered(EJECT_MS) && !ejection.note_answered(EJECT_MS));
    assert_eq!(ejection.ramped(2, EJECT_MS + SLOW_START_MS / 2), 1000);
    assert_eq!(ejection.ramped(2, EJECT_MS + SLOW_START_MS), 2000);
    assert!(!ejection.note_answered(EJECT_MS + SLOW_START_MS + 1));
    assert_eq!(ejection.note_unreachable(60_000), Some(EJECT_MS), "it was well for long");
}
