//! Support for loom models: run a model in every interleaving, with all orderings as written or
//! with one of them weakened.
//!
//! Each outcome is one line on standard output, from which `scripts/loom` makes the table of
//! orderings.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static WEAKENED: RefCell<Option<&'static str>> = const { RefCell::new(None) };
    static WAS_ASKED: Cell<bool> = const { Cell::new(false) };
}

/// The preemption bound of a model that gives no bound of its own: loom tries every interleaving.
const BOUND: Option<usize> = None;

/// Whether the ordering with this name is weakened in the model that runs now.
pub fn is_weakened(name: &'static str) -> bool {
    let is_weakened = WEAKENED.with_borrow(|weakened| *weakened == Some(name));
    if is_weakened {
        WAS_ASKED.set(true);
    }
    is_weakened
}

/// Asserts that the model holds in every interleaving.
///
/// # Panics
/// If the model fails, or if one of loom's limits ends it.
pub fn holds(model: &str, run: impl Fn() + Send + Sync + 'static) {
    holds_within(BOUND, model, run);
}

/// Asserts that the model holds in every interleaving with at most `bound` preemptions.
///
/// # Panics
/// If the model fails, or if one of loom's limits ends it.
pub fn holds_within(bound: Option<usize>, model: &str, run: impl Fn() + Send + Sync + 'static) {
    let (count, failure) = explore(bound, run);
    if let Some(failure) = failure {
        panic!("{model}: must hold, but failed in execution {count}: {failure}");
    }
    let bound = bound.map_or("all".into(), |bound| format!("up to {bound} preemptions"));
    println!("\nHOLDS\t{model}\t{count}\t{bound}");
}

/// Asserts that the model fails when the ordering called `name` is weakened.
///
/// # Panics
/// If the model holds nevertheless, if its code never uses an ordering of this name, or if one of
/// loom's limits ends it.
pub fn breaks(name: &'static str, model: &str, run: impl Fn() + Send + Sync + 'static) {
    breaks_within(BOUND, name, model, run);
}

/// Asserts that the model fails when the ordering called `name` is weakened, in an interleaving
/// with at most `bound` preemptions.
///
/// # Panics
/// Under the same conditions as [`breaks`].
pub fn breaks_within(
    bound: Option<usize>,
    name: &'static str,
    model: &str,
    run: impl Fn() + Send + Sync + 'static,
) {
    WEAKENED.set(Some(name));
    WAS_ASKED.set(false);
    let (count, failure) = explore(bound, run);
    WEAKENED.set(None);
    assert!(WAS_ASKED.get(), "{model}: the model never uses an ordering called {name}");
    let Some(failure) = failure else {
        panic!("{model}: holds in {count} executions although {name} is weakened");
    };
    refuse_limits(model, &failure);
    println!("\nBREAKS\t{name}\t{model}\t{count}\t{}", first_line(&failure));
}

/// Asserts that a model of a wrong protocol fails without any weakening: a counter-example.
///
/// # Panics
/// If the model holds, or if one of loom's limits ends it.
pub fn fails(model: &str, run: impl Fn() + Send + Sync + 'static) {
    fails_within(BOUND, model, run);
}

/// Asserts that a model of a wrong protocol fails without any weakening, in an interleaving with at
/// most `bound` preemptions.
///
/// # Panics
/// Under the same conditions as [`fails`].
pub fn fails_within(bound: Option<usize>, model: &str, run: impl Fn() + Send + Sync + 'static) {
    let (count, failure) = explore(bound, run);
    let Some(failure) = failure else {
        panic!("{model}: must fail, but holds in {count} executions");
    };
    refuse_limits(model, &failure);
    println!("\nFAILS\t{model}\t{count}\t{}", first_line(&failure));
}

/// Runs the model. Returns the number of executions and, if the last one failed, its failure.
fn explore(
    bound: Option<usize>,
    run: impl Fn() + Send + Sync + 'static,
) -> (usize, Option<String>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.max_branches = 5_000;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        builder.check(move || {
            seen.fetch_add(1, Ordering::Relaxed);
            run();
        });
    }));
    let failure = outcome.err().map(|payload| match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().map_or("panic", |text| text).to_owned(),
    });
    (count.load(Ordering::Relaxed), failure)
}

/// Panics if the failure only says that a limit of loom ended the model: such a failure shows
/// nothing about the protocol.
fn refuse_limits(model: &str, failure: &str) {
    const LIMITS: &[&str] = &["exceeded maximum number of branches", "max_threads", "max_duration"];
    let limit = LIMITS.iter().find(|limit| failure.contains(**limit));
    assert!(limit.is_none(), "{model}: a limit of loom ended the model: {failure}");
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// A value that is not dropped when its model has failed. A destructor that used loom's atomics
/// after a failure would end the whole run.
#[derive(Debug)]
pub struct ModelValue<T>(std::mem::ManuallyDrop<T>);

impl<T> ModelValue<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> ModelValue<T> {
        ModelValue(std::mem::ManuallyDrop::new(value))
    }

    /// Returns the value.
    pub fn into_inner(mut self) -> T {
        // SAFETY: `self` is forgotten in the next statement, so the value is not used again.
        let value = unsafe { std::mem::ManuallyDrop::take(&mut self.0) };
        std::mem::forget(self);
        value
    }
}

impl<T> std::ops::Deref for ModelValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> std::ops::DerefMut for ModelValue<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for ModelValue<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: dropped here and never used again.
            unsafe { std::mem::ManuallyDrop::drop(&mut self.0) };
        }
    }
}
