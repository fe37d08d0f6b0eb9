//! `forebay cache get`: prints a stored response.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_cache::{CopiedRecord, RecordKind, StoreReader};
use forebay_server::{shown_url, site_url_key, write_stored_head};

use super::EXIT_FOUND;

pub(super) fn run(reader: &StoreReader, args: &ArgMatches) -> Result<ExitCode, String> {
    let text = |name| args.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let (site, url) = (text("site"), text("url"));
    let mut key = Vec::new();
    site_url_key(site, url.as_bytes(), &mut key)
        .map_err(|why| format!("{}: {why}", shown_url(url)))?;
    let Some(record) = reader.get(&key) else {
        return Ok(missing(&format!("{url}: not stored on site {site}")));
    };
    if record.listed().kind == RecordKind::Base {
        let sets = record.vary_names().filter(|names| !names.is_empty());
        let sets: Vec<_> = sets.map(|names| names.escape_ascii().to_string()).collect();
        let (names, path) = (sets.join(" or "), text("path"));
        return Ok(missing(&format!(
            "{url}: the response varies by the request fields {names}; list its variants with \
             `forebay cache ls --prefix {url} {path}`"
        )));
    }
    let mut head = Vec::new();
    if !write_stored_head(record.head(), &mut head) {
        return Ok(missing(&format!(
            "{url}: the stored head cannot be read: another version of this program wrote it"
        )));
    }
    let mut out = io::stdout().lock();
    // The reader of the output may close the pipe early.
    let _ = out.write_all(&head);
    let is_whole = write_body(reader, &record, &mut out);
    let _ = out.flush();
    match is_whole {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(missing(&format!("{url}: incomplete: a part of the body has been evicted"))),
    }
}

/// Writes the body. Returns false if a part of it is missing.
fn write_body(reader: &StoreReader, record: &CopiedRecord, out: &mut impl Write) -> bool {
    let Some(long) = record.long_body() else {
        // The record has the whole body, or it has only the head of a response whose body is stored
        // elsewhere and cannot be found without a body id.
        let is_whole = record.listed().kind == RecordKind::Whole;
        let _ = is_whole.then(|| out.write_all(record.body()));
        return is_whole;
    };
    for number in long.fragments(0..long.bytes()) {
        let Some(fragment) = reader.fragment(&long, number) else {
            return false;
        };
        if out.write_all(fragment.body()).is_err() {
            return true;
        }
    }
    true
}

fn missing(message: &str) -> ExitCode {
    eprintln!("forebay: {message}");
    ExitCode::from(EXIT_FOUND)
}
