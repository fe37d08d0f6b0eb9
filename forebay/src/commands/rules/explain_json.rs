//! The output of `forebay rules explain` as JSON.

use forebay_rules::run::OperatorOutcome;
use serde_json::{Value, json};

use super::files::name_of;
use super::flow::{TrialExchange, TrialResult};
use super::message::shown;
use super::planned::PlannedRules;
use super::trace::{HookTrace, RuleTrace, TraceStep};

pub(super) fn course(
    planned: &PlannedRules,
    exchange: &TrialExchange,
    course: &TrialResult,
) -> Value {
    let file =
        |file: &super::files::RuleFile| json!({ "file": file.name, "scope": name_of(file.scope) });
    let counters = planned.program.counters();
    let counted = exchange.world.counted.borrow();
    let counted: Vec<_> = counted.iter().filter_map(|at| counters.get(*at as usize)).collect();
    json!({
        "files": planned.files.iter().map(file).collect::<Vec<_>>(),
        "hooks": course.hooks.iter().map(|trace| hook(planned, trace)).collect::<Vec<_>>(),
        "answered_at": course.answered_at.map(|hook| hook.name()),
        "request": exchange.request.lines(),
        "request_to_origin": course.to_origin,
        "answer": course.before.lines(),
        "answer_to_client": course.answer.lines(),
        "body": course.body,
        "counted": counted,
    })
}

fn hook(planned: &PlannedRules, trace: &HookTrace) -> Value {
    let rules = trace.rules.iter().map(|it| rule(planned, it)).collect::<Vec<_>>();
    json!({ "hook": trace.hook.name(), "rules": rules })
}

fn rule(planned: &PlannedRules, trace: &RuleTrace) -> Value {
    let (file, line) = planned.place(trace.number);
    let steps: Vec<_> = trace.steps.iter().map(|it| step(planned, file, it)).collect();
    json!({ "file": file, "line": line, "runs": trace.matched, "steps": steps })
}

fn step(planned: &PlannedRules, file: &str, step: &TraceStep) -> Value {
    match step {
        TraceStep::Else => json!({ "else": true }),
        TraceStep::Test { at, value, holds } => json!({
            "line": at.line,
            "text": planned.line(file, at.line).trim(),
            "value": shown(value),
            "holds": holds,
        }),
        TraceStep::Operate { at, value, outcome, why } => {
            let name = match outcome {
                OperatorOutcome::Done => "done",
                OperatorOutcome::Nothing => "nothing",
                OperatorOutcome::Failed => "failed",
            };
            json!({
                "line": at.line,
                "text": planned.line(file, at.line).trim(),
                "value": shown(value),
                "outcome": name,
                "why": (!why.is_empty()).then_some(why),
            })
        }
    }
}
