//! The steps of an explanation, in the order of `flow.rs`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use forebay_cache::JoinPreview;
use forebay_http::fields::FieldId;
use forebay_http::policy::cache_status::{CacheOutcome, CacheStatus};
use forebay_http::policy::meta::StoredMeta;
use forebay_http::policy::range::RangeDecision;
use forebay_http::policy::reason::{Detail, Reason};
use forebay_http::policy::reuse::ForwardReason;
use forebay_http::policy::stale::{StaleCause, may_serve_stale, stale_limit};
use forebay_http::request::RequestHead;
use forebay_http::target::Scheme;
use forebay_rules::apply::{RequestText, RuledRequest};
use forebay_rules::ast::{Hook, HttpControl};

use super::facts::{AnswerKind, Explanation, KeyFacts, RequestLine, StaleUse, StepFacts, Verdict};
use super::site::{shown_sent, site_facts};
use super::stored::stored_facts;
use crate::accept::ClientNetwork;
use crate::admission::redirects_login;
use crate::clock;
use crate::config::{Config, HostPattern, ListenerNumber, Site};
use crate::fault::Fault;
use crate::fetch::{JoinContext, JoinKey, StalePlan, declined_detail, sent_path};
use crate::key::{
    KeyText, LocalRequest, NormalText, RouteMatch, check_connect, check_content, has_other_source,
    is_loop, local_request, match_route, write_key,
};
use crate::limits::JOINS_MAX;
use crate::login::with_other_credentials;
use crate::lookup::{
    ForwardPlan, Hit, LookupMode, LookupQuery, LookupResult, SelectedPart, bypass, lookup,
    lookup_stale,
};
use crate::parse::{Request, explicit_port};
use crate::rules::{HookContext, RuleState, view_of};
use crate::signature::without_signature;
use crate::transaction::normal_request;
use crate::worker::Worker;

/// The client address that rules see in an explanation.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A request to explain.
#[derive(Debug)]
pub(crate) struct ExplainedRequest {
    pub(crate) text: RequestText,
    /// The scheme of the request's URL.
    pub(crate) scheme: Scheme,
    /// The listener at which the request arrives.
    pub(crate) listener: ListenerNumber,
}

/// Explains how this worker would answer a request now.
pub(crate) fn explain(worker: &Rc<Worker>, request: &ExplainedRequest) -> Explanation {
    let config = worker.config();
    let (head, scheme) = (request.text.head(), request.scheme);
    let depends = config.sites.depend_on_listener();
    let mut addresses = config.server.addresses().filter(|_| depends);
    let listener = addresses.nth(request.listener.index());
    let mut steps = StepFacts { listener, ..StepFacts::default() };
    let rule_state = RuleState::inspecting(CLIENT, scheme);
    let explainer =
        Explainer { worker, config: &config, rule_state: &rule_state, listener: request.listener };
    let verdict = explainer.run(head, &mut steps).unwrap_or_else(|fault| {
        if fault == Fault::NoSite {
            steps.other_sites = first_sites(&config);
        }
        Verdict { kind: refused(fault), cache_status: None }
    });
    Explanation { request: request_line(head, scheme), steps, verdict }
}

/// Returns the names and hosts of the first sites.
fn first_sites(config: &Config) -> Vec<String> {
    let hosts = |site: &Site| {
        let names: Vec<_> = site.names.iter().map(HostPattern::to_string).collect();
        let at: Vec<_> = site.listen.iter().map(SocketAddr::to_string).collect();
        let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
        format!("{}: {}{at}", site.name, names.join(", "))
    };
    config.sites.iter().take(SITES_SHOWN_MAX).map(hosts).collect()
}

/// The number of sites that are listed if none serves the request.
const SITES_SHOWN_MAX: usize = 20;

fn refused(fault: Fault) -> AnswerKind {
    AnswerKind::Refused { status: fault.status(), reason: fault.reason() }
}

fn request_line(head: RequestHead<'_>, scheme: Scheme) -> RequestLine {
    let method = String::from_utf8_lossy(head.method().as_bytes()).into_owned();
    let url = Request::check(head, scheme).map(|request| url_of(&request)).unwrap_or_default();
    RequestLine { method, url }
}

