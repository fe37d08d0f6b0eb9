//! Measures the gain of each step from a map behind a lock to a hit in shared memory.
//!
//! The ways of each step do the same work, in turn. The figure is nanoseconds of processor time for
//! one piece of work.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use forebay_sync::pins::Pins;
use forebay_sync::{Barrier, LineWords};

use crate::time::{Spent, median, spread_percent};

/// One way of doing the work: its name, and its nanoseconds in a round.
struct Step {
    question: &'static str,
    way: &'static str,
    run: Box<dyn FnMut() -> f64>,
}

/// Prints a table of all steps.
pub(crate) fn print(rounds: usize) {
    let mut steps: Vec<Step> =
        [copies(1024), copies(65_536), pointers(), keys(), holds(1), holds(2)]
            .into_iter()
            .flatten()
            .collect();
    let mut samples = vec![Vec::new(); steps.len()];
    for _ in 0..rounds {
        for (step, samples) in steps.iter_mut().zip(&mut samples) {
            samples.push((step.run)());
        }
    }
    println!("| step | way | ns | ± |\n|---|---|--:|--:|");
    for (step, samples) in steps.iter().zip(&samples) {
        let (question, way) = (step.question, step.way);
        let (ns, spread) = (median(samples), spread_percent(samples));
        println!("| {question} | {way} | {ns:.1} | {spread:.0} % |");
    }
}

fn per_piece(pieces: usize, work: impl FnOnce()) -> f64 {
    Spent::by(work).cpu_ns / pieces as f64
}

/// Measures a value that is copied under a lock, and a value that is read in place. Only one byte
/// of each cache line is read afterwards, as a system call that sends the value would read it.
fn copies(bytes: usize) -> Vec<Step> {
    const PIECES: usize = 256;
    let values: Arc<Vec<Vec<u8>>> = Arc::new((0..PIECES).map(|i| vec![i as u8; bytes]).collect());
    let look = |value: &[u8]| value.iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>();
    let question = if bytes == 1024 { "value of 1 KiB" } else { "value of 64 KiB" };
    let (copied, lent) = (Arc::clone(&values), values);
    vec![
        Step {
            question,
            way: "copied out",
            run: Box::new(move || {
                per_piece(PIECES, || {
                    for value in &*copied {
                        black_box(look(&value.clone()));
                    }
                })
            }),
        },
        Step {
            question,
            way: "in place",
            run: Box::new(move || {
                per_piece(PIECES, || {
                    for value in &*lent {
                        black_box(look(black_box(value)));
                    }
                })
            }),
        },
    ]
}

/// Measures a chain through a table that fits into the processor's caches, with three kinds of
/// links.
fn pointers() -> Vec<Step> {
    const NODES: usize = 4096;
    const HOPS: usize = 1 << 18;
    let order = shuffled(NODES);
    let mut offsets = vec![0_u64; NODES];
    let mut relative = vec![0_i64; NODES];
    for (at, node) in order.iter().enumerate() {
        let next = order[(at + 1) % NODES];
        offsets[*node] = next as u64;
        relative[*node] = next as i64 - *node as i64;
    }
    let native = linked(&order);
    let question = "next of a chain";
    vec![
        Step {
            question,
            way: "native reference",
            run: Box::new(move || follow_native(native, HOPS)),
        },
        Step {
            question,
            way: "base + offset, checked",
            run: Box::new(move || {
                per_piece(HOPS, || {
                    let mut at = 0;
                    for _ in 0..HOPS {
                        at = offsets[at] as usize;
                    }
                    black_box(at);
                })
            }),
        },
        Step {
            question,
            way: "relative to itself, checked",
            run: Box::new(move || {
                per_piece(HOPS, || {
                    let mut at = 0_usize;
                    for _ in 0..HOPS {
                        at = at.wrapping_add_signed(relative[at] as isize);
                    }
                    black_box(at);
                })
            }),
        },
    ]
}

