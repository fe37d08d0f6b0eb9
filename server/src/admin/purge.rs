//! `POST /purge`: purges one URL, or every response selected by host, URL prefix or tags.

use std::time::Duration;

use forebay_cache::{PurgeBusy, PurgeResult, Selection, SelectionSize, WalkProgress};
use http::{Request, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::body::{AdminResponse, LineSender, json_answer};
use super::places::ActiveRequest;
use super::query::{AdminQuery, QueryError, has_site};
use crate::counters::Counter;
use crate::engine::Control;
use crate::events::Event;
use crate::key::{KeyText, url_keys};
use crate::limits::{ADMIN_BODY_BYTES_MAX, ADMIN_IDLE_MS_MAX, PURGE_PROGRESS_MS, PURGE_REPEAT_MS};
use crate::purger::{PurgeError, PurgeEvent, PurgeHandle, PurgeKind, PurgeWork};

const KNOWN: &[&str] = &["host", "prefix", "tag", "site", "soft", "dry-run"];

/// Options of a purge.
#[derive(Clone, Copy)]
struct PurgeOptions {
    is_soft: bool,
    is_dry_run: bool,
}

pub(super) async fn purge(
    control: &Control,
    request: Request<Incoming>,
    active: &ActiveRequest,
) -> AdminResponse {
    if !control.store_is_used() {
        control.count(Counter::PurgesFailed, 1);
        let text = "nothing was purged: a process with another cache is taking over; try again";
        return unavailable(text);
    }
    let read = AdminQuery::parse(request.uri().query(), KNOWN).and_then(|query| {
        let how =
            PurgeOptions { is_soft: query.is_set("soft")?, is_dry_run: query.is_set("dry-run")? };
        let selections = match query.selects() {
            true if !request.body().is_end_stream() => {
                let text = "a request with a URL in its body cannot have these parameters";
                return Err(QueryError::new("host, prefix or tag", text));
            }
            true => Some(control.with_config(|config| query.selections(config))?),
            false => None,
        };
        Ok((query, how, selections))
    });
    match read {
        Err(bad) => refused(&bad),
        Ok((_, how, Some(selections))) => purge_selected(control, selections, how).await,
        Ok((query, how, None)) => {
            let limit = Duration::from_millis(ADMIN_IDLE_MS_MAX);
            let body = Limited::new(request.into_body(), ADMIN_BODY_BYTES_MAX).collect();
            match active.receive(tokio::time::timeout(limit, body)).await {
                Ok(Ok(body)) => purge_url(control, &body.to_bytes(), &query, how),
                _ => refused(&QueryError::new("url", "the URL did not arrive completely")),
            }
        }
    }
}

fn refused(bad: &QueryError) -> AdminResponse {
    json_answer(StatusCode::BAD_REQUEST, &bad.to_json())
}

fn unavailable(text: &str) -> AdminResponse {
    json_answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": text }))
}

fn purge_url(
    control: &Control,
    body: &[u8],
    query: &AdminQuery,
    how: PurgeOptions,
) -> AdminResponse {
    let url = body.trim_ascii();
    let site = query.text("site");
    let read = control.with_config(|config| {
        site.map_or(Ok(()), |site| has_site(config, site))?;
        if url.ends_with(b"*") {
            let text = "a URL with * at its end is one URL: to purge all that begin with the text \
                before the *, select by prefix (`--prefix URL`, `?prefix=URL`)";
            return Err(QueryError::new("url", text));
        }
        url_keys(config, url, site).map_err(|text| QueryError::new("url", text))
    });
    match read {
        Err(bad) => refused(&bad),
        Ok(keys) if how.is_dry_run => weigh_url(control, &keys),
        Ok(keys) => purge_keys(control, &keys, url, how.is_soft),
    }
}

/// Purges the responses of a URL, which may have several keys.
fn purge_keys(control: &Control, keys: &[Vec<u8>], url: &[u8], is_soft: bool) -> AdminResponse {
    let (mut records, mut fetches) = (0, 0);
    for key in keys {
        let purged = match is_soft {
            true => control.store_worker.purge_softly(key),
            false => control.store_worker.purge(key),
        };
        match purged {
            Ok(purged) => {
                control.note_purge(purged.number, PurgeKind::asked(is_soft));
                control.count(Counter::Purged, purged.records);
                records += purged.records;
                fetches += purged.flights;
            }
            Err(busy @ PurgeBusy) => {
                control.count(Counter::PurgesBusy, 1);
                Event::PurgeBusy.log(&url.escape_ascii());
                return unavailable(&busy.to_string());
            }
        }
    }
    json_answer(StatusCode::OK, &json!({ "purged": records, "fetches": fetches }))
}

/// Counts the responses of a URL. In key order, a key comes before all longer keys that begin with
/// that key, so it is enough to list one resource for each key.
fn weigh_url(control: &Control, keys: &[Vec<u8>]) -> AdminResponse {
    let mut weighed = SelectionSize { walked: WalkProgress::default(), sample: Vec::new() };
    for key in keys {
        let selection = Selection::within(key);
        let listed = control.store_worker.list(&selection, None, 1, &mut |resource| {
            if resource.key == key {
                weighed.walked.resources += 1;
                weighed.walked.records += u64::from(resource.variants.max(1));
                weighed.walked.bytes += resource.bytes;
                weighed.sample.push(key.clone());
            }
        });
        if let Err(damaged) = listed {
            return unavailable(&damaged.to_string());
        }
    }
    json_answer(StatusCode::OK, &weighed_json(&weighed))
}

async fn purge_selected(
    control: &Control,
    selections: Vec<Selection>,
    how: PurgeOptions,
) -> AdminResponse {
    let work = match how.is_dry_run {
        true => PurgeWork::Weigh,
        false => PurgeWork::Purge { kind: PurgeKind::asked(how.is_soft), counter: Counter::Purged },
    };
    let mut asked = match control.purge(selections, work) {
        Ok(asked) => asked,
        Err(failed) => {
            control.count(Counter::PurgesBusy, 1);
            return unavailable(&failed.to_string());
        }
    };
    // Most purges finish immediately. Waiting for the first event lets the status code report the
    // outcome.
    let first = Duration::from_millis(PURGE_PROGRESS_MS);
    match tokio::time::timeout(first, asked.next()).await {
        Ok(PurgeEvent::Progress(walked)) => tell_progress(asked, walked),
        Ok(told) => ended(&told),
        Err(_) => tell_progress(asked, WalkProgress::default()),
    }
}

fn ended(told: &PurgeEvent) -> AdminResponse {
    match told {
        PurgeEvent::Failed(_) => json_answer(StatusCode::SERVICE_UNAVAILABLE, &told_json(told)),
        told => json_answer(StatusCode::OK, &told_json(told)),
    }
}

/// Streams lines of progress, and a last line with the outcome. The purge continues if the client
/// leaves.
fn tell_progress(mut asked: PurgeHandle, walked: WalkProgress) -> AdminResponse {
    let (lines, answer) = LineSender::answer();
    tokio::task::spawn_local(async move {
        let mut told = PurgeEvent::Progress(walked);
        while lines.write_json(&told_json(&told)).await.is_ok()
            && matches!(told, PurgeEvent::Progress(_))
        {
            // The job may still be queued: repeating the line keeps the client from giving up.
            let repeat = Duration::from_millis(PURGE_REPEAT_MS);
            if let Ok(next) = tokio::time::timeout(repeat, asked.next()).await {
                told = next;
            }
        }
    });
    answer
}

fn told_json(told: &PurgeEvent) -> Value {
    match told {
        PurgeEvent::Progress(WalkProgress { resources, records, bytes }) => {
            json!({ "seen": resources, "matched": records, "bytes": bytes })
        }
        PurgeEvent::Purged(PurgeResult { records, bytes, flights, .. }) => {
            json!({ "purged": records, "fetches": flights, "bytes": bytes })
        }
        PurgeEvent::Counted(weighed) => weighed_json(weighed),
        PurgeEvent::Failed(PurgeError::Busy { busy, purged }) if *purged > 0 => {
            json!({ "error": busy.to_string(), "purged": purged })
        }
        PurgeEvent::Failed(failed) => json!({ "error": failed.to_string() }),
    }
}

fn weighed_json(weighed: &SelectionSize) -> Value {
    let sample = weighed.sample.iter().filter_map(|key| KeyText::of(key));
    let sample = sample.map(|text| json!({ "site": text.site, "url": text.url }));
    json!({
        "would_purge": weighed.walked.records,
        "bytes": weighed.walked.bytes,
        "sample": sample.collect::<Vec<_>>(),
    })
}
