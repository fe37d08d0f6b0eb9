//! An explanation as text. Each step begins a line with its name; further lines of the step are
//! indented.

use std::fmt::{self, Display, Write};

use forebay_http::policy::compression::BodyForm;
use forebay_http::policy::stale::StaleCause;

use super::facts::{
    AnswerKind, Explanation, LifetimeFacts, ResponseFacts, StaleUse, StoredFacts, VaryFacts,
};
use crate::config::{OriginHttp2, ProxyProtocol};
use crate::purger::PurgeKind;
use crate::terminal::escaped_line;

/// The column at which the text of a step begins.
const INDENT: usize = 12;

/// The lines of an explanation.
#[derive(Default)]
struct Lines(String);

impl Lines {
    /// Writes a line that begins with the name of a step; an empty name continues the step.
    fn add(&mut self, step: &str, text: impl Display) {
        let text = escaped_line(&text.to_string());
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{step:INDENT$}{text}");
    }
}

impl Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Lines::default();
        lines.add("request", format_args!("{} {}", self.request.method, self.request.url));
        self.write_site(&mut lines);
        if let Some(stored) = &self.steps.stored {
            write_stored(&mut lines, stored);
        }
        if let Some(selected) =
            self.steps.stored.as_ref().and_then(|stored| stored.selected.as_ref())
        {
            write_freshness(&mut lines, selected);
            write_stale_uses(&mut lines, &self.steps.stale_uses, selected);
        }
        self.write_verdict(&mut lines);
        out.write_str(&lines.0)
    }
}

impl Explanation {
    fn write_site(&self, lines: &mut Lines) {
        if let Some(address) = self.steps.listener {
            lines.add("listener", address);
        }
        if let Some(site) = &self.steps.site {
            match &site.file {
                Some(file) => lines.add("site", format_args!("{}, file {file}", site.site)),
                None => lines.add("site", format_args!("{}, origin {}", site.site, site.origin)),
            }
            if let Some(sent) = &site.sent {
                lines.add("", format_args!("the origin gets {sent}"));
            }
            if let Some(zone) = &site.zone {
                lines.add("", zone);
            }
            match site.http2 {
                OriginHttp2::Never => {}
                OriginHttp2::Auto => {
                    lines.add("", "requests to the origin use HTTP/2 if it chooses that over TLS");
                }
                OriginHttp2::Always => lines.add("", "requests to the origin use HTTP/2"),
            }
            if site.proxy_protocol != ProxyProtocol::Off {
                let protocol = site.proxy_protocol;
                let text = "the origin gets the client's address by the PROXY protocol";
                lines.add("", format_args!("{text}, {protocol}"));
            }
            if site.origin_is_down {
                let reason = site.origin_failure.unwrap_or("unknown");
                let text = "the last attempt to connect to the origin failed";
                lines.add("", format_args!("{text}: {reason}"));
            }
            lines.add("route", &site.path_prefix);
            site.route_reasons.iter().for_each(|reason| lines.add("", reason));
            for (index, check) in site.client_checks.iter().enumerate() {
                lines.add(if index == 0 { "clients" } else { "" }, check);
            }
        }
        if !self.steps.other_sites.is_empty() {
            lines.add(
                "sites",
                match self.steps.listener {
                    Some(_) => "no site serves this host at this address",
                    None => "no site serves this host",
                },
            );
            self.steps.other_sites.iter().for_each(|site| lines.add("", site));
        }
        let rules = &self.steps.rules;
        match (rules.ran, &rules.url) {
            (false, _) => lines.add("rules", "no rules run before the lookup"),
            (true, Some(url)) => {
                lines.add("rules", format_args!("the rules change the URL to {url}"))
            }
            (true, None) => lines.add("rules", "the rules do not change the URL"),
        }
        if rules.changes_fields {
            lines.add("", "the rules change fields of the request");
        }
        if let Some(key) = &self.steps.key {
            lines.add("key", format_args!("{} in site {}", key.key.url, key.key.site));
            key.changes.iter().for_each(|change| lines.add("", change));
        }
    }

