//! The routes of the admin interface.

use std::net::Ipv4Addr;
use std::rc::Rc;

use forebay_http::authority::Authority;
use forebay_shm::CounterValue;
use http::{HeaderMap, Method, Request, StatusCode, header};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::body::{AdminResponse, json_answer, plain, typed};
use super::explain::explain;
use super::list::list;
use super::locks;
use super::metrics::{self, Reports};
use super::places::ActiveRequest;
use super::purge::purge;
use super::query::{AdminQuery, QueryError};
use super::trace::trace;
use crate::clock;
use crate::config::ConfigChange;
use crate::counters::COUNTERS;
use crate::engine::{Control, TrialReport, TrialTerms};
use crate::limits::SERVICE_KEPT_MS;
use crate::rules::{RuleCount, RuleLine, RuleReport};
use crate::site_counts::SiteLine;

/// Longest trial of a configuration: a day shows every load that returns daily.
const TRIAL_MS_MAX: u64 = 86_400_000;

const _: () = assert!(TRIAL_MS_MAX < SERVICE_KEPT_MS, "a trial may need its previous services");

/// Share of failed requests that a trial permits by default: an origin that is fine causes fewer.
const TRIAL_ERRORS_PERCENT: u64 = 5;

/// Number of requests from which on a trial counts errors by default: of fewer requests, a single
/// one may be more than the permitted share.
const TRIAL_REQUESTS_MIN: u64 = 20;

/// Answers an admin request.
pub(super) async fn answer(
    control: &Rc<Control>,
    request: Request<Incoming>,
    is_tcp: bool,
    active: &ActiveRequest,
) -> AdminResponse {
    if is_tcp && !is_local(request.headers()) {
        let text = "admin requests must come from this machine, and not from a web page\n";
        return plain(StatusCode::FORBIDDEN, text);
    }
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::GET, "/healthz") => health(control),
        (&Method::GET, "/metrics") => prometheus(control).await,
        (&Method::GET, "/stats") => json_answer(StatusCode::OK, &stats(control)),
        (&Method::GET, "/sites") => json_answer(StatusCode::OK, &sites(control).await),
        (&Method::GET, "/rules") => json_answer(StatusCode::OK, &rules(control).await),
        (&Method::GET, "/explain") => explain(control, request.uri().query()).await,
        (&Method::GET, "/trace") => trace(control, request.uri().query()).await,
        (&Method::GET, "/ls") => list(control, request.uri().query()),
        (&Method::GET, "/locks") => locks::look(control),
        (&Method::POST, "/locks") => locks::switch(control, request.uri().query()),
        (&Method::POST, "/purge") => purge(control, request, active).await,
        (&Method::GET, "/changes") => changes(control),
        (&Method::GET, "/reload") => json_answer(StatusCode::OK, &reload_state(control)),
        (&Method::POST, "/reload") => reload(control, request.uri().query()).await,
        (&Method::GET, "/") => plain(StatusCode::OK, INDEX),
        (
            _,
            "/healthz" | "/metrics" | "/stats" | "/sites" | "/rules" | "/explain" | "/trace"
            | "/ls" | "/changes" | "/",
        ) => not_allowed("GET"),
        (_, "/purge") => not_allowed("POST"),
        (_, "/locks" | "/reload") => not_allowed("GET, POST"),
        _ => plain(StatusCode::NOT_FOUND, "no such path; GET / lists all paths\n"),
    }
}

/// Returns a 405, which names the allowed methods (RFC 9110 §15.5.6).
fn not_allowed(method: &'static str) -> AdminResponse {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, format!("use {method}\n"));
    answer.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(method));
    answer
}

