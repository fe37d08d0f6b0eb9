//! A request's way through the hooks, as it has it in a server, without one.

use forebay_http::edit::{EditLimits, EditTable, FieldEdit, FieldName, FieldValue};
use forebay_http::fields::{FieldBlock, Fields};
use forebay_http::write;
use forebay_rules::ast::Hook;
use forebay_rules::plan::Program;
use forebay_rules::run::{CacheResult, Effects, Stage, State, Texts, Transaction, Url};

use super::message::{Answer, Request, shown};
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
    let mut runner = Runner {
        program,
        world: &exchange.world,
        only,
        original: exchange.request.url(),
        transaction: Transaction::default(),
        session: State::default(),
        texts: Texts::default(),
        table: EditTable::default(),
        hooks: Vec::new(),
        new_body: None,
    };
    exchange.world.cache.set(CacheResult::None);
    let mut changed: Option<Request> = None;
    for hook in [Hook::ReadRequest, Hook::Remap] {
        let request = changed.as_ref().unwrap_or(&exchange.request);
        match runner.early(hook, request)? {
            Early::Same => {}
            Early::Changed(request) => changed = Some(request),
            Early::Answered(answer, body) => {
                let ruled = runner.send_response(answer.clone(), request)?;
                let body = runner.new_body.take().filter(|_| !body.is_empty()).unwrap_or(body);
                return Ok(runner.course((answer, ruled), (None, Some(body)), Some(hook)));
            }
        }
    }
    let request = changed.as_ref().unwrap_or(&exchange.request);
    exchange.world.cache.set(exchange.world.found);
    let (mut to_origin, mut answer) = (None, exchange.answer.clone());
    if exchange.world.found != CacheResult::HitFresh {
        to_origin = Some(runner.send_request(request)?);
        answer = runner.read_response(answer, request)?;
    }
    let ruled = runner.send_response(answer, request)?;
    Ok(runner.course((exchange.answer.clone(), ruled), (to_origin, None), None))
}

/// What early rules made of a request.
enum Early {
    Same,
    Changed(Request),
    /// With its body.
    Answered(Answer, String),
}

struct Runner<'a> {
    program: &'a Program,
    world: &'a World,
    only: Option<Hook>,
    original: Url<'a>,
    transaction: Transaction,
    session: State,
    texts: Texts,
    table: EditTable,
    hooks: Vec<HookTrace>,
    /// What the last rules have for the body of an answer that rules gave.
    new_body: Option<String>,
}

