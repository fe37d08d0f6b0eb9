//! `forebay locks flame`: draws the time lost at locks.

mod svg;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::rc::Rc;

use clap::ArgMatches;
use forebay_server::clock::unix_ns;
use forebay_shm::is_alive;
use forebay_sync::profile::ProfileControl;

use super::call_stacks::{self, SampledStacks, apportioned};
use super::names::SiteNames;
use super::report::read;
use super::summary::{LockPair, LockSite, SiteSummary, Summary};
use super::{counted, in_progress, matrix, stale_binaries};
use crate::commands::is_set;
use crate::stdout::outln;

const NS_PER_US: u64 = 1000;

/// Number of stacks that are drawn separately, the most costly first. All further stacks share one
/// frame.
const STACKS_MAX: usize = 10_000;

/// The frames of each stack from bottom to top, and the nanoseconds lost there.
type Stacks = BTreeMap<Vec<Rc<str>>, u64>;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let (file, reading) = read(args)?;
    let mut names = SiteNames::of(&reading);
    let summary = Summary::named(&mut names);
    let samples = call_stacks::of(&mut names, &reading.threads);
    let stacks = stacks(&summary, &samples);
    if stacks.is_empty() {
        let now_ns = is_alive(&reading.about).then(unix_ns);
        let why = in_progress::line(&reading, now_ns)
            .map(|waiting| format!("nothing to draw yet: {waiting}"))
            .unwrap_or_else(|| nothing(&summary, &reading.control));
        return Err(format!("{}: {why}", file.path().display()));
    }
    for line in stale_binaries::lines(&reading) {
        eprintln!("forebay: {line}");
    }
    let about = &reading.about;
    let text = match is_set(args, "folded") {
        true => folded(&stacks),
        false => {
            let title =
                format!("Time lost at the locks of {} (process {})", about.program, about.pid);
            svg::draw(&stacks, &title)
        }
    };
    match args.get_one::<String>("out") {
        None => outln!("{}", text.trim_end()),
        Some(out) => {
            std::fs::write(out, text).map_err(|error| format!("{out}: cannot write: {error}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
pub(super) fn picture(names: &mut SiteNames<'_>, summary: &Summary) -> [String; 2] {
    let stacks = stacks(summary, &call_stacks::of(names, &names.reading.threads));
    [svg::draw(&stacks, "title"), folded(&stacks)]
}

/// Explains why there is nothing to draw.
fn nothing(summary: &Summary, control: &ProfileControl) -> String {
    let sum = |of: fn(&SiteSummary) -> u64| {
        summary.sites.values().fold(0_u64, |sum, site_summary| sum.saturating_add(of(site_summary)))
    };
    let count = sum(|site_summary| site_summary.totals.count);
    let failed = sum(|site_summary| site_summary.totals.try_failed_count);
    let slept = sum(|site_summary| site_summary.totals.asleep_count);
    match (count, failed) {
        (0, 0) if !control.is_on => {
            "nothing to draw: recording is off, see `forebay locks on`".to_owned()
        }
        (0, 0) => "nothing to draw: no lock has been taken yet".to_owned(),
        (_, 0) if slept > 0 => format!(
            "nothing to draw: no thread waited for a lock in {count} acquisitions; \
             waits for conditions do not count"
        ),
        (_, 0) => {
            let times = counted(usize::try_from(count).unwrap_or(usize::MAX), "time", "times");
            format!("nothing to draw: locks were taken {times}, and no thread waited for a lock")
        }
        (_, failed) => format!(
            "nothing to draw: no thread waited for a lock, and none of {failed} failed try-locks \
             was followed by an acquisition"
        ),
    }
}

/// Returns one stack for each pair that lost time: the callers, the lock, the holder. A pair with
/// sampled call stacks has one stack for each sampled stack.
fn stacks(summary: &Summary, samples: &SampledStacks) -> Stacks {
    let mut drawn = FlameStacks::default();
    for (pair, totals) in matrix::sorted(summary) {
        let lost = totals.lost_ns();
        if lost == 0 {
            continue;
        }
        let parts =
            samples.get(pair).map(|by_stack| apportioned(lost, by_stack)).unwrap_or_default();
        if parts.is_empty() {
            drawn.add(pair, &pair.waiter.stack, lost);
        }
        for (callers, part) in parts {
            drawn.add(pair, callers, part);
        }
    }
    drawn.all()
}

/// The stacks up to the limit, and the number and sum of all further stacks.
#[derive(Default)]
struct FlameStacks {
    stacks: Stacks,
    other_count: u64,
    other_ns: u64,
}

impl FlameStacks {
    fn add(&mut self, pair: &LockPair, callers: &[Rc<str>], ns: u64) {
        let sum = match self.stacks.len() {
            0..STACKS_MAX => self.stacks.entry(stack(pair, callers)).or_default(),
            _ => {
                self.other_count += 1;
                &mut self.other_ns
            }
        };
        *sum = sum.saturating_add(ns);
    }

    fn all(mut self) -> Stacks {
        if self.other_count > 0 {
            let name = format!("(others: {} less costly stacks)", self.other_count);
            self.stacks.insert(vec![name.into()], self.other_ns);
        }
        self.stacks
    }
}

/// Returns the frames of a pair from bottom to top: the callers, the lock, the holder.
fn stack(pair: &LockPair, callers: &[Rc<str>]) -> Vec<Rc<str>> {
    let stack = pair.holder.stack.iter().take(1).cloned().collect();
    let holder = LockSite { lock: String::new(), stack };
    let held = format!("held by {}", holder.name()).into();
    let lock: Rc<str> = pair.waiter.lock.as_str().into();
    // If only the call site is known, the lock comes below it, because a call site is more specific
    // than a lock. If its callers are known too, they come below the lock, because many locks share
    // the outer callers.
    match callers {
        [] => [lock]
            .into_iter()
            .chain(pair.waiter.stack.iter().rev().cloned())
            .chain([held])
            .collect(),
        [site] => vec![lock, site.clone(), held],
        callers => callers.iter().rev().cloned().chain([lock, held]).collect(),
    }
}

/// Returns one line for each stack: `bottom;…;top microseconds`.
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
    use forebay_sync::profile::{PairTotals, SiteTotals};

    use super::*;

    fn site(lock: &str, stack: &[&str]) -> LockSite {
        LockSite { lock: lock.into(), stack: stack.iter().map(|frame| (*frame).into()).collect() }
    }

    fn summary(pairs: &[(LockSite, LockSite, u64, u64)]) -> Summary {
        let pairs = pairs.iter().map(|(holder, waiter, wait_ns, try_delay_ns)| {
            let totals = PairTotals {
                wait_ns: *wait_ns,
                try_delay_ns: *try_delay_ns,
                ..PairTotals::default()
            };
            (LockPair { holder: holder.clone().into(), waiter: waiter.clone().into() }, totals)
        });
        Summary { pairs: pairs.collect(), ..Summary::default() }
    }

    #[test]
    fn an_empty_flame_graph_says_why_it_is_empty() {
        let control = |is_on| ProfileControl {
            is_on,
            skip: 0,
            stack_sample: 0,
            generation: 1,
            reset_unix_ns: 0,
        };
        let of = |count, try_failed_count, asleep_count| {
            let totals =
                SiteTotals { count, try_failed_count, asleep_count, ..SiteTotals::default() };
            let site_summary = SiteSummary { totals, wanted_count: 0 };
            Summary {
                sites: [(site("a", &["x"]).into(), site_summary)].into(),
                ..Summary::default()
            }
        };
        for (summary, is_on, part) in [
            (Summary::default(), false, "recording is off"),
            (Summary::default(), true, "no lock has been taken"),
            (of(7, 0, 0), true, "taken 7 times, and no thread waited"),
            (of(1, 0, 0), true, "taken 1 time, and"),
            (of(7, 0, 1), true, "conditions do not count"),
            (of(7, 2, 0), true, "none of 2 failed try-locks"),
        ] {
            let said = nothing(&summary, &control(is_on));
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_stack_ends_with_the_lock_and_its_holder() {
        let summary = summary(&[
            (site("a", &["x.rs:1"]), site("a", &["y.rs:2"]), 3000, 1),
            (LockSite::default(), site("b 0x1", &["in;ner", "main"]), 5000, 0),
            (site("a", &["x.rs:1"]), site("a", &["z.rs:3"]), 0, 0),
        ]);
        assert_eq!(
            folded(&stacks(&summary, &SampledStacks::new())),
            "a;y.rs:2;held by x.rs:1 4\nmain;in:ner;b 0x1;held by (unknown) 5\n"
        );
    }

    #[test]
    fn surplus_stacks_are_counted_and_their_time_is_kept() {
        let pair = |at: usize| {
            let site = site("a", &[&format!("x.rs:{at}")]);
            (site.clone(), site, (STACKS_MAX + 3 - at) as u64 * 1000, 0)
        };
        let pairs: Vec<_> = (0..STACKS_MAX + 3).map(pair).collect();
        let stacks = stacks(&summary(&pairs), &SampledStacks::new());
        assert_eq!(stacks.len(), STACKS_MAX + 1);
        let others = [Rc::from("(others: 3 less costly stacks)")];
        assert_eq!(stacks.get(&others[..]), Some(&6000));
        assert_eq!(stacks.values().sum::<u64>(), pairs.iter().map(|pair| pair.2).sum::<u64>());
    }

    #[test]
    fn a_flame_graph_has_a_box_for_each_frame_and_escapes_names() {
        let summary = summary(&[
            (site("a", &["x.rs:1"]), site("a", &["y<T>.rs:2"]), 3_000_000, 0),
            (site("a", &["x.rs:1"]), site("a", &["z.rs:3"]), 1_000_000, 0),
        ]);
        let svg = svg::draw(&stacks(&summary, &SampledStacks::new()), "a & b");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        // The frames are: all, the lock, two call sites, two holders.
        assert_eq!(svg.matches("<rect class=\"f\"").count(), 6, "{svg}");
        assert!(svg.contains("y&lt;T&gt;.rs:2: 3.0 ms, 75.0 %"), "{svg}");
        assert!(svg.contains("a &amp; b") && !svg.contains("<T>"), "{svg}");
    }

    #[test]
    fn sampled_pairs_are_drawn_by_call_stack_and_the_others_by_call_site() {
        let (at, by) = (site("a", &["y.rs:2"]), site("a", &["x.rs:1"]));
        let summary = summary(&[
            (by.clone(), at.clone(), 9000, 0),
            (by.clone(), site("b", &["z.rs:3"]), 2000, 0),
        ]);
        let sampled = |wait_ns| PairTotals { wait_ns, ..PairTotals::default() };
        let frames = |names: &[&str]| names.iter().map(|name| Rc::from(*name)).collect::<Rc<[_]>>();
        let by_stack = [
            (frames(&["lock", "first", "main"]), sampled(20)),
            (frames(&["lock", "second", "main"]), sampled(10)),
        ];
        let samples = [(LockPair { holder: by.into(), waiter: at.into() }, by_stack.into())].into();
        assert_eq!(
            folded(&stacks(&summary, &samples)),
            "b;z.rs:3;held by x.rs:1 2\n\
             main;first;lock;a;held by x.rs:1 6\n\
             main;second;lock;a;held by x.rs:1 3\n"
        );
    }
}
