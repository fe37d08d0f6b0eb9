//! A request's way through the hooks, as it has it in a server, without one. What becomes of a
//! message at a hook is decided where a server has it decided: in `forebay_rules::apply`.

use forebay_rules::apply::{
    AnswerHead, MessageLimits, OwnAnswer, RequestText, RuleScratch, RuledMessage, RuledRequest,
    body_of, rule_answer, rule_incoming, rule_outgoing, rule_request,
};
use forebay_rules::ast::Hook;
use forebay_rules::plan::Program;
use forebay_rules::run::{CacheResult, Effects, RuleVariables, RunBuffers, TransactionState, Url};

use super::message::{Answer, Request, lines_of, rule_limits};
use super::trace::HookTrace;
use super::world::World;

/// What rules are tried on.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) request: Request,
    /// The origin's, or the stored one on a hit.
    pub(super) answer: Answer,
    pub(super) world: World,
}

/// What became of it.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) hooks: Vec<HookTrace>,
    /// The request as the origin gets it, without what the server adds; `None` if nobody is asked.
    pub(super) to_origin: Option<Vec<String>>,
    /// The answer before the rules for answers have seen it.
    pub(super) before: Answer,
    /// As the client gets it, without what the server adds.
    pub(super) answer: Answer,
    /// Of an answer that rules gave.
    pub(super) body: Option<String>,
    /// The hook whose rules have answered.
    pub(super) answered_at: Option<Hook>,
}

/// Runs the rules of all hooks, or of one, on an exchange.
///
/// # Errors
/// A sentence: what they make of the request is none.
pub(super) fn run(
    program: &Program,
    exchange: &Exchange,
    only: Option<Hook>,
) -> Result<Course, String> {
    let mut flow = Flow {
        runner: Runner {
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
    let mut changed: Option<Request> = None;
    for hook in [Hook::ReadRequest, Hook::Remap] {
        let request = changed.as_ref().unwrap_or(&exchange.request);
        let early = flow.early(hook, request);
        match early.map_err(|why| format!("rules at {}: {why}", hook.name()))? {
            Early::Same => {}
            Early::Changed(request) => changed = Some(request),
            Early::Answered(own) => return flow.answered(hook, &own, request),
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
    Ok(Course { hooks, to_origin, before, answer, body: None, answered_at: None })
}

/// What early rules made of a request.
enum Early {
    Same,
    Changed(Request),
    Answered(OwnAnswer),
}

/// What the last rules have for the body of an answer of our own.
type NewBody = Option<Box<[u8]>>;

struct Flow<'a> {
    runner: Runner<'a>,
    scratch: RuleScratch,
    limits: MessageLimits,
}

/// Runs the program, and writes down what it sees.
struct Runner<'a> {
    program: &'a Program,
    world: &'a World,
    only: Option<Hook>,
    original: Url<'a>,
    transaction: TransactionState,
    session: RuleVariables,
    hooks: Vec<HookTrace>,
}

impl Runner<'_> {
    fn has(&self, hook: Hook) -> bool {
        self.program.has(hook) && self.only.is_none_or(|only| only == hook)
    }

    fn run(
        &mut self,
        hook: Hook,
        request: &Request,
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

impl Flow<'_> {
    fn early(&mut self, hook: Hook, request: &Request) -> Result<Early, String> {
        let Flow { runner, scratch, limits } = self;
        if !runner.has(hook) {
            return Ok(Early::Same);
        }
        let sees = (&request.view(runner.original), request.head().version());
        let mut into = RequestText::default();
        let ruled = rule_request(sees, limits, scratch, &mut into, |message, texts| {
            runner.run(hook, request, message, texts)
        });
        match ruled.map_err(|why| why.to_string())? {
            RuledRequest::Same => return Ok(Early::Same),
            RuledRequest::Answer(own) => return Ok(Early::Answered(own)),
            RuledRequest::Changed(_) => {}
        }
        Request::check(into).map(Early::Changed)
    }

    /// The end of a request that rules have answered.
    fn answered(
        mut self,
        hook: Hook,
        own: &OwnAnswer,
        request: &Request,
    ) -> Result<Course, String> {
        let before = Answer::own(own)?;
        let (answer, ruled) = self.send_response(before.clone(), request, true)?;
        let own_body = own.body();
        let body = body_of(own.status(), &own_body, ruled.as_deref());
        let body = String::from_utf8_lossy(body).into_owned();
        let (hooks, answered_at) = (self.runner.hooks, Some(hook));
        Ok(Course { hooks, to_origin: None, before, answer, body: Some(body), answered_at })
    }

    fn send_request(&mut self, request: &Request) -> Result<Vec<String>, String> {
        let Flow { runner, scratch, limits } = self;
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

    fn read_response(&mut self, answer: Answer, request: &Request) -> Result<Answer, String> {
        let Flow { runner, scratch, limits } = self;
        let hook = Hook::ReadResponse;
        if !runner.has(hook) {
            return Ok(answer);
        }
        let received = (answer.status, answer.fields);
        let ruled = rule_incoming(received, limits.edit, scratch, |message, texts| {
            runner.run(hook, request, message, texts)
        });
        let (status, fields) = ruled.map_err(|why| why.to_string())?;
        Ok(Answer { status, fields, reason: None })
    }

    /// The answer that the client gets, and the body that rules have for one of our own.
    fn send_response(
        &mut self,
        answer: Answer,
        request: &Request,
        is_own: bool,
    ) -> Result<(Answer, NewBody), String> {
        let Flow { runner, scratch, limits } = self;
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
        Ok((Answer::read(status, &text)?, body))
    }
}