/// Returns the URL of a request, with the host as it was sent.
fn url_of(request: &Request<'_>) -> String {
    let authority = request.target.authority;
    let host = authority.map_or(String::new(), |authority| {
        let port = authority.port.map_or(String::new(), |port| format!(":{port}"));
        format!("{}{port}", authority.host.escape_ascii())
    });
    let scheme = request.scheme.as_str();
    format!("{scheme}://{host}{}", request.target.path_query.escape_ascii())
}

/// Runs the steps for one request and explains them.
struct Explainer<'a> {
    worker: &'a Rc<Worker>,
    config: &'a Rc<Config>,
    rule_state: &'a RuleState,
    listener: ListenerNumber,
}

impl Explainer<'_> {
    /// Runs the steps of a request, and records them in `out`.
    ///
    /// # Errors
    /// The request would be refused before the cache is used.
    fn run(&self, head: RequestHead<'_>, out: &mut StepFacts) -> Result<Verdict, Fault> {
        let local = |text| Verdict { kind: AnswerKind::Local(text), cache_status: None };
        let received = Request::check(head, self.rule_state.scheme())?;
        if is_loop(&received, &self.worker.via) {
            return Err(Fault::Loop);
        }
        let (mut early, mut plain, mut late, mut key) = Default::default();
        let mut normal = NormalText::default();
        let hook = (Hook::ReadRequest, None);
        let Some(request) = self.run_rules(hook, (received, &received), &mut early, out)? else {
            return Ok(local("a header rule answers the request"));
        };
        let route = match_route(self.config, self.listener, &request, &mut key)?;
        let context = self.join_context(route);
        out.site = Some(site_facts(route, context.as_ref(), (&request, &self.config.server.zone)));
        if redirects_login(route, &request)? {
            return Ok(local(HTTPS_REDIRECT));
        }
        let limits = self.config.server.rule_limits().head;
        let plain = with_other_credentials(&request, (route.route, None), limits, &mut plain)?;
        let request = plain.unwrap_or(request);
        let hook = (Hook::Remap, Some(route));
        let Some(mut request) = self.run_rules(hook, (request, &received), &mut late, out)? else {
            return Ok(local("a header rule answers the request"));
        };
        check_content(route, &request)?;
        if route.route.settings.ignore_client_no_cache {
            request.directives = request.directives.accepting_fresh();
        }
        let asked = local_request(route, &request);
        let settings = &route.route.settings;
        request.target.path_query = without_signature(request.target.path_query, settings);
        if let Some(text) = answer_without_key(route, &request)? {
            return Ok(local(text));
        }
        let is_ruled_out = self.rule_state.is_off(HttpControl::RequestCacheable);
        let literal = request;
        let bypass = match has_other_source(route, &request) {
            true => Some((ForwardReason::Bypass, Reason::OtherOrigin)),
            false => bypass(&request, route.route),
        };
        let bypasses = is_ruled_out || bypass.is_some();
        if let Some(form) = normal_request(&mut normal, &request, route.route, bypasses) {
            request = form;
        }
        write_key(&mut key, route, request.target.authority, request.target.path_query);
        out.key = key_facts(&key, &literal, &request);
        if asked == Some(LocalRequest::Purge) {
            return Ok(local(
                "the stored responses of the URL, prefix or tags are removed, if the client's \
                 address is allowed to purge",
            ));
        }
        let context = context.ok_or(Fault::NoSite)?;
        if let Some(site) = &mut out.site {
            site.sent = shown_sent(route.route, &request);
        }
        let query = LookupQuery {
            store: &self.worker.store,
            mode: LookupMode::Inspect,
            is_used: self.worker.store_is_used(),
            bypass,
            is_ruled_out,
            route: route.route,
            key: &key,
            now: clock::unix_seconds(),
        };
        Ok(self.run_cache(&context, &request, &query, out))
    }

    /// Returns the context of joining a fetch; `None` if the route has neither origin nor files.
    fn join_context<'a>(&'a self, route: RouteMatch<'a>) -> Option<JoinContext<'a>> {
        let network = ClientNetwork::of(CLIENT, self.config.server.ipv6_network_bits);
        let has_files = route.route.settings.files.get().is_some();
        let has_answers = has_files || route.route.origins.first().is_some();
        has_answers.then(|| JoinContext::new(self.worker, self.config, route, network))
    }

    /// Runs the rules of a hook; returns `None` if they answer the request themselves.
    ///
    /// # Errors
    /// [`Fault::Rules`]: the result is not a valid request.
    fn run_rules<'t>(
        &self,
        (hook, route): (Hook, Option<RouteMatch<'_>>),
        (request, received): (Request<'t>, &Request<'_>),
        into: &'t mut RequestText,
        out: &mut StepFacts,
    ) -> Result<Option<Request<'t>>, Fault> {
        let view = view_of(&request, received);
        let context =
            HookContext::new(self.worker, None, self.config, route, self.rule_state, view);
        out.rules.ran |= context.has(hook);
        let head = match context.run_on_request(hook, request.form.version, into)? {
            RuledRequest::Same => return Ok(Some(request)),
            RuledRequest::Answer(_) => return Ok(None),
            RuledRequest::Changed(head) => head,
        };
        let changed = Request::check(head, request.scheme).map_err(|_| Fault::Rules)?;
        let (before, after) = (url_of(&request), url_of(&changed));
        if before != after {
            out.rules.url = Some(after);
        }
        let lines = |request: &Request<'_>| {
            let fields = request.head.fields().iter();
            fields.map(|field| (field.name.to_vec(), field.value.to_vec())).collect::<Vec<_>>()
        };
        out.rules.changes_fields |= lines(&request) != lines(&changed);
        Ok(Some(Request { form: request.form, ..changed }))
    }

    /// Decides how a request is answered, whose key and bypass are in `query`.
    fn run_cache(
        &self,
        context: &JoinContext<'_>,
        request: &Request<'_>,
        query: &LookupQuery<'_>,
        out: &mut StepFacts,
    ) -> Verdict {
        let stored = stored_facts(query, request, self.worker.purger.kinds());
        if let Some(selected) = &stored.selected {
            out.stale_uses = stale_uses(query, request, &selected.meta);
        }
        out.stored = Some(stored);
        let mut variant = Vec::new();
        // The store may change between the lookup and the check of the fetches.
        for _ in 0..JOINS_MAX {
            let plan = match lookup(query, request, &mut variant) {
                LookupResult::Forward(plan) => plan,
                LookupResult::Hit(hit) => {
                    let detail = hit.stored.meta.detail();
                    let status = CacheStatus { detail, ..CacheStatus::hit(hit.ttl) };
                    return self.verdict(AnswerKind::Hit { status: status_of(&hit) }, status);
                }
            };
            if let Some(verdict) = self.forward(context, (query, request, &mut variant), &plan) {
                return verdict;
            }
        }
        let detail = Detail::from(Reason::NotShared);
        let status = CacheStatus { detail: Some(detail), ..CacheStatus::UNUSED };
        self.verdict(AnswerKind::Pass(Some(detail)), status)
    }

    /// Decides how a request that is not a hit is answered; returns `None` if the store has changed
    /// since the lookup.
    fn forward(
        &self,
        context: &JoinContext<'_>,
        (query, request, variant): (&LookupQuery<'_>, &Request<'_>, &mut Vec<u8>),
        plan: &ForwardPlan,
    ) -> Option<Verdict> {
        let only_if_cached = request.directives.only_if_cached;
        if plan.is_stale {
            let stale = StalePlan::new(context.origin_is_down(), plan.fills, only_if_cached);
            let found = stale
                .causes()
                .find_map(|cause| Some((cause, lookup_stale(query, request, variant, cause)?.ttl)));
            if let Some((cause, ttl)) = found
                && !(stale.may_probe() && context.would_probe())
            {
                let detail = Some(cause.reason().into());
                let status = CacheStatus { detail, ..CacheStatus::hit(ttl) };
                return Some(self.verdict(AnswerKind::Stale(cause), status));
            }
        }
        let status = CacheStatus { detail: plan.detail, ..CacheStatus::forwarded(plan.reason) };
        if only_if_cached {
            let detail = Some(Reason::OnlyIfCached.into());
            let status = CacheStatus { outcome: CacheOutcome::NotForwarded, detail, ..status };
            return Some(self.verdict(refused(Fault::OnlyIfCached), status));
        }
        if let Err(fault) = sent_path(query.route, request.target.path_query) {
            return Some(Verdict { kind: refused(fault), cache_status: None });
        }
        if plan.missing.is_some() {
            return Some(self.verdict(AnswerKind::FetchPart, status));
        }
        if !plan.collapses() {
            return Some(self.verdict(AnswerKind::Pass(plan.detail), status));
        }
        let key = JoinKey { primary: query.key, variant };
        Some(match context.preview(key, request, plan) {
            JoinPreview::Changed => return None,
            JoinPreview::Follow => {
                self.verdict(AnswerKind::Follow, CacheStatus { collapsed: true, ..status })
            }
            JoinPreview::Declined(declined) => {
                let detail = Some(declined_detail(declined.reason));
                let left_ms = declined.until_ms.saturating_sub(clock::monotonic_ms());
                self.verdict(AnswerKind::Declined { left_ms }, CacheStatus { detail, ..status })
            }
            JoinPreview::Lead => {
                let validates = plan.stale.as_ref().is_some_and(|stale| stale.meta.can_validate());
                let kind = match plan.unit {
                    _ if validates => AnswerKind::Validate,
                    Some(_) => AnswerKind::FetchPart,
                    None => AnswerKind::Fetch,
                };
                self.verdict(kind, status)
            }
        })
    }

    fn verdict(&self, kind: AnswerKind, status: CacheStatus) -> Verdict {
        let mut text = Vec::new();
        status.write(&self.config.server.cache_name, &mut text);
        Verdict { kind, cache_status: Some(String::from_utf8_lossy(&text).into_owned()) }
    }
}