const INDEX: &str = "GET  /healthz  answers 200 while every worker runs, 503 while one is stuck
GET  /metrics  all counters, for Prometheus
GET  /stats    all counters and the cache, as JSON
GET  /sites    counts of each site, as JSON
GET  /rules    counts and cost of each header rule, as JSON
GET  /explain  how ?url= would be answered, also with ?method=, ?header= (a line each), ?json
GET  /trace    the steps of requests as they pass: ?prefix=URL or ?host=&path=, ?limit=, ?json
GET  /ls       stored responses, a JSON object on each line
GET  /locks    state of the lock profile
POST /locks    switches the lock profile: ?on, ?off or ?reset; ?on&sample=100 records 1 in 100
POST /purge    purges the URL in the body, or the responses selected by ?host=, ?prefix=, ?tag=
GET  /changes  the differences between the configuration in use and its files, as JSON
GET  /reload   workers without the newest configuration, and the last trial
POST /reload   reads the configuration again; ?trial_ms=60000 tries it out
";

/// Whether a request names a loopback host and does not come from a web page. A browser sends the
/// host in `Host`, and the origin of the page in `Origin`.
fn is_local(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    // A request with two Host fields is refused: one of them could name another host.
    let host = hosts.next().filter(|_| hosts.next().is_none()).map(|host| host.as_bytes());
    let host = host.and_then(Authority::parse).map(|authority| authority.host);
    let is_loopback = host.is_some_and(|host| {
        let address = str::from_utf8(host).ok().and_then(|host| host.parse::<Ipv4Addr>().ok());
        host.eq_ignore_ascii_case(b"localhost")
            || host == b"[::1]"
            || address.is_some_and(|address| address.is_loopback())
    });
    is_loopback && !headers.contains_key(header::ORIGIN)
}

/// Reports whether the event loop of every worker makes progress. The control thread answers, so a
/// worker that is stuck does not delay the answer.
fn health(control: &Control) -> AdminResponse {
    let stuck = control.stuck_workers();
    if stuck.is_empty() {
        return plain(StatusCode::OK, "ok\n");
    }
    let lines = stuck.0.iter().map(|number| format!("worker {number} is stuck\n"));
    plain(StatusCode::SERVICE_UNAVAILABLE, lines.collect::<String>())
}

async fn prometheus(control: &Control) -> AdminResponse {
    let (rules, stuck) = control.rule_report().await;
    // Without the counts of one worker, the sums would fall and rise again later, which a
    // monitoring system would take for a restart. So sums that lack a worker are left out of the
    // report.
    let rules = if stuck.is_empty() { rules } else { RuleReport::default() };
    let (reports, stuck) = control.site_report().await;
    let (sites, origins) = if stuck.is_empty() { reports } else { Default::default() };
    let reports = Reports { rules: &rules, sites: &sites, origins: &origins };
    let text = metrics::prometheus(&control.counters, &control.store.stats(), reports);
    typed(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text.into())
}

fn stats(control: &Control) -> Value {
    let mut values = serde_json::Map::new();
    values.insert("workers".to_owned(), json!(control.worker_count()));
    let uptime_ms = clock::monotonic_ms().saturating_sub(control.started_ms);
    values.insert("uptime_ms".to_owned(), json!(uptime_ms));
    for (def, value) in control.counters.values(COUNTERS) {
        match value {
            CounterValue::Number(value) => {
                values.insert(def.name.to_owned(), json!(value));
            }
            // The buckets are in `/metrics` and in the counter file.
            CounterValue::Histogram(value) => {
                values.insert(format!("{}_count", def.name), json!(value.count()));
                values.insert(format!("{}_sum", def.name), json!(value.sum));
            }
        }
    }
    let stats = control.store.stats();
    for number in metrics::STORE_NUMBERS {
        values.insert(number.name.to_owned(), json!((number.read)(&stats)));
    }
    Value::Object(values)
}

/// Returns the counts of each site, and the numbers of the workers that are stuck, whose counts are
/// missing.
async fn sites(control: &Control) -> Value {
    let ((report, _), stuck) = control.site_report().await;
    let site = |line: &SiteLine| {
        let count = &line.count;
        let mut values = serde_json::Map::new();
        values.insert("site".to_owned(), json!(line.site));
        for number in metrics::SITE_NUMBERS {
            values.insert(number.name.to_owned(), json!((number.read)(count)));
        }
        values.insert("site_wait_ms_count".to_owned(), json!(count.waits.iter().sum::<u64>()));
        values.insert("site_wait_ms_sum".to_owned(), json!(count.wait_us / 1000));
        Value::Object(values)
    };
    json!({ "sites": report.0.iter().map(site).collect::<Vec<_>>(), "stuck_workers": stuck.0 })
}

