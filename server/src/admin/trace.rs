//! `GET /trace`: the steps of requests, streamed as they happen.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::body::{AdminResponse, ClientGone, LineSender, json_answer};
use super::query::{AdminQuery, QueryError};
use crate::counters::Counter;
use crate::engine::Control;
use crate::events::Event;
use crate::limits::{TRACE_HEARTBEAT_MS, TRACERS_MAX};
use crate::trace::{
    FilterError, TraceEnd, TraceFilter, TracePlace, TraceReader, TraceRecord, Tracer,
};

const KNOWN: &[&str] = &["prefix", "host", "path", "limit", "json"];

/// The query of a trace.
#[derive(Debug, PartialEq)]
struct TraceQuery {
    filter: TraceFilter,
    limit: u64,
    is_json: bool,
}

/// An open trace.
struct TraceStream {
    control: Rc<Control>,
    /// The place of this trace among the open traces. It is freed before the gauge of open traces
    /// is updated.
    place: Option<TracePlace>,
    reader: TraceReader,
    is_json: bool,
    left: u64,
    sent_count: u64,
    lost_count: u64,
}

pub(super) async fn trace(control: &Rc<Control>, query: Option<&str>) -> AdminResponse {
    let TraceQuery { filter, limit, is_json } = match TraceQuery::read(query) {
        Ok(query) => query,
        Err(bad) => return json_answer(StatusCode::BAD_REQUEST, &bad.to_json()),
    };
    let Some(place) = control.traces.take() else {
        control.count(Counter::TracesRefused, 1);
        let text = format!("{TRACERS_MAX} traces are open, which is the limit; end one of them");
        return json_answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": text }));
    };
    Event::TraceBegun.log(&filter);
    control.count(Counter::Traces, 1);
    let (tracer, reader) = Tracer::new(filter);
    let stuck = control.attach_tracer(&tracer).await;
    // From here on only workers hold the tracer, so that the trace ends if all of them have ended.
    drop(tracer);
    let (lines, mut answer) = LineSender::answer();
    if !is_json {
        let value = HeaderValue::from_static("text/plain; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    let control = Rc::clone(control);
    let (left, place) = (limit, Some(place));
    let open = TraceStream { control, place, reader, is_json, left, sent_count: 0, lost_count: 0 };
    open.control.show_open_traces();
    tokio::task::spawn_local(async move {
        // A client ends the trace by closing its connection.
        let _ = open.write(&lines, &stuck.to_string()).await;
    });
    answer
}

impl TraceQuery {
    fn read(query: Option<&str>) -> Result<TraceQuery, QueryError> {
        let query = AdminQuery::parse(query, KNOWN)?;
        let (host, path) = (query.text("host"), query.text("path"));
        let filter = match query.text("prefix") {
            Some(_) if host.is_some() || path.is_some() => {
                let text = "a prefix already contains host and path; give either `prefix`, or \
                            `host` and `path`";
                return Err(QueryError::new("prefix", text));
            }
            Some(url) => TraceFilter::of_url(url),
            None => TraceFilter::of_parts(host, path),
        };
        let limit = query.number("limit")?.unwrap_or(u64::MAX);
        Ok(TraceQuery { filter: filter?, limit, is_json: query.is_set("json")? })
    }
}

impl From<FilterError> for QueryError {
    fn from(error: FilterError) -> QueryError {
        QueryError::new(error.argument, error.text)
    }
}

/// The next item that an open trace has to handle.
enum TraceItem {
    Record(Arc<TraceRecord>),
    Heartbeat,
    End(TraceEnd),
}

impl TraceStream {
    /// Sends records until the client leaves, the limit is reached, or the server ends the trace.
    /// `stuck` names the workers whose requests are not traced.
    async fn write(mut self, lines: &LineSender, stuck: &str) -> Result<(), ClientGone> {
        if !stuck.is_empty() {
            self.note(lines, "not_traced", stuck).await?;
        }
        let end = loop {
            if self.left == 0 {
                break TraceEnd::Limit;
            }
            match self.next(lines).await? {
                TraceItem::Record(record) => self.send(lines, &record).await?,
                TraceItem::Heartbeat => {
                    self.note_lost(lines).await?;
                    lines.write("\n".to_owned()).await?;
                }
                TraceItem::End(end) => {
                    while self.left > 0
                        && let Some(record) = self.reader.next_queued()
                    {
                        self.send(lines, &record).await?;
                    }
                    break end;
                }
            }
        };
        self.note_lost(lines).await?;
        self.note(lines, "ended", end.word()).await
    }

    async fn send(&mut self, lines: &LineSender, record: &TraceRecord) -> Result<(), ClientGone> {
        self.note_lost(lines).await?;
        let text = if self.is_json { record.to_json_line() } else { record.to_text() };
        lines.write(text).await?;
        self.sent_count += 1;
        self.left -= 1;
        Ok(())
    }

    async fn next(&mut self, lines: &LineSender) -> Result<TraceItem, ClientGone> {
        let Some(place) = &mut self.place else { return Err(ClientGone) };
        let heartbeat = tokio::time::sleep(Duration::from_millis(TRACE_HEARTBEAT_MS));
        tokio::select! {
            // The events that end a trace come first, so that a busy server cannot keep it open.
            biased;
            () = lines.closed() => Err(ClientGone),
            end = place.ended() => Ok(TraceItem::End(end)),
            record = self.reader.next() => {
                Ok(record.map_or(TraceItem::End(TraceEnd::Stopping), TraceItem::Record))
            }
            () = heartbeat => Ok(TraceItem::Heartbeat),
        }
    }

    /// Counts the records that this trace has lost since the last call, and tells the client their
    /// number.
    async fn note_lost(&mut self, lines: &LineSender) -> Result<(), ClientGone> {
        let lost = self.reader.take_lost();
        if lost == 0 {
            return Ok(());
        }
        self.count_lost(lost);
        let text = match self.is_json {
            true => format!("{}\n", json!({ "lost": lost })),
            false => {
                format!("-- lost: {lost} requests, because this trace is read too slowly\n\n")
            }
        };
        lines.write(text).await
    }

    async fn note(&self, lines: &LineSender, name: &str, text: &str) -> Result<(), ClientGone> {
        let text = match self.is_json {
            true => format!("{}\n", json!({ name: text })),
            false => format!("-- {name}: {text}\n\n"),
        };
        lines.write(text).await
    }

    fn count_lost(&mut self, lost: u64) {
        self.lost_count += lost;
        self.control.count(Counter::TraceRequestsLost, lost);
    }
}

impl Drop for TraceStream {
    fn drop(&mut self) {
        let lost = self.reader.take_lost();
        self.count_lost(lost);
        self.place = None;
        self.control.show_open_traces();
        let (sent, lost) = (self.sent_count, self.lost_count);
        Event::TraceEnded.log(&format_args!("the trace showed {sent} requests and lost {lost}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_becomes_a_filter_and_a_bad_one_names_its_parameter() {
        let read = |query| TraceQuery::read(Some(query));
        let query = read("prefix=http://a.org/x&limit=3&json").expect("it is right");
        let filter = TraceFilter::of_url("http://a.org/x").expect("it is right");
        assert_eq!(query, TraceQuery { filter, limit: 3, is_json: true });
        let query = read("host=a.org&path=/x").expect("it is right");
        let filter = TraceFilter::of_parts(Some("a.org"), Some("/x")).expect("it is right");
        assert_eq!(query, TraceQuery { filter, limit: u64::MAX, is_json: false });
        for (query, argument, part) in [
            ("prefix=a.org", "prefix", "http://"),
            ("prefix=http://a.org&host=a.org", "prefix", "give either `prefix`, or"),
            ("host=a+b", "host", "HOST:PORT"),
            ("path=x", "path", "begins with /"),
            ("limit=x", "limit", "whole number"),
            ("url=http://a.org", "url", "no such parameter"),
        ] {
            let bad = read(query).expect_err(query);
            assert!(bad.argument == argument && bad.text.contains(part), "{query}: {bad:?}");
        }
    }
}