const HTTPS_REDIRECT: &str = "a request without TLS is redirected (`https_redirect_port`)";

/// Returns the description of an answer that this server gives itself and that needs no key.
fn answer_without_key(
    route: RouteMatch<'_>,
    request: &Request<'_>,
) -> Result<Option<&'static str>, Fault> {
    let Some(asked) = local_request(route, request) else { return Ok(None) };
    Ok(Some(match asked {
        LocalRequest::Purge => return Ok(None),
        LocalRequest::Connect => check_connect(route, request, false).map(|()| "a tunnel opens")?,
        LocalRequest::Options => "OPTIONS with Max-Forwards: 0 is answered by this server",
        LocalRequest::HttpsRedirect => HTTPS_REDIRECT,
        LocalRequest::Answered => match route.route.settings.redirect.get() {
            Some(_) => "the request is redirected (`redirect`)",
            None => "the route gives a fixed answer (`respond`)",
        },
    }))
}

/// Returns the status of the answer that a stored response gives.
fn status_of(hit: &Hit<'_>) -> u16 {
    match hit.part {
        SelectedPart::NotModified => 304,
        SelectedPart::Body(RangeDecision::Whole) => hit.stored.meta.status,
        SelectedPart::Body(RangeDecision::Part { .. } | RangeDecision::Parts) => 206,
        SelectedPart::Body(RangeDecision::Unsatisfiable) => 416,
    }
}