async fn rules(control: &Control) -> Value {
    let (report, stuck) = control.rule_report().await;
    let rule = |rule: &RuleLine| {
        let RuleCount { runs, matches, bytes, failures, timed, timed_ns } = rule.count;
        json!({
            "file": rule.file,
            "line": rule.line,
            "hook": rule.hook.name(),
            "runs": runs,
            "matches": matches,
            "bytes": bytes,
            "failures": failures,
            "timed": timed,
            "timed_ns": timed_ns,
            "mean_ns": rule.count.mean_ns(),
        })
    };
    let counter = |(name, value): &(String, u64)| json!({ "name": name, "value": value });
    let rules: Vec<_> = report.rules.iter().map(rule).collect();
    let counters: Vec<_> = report.counters.iter().map(counter).collect();
    json!({ "rules": rules, "counters": counters, "stuck_workers": stuck.0 })
}

/// Returns the workers that do not use the newest configuration yet, and the last trial.
fn reload_state(control: &Control) -> Value {
    json!({ "stuck_workers": control.workers_behind().0, "trial": trial_json(control) })
}

fn trial_json(control: &Control) -> Value {
    let report = |trial: TrialReport| {
        json!({
            "number": trial.number,
            "state": trial.state.name(),
            "requests": trial.requests,
            "errors": trial.errors,
        })
    };
    control.trial_report().map_or(Value::Null, report)
}

/// Reads the terms of a trial; `None` if the reload is none.
fn trial_terms(query: Option<&str>) -> Result<Option<TrialTerms>, QueryError> {
    let known = ["trial_ms", "errors_percent_max", "requests_min"];
    let query = AdminQuery::parse(query, &known)?;
    let Some(duration_ms) = query.number("trial_ms")? else {
        let alone = known.iter().skip(1).find(|name| query.text(name).is_some());
        return match alone {
            Some(name) => Err(QueryError::new(*name, "give trial_ms too")),
            None => Ok(None),
        };
    };
    let errors_percent_max = query.number("errors_percent_max")?.unwrap_or(TRIAL_ERRORS_PERCENT);
    if !(1..=TRIAL_MS_MAX).contains(&duration_ms) {
        return Err(QueryError::new("trial_ms", "give a time up to a day"));
    }
    if errors_percent_max > 99 {
        return Err(QueryError::new("errors_percent_max", "give 0 to 99 percent"));
    }
    let requests_min = query.number("requests_min")?.unwrap_or(TRIAL_REQUESTS_MIN);
    Ok(Some(TrialTerms { duration_ms, errors_percent_max, requests_min }))
}

fn changes(control: &Control) -> AdminResponse {
    match control.pending_changes() {
        Ok(changes) => {
            let changes: Vec<_> = changes.iter().map(ConfigChange::to_json).collect();
            json_answer(StatusCode::OK, &json!({ "changes": changes }))
        }
        Err(errors) => {
            let text = errors.to_string();
            json_answer(StatusCode::UNPROCESSABLE_ENTITY, &json!({ "error": text }))
        }
    }
}

async fn reload(control: &Rc<Control>, query: Option<&str>) -> AdminResponse {
    let terms = match trial_terms(query) {
        Ok(terms) => terms,
        Err(error) => return json_answer(StatusCode::BAD_REQUEST, &error.to_json()),
    };
    match control.reload(terms).await {
        Ok(stuck) => {
            let mut answer = json!({ "reloaded": true, "stuck_workers": stuck.0 });
            if terms.is_some() {
                answer["trial"] = trial_json(control);
            }
            json_answer(StatusCode::OK, &answer)
        }
        Err(error) => {
            let text = error.to_string();
            json_answer(StatusCode::UNPROCESSABLE_ENTITY, &json!({ "error": text }))
        }
    }
}