    fn write_verdict(&self, lines: &mut Lines) {
        let verdict = &self.verdict;
        let selected = self.steps.stored.as_ref().and_then(|stored| stored.selected.as_ref());
        lines.add("verdict", format_args!("{}: {}", verdict.kind.word(), verdict.kind));
        if let (AnswerKind::Validate, Some(selected)) = (verdict.kind, selected) {
            lines.add("", reason_to_validate(selected));
        }
        if let Some(status) = &verdict.cache_status {
            lines.add("", format_args!("Cache-Status: {status}"));
        }
    }
}

fn write_stored(lines: &mut Lines, stored: &StoredFacts) {
    for vary in &stored.vary {
        write_variants(lines, vary);
    }
    match &stored.selected {
        None if !stored.vary.is_empty() => lines.add("stored", "no variant for this request"),
        None => lines.add("stored", "nothing"),
        Some(selected) => {
            let (status, bytes) = (selected.meta.status, selected.body_bytes);
            let etag = selected.etag.as_ref().map_or(String::new(), |tag| format!(", ETag {tag}"));
            let form = match selected.meta.form(b"") {
                BodyForm::Original => "",
                BodyForm::Compressed(_) => ", compressed by this server",
                BodyForm::Decompressed => ", decompressed by this server",
            };
            lines.add("stored", format_args!("status {status}, {bytes} bytes{etag}{form}"));
            if !selected.tags.is_empty() {
                lines.add("", format_args!("tags: {}", selected.tags.join(" ")));
            }
        }
    }
    if let Some(purge) = &stored.purge {
        let kind = match purge.kind {
            Some(PurgeKind::Hard) => "hard purge of",
            Some(PurgeKind::Soft) => "soft purge of",
            Some(PurgeKind::Invalidation) => {
                "invalidation by an unsafe request (RFC 9111 §4.4), of"
            }
            None => "purge or invalidation, of a kind that this process does not know, of",
        };
        let covered = &purge.covered;
        lines
            .add("purge", format_args!("the last purge that may cover this key: {kind} {covered}"));
        if purge.later > 0 {
            lines.add("", format_args!("purges of other keys since: {}", purge.later));
        }
    }
}

fn write_variants(lines: &mut Lines, vary: &VaryFacts) {
    let count = vary.variants.len();
    if vary.names.is_empty() {
        let is_selected = vary.variants.iter().any(|variant| variant.is_selected);
        let text = if is_selected { " (selected)" } else { "" };
        return lines
            .add("variants", format_args!("{count} responses without Vary are stored{text}"));
    }
    let names = vary.names.join(", ");
    lines.add("variants", format_args!("{count} responses are stored, which vary by {names}"));
    let values = |values: &[Option<String>]| {
        let pairs = vary.names.iter().zip(values);
        let texts = pairs.map(|(name, value)| match value {
            Some(value) => format!("{name}: {value}"),
            None => format!("no {name}"),
        });
        texts.collect::<Vec<_>>().join("; ")
    };
    lines.add("", format_args!("this request, normalised: {}", values(&vary.request)));
    for variant in &vary.variants {
        let differing = vary.differing(variant);
        let text = match differing.is_empty() {
            true if variant.is_selected => "selected".to_owned(),
            true => "matches, but a later variant is selected".to_owned(),
            false => format!("differs in {}", differing.join(", ")),
        };
        lines.add("", format_args!("stored: {} ({text})", values(&variant.values)));
    }
}