/// Returns the key as text, and the differences between the request as it was received and its
/// normal form, from which the key is made.
fn key_facts(key: &[u8], literal: &Request<'_>, request: &Request<'_>) -> Option<KeyFacts> {
    let authority = request.target.authority;
    let has_upper = authority.is_some_and(|one| one.host.iter().any(u8::is_ascii_uppercase));
    let is_default = authority
        .is_some_and(|one| one.port.is_some() && explicit_port(one, request.scheme).is_none());
    let has_changed = |id| {
        let [before, after] = [literal, request].map(|one| one.head.fields());
        !before.all(id).eq(after.all(id))
    };
    let changes = [
        (authority.is_none(), "the request has no host, so the key has the origin's host"),
        (has_upper, "the host is in lower case"),
        (is_default, "the default port is left out"),
        (
            literal.target.path_query != request.target.path_query,
            "the query is in its normal form (sort_query, keep_query, drop_query)",
        ),
        (has_changed(FieldId::Cookie), "some cookies are left out (keep_cookies)"),
        (
            has_changed(FieldId::AcceptLanguage),
            "Accept-Language is reduced to the best of the route's languages (languages)",
        ),
    ];
    let changes = changes.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text);
    Some(KeyFacts { key: KeyText::of(key)?, changes: changes.collect() })
}

fn stale_uses(query: &LookupQuery<'_>, request: &Request<'_>, meta: &StoredMeta) -> Vec<StaleUse> {
    let rules = query.route.settings.stale_rules();
    let directives = &request.directives;
    let causes = [StaleCause::Revalidating, StaleCause::Error, StaleCause::Unreachable];
    let uses = causes.into_iter().map(|cause| StaleUse {
        cause,
        limit: stale_limit(meta, directives, &rules, cause, query.now),
        is_permitted: may_serve_stale(meta, directives, &rules, cause, query.now),
    });
    uses.collect()
}
