//! The documents list every number that a server shows, and use only existing commands and flags.

use std::process::Command;

use forebay_testkit::{Origin, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// Pages that contain commands.
const PAGES: [&str; 14] = [
    "README.md",
    "docs/cache-tools.md",
    "docs/explain.md",
    "docs/install.md",
    "docs/limits.md",
    "docs/lock-profiling.md",
    "docs/logs.md",
    "docs/metrics.md",
    "docs/purging.md",
    "docs/signals.md",
    "docs/sites.md",
    "docs/trace.md",
    "docs/upgrade.md",
    "docs/why-a-miss.md",
];

/// Numbers of `stats` that are not counters.
const NO_COUNTERS: &[&str] = &["workers", "uptime_ms"];

fn text(path: &str) -> String {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_page_of_counters_lists_every_number_of_a_server() {
    let page = text("docs/counters.md");
    let server = Server::before(PROGRAM, &Origin::echo());
    let shown = server.stats();
    let is_listed = |name: &str| page.contains(&format!("\n| `{name}` |"));
    for name in shown.keys().filter(|name| !NO_COUNTERS.contains(&name.as_str())) {
        // `stats` has two numbers for a histogram, and the page has one name.
        let histogram = name.strip_suffix("_sum").or(name.strip_suffix("_count"));
        let is_known = is_listed(name) || histogram.is_some_and(is_listed);
        assert!(is_known, "docs/counters.md has no {name}");
    }
    let listed = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for name in listed {
        let is_shown = shown.contains_key(name) || shown.contains_key(&format!("{name}_sum"));
        assert!(is_shown, "docs/counters.md has {name}, which a server does not show");
    }
}

#[test]
fn the_documents_use_existing_commands_and_flags() {
    let pages = PAGES.map(text);
    let lines = pages.iter().flat_map(|page| page.lines());
    let commands: Vec<_> = lines.filter_map(|line| line.strip_prefix("forebay ")).collect();
    assert!(commands.len() >= 8, "{commands:?}");
    for command in commands {
        let typed = command.split(" #").next().unwrap_or_default();
        let mut words = typed.split_whitespace();
        let mut names: Vec<_> = words.next().into_iter().collect();
        if matches!(names[..], ["cache" | "import" | "locks" | "rules"]) {
            names.extend(words.next());
        }
        let name = names.join(" ");
        let help =
            Command::new(PROGRAM).args(&names).arg("--help").output().expect("forebay was built");
        assert!(help.status.success(), "there is no command {name}: {command}");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        // The words after `--` belong to another program.
        let own = words.take_while(|word| *word != "--");
        for flag in own.filter(|word| word.starts_with("--")) {
            let is_there = help.split_whitespace().any(|word| word == flag);
            assert!(is_there, "{name} has no {flag}: {command}");
        }
    }
}
