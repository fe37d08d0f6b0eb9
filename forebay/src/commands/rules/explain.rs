//! `forebay rules explain`.

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::ast::Hook;
use forebay_rules::filter::Filters;
use forebay_rules::run::{CacheResult, OperatorOutcome};

use super::diff::diff;
use super::files::{text_of, whose};
use super::flow::{Course, Exchange, run as run_flow};
use super::message::{Answer, Request, shown};
use super::planned::Planned;
use super::trace::{HookTrace, RuleTrace, Step};
use super::world::{LOOKUPS, World};
use super::{explain_json, scope_of, texts};
use crate::commands::is_set;
use crate::say::say;

/// Lines that are longer push what is said of them to the right.
const LINE_WIDTH_MAX: usize = 76;

pub(super) fn run(args: &ArgMatches, filters: &Filters) -> Result<ExitCode, String> {
    let names: Vec<_> = texts(args, "files").map(|name| (name.clone(), scope_of(args))).collect();
    let planned = Planned::open(&names, filters)?;
    let exchange = exchange(args)?;
    let hook = args.get_one::<String>("hook");
    let hook = hook.and_then(|name| Hook::ALL.into_iter().find(|hook| hook.name() == name));
    let course = run_flow(&planned.program, &exchange, hook)?;
    match is_set(args, "json") {
        true => say!("{}", explain_json::course(&planned, &exchange, &course)),
        false => print(&planned, &exchange, &course),
    }
    Ok(ExitCode::SUCCESS)
}

/// What the arguments describe.
fn exchange(args: &ArgMatches) -> Result<Exchange, String> {
    let request = args.get_one::<String>("request").map(String::as_str).unwrap_or_default();
    let mut fields: Vec<String> = texts(args, "header").cloned().collect();
    let request = match request.strip_prefix('@') {
        None => Request::new(request, &fields)?,
        Some(file) => {
            let text = text_of(file)?;
            let mut lines = text.lines().map(str::trim_end).take_while(|line| !line.is_empty());
            let line = lines.next().unwrap_or_default().to_owned();
            fields.splice(..0, lines.map(str::to_owned));
            Request::new(&line, &fields)?
        }
    };
    let fields: Vec<String> = texts(args, "response-header").cloned().collect();
    let status = args.get_one::<u16>("status").copied().unwrap_or(200);
    let mut world = World::default();
    if let Some(client) = args.get_one("client") {
        world.client = *client;
    }
    let found = args.get_one::<String>("cache");
    let found = LOOKUPS.into_iter().find(|it| Some(it.as_str()) == found.map(String::as_str));
    world.found = found.unwrap_or(CacheResult::Miss);
    Ok(Exchange { request, answer: Answer::new(status, &fields)?, world })
}

fn print(planned: &Planned, exchange: &Exchange, course: &Course) {
    for file in &planned.files {
        say!("{}: as {}", file.name, whose(file.scope));
    }
    for hook in &course.hooks {
        say!("\n{}", hook.hook.name());
        print_hook(planned, hook);
    }
    if course.hooks.is_empty() {
        say!("\nno rule is for a hook that this request comes by");
    }
    let was = exchange.request.lines();
    match (&course.to_origin, course.answered_at) {
        (Some(lines), _) => print_lines("request to the origin", &was, lines),
        (None, Some(hook)) => say!("\nno request to the origin: answered at {}", hook.name()),
        (None, None) => say!("\nno request to the origin: what is stored answers"),
    }
    print_lines("answer to the client", &course.before.lines(), &course.answer.lines());
    if let Some(body) = course.body.as_ref().filter(|body| !body.is_empty()) {
        say!("\n  {}", shown(body.trim_end().as_bytes()));
    }
}

/// With `-` before what is no longer there, `+` before what is new.
fn print_lines(title: &str, old: &[String], new: &[String]) {
    say!("\n{title}");
    for line in diff(old, new) {
        say!("{} {}", line.mark, line.text);
    }
}

fn print_hook(planned: &Planned, trace: &HookTrace) {
    let width = width_of(planned, trace);
    let all = planned.program.rules().iter().enumerate();
    for (number, info) in all.filter(|(_, info)| info.hook == trace.hook) {
        let place = format!("{}:{}", info.file, info.at.line);
        match trace.rules.iter().find(|rule| rule.number as usize == number) {
            None => say!("  {place}: not reached, [L] ended the rules of this file"),
            Some(rule) => {
                say!("  {place}: {}", if rule.matched { "runs" } else { "does not run" });
                rule.steps.iter().for_each(|step| print_step(planned, rule, step, width));
            }
        }
    }
}

/// Of the longest line that is shown.
fn width_of(planned: &Planned, trace: &HookTrace) -> usize {
    let widths = trace.rules.iter().flat_map(|rule| {
        let file = planned.place(rule.number).0;
        let at = |step: &Step| match step {
            Step::Test { at, .. } | Step::Operate { at, .. } => at.line,
            Step::Else => 0,
        };
        rule.steps.iter().map(move |step| planned.line(file, at(step)).chars().count())
    });
    widths.max().unwrap_or(0).min(LINE_WIDTH_MAX)
}

fn print_step(planned: &Planned, rule: &RuleTrace, step: &Step, width: usize) {
    let (at, value, said, why) = match step {
        Step::Else => return say!("        else"),
        Step::Test { at, value, holds: true } => (at, value, "holds", ""),
        Step::Test { at, value, holds: false } => (at, value, "fails", ""),
        Step::Operate { at, value, outcome, why } => (at, value, told(*outcome), *why),
    };
    let line = planned.line(planned.place(rule.number).0, at.line);
    let value = shown(value);
    // What stands in the line as it is needs not be said again.
    let is_known = matches!(step, Step::Operate { .. }) && line.contains(&value);
    let value = if is_known { String::new() } else { format!("\"{value}\"") };
    let why = if why.is_empty() { String::new() } else { format!("  ({why})") };
    let text = format!("  {:>4}  {line:<width$}  {said:<7}  {value}{why}", at.line);
    say!("{}", text.trim_end());
}

fn told(outcome: OperatorOutcome) -> &'static str {
    match outcome {
        OperatorOutcome::Done => "done",
        OperatorOutcome::Nothing => "nothing",
        OperatorOutcome::Failed => "FAILED",
    }
}
