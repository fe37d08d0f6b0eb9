//! Counts that are wrong after a death.

use super::*;

/// A participant that dies between the removal of a word and the change of the count leaves a wrong
/// count.
#[test]
fn the_count_of_a_dead_participant_is_corrected_when_its_segment_is_checked() {
    for drift_bytes in [-640, 640_i64] {
        let made = made_by_the_dead();
        let segment = made.segment_of(KEY);
        made.write_segment(segment, LIVE, |bytes| bytes.strict_add_signed(drift_bytes));
        assert_eq!(made.found(FindingSeverity::Drift), BTreeSet::from(["live_bytes"]));
        assert_eq!(made.store.sweep().unwrap(), 1);
        assert_eq!(made.worker.mend(), 1);
        assert_sound(&made.store);
        assert!(get(&made.worker, KEY).is_some());
    }
}
