//! `forebay locks flame`: where time is lost at locks, as a picture.

mod svg;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::rc::Rc;

use clap::ArgMatches;

use super::report::read;
use super::summary::{Place, Summary};
use crate::commands::is_set;
use crate::say::say;

const NS_PER_US: u64 = 1000;

/// What is on top of what, from below, and the nanoseconds lost there.
type Stacks = BTreeMap<Vec<Rc<str>>, u64>;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let (file, reading) = read(args)?;
    let stacks = stacks(&Summary::of(&reading));
    let about = &reading.about;
    let text = match is_set(args, "folded") {
        true => folded(&stacks),
        false => {
            let title =
                format!("Time lost at the locks of {} (process {})", about.program, about.pid);
            svg::draw(&stacks, &title)
        }
    };
    if stacks.is_empty() {
        return Err(format!("{}: nobody has waited for a lock yet", file.path().display()));
    }
    match args.get_one::<String>("out") {
        None => say!("{}", text.trim_end()),
        Some(out) => {
            std::fs::write(out, text).map_err(|error| format!("{out}: cannot write: {error}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
pub(super) fn picture(summary: &Summary) -> String {
    svg::draw(&stacks(summary), "title")
}

/// A stack for each pair that cost anything: how the waiter came there, what it wanted, and who had
/// it.
fn stacks(summary: &Summary) -> Stacks {
    let mut stacks = Stacks::new();
    for (pair, totals) in &summary.pairs {
        let lost = totals.wait_ns.saturating_add(totals.try_delay_ns);
        if lost == 0 {
            continue;
        }
        let stack = pair.holder.stack.iter().take(1).cloned().collect();
        let holder = Place { lock: String::new(), stack };
        let held = format!("held by {}", holder.name()).into();
        let lock = pair.waiter.lock.as_str().into();
        let way = pair.waiter.stack.iter().rev().cloned();
        // One place in the source says less than the lock does; of a stack the beginning is common
        // to many locks.
        let stack: Vec<Rc<str>> = match pair.waiter.stack.len() {
            0 | 1 => std::iter::once(lock).chain(way).chain([held]).collect(),
            _ => way.chain([lock, held]).collect(),
        };
        let sum = stacks.entry(stack).or_default();
        *sum = sum.saturating_add(lost);
    }
    stacks
}

/// One line for each stack: `below;above;top microseconds`.
fn folded(stacks: &Stacks) -> String {
    let clean = |frame: &Rc<str>| frame.replace(';', ":");
    let lines = stacks.iter().map(|(stack, ns)| {
        let stack: Vec<_> = stack.iter().map(clean).collect();
        format!("{} {}\n", stack.join(";"), ns.div_ceil(NS_PER_US))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use forebay_sync::profile::PairTotals;

    use super::*;
    use crate::commands::locks::summary::Pair;

    fn place(lock: &str, stack: &[&str]) -> Place {
        Place { lock: lock.into(), stack: stack.iter().map(|frame| Rc::from(*frame)).collect() }
    }

    fn summary(pairs: &[(Place, Place, u64, u64)]) -> Summary {
        let pairs = pairs.iter().map(|(holder, waiter, wait_ns, try_delay_ns)| {
            let totals = PairTotals {
                wait_ns: *wait_ns,
                try_delay_ns: *try_delay_ns,
                ..PairTotals::default()
            };
            (Pair { holder: Rc::new(holder.clone()), waiter: Rc::new(waiter.clone()) }, totals)
        });
        Summary { pairs: pairs.collect(), ..Summary::default() }
    }

    #[test]
    fn a_stack_ends_with_the_lock_and_who_held_it() {
        let summary = summary(&[
            (place("a", &["x.rs:1"]), place("a", &["y.rs:2"]), 3000, 1),
            (Place::default(), place("b 0x1", &["in;ner", "main"]), 5000, 0),
            (place("a", &["x.rs:1"]), place("a", &["z.rs:3"]), 0, 0),
        ]);
        assert_eq!(
            folded(&stacks(&summary)),
            "a;y.rs:2;held by x.rs:1 4\nmain;in:ner;b 0x1;held by (unknown) 5\n"
        );
    }

    #[test]
    fn a_picture_has_a_box_for_each_frame_and_names_are_no_markup() {
        let summary = summary(&[
            (place("a", &["x.rs:1"]), place("a", &["y<T>.rs:2"]), 3_000_000, 0),
            (place("a", &["x.rs:1"]), place("a", &["z.rs:3"]), 1_000_000, 0),
        ]);
        let svg = svg::draw(&stacks(&summary), "a & b");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        // All, the lock, two places, two holders.
        assert_eq!(svg.matches("<rect class=\"f\"").count(), 6, "{svg}");
        assert!(svg.contains("y&lt;T&gt;.rs:2: 3.0 ms, 75.0 %"), "{svg}");
        assert!(svg.contains("a &amp; b") && !svg.contains("<T>"), "{svg}");
    }
}
