//! Tests of the runtime. They are not instrumented: they make the calls of an instrumented program
//! themselves.

use std::ptr::{from_ref, without_provenance};

use crate::count::ONE_AT_A_TIME;
use crate::runtime::{Sum, clear, enter, leave, lines, sum};
use crate::{Plan, Refused, THREADS_MAX, count, count_named, require_instrumented};

// SAFETY: these are the signatures of runtime/calls.c. The functions marked safe only record the
// address.
unsafe extern "C" {
    safe fn __tsan_read8(place: *const u8);
    safe fn __tsan_write8(place: *const u8);
    safe fn __tsan_unaligned_write8(place: *const u8);
    safe fn __tsan_write_range(place: *const u8, size: usize);
    safe fn __tsan_atomic_thread_fence(order: i32);
    safe fn __tsan_atomic8_fetch_nand(place: &mut u8, value: u8, order: i32) -> u8;
    safe fn __tsan_atomic16_exchange(place: &mut u16, value: u16, order: i32) -> u16;
    safe fn __tsan_atomic32_store(place: &mut u32, value: u32, order: i32);
    safe fn __tsan_atomic64_compare_exchange_val(
        place: &mut u64,
        expected: u64,
        value: u64,
        order: i32,
        failure_order: i32,
    ) -> u64;
}

#[cfg(target_arch = "x86_64")]
// SAFETY: these are the signatures of runtime/calls.c.
unsafe extern "C" {
    safe fn __tsan_atomic128_fetch_add(place: &mut u128, value: u128, order: i32) -> u128;
    safe fn __tsan_atomic128_load(place: &u128, order: i32) -> u128;
    safe fn __tsan_atomic128_store(place: &mut u128, value: u128, order: i32);
}

/// C's number for sequential consistency.
const SEQ_CST: i32 = 5;

/// Returns an address in the line with this number. It is never dereferenced.
fn place(line: usize, offset: usize) -> *const u8 {
    without_provenance(line * 64 + offset)
}

