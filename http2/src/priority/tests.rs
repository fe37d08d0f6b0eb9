//! Tables of priorities, and the order of sending.

use super::*;

#[test]
fn a_priority_is_a_dictionary_of_urgency_and_incremental() {
    for (value, urgency, incremental) in [
        ("", 3, false),
        ("u=0", 0, false),
        ("u=7, i", 7, true),
        ("i,u=1", 1, true),
        (" u=5 ;x=1 ,  i=?1;y", 5, true),
        ("i, i=?0", 3, false),
        ("u=1, u=2", 2, false),
        ("u=8", 3, false),
        ("u=-1", 3, false),
        ("u=10", 3, false),
        ("u=\"1\"", 3, false),
        ("i=1", 3, false),
        ("I, U=1", 3, false),
        (",,,=;\0", 3, false),
    ] {
        let expected = ResponsePriority { urgency, incremental };
        assert_eq!(ResponsePriority::parse(value.as_bytes()), expected, "{value:?}");
    }
}

#[test]
fn the_schedule_follows_urgency_then_order_then_turns() {
    for (streams, expected) in [
        // Slot, urgency, incremental; each sends twice.
        (&[(0, 3, false), (1, 3, false)][..], &[0, 0, 1, 1][..]),
        (&[(0, 3, true), (1, 3, true), (127, 3, true)], &[1, 127, 0, 1, 127, 0]),
        (&[(0, 3, false), (1, 1, false), (2, 7, true)], &[1, 1, 0, 0, 2, 2]),
        (&[(0, 3, true), (1, 3, false), (2, 3, true)], &[2, 1, 0, 1, 2, 0]),
        // The identifiers fall as the slots rise.
        (&[(9, 3, false), (8, 3, false)], &[8, 8, 9, 9]),
    ] {
        let mut schedule = SendSchedule::default();
        let mut left = [0; 128];
        for (slot, urgency, incremental) in streams {
            let priority = ResponsePriority { urgency: *urgency, incremental: *incremental };
            schedule.insert(*slot, priority);
            left[usize::from(*slot)] = 2;
        }
        let mut order = Vec::new();
        while let Some(slot) = schedule.next(u32::from) {
            order.push(slot);
            left[usize::from(slot)] -= 1;
            if left[usize::from(slot)] == 0 {
                schedule.remove(slot);
            }
        }
        assert_eq!(order, expected, "{streams:?}");
    }
}
