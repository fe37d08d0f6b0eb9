//! Sends a request through the hooks as a server does, but needs no server. The effects of the
//! rules are applied to messages by the same code as in a server: `forebay_rules::apply`.

use forebay_rules::apply::{
    AnswerHead, MessageLimits, OwnAnswer, RequestText, RuleScratch, RuledMessage, RuledRequest,
    body_of, rule_answer, rule_incoming, rule_outgoing, rule_request,
};
use forebay_rules::ast::Hook;
use forebay_rules::plan::Program;
use forebay_rules::run::{CacheResult, Effects, RuleVariables, RunBuffers, TransactionState, Url};

use super::message::{TrialRequest, TrialResponse, lines_of, rule_limits};
use super::trace::HookTrace;
use super::world::TrialWorld;

/// The input of a trial of rules.
#[derive(Debug)]
pub(super) struct TrialExchange {
    pub(super) request: TrialRequest,
    /// The origin's response or, on a hit, the stored response.
    pub(super) answer: TrialResponse,
    pub(super) world: TrialWorld,
}

/// The result of a trial of rules.
#[derive(Debug)]
pub(super) struct TrialResult {
    pub(super) hooks: Vec<HookTrace>,
    /// The request to the origin, without fields that the server adds; `None` if no request is
    /// sent.
    pub(super) to_origin: Option<Vec<String>>,
    /// The response before rules changed it.
    pub(super) before: TrialResponse,
    /// The response to the client, without fields that the server adds.
    pub(super) answer: TrialResponse,
    /// The body of a response that rules made.
    pub(super) body: Option<String>,
    /// The hook whose rules answered the request.
    pub(super) answered_at: Option<Hook>,
}

/// Runs the rules of all hooks, or of a single hook.
///
/// # Errors
/// The rules made the request invalid.
pub(super) fn run(
    program: &Program,
    exchange: &TrialExchange,
    only: Option<Hook>,
) -> Result<TrialResult, String> {
    let mut flow = TrialFlow {
        runner: HookRunner {
            program,
            world: &exchange.world,
            only,
            original: exchange.request.url(),
            transaction: TransactionState::default(),
            session: RuleVariables::default(),
            hooks: Vec::new(),
        },
        scratch: RuleScratch::default(),
        limits: rule_limits(),
    };
    exchange.world.cache.set(CacheResult::None);
    let mut changed: Option<TrialRequest> = None;
    for hook in [Hook::ReadRequest, Hook::Remap] {
        let request = changed.as_ref().unwrap_or(&exchange.request);
        let early = flow.early(hook, request);
        match early.map_err(|why| format!("rules at {}: {why}", hook.name()))? {
            RequestOutcome::Same => {}
            RequestOutcome::Changed(request) => changed = Some(request),
            RequestOutcome::Answered(own) => return flow.answered(hook, &own, request),
        }
    }
    let request = changed.as_ref().unwrap_or(&exchange.request);
    exchange.world.cache.set(exchange.world.found);
    let before = exchange.answer.clone();
    let (mut to_origin, mut answer) = (None, before.clone());
    if exchange.world.found != CacheResult::HitFresh {
        to_origin = Some(flow.send_request(request)?);
        answer = flow.read_response(answer, request)?;
    }
    let (answer, _) = flow.send_response(answer, request, false)?;
    let hooks = flow.runner.hooks;
    Ok(TrialResult { hooks, to_origin, before, answer, body: None, answered_at: None })
}

/// The result of a hook that runs before the cache lookup.
enum RequestOutcome {
    Same,
    Changed(TrialRequest),
    Answered(OwnAnswer),
}

/// The body that rules set for a response that Forebay makes itself.
type NewBody = Option<Box<[u8]>>;

struct TrialFlow<'a> {
    runner: HookRunner<'a>,
    scratch: RuleScratch,
    limits: MessageLimits,
}

/// Runs the rules of a program and records a trace.
struct HookRunner<'a> {
    program: &'a Program,
    world: &'a TrialWorld,
    only: Option<Hook>,
    original: Url<'a>,
    transaction: TransactionState,
    session: RuleVariables,
    hooks: Vec<HookTrace>,
}

