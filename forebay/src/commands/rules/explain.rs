//! `forebay rules explain`: shows the steps of rules for a request and its response.

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::ast::Hook;
use forebay_rules::filter::Filters;
use forebay_rules::run::{CacheResult, OperatorOutcome};

use super::diff::diff;
use super::files::{text_of, whose};
use super::flow::{TrialExchange, TrialResult, run as run_flow};
use super::message::{TrialRequest, TrialResponse, shown};
use super::planned::PlannedRules;
use super::trace::{HookTrace, RuleTrace, TraceStep};
use super::world::{LOOKUPS, TrialWorld};
use super::{explain_json, scope_of, texts};
use crate::commands::is_set;
use crate::stdout::outln;

/// Largest width of the column of rule lines. A longer rule pushes its result to the right.
const LINE_WIDTH_MAX: usize = 76;

pub(super) fn run(args: &ArgMatches, filters: &Filters) -> Result<ExitCode, String> {
    let names: Vec<_> = texts(args, "files").map(|name| (name.clone(), scope_of(args))).collect();
    let planned = PlannedRules::open(&names, filters)?;
    let exchange = exchange(args)?;
    let hook = args.get_one::<String>("hook");
    let hook = hook.and_then(|name| Hook::ALL.into_iter().find(|hook| hook.name() == name));
    let course = run_flow(&planned.program, &exchange, hook)?;
    match is_set(args, "json") {
        true => outln!("{}", explain_json::course(&planned, &exchange, &course)),
        false => print(&planned, &exchange, &course),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the request, the response and the environment that the arguments describe.
fn exchange(args: &ArgMatches) -> Result<TrialExchange, String> {
    let request = args.get_one::<String>("request").map(String::as_str).unwrap_or_default();
    let mut fields: Vec<String> = texts(args, "header").cloned().collect();
    let request = match request.strip_prefix('@') {
        None => TrialRequest::new(request, &fields)?,
        Some(file) => {
            let text = text_of(file)?;
            let mut lines = text.lines().map(str::trim_end).take_while(|line| !line.is_empty());
            let line = lines.next().unwrap_or_default().to_owned();
            fields.splice(..0, lines.map(str::to_owned));
            TrialRequest::new(&line, &fields)?
        }
    };
    let fields: Vec<String> = texts(args, "response-header").cloned().collect();
    let status = args.get_one::<u16>("status").copied().unwrap_or(200);
    let mut world = TrialWorld::default();
    if let Some(client) = args.get_one("client") {
        world.client = *client;
    }
    let found = args.get_one::<String>("cache");
    let found = LOOKUPS.into_iter().find(|it| Some(it.as_str()) == found.map(String::as_str));
    world.found = found.unwrap_or(CacheResult::Miss);
    Ok(TrialExchange { request, answer: TrialResponse::new(status, &fields)?, world })
}

fn print(planned: &PlannedRules, exchange: &TrialExchange, course: &TrialResult) {
    for file in &planned.files {
        outln!("{}: as {}", file.name, whose(file.scope));
    }
    for hook in &course.hooks {
        outln!("\n{}", hook.hook.name());
        print_hook(planned, hook);
    }
    if course.hooks.is_empty() {
        outln!("\nno rules for the hooks that this request passes");
    }
    let was = exchange.request.lines();
    match (&course.to_origin, course.answered_at) {
        (Some(lines), _) => print_lines("request to the origin", &was, lines),
        (None, Some(hook)) => outln!("\nno request to the origin: answered at {}", hook.name()),
        (None, None) => outln!("\nno request to the origin: answered from the cache"),
    }
    print_lines("response to the client", &course.before.lines(), &course.answer.lines());
    if let Some(body) = course.body.as_ref().filter(|body| !body.is_empty()) {
        outln!("\n  {}", shown(body.trim_end().as_bytes()));
    }
}

/// Prints the lines of both lists. Removed lines are marked `-`, added lines `+`.
fn print_lines(title: &str, old: &[String], new: &[String]) {
    outln!("\n{title}");
    for line in diff(old, new) {
        outln!("{} {}", line.mark, line.text);
    }
}

fn print_hook(planned: &PlannedRules, trace: &HookTrace) {
    let width = width_of(planned, trace);
    let all = planned.program.rules().iter().enumerate();
    for (number, info) in all.filter(|(_, info)| info.hook == trace.hook) {
        let place = format!("{}:{}", info.file, info.at.line);
        match trace.rules.iter().find(|rule| rule.number as usize == number) {
            None => outln!("  {place}: not reached, because [L] ended the rules of this file"),
            Some(rule) => {
                outln!("  {place}: {}", if rule.matched { "runs" } else { "does not run" });
                rule.steps.iter().for_each(|step| print_step(planned, rule, step, width));
            }
        }
    }
}

/// Returns the width of the longest line that is shown, up to the limit.
fn width_of(planned: &PlannedRules, trace: &HookTrace) -> usize {
    let widths = trace.rules.iter().flat_map(|rule| {
        let file = planned.place(rule.number).0;
        let at = |step: &TraceStep| match step {
            TraceStep::Test { at, .. } | TraceStep::Operate { at, .. } => at.line,
            TraceStep::Else => 0,
        };
        rule.steps.iter().map(move |step| planned.line(file, at(step)).chars().count())
    });
    widths.max().unwrap_or(0).min(LINE_WIDTH_MAX)
}

fn print_step(planned: &PlannedRules, rule: &RuleTrace, step: &TraceStep, width: usize) {
    let (at, value, said, why) = match step {
        TraceStep::Else => return outln!("        else"),
        TraceStep::Test { at, value, holds: true } => (at, value, "holds", ""),
        TraceStep::Test { at, value, holds: false } => (at, value, "fails", ""),
        TraceStep::Operate { at, value, outcome, why } => (at, value, told(*outcome), *why),
    };
    let line = planned.line(planned.place(rule.number).0, at.line);
    let value = shown(value);
    // A value that the line already shows is not repeated.
    let is_known = matches!(step, TraceStep::Operate { .. }) && line.contains(&value);
    let value = if is_known { String::new() } else { format!("\"{value}\"") };
    let why = if why.is_empty() { String::new() } else { format!("  ({why})") };
    let text = format!("  {:>4}  {line:<width$}  {said:<7}  {value}{why}", at.line);
    outln!("{}", text.trim_end());
}

fn told(outcome: OperatorOutcome) -> &'static str {
    match outcome {
        OperatorOutcome::Done => "done",
        OperatorOutcome::Nothing => "nothing",
        OperatorOutcome::Failed => "FAILED",
    }
}
