//! `forebay import`, which translates configurations of other servers.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgMatches;
use forebay_import::{
    Import, ImportError, ImportOptions, ImportedRules, Note, nginx, trafficserver, varnish,
};
use serde_json::{Value, json};

use super::is_set;
use crate::stdout::outln;

/// Exit code of an error, since 1 says that something was left out.
const ERROR: u8 = 2;

/// The translation of one format.
type Translate = fn(&[PathBuf], &ImportOptions) -> Result<Import, ImportError>;

pub(super) fn run(args: &ArgMatches) -> Result<ExitCode, String> {
    let (translate, args): (Translate, _) = match args.subcommand() {
        Some(("nginx", args)) => (nginx, args),
        Some(("trafficserver", args)) => (trafficserver, args),
        Some(("varnish", args)) => (varnish, args),
        _ => return Err("no such format; see `forebay import --help`".to_owned()),
    };
    Ok(run_one(translate, args).unwrap_or_else(|message| {
        match is_set(args, "json") {
            true => outln!("{}", json!({ "error": message })),
            false => eprintln!("error: {message}"),
        }
        ExitCode::from(ERROR)
    }))
}

fn run_one(translate: Translate, args: &ArgMatches) -> Result<ExitCode, String> {
    let files: Vec<PathBuf> =
        args.get_many::<String>("files").into_iter().flatten().map(PathBuf::from).collect();
    let options = ImportOptions {
        prefix: args.get_one::<String>("prefix").map(PathBuf::from),
        drop_access_rules: is_set(args, "open"),
        rules_stem: args.get_one::<String>("output").and_then(|path| stem_of(path)),
    };
    let import = translate(&files, &options).map_err(|error| error.to_string())?;
    finish(&import, args)
}

/// The name of a file without its extension.
fn stem_of(path: &str) -> Option<String> {
    Some(Path::new(path).file_stem()?.to_str()?.to_owned())
}

/// Writes the files and the list of differences.
fn finish(import: &Import, args: &ArgMatches) -> Result<ExitCode, String> {
    let output = args.get_one::<String>("output");
    if let Some(path) = output {
        write_files(Path::new(path), import)?;
    }
    if is_set(args, "json") {
        outln!("{}", report(import, output.is_none()));
    } else {
        if output.is_none() {
            outln!("{}", import.toml.trim_end());
            import.rule_files.iter().for_each(print_rules);
        }
        import.notes.iter().for_each(|note| eprintln!("{note}"));
    }
    let is_whole = import.notes.is_empty() && (output.is_some() || import.rule_files.is_empty());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the rules as comments of the configuration, and says that they need a file.
fn print_rules(file: &ImportedRules) {
    outln!("\n# {}", file.name);
    file.text.lines().for_each(|line| outln!("#     {line}"));
    eprintln!("{}: the rules of this file are comments at the end; --output writes it", file.name);
}

/// Writes the rule files, and then the configuration that names them.
fn write_files(path: &Path, import: &Import) -> Result<(), String> {
    let rules = import.rule_files.iter().map(|file| (path.with_file_name(&file.name), &file.text));
    let files: Vec<_> = rules.chain([(path.to_owned(), &import.toml)]).collect();
    if let Some((path, _)) = files.iter().find(|(path, _)| path.exists()) {
        return Err(format!("{}: the file exists", path.display()));
    }
    files.iter().try_for_each(|(path, text)| {
        write_new(path, text).map_err(|error| format!("{}: {error}", path.display()))
    })
}

/// A configuration that is in use must not be lost, so an existing file is an error. Only the user
/// can read the file: the text may have secrets of a source that others cannot read.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

fn report(import: &Import, with_toml: bool) -> Value {
    let notes: Vec<_> = import.notes.iter().map(note_json).collect();
    let mut report = json!({ "complete": notes.is_empty(), "notes": notes });
    if with_toml {
        let rules = import.rule_files.iter().map(|file| (file.name.clone(), json!(file.text)));
        report["toml"] = json!(import.toml);
        report["rules"] = Value::Object(rules.collect());
    }
    report
}

fn note_json(note: &Note) -> Value {
    json!({
        "file": note.file,
        "line": note.line,
        "directive": note.directive,
        "message": note.message,
    })
}