impl HookRunner<'_> {
    fn has(&self, hook: Hook) -> bool {
        self.program.has(hook) && self.only.is_none_or(|only| only == hook)
    }

    fn run(
        &mut self,
        hook: Hook,
        request: &TrialRequest,
        mut message: RuledMessage<'_, '_>,
        texts: &mut RunBuffers,
    ) -> Effects {
        let view = request.view(self.original);
        let carried = (&mut self.transaction, &mut self.session);
        let mut context = message.run_context(&view, carried, self.world);
        let mut trace = HookTrace::new(hook);
        let effects = self.program.run(hook, &mut context, texts, &mut trace);
        self.hooks.push(trace);
        effects
    }
}

impl TrialFlow<'_> {
    fn early(&mut self, hook: Hook, request: &TrialRequest) -> Result<RequestOutcome, String> {
        let TrialFlow { runner, scratch, limits } = self;
        if !runner.has(hook) {
            return Ok(RequestOutcome::Same);
        }
        let sees = (&request.view(runner.original), request.head().version());
        let mut into = RequestText::default();
        let ruled = rule_request(sees, limits, scratch, &mut into, |message, texts| {
            runner.run(hook, request, message, texts)
        });
        match ruled.map_err(|why| why.to_string())? {
            RuledRequest::Same => return Ok(RequestOutcome::Same),
            RuledRequest::Answer(own) => return Ok(RequestOutcome::Answered(own)),
            RuledRequest::Changed(_) => {}
        }
        TrialRequest::check(into).map(RequestOutcome::Changed)
    }

    /// Returns the result for a request that rules answered.
    fn answered(
        mut self,
        hook: Hook,
        own: &OwnAnswer,
        request: &TrialRequest,
    ) -> Result<TrialResult, String> {
        let before = TrialResponse::own(own)?;
        let (answer, ruled) = self.send_response(before.clone(), request, true)?;
        let own_body = own.body();
        let body = body_of(own.status(), &own_body, ruled.as_deref());
        let body = String::from_utf8_lossy(body).into_owned();
        let (hooks, answered_at) = (self.runner.hooks, Some(hook));
        Ok(TrialResult { hooks, to_origin: None, before, answer, body: Some(body), answered_at })
    }

    fn send_request(&mut self, request: &TrialRequest) -> Result<Vec<String>, String> {
        let TrialFlow { runner, scratch, limits } = self;
        let hook = Hook::SendRequest;
        if !runner.has(hook) {
            return Ok(request.lines());
        }
        let fields = rule_outgoing(request.fields(), limits.edit, scratch, |message, texts| {
            runner.run(hook, request, message, texts)
        });
        let fields = fields.map_err(|why| why.to_string())?;
        let mut lines = request.lines();
        lines.truncate(1);
        lines.extend(lines_of(&fields));
        Ok(lines)
    }

    fn read_response(
        &mut self,
        answer: TrialResponse,
        request: &TrialRequest,
    ) -> Result<TrialResponse, String> {
        let TrialFlow { runner, scratch, limits } = self;
        let hook = Hook::ReadResponse;
        if !runner.has(hook) {
            return Ok(answer);
        }
        let received = (answer.status, answer.fields);
        let ruled = rule_incoming(received, limits.edit, scratch, |message, texts| {
            runner.run(hook, request, message, texts)
        });
        let (status, fields) = ruled.map_err(|why| why.to_string())?;
        Ok(TrialResponse { status, fields, reason: None })
    }

    /// Returns the response to the client, and the body that rules set for a response that Forebay
    /// makes itself.
    fn send_response(
        &mut self,
        answer: TrialResponse,
        request: &TrialRequest,
        is_own: bool,
    ) -> Result<(TrialResponse, NewBody), String> {
        let TrialFlow { runner, scratch, limits } = self;
        let hook = Hook::SendResponse;
        if !runner.has(hook) {
            return Ok((answer, None));
        }
        let (mut text, fields_start) = answer.text();
        let head = AnswerHead { status: answer.status, head_start: 0, fields_start, is_own };
        let (status, body) =
            rule_answer(&mut text, head, limits.edit, scratch, |message, texts| {
                runner.run(hook, request, message, texts)
            });
        Ok((TrialResponse::read(status, &text)?, body))
    }
}
