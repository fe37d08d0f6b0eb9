//! `forebay cache ls`: lists the stored records.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_cache::{KeyParts, ListedRecord, StoreReader};
use forebay_server::KeyText;
use forebay_server::clock::unix_seconds;
use serde_json::json;

use super::name_of;
use crate::commands::is_set;

/// A record with the values that are printed.
struct ListedEntry<'a> {
    record: &'a ListedRecord<'a>,
    parts: KeyParts<'a>,
    text: Option<KeyText>,
    age_s: u64,
    /// Seconds until the response is stale; `None` if it never becomes stale.
    fresh_s: Option<i64>,
}

impl<'a> ListedEntry<'a> {
    fn of(record: &'a ListedRecord<'a>, now: u64) -> ListedEntry<'a> {
        let parts = record.parts();
        let text = match parts {
            KeyParts::Primary(key) | KeyParts::Variant { primary: key, .. } => KeyText::of(key),
            KeyParts::Fragment { .. } => None,
        };
        let fresh_s = record.expires().then(|| {
            i64::try_from(record.stale_from).unwrap_or(i64::MAX).saturating_sub_unsigned(now)
        });
        let age_s = now.saturating_sub(u64::from(record.response_time));
        ListedEntry { record, parts, text, age_s, fresh_s }
    }

    fn begins_with(&self, prefix: &str) -> bool {
        prefix.is_empty() || self.text.as_ref().is_some_and(|text| text.url.starts_with(prefix))
    }

    fn write_line(&self, out: &mut impl Write) -> io::Result<()> {
        let fresh = match self.fresh_s {
            _ if self.record.is_soft => "soft".to_owned(),
            Some(seconds) => seconds.to_string(),
            None => "-".to_owned(),
        };
        write!(
            out,
            "{:<8} {:>10} {:>8} {fresh:>8} {:>3}  ",
            name_of(self.record.kind),
            self.record.record_bytes,
            self.age_s,
            self.record.uses
        )?;
        match (&self.text, self.parts) {
            (Some(text), _) => write!(out, "{} {}", text.site, text.url)?,
            (None, KeyParts::Fragment { body, number }) => {
                write!(out, "- fragment {number} of body {body}")?;
            }
            (None, _) => write!(out, "- {}", self.record.key.escape_ascii())?,
        }
        match self.parts {
            KeyParts::Variant { hash, .. } => writeln!(out, " variant {}", hex(hash)),
            _ => writeln!(out),
        }
    }

    fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let record = self.record;
        let mut value = json!({
            "kind": name_of(record.kind),
            "record_bytes": record.record_bytes,
            "head_bytes": record.head_bytes,
            "body_bytes": record.body_bytes,
            "age_s": self.age_s,
            "fresh_s": self.fresh_s,
            "soft": record.is_soft,
            "uses": record.uses,
            "sequence": record.sequence,
            "unit": record.location,
            "key": record.key.escape_ascii().to_string(),
        });
        if let Some(text) = &self.text {
            value["site"] = json!(text.site);
            value["url"] = json!(text.url);
        }
        match self.parts {
            KeyParts::Primary(_) => {}
            KeyParts::Variant { hash, .. } => value["variant"] = json!(hex(hash)),
            KeyParts::Fragment { body, number } => {
                value["body"] = json!(body);
                value["number"] = json!(number);
            }
        }
        writeln!(out, "{value}")
    }
}

pub(super) fn run(reader: &StoreReader, args: &ArgMatches) -> ExitCode {
    let prefix = args.get_one::<String>("prefix").map(String::as_str).unwrap_or_default();
    let is_json = is_set(args, "json");
    let now = unix_seconds();
    let mut out = BufWriter::new(io::stdout().lock());
    if !is_json {
        let names = ("KIND", "BYTES", "AGE_S", "FRESH_S", "USE");
        let (kind, bytes, age, fresh, uses) = names;
        let _ = writeln!(out, "{kind:<8} {bytes:>10} {age:>8} {fresh:>8} {uses:>3}  SITE URL");
    }
    reader.list(|record| {
        let shown = ListedEntry::of(record, now);
        if !shown.begins_with(prefix) {
            return ControlFlow::Continue(());
        }
        let written = match is_json {
            true => shown.write_json(&mut out),
            false => shown.write_line(&mut out),
        };
        // A write fails if the reader of the output (`| head`) has exited.
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let _ = out.flush();
    ExitCode::SUCCESS
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