type Threads<'a> = &'a [&'a dyn Fn()];

/// Returns the counts of threads that run their functions one after another.
fn counted(threads: Threads<'_>) -> Option<Sum> {
    let _one = ONE_AT_A_TIME.lock();
    act(threads);
    sum()
}

fn act(threads: Threads<'_>) {
    // SAFETY: the caller holds `ONE_AT_A_TIME`, and threads enter only while it is held.
    unsafe { clear() };
    for (thread, act) in threads.iter().enumerate() {
        assert!(enter(thread));
        act();
        leave();
    }
}

#[test]
fn a_line_is_in_conflict_if_two_touch_it_and_one_writes() {
    let (read, write) = (|| __tsan_read8(place(1, 0)), || __tsan_write8(place(1, 56)));
    let elsewhere = || __tsan_write8(place(2, 0));
    let sum = |lines, loads, stores, others_writes| Sum {
        lines,
        loads,
        stores,
        others_writes,
        ..Sum::default()
    };
    let cases: [(&str, Threads<'_>, Sum); 6] = [
        ("both read", &[&read, &read], sum(0, 0, 0, 0)),
        ("one reads and writes", &[&|| (read(), write()).0], sum(0, 0, 0, 0)),
        ("one reads, one writes", &[&read, &write], sum(1, 1, 1, 1)),
        ("number 0 writes, one reads", &[&write, &read], sum(1, 1, 1, 0)),
        ("both write", &[&write, &write], sum(1, 0, 2, 1)),
        ("each a line of its own", &[&write, &elsewhere], sum(0, 0, 0, 0)),
    ];
    for (case, threads, want) in cases {
        assert_eq!(counted(threads), Some(want), "{case}");
    }
}

#[test]
fn an_access_counts_on_every_line_that_it_touches() {
    let all = || __tsan_write_range(place(1, 0), 64 * 4);
    let cases: [(&str, &dyn Fn(), u64); 4] = [
        ("inside of one", &|| __tsan_unaligned_write8(place(1, 56)), 1),
        ("over the edge", &|| __tsan_unaligned_write8(place(1, 57)), 2),
        ("a range", &|| __tsan_write_range(place(1, 63), 66), 3),
        ("nothing", &|| __tsan_write_range(place(1, 0), 0), 0),
    ];
    for (case, act, want) in cases {
        assert_eq!(counted(&[&all, act]).map(|sum| sum.lines), Some(want), "{case}");
    }
}

#[test]
fn who_has_not_entered_is_not_counted() {
    __tsan_write8(place(1, 0));
    let read = || __tsan_read8(place(1, 0));
    assert_eq!(counted(&[&read, &read]), Some(Sum::default()));
}

/// Runs `act` on a thread of each name, one after the other.
fn act_named(names: &[&str], act: fn()) {
    for name in names {
        let thread = std::thread::Builder::new().name((*name).to_owned()).spawn(act);
        thread.expect("few threads").join().expect("no panic");
    }
}

#[test]
fn threads_are_counted_by_their_names() {
    let plan = Plan { threads: 2, operations: 1 };
    let write = || __tsan_write8(place(1, 0));
    let unseen = |seen| Err(Refused::Unseen { seen, wanted: 2 });
    type Case<'a> = (&'a [&'a str], Result<(u64, f64), Refused>);
    let cases: [Case<'_>; 5] = [
        (&["named-0", "named-1"], Ok((1, 1.0))),
        (&["named-0", "other", "named-1", "named-", "named-1x", "named"], Ok((1, 1.0))),
        (&["named-0", "named-0"], unseen(1)),
        (&["other-0", "other-1"], unseen(0)),
        (&["named-0", "named-1", "named-64"], Err(Refused::Lines)),
    ];
    for (names, want) in cases {
        let counted = count_named(
            plan,
            c"named-",
            || act_named(names, write),
            |()| {
                act_named(names, write);
            },
        );
        assert_eq!(counted.map(|counts| (counts.lines, counts.stores)), want, "{names:?}");
    }
}

#[test]
fn atomics_of_every_width_do_what_they_say() {
    let act = || {
        let (mut a, mut b, mut c, mut d) = (0b1100_u8, 2_u16, 3_u32, 4_u64);
        assert_eq!((__tsan_atomic8_fetch_nand(&mut a, 0b1010, SEQ_CST), a), (0b1100, 0b1111_0111));
        assert_eq!((__tsan_atomic16_exchange(&mut b, 7, SEQ_CST), b), (2, 7));
        __tsan_atomic32_store(&mut c, 8, SEQ_CST);
        assert_eq!(c, 8);
        let mut swap =
            |old, new| __tsan_atomic64_compare_exchange_val(&mut d, old, new, SEQ_CST, SEQ_CST);
        assert_eq!([swap(5, 9), swap(4, 10), swap(10, 11)], [4, 4, 10]);
        __tsan_atomic_thread_fence(SEQ_CST);
    };
    let want = Sum { own_rmws: 5, fences: 1, ..Sum::default() };
    assert_eq!(counted(&[&act]), Some(want));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn atomics_of_sixteen_bytes_do_what_they_say() {
    let act = || {
        let mut word = u128::MAX;
        assert_eq!(__tsan_atomic128_fetch_add(&mut word, 3, SEQ_CST), u128::MAX);
        assert_eq!(__tsan_atomic128_load(&word, SEQ_CST), 2);
        __tsan_atomic128_store(&mut word, 1 << 100, SEQ_CST);
        assert_eq!(word, 1 << 100);
    };
    assert_eq!(counted(&[&act]).map(|sum| sum.own_rmws), Some(1));
}

#[test]
fn a_line_in_conflict_is_shown_with_its_writer() {
    let value = 0u64;
    let write = || __tsan_write8(from_ref(&value).cast());
    let _one = ONE_AT_A_TIME.lock();
    act(&[&write, &write]);
    let shown = lines(4);
    assert_eq!(shown.len(), 1);
    let text = shown[0].to_string();
    assert!(text.contains("2 threads, 0 RMWs, 2 stores, 0 loads"), "{text}");
    assert_ne!(shown[0].writer, 0);
}

#[test]
fn too_much_is_refused() {
    let lines_max = 1 << 20;
    let full = || __tsan_write_range(place(1, 0), lines_max * 64);
    let more = || __tsan_write_range(place(1, 0), (lines_max + 1) * 64);
    assert!(counted(&[&full]).is_some(), "the table has room for this many lines");
    assert_eq!(counted(&[&more]), None, "the table has no room for one line more");
    assert!(!enter(THREADS_MAX), "there is no such thread number");
    for threads in [0, THREADS_MAX + 1] {
        let plan = Plan { threads, operations: 1 };
        assert_eq!(count(plan, &|_| ()), Err(Refused::Threads(threads)));
        let refused = count_named(plan, c"named-", || (), |()| ());
        assert_eq!(refused, Err(Refused::Threads(threads)));
    }
}

#[test]
fn a_plain_program_is_told_from_one_that_counts() {
    assert_eq!(require_instrumented(), Err(Refused::NotInstrumented));
}