fn write_freshness(lines: &mut Lines, selected: &ResponseFacts) {
    let (meta, LifetimeFacts { present, sum, is_present }) = (&selected.meta, &selected.lifetime);
    let section = present.source.section();
    match is_present {
        true => lines.add("lifetime", format_args!("{} s: {sum} ({section})", meta.lifetime_s)),
        false => {
            let text = "calculated with other settings when the response was stored or validated";
            lines.add("lifetime", format_args!("{} s: {text}", meta.lifetime_s));
            lines.add(
                "",
                format_args!("now the lifetime would be {} s: {sum} ({section})", present.seconds),
            );
        }
    }
    let (age, initial) = (selected.age_s, meta.initial_age_s);
    let resident = age.saturating_sub(initial);
    lines.add(
        "age",
        format_args!("{age} s = {initial} s on arrival + {resident} s stored (RFC 9111 §4.2.3)"),
    );
    let fresh_s = selected.fresh_s();
    let sum = format!("{} - {age} = {fresh_s}", meta.lifetime_s);
    match fresh_s > 0 {
        true => lines.add("fresh", format_args!("{sum} s left (RFC 9111 §4.2)")),
        false => lines.add("stale", format_args!("{sum} s left (RFC 9111 §4.2)")),
    }
    if selected.is_soft {
        lines.add(
            "",
            "a soft purge or a HEAD has made the response stale before the end of its lifetime",
        );
    }
    if !selected.meta.can_validate() {
        lines.add(
            "",
            "the origin cannot confirm the response, which has no ETag and no Last-Modified",
        );
    }
}

fn write_stale_uses(lines: &mut Lines, uses: &[StaleUse], selected: &ResponseFacts) {
    let staleness = (-selected.fresh_s()).max(0);
    let mut label = "if stale";
    for one in uses {
        let when = match one.cause {
            StaleCause::Revalidating => "while it is validated in the background",
            StaleCause::Error => "if the origin answers with an error",
            StaleCause::Unreachable => "if the origin cannot be reached",
        };
        let text = match one.limit {
            Err(refusal) => format!("the response is not served {when}: {refusal}"),
            Ok(0) => {
                format!("the response is not served {when}: neither origin nor settings allow it")
            }
            Ok(limit) if one.is_permitted => {
                format!("the response is served for {limit} s {when}")
            }
            Ok(limit) => format!(
                "the response is no longer served {when}: it is stale for {staleness} s, and the \
                 limit is {limit} s"
            ),
        };
        lines.add(label, format_args!("{text} ({})", one.cause.section()));
        label = "";
    }
}

fn reason_to_validate(selected: &ResponseFacts) -> String {
    match selected.validation {
        Some(cause) => cause.to_string(),
        None => "a soft purge or a HEAD has made the stored response stale".to_owned(),
    }
}

impl Display for AnswerKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerKind::Refused { status, reason } => write!(out, "{status}, {reason}"),
            AnswerKind::Local(text) => out.write_str(text),
            AnswerKind::Hit { status } => write!(out, "the stored response answers with {status}"),
            AnswerKind::Stale(StaleCause::Revalidating) => out.write_str(
                "the stale response answers; it is validated in the background, unless a \
                 validation is already in progress or not due (RFC 5861 §3)",
            ),
            AnswerKind::Stale(_) => out.write_str(
                "the stale response answers, because the origin cannot be reached \
                 (RFC 9111 §4.2.4)",
            ),
            AnswerKind::Validate => {
                out.write_str("the origin is asked whether the stored response is still valid")
            }
            AnswerKind::Fetch => {
                out.write_str("the origin is asked; the answer is stored if its fields allow it")
            }
            AnswerKind::FetchPart => out.write_str(
                "the origin is asked for the missing part, which is stored if the answer's fields \
                 allow it",
            ),
            AnswerKind::Follow => {
                out.write_str("another request is fetching the response; this request waits")
            }
            AnswerKind::Declined { left_ms } => write!(
                out,
                "the origin is asked for this request alone, because an answer was not stored; \
                 {left_ms} ms until requests share fetches again"
            ),
            AnswerKind::Pass(Some(detail)) => {
                write!(out, "the origin is asked, and the answer is not stored ({detail})")
            }
            AnswerKind::Pass(None) => {
                out.write_str("the origin is asked, and the answer is not stored")
            }
        }
    }
}