struct Node {
    next: std::cell::OnceCell<&'static Node>,
}

fn linked(order: &[usize]) -> &'static Node {
    // The table is never freed.
    let nodes: &'static [Node] =
        Vec::leak(order.iter().map(|_| Node { next: std::cell::OnceCell::new() }).collect());
    for (at, node) in order.iter().enumerate() {
        let _ = nodes[*node].next.set(&nodes[order[(at + 1) % order.len()]]);
    }
    &nodes[0]
}

fn follow_native(first: &'static Node, hops: usize) -> f64 {
    per_piece(hops, || {
        let mut node = first;
        for _ in 0..hops {
            node = node.next.get().copied().unwrap_or(first);
        }
        black_box(node);
    })
}

/// Measures the search for a key among sorted keys: as three fields, and as their bytes joined by
/// NUL.
fn keys() -> Vec<Step> {
    const KEYS: usize = 1 << 14;
    let parts = |i: usize| {
        (b"main".to_vec(), b"org.example.www".to_vec(), format!("/images/{i:08}").into_bytes())
    };
    let mut fields: Vec<_> = (0..KEYS).map(parts).collect();
    fields.sort();
    let join = |(a, b, c): &(Vec<u8>, Vec<u8>, Vec<u8>)| [&a[..], &b[..], &c[..]].join(&0);
    let joined: Vec<Vec<u8>> = fields.iter().map(join).collect();
    let order = shuffled(KEYS);
    let wanted = order.clone();
    let question = "key among 16,384 sorted ones";
    vec![
        Step {
            question,
            way: "three fields",
            run: Box::new(move || {
                per_piece(KEYS, || {
                    for at in &order {
                        let found = fields.binary_search(black_box(&fields[*at]));
                        assert!(found.is_ok());
                    }
                })
            }),
        },
        Step {
            question,
            way: "one, joined by NUL",
            run: Box::new(move || {
                per_piece(KEYS, || {
                    for at in &wanted {
                        let found = joined.binary_search(black_box(&joined[*at]));
                        assert!(found.is_ok());
                    }
                })
            }),
        },
    ]
}

/// Measures how a thread keeps one hot value for a moment: by a reference count, or by its own pin.
fn holds(threads: usize) -> Vec<Step> {
    const PIECES: usize = 1 << 16;
    let question = if threads == 1 { "hold, 1 thread" } else { "hold, 2 threads" };
    let value = Arc::new(7_u64);
    let words = Pins::<Arc<LineWords>>::words_needed(threads, 64).expect("a small table");
    let words = Arc::new(LineWords::new(words));
    let pins = Pins::new(words, threads, 64, Barrier::fence()).expect("the table has enough words");
    let named = Arc::new(AtomicU64::new(7));
    vec![
        Step {
            question,
            way: "reference count",
            run: Box::new(move || {
                together(threads, |_| {
                    per_piece(PIECES, || {
                        (0..PIECES).for_each(|_| drop(black_box(Arc::clone(&value))));
                    })
                })
            }),
        },
        Step {
            question,
            way: "pin",
            run: Box::new(move || {
                together(threads, |thread| {
                    // SAFETY: each number belongs to one thread, which ends before the next round.
                    let row = unsafe { pins.row(thread) }.expect("a row for each thread");
                    per_piece(PIECES, || {
                        for _ in 0..PIECES {
                            // ORDER: would pair with the release store of a publisher; this
                            // benchmark has none.
                            let pin = row.pin(7, || named.load(Ordering::Acquire) == 7);
                            drop(black_box(pin));
                        }
                    })
                })
            }),
        },
    ]
}

/// The mean time of several threads that work at once.
fn together(threads: usize, work: impl Fn(usize) -> f64 + Sync) -> f64 {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|t| scope.spawn(move || work(t))).collect();
        let count = threads.len() as f64;
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<f64>() / count
    })
}

fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut order);
    order
}