impl Runner<'_> {
    fn has(&self, hook: Hook) -> bool {
        self.program.has(hook) && self.only.is_none_or(|only| only == hook)
    }

    /// Runs the rules of a hook on these field lines; the changed ones.
    fn run(
        &mut self,
        hook: Hook,
        fields: FieldBlock,
        request: &Request,
        (client, status): (Option<Fields<'_>>, Option<u16>),
    ) -> (Vec<u8>, Effects) {
        let mut bytes = fields.into_bytes();
        let mut edit = FieldEdit::new(&mut bytes, 0, &mut self.table, EditLimits::default());
        let mut stage = Stage {
            fields: &mut edit,
            client,
            method: request.head().method().as_bytes(),
            url: request.url(),
            original: self.original,
            status,
            transaction: &mut self.transaction,
            session: &mut self.session,
            surroundings: self.world,
        };
        let mut trace = HookTrace::new(hook);
        let effects = self.program.run(hook, &mut stage, &mut self.texts, &mut trace);
        edit.finish();
        self.hooks.push(trace);
        (bytes, effects)
    }

    fn early(&mut self, hook: Hook, request: &Request) -> Result<Early, String> {
        if !self.has(hook) {
            return Ok(Early::Same);
        }
        let (mut bytes, effects) = self.run(hook, request.fields(), request, (None, None));
        if let Some(status) = effects.status {
            let (answer, body) = self.own_answer(status, &effects)?;
            return Ok(Early::Answered(answer, body));
        }
        let url = self.texts.url().unwrap_or(request.url());
        if effects.url_changed {
            set_host(&mut bytes, url)?;
        }
        let changed = request.rewritten(url, &bytes);
        changed.map(Early::Changed).map_err(|why| format!("rules at {}: {why}", hook.name()))
    }

    /// What the server makes of an answer by rules.
    fn own_answer(&self, status: u16, effects: &Effects) -> Result<(Answer, String), String> {
        let text = |range: &std::ops::Range<usize>| {
            String::from_utf8_lossy(self.texts.get(range)).into_owned()
        };
        let has_body = !matches!(status, 204 | 205 | 304);
        let line = format!("{}\n", write::reason_phrase(status));
        let (kind, body) = match effects.body.as_ref().map(text) {
            Some(body) if effects.body_is_constant => ("html", body),
            Some(body) => ("plain", body),
            None => ("plain", line),
        };
        let body = if has_body { body } else { String::new() };
        let mut fields = Vec::new();
        if has_body {
            fields.push(format!("content-type: text/{kind}; charset=utf-8"));
        }
        fields.push("cache-control: no-store".to_owned());
        let location = effects.location.as_ref().map(text);
        fields.extend(location.map(|location| format!("location: {location}")));
        let mut answer = Answer::new(status, &fields)?;
        answer.reason = effects.reason.as_ref().map(text);
        Ok((answer, body))
    }

    fn send_request(&mut self, request: &Request) -> Result<Vec<String>, String> {
        if !self.has(Hook::SendRequest) {
            return Ok(request.lines());
        }
        let client = Some(request.head().fields());
        let (bytes, _) = self.run(Hook::SendRequest, request.fields(), request, (client, None));
        request.rewritten(request.url(), &bytes).map(|request| request.lines())
    }

    /// The reason of an origin is not sent on, and neither is one that is set here.
    fn read_response(&mut self, answer: Answer, request: &Request) -> Result<Answer, String> {
        let hook = Hook::ReadResponse;
        self.late(hook, answer, request).map(|answer| Answer { reason: None, ..answer })
    }

    fn send_response(&mut self, answer: Answer, request: &Request) -> Result<Answer, String> {
        self.late(Hook::SendResponse, answer, request)
    }

    fn late(
        &mut self,
        hook: Hook,
        mut answer: Answer,
        request: &Request,
    ) -> Result<Answer, String> {
        if !self.has(hook) {
            return Ok(answer);
        }
        let sees = (Some(request.head().fields()), Some(answer.status));
        let fields = std::mem::take(&mut answer.fields);
        let (mut bytes, effects) = self.run(hook, fields, request, sees);
        // A status that says what the body is stays.
        let may_change = !matches!(answer.status, 204 | 206 | 304);
        if let Some(location) = effects.location.as_ref().filter(|_| may_change) {
            set(&mut bytes, b"location", self.texts.get(location))?;
        }
        self.new_body = effects.body.as_ref().map(|range| shown(self.texts.get(range)));
        answer.fields = FieldBlock::parse(&bytes).ok_or("rules left no head")?;
        if let Some(reason) = &effects.reason {
            answer.reason = Some(shown(self.texts.get(reason)));
        }
        if may_change {
            answer.status = effects.status.unwrap_or(answer.status);
        }
        Ok(answer)
    }

    fn course(
        self,
        (before, answer): (Answer, Answer),
        (to_origin, body): (Option<Vec<String>>, Option<String>),
        answered_at: Option<Hook>,
    ) -> Course {
        Course { hooks: self.hooks, to_origin, before, answer, body, answered_at }
    }
}

/// Host follows the URL.
fn set_host(fields: &mut Vec<u8>, url: Url<'_>) -> Result<(), String> {
    if url.host.is_empty() {
        return Ok(());
    }
    let mut host = url.host.to_vec();
    if let Some(port) = url.port {
        host.push(b':');
        write::decimal(&mut host, u64::from(port));
    }
    set(fields, b"Host", &host)
}

/// One line of this name.
fn set(fields: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), String> {
    let problem = || format!("{} cannot be the {}", shown(value), shown(name));
    let name = FieldName::parse(name).ok_or_else(problem)?;
    let value = FieldValue::parse(value).ok_or_else(problem)?;
    let mut table = EditTable::default();
    let mut edit = FieldEdit::new(fields, 0, &mut table, EditLimits::default());
    edit.set(&name, value).map_err(|_| problem())?;
    edit.finish();
    Ok(())
}
