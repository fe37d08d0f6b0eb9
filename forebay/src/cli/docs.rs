//! Generates the page of commands, `docs/commands.md`, from the command line's own table.
//!
//! A test checks the page. With `UPDATE_DOCS=1` the test writes it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Arg, Command};

const INTRO: &str = "\
# Commands

This page is generated from the program's own table; `forebay COMMAND --help` prints the same \
text. Commands that talk to a server find it by themselves if only one server is running with the \
default `runtime_dir`; if several are, [`--admin`](signals.md#the-admin-interface) chooses one.
";

/// Heading of the flags that `docs/settings.md` describes.
const SETTINGS: &str = "Settings";

const SETTINGS_NOTE: &str = "Each [setting](settings.md) of the top level is also a flag: \
                             `cache_size` is `--cache-size`.";

/// The end of a code block, with its line ends.
const FENCE: &str = "\n```\n";

fn page() -> String {
    let mut page = INTRO.to_owned();
    let mut command = super::command();
    command.build();
    for one in command.get_subcommands().filter(|one| one.get_name() != "help") {
        write_command(&mut page, one);
        for below in one.get_subcommands().filter(|below| below.get_name() != "help") {
            write_command(&mut page, below);
        }
    }
    page
}

fn write_command(page: &mut String, command: &Command) {
    let name = command.get_bin_name().unwrap_or_default();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let _ = writeln!(page, "\n## {name}\n\n{about}.\n\n```\n{usage}\n```");
    let is_setting = |arg: &&Arg| arg.get_help_heading() == Some(SETTINGS);
    let is_own =
        |arg: &&Arg| !is_setting(arg) && !["help", "version"].contains(&arg.get_id().as_str());
    let rows: String = command.get_arguments().filter(is_own).map(row).collect();
    if !rows.is_empty() {
        let _ = write!(page, "\n| argument | meaning |\n|---|---|\n{rows}");
    }
    if command.get_arguments().any(|arg| is_setting(&arg)) {
        let _ = writeln!(page, "\n{SETTINGS_NOTE}");
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    after.split("\n\n").for_each(|part| write_part(page, part));
}

fn row(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    let takes_value = arg.get_action().takes_values();
    let name = match (arg.get_long(), takes_value) {
        (Some(long), true) => format!("--{long} {values}"),
        (Some(long), false) => format!("--{long}"),
        (None, _) => values,
    };
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults = arg.get_default_values().iter().filter(|_| takes_value);
    let defaults = defaults.filter_map(|value| value.to_str());
    defaults.for_each(|value| help += &format!(" [default: {value}]"));
    let possible: Vec<_> = arg.get_possible_values();
    let possible: Vec<_> = possible.iter().map(|value| value.get_name()).collect();
    if takes_value && !possible.is_empty() {
        help += &format!(" [possible values: {}]", possible.join(", "));
    }
    // A `|` would end the cell of the table.
    format!("| `{}` | {} |\n", name.replace('|', "\\|"), help.replace('|', "\\|"))
}

/// Writes a paragraph of help. Its indented lines become a code block.
fn write_part(page: &mut String, part: &str) {
    let is_block = |line: &&str| line.starts_with("  ");
    let text: Vec<_> = part.lines().filter(|line| !is_block(line)).collect();
    let block: Vec<_> =
        part.lines().filter(is_block).map(|line| line.get(2..).unwrap_or("")).collect();
    if !text.is_empty() {
        let _ = writeln!(page, "\n{}", text.join("\n"));
    }
    if !block.is_empty() {
        let language = if text == ["Examples:"] { "sh" } else { "" };
        // A paragraph of indented lines only continues the code block before it.
        let is_continued = text.is_empty() && page.ends_with(FENCE);
        match is_continued {
            true => page.truncate(page.len() - FENCE.len()),
            false => _ = write!(page, "\n```{language}"),
        }
        let _ = write!(page, "\n{}{FENCE}", block.join("\n"));
    }
}

#[test]
fn the_page_of_commands_is_the_one_that_the_table_gives() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands.md");
    let wanted = page();
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&path, &wanted).expect("docs/ can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "docs/commands.md is out of date: run this test with UPDATE_DOCS=1");
}

#[test]
fn every_argument_has_a_name_and_help() {
    let mut command = super::command();
    command.build();
    let all = command.get_subcommands().flat_map(|one| one.get_subcommands().chain([one]));
    for command in all.filter(|one| one.get_name() != "help") {
        for arg in command.get_arguments() {
            let case = format!("{}: {}", command.get_name(), arg.get_id());
            assert!(arg.get_help().is_some(), "{case}");
            let is_named = !arg.get_action().takes_values() || arg.get_value_names().is_some();
            assert!(is_named, "{case}");
        }
    }
}

#[test]
fn every_example_is_accepted() {
    let page = page();
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let blocks: Vec<_> = blocks.map(|block| block.replace("\\\n", " ")).collect();
    let lines = blocks.iter().flat_map(|block| block.lines());
    // Pipes to other programs and redirections to files are not part of the command.
    let commands = lines.flat_map(|line| line.split(" && ")).filter_map(|line| {
        let ends = [" | ", " > "].map(|end| line.find(end).unwrap_or(line.len()));
        line.get(..ends[0].min(ends[1]))
    });
    let mut count = 0;
    for line in commands {
        count += 1;
        if let Err(error) = super::command().try_get_matches_from(words(line)) {
            panic!("{line}: {error}");
        }
    }
    assert!(count > 50, "{count}");
}

/// Splits a line into words as a shell does; single quotes keep blanks.
fn words(line: &str) -> Vec<String> {
    let is_quoted = |index: usize| index % 2 == 1;
    let mut words = vec![String::new()];
    for (index, part) in line.split('\'').enumerate() {
        for c in part.chars() {
            match words.last_mut() {
                Some(word) if is_quoted(index) || c != ' ' => word.push(c),
                _ => words.push(String::new()),
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
