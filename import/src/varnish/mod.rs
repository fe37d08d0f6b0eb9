//! VCL of Varnish, versions 4.0 and 4.1.
//!
//! The VCL is followed for each kind of requests: for each host and each path that it names, and
//! for each method. Properties that only a request has (fields, cookies, addresses) split the way,
//! and the join of both sides is a setting, a rule, or the stricter of the two.

mod answer;
mod context;
mod deliver;
mod eval;
mod include;
mod join;
mod late;
mod lexer;
mod origins;
mod outcome;
mod parser;
mod plan;
mod recv;
mod regex;
mod request;
mod response;
mod routes;
mod rulefile;
mod source;
mod syntax;
#[cfg(test)]
mod tests;
mod url;
mod write;

use std::path::PathBuf;

use self::include::VclFiles;
use self::lexer::{VclPlace, tokens};
use self::parser::Parser;
use self::source::VclSource;
use self::syntax::{Statement, Vcl};
use crate::{Import, ImportError, ImportOptions};

/// Stack for the longest chain of conditions.
const STACK_BYTES: usize = 64 << 20;

/// Modules whose functions are translated, or have no effect.
const MODULES: &[&str] = &["std", "directors", "cookie", "xkey", "purge", "querystring"];

/// Subs that change answers in ways that Forebay does not have.
const OTHER_SUBS: &[(&str, &str)] = &[
    ("vcl_backend_error", "left out: pages for errors are files in error_pages (docs/sites.md)"),
    (
        "vcl_hit",
        "left out, except for refusals and pass: docs/stale.md has settings for stale responses",
    ),
    ("vcl_miss", "left out, except for refusals and pass"),
    ("vcl_pass", "left out, except for refusals"),
];

/// Translates a VCL: `default.vcl`, with the files that it includes.
///
/// # Errors
/// A file cannot be read, is malformed, or is too large.
pub fn varnish(paths: &[PathBuf], options: &ImportOptions) -> Result<Import, ImportError> {
    let failed = |message: String| ImportError { file: String::new(), line: 0, column: 0, message };
    // Conditions that follow one another are followed by recursion, up to a limit.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let task = thread.spawn_scoped(scope, || translate(paths, options));
        let task = task.map_err(|error| failed(error.to_string()))?;
        task.join().unwrap_or_else(|_| Err(failed("the translation failed".to_owned())))
    })
}

fn translate(paths: &[PathBuf], options: &ImportOptions) -> Result<Import, ImportError> {
    let mut files = VclFiles::new(options.prefix.clone());
    for path in paths {
        files.read(path, 0)?;
    }
    let vcl = files.vcl;
    let source = VclSource::new(&vcl, options.drop_access_rules);
    note_unknown(&source, &vcl);
    let written = write::write_all(&source, &builtin()?, options.rules_stem.as_deref());
    let mut notes = source.notes.into_inner();
    notes.sort();
    Ok(Import { toml: written.toml, rule_files: written.rules, notes })
}

/// The statements at the end of `vcl_recv`.
fn builtin() -> Result<Vec<Statement>, ImportError> {
    let tokens = tokens(recv::BUILTIN, "builtin.vcl")?;
    let end = VclPlace { file: "builtin.vcl".into(), line: 1, column: 1 };
    let mut vcl = Vcl::default();
    Parser::new(&tokens, end).declarations(&mut vcl)?;
    Ok(vcl.subs.remove("vcl_recv").unwrap_or_default())
}

fn note_unknown(source: &VclSource<'_>, vcl: &Vcl) {
    for (place, name) in &vcl.imports {
        if !MODULES.contains(&name.as_str()) {
            source.note(place, "import", format!("{name}: Forebay does not have this module"));
        }
    }
    for place in &vcl.foreign {
        source.note(place, "C{", "inline C is left out; see docs/filters.md");
    }
    for (name, message) in OTHER_SUBS {
        let statements = vcl.sub(name);
        let is_plain = |one: &Statement| matches!(one.kind, syntax::StatementKind::Return(..));
        if let Some(first) = statements.iter().find(|one| !is_plain(one)) {
            source.note(&first.place, name, *message);
        }
    }
}
