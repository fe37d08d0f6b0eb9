//! Checks the layers: dependencies between crates by their manifests, between the steps of a
//! request by their imports, and words that a crate must not contain.

use super::Problem;
use super::manifest::{Section, dependencies};
use super::source::{Source, has_word};

/// Each of our crates, lowest first, with the crates below it that it may use.
const CRATES: &[(&str, &[&str])] = &[
    ("sync", &[]),
    ("shm", &["sync"]),
    ("http", &[]),
    ("http2", &["http"]),
    ("lockprof", &["sync"]),
    ("ordmap", &["shm", "sync"]),
    ("capi", &["ordmap", "shm"]),
    ("rules", &["http"]),
    ("cache", &["ordmap", "shm", "sync"]),
    ("server", &["cache", "http", "http2", "ordmap", "rules", "shm", "sync"]),
    ("import", &["rules"]),
    (
        "forebay",
        &["cache", "http", "import", "lockprof", "ordmap", "rules", "server", "shm", "sync"],
    ),
    ("testkit", &[]),
    ("studies", &["sync"]),
    ("examples/secure-cookies", &["forebay", "http", "rules"]),
];

/// The steps of a request in their order. Each step uses only those before it.
const STEPS: &[&str] = &["accept", "parse", "key", "lookup", "store", "fetch", "deliver"];

/// Words that must not occur in the code below a path.
const ABSENCES: &[(&str, &[&str])] = &[
    ("http/src/", &["Instant", "TcpStream", "UdpSocket", "thread", "tokio", "fs"]),
    ("http2/src/", &["Instant", "TcpStream", "UdpSocket", "thread", "tokio", "fs"]),
    ("rules/src/", &["Instant", "TcpStream", "UdpSocket", "thread", "tokio", "fs"]),
    ("cache/src/", &["forebay_http", "TcpStream", "tokio"]),
    ("shm/src/", &["forebay_http", "TcpStream", "tokio"]),
    // Only the steps from `fetch` on may use the transaction, which is built from the earlier
    // steps.
    ("server/src/accept/", &["Transaction"]),
    ("server/src/parse/", &["Transaction"]),
    ("server/src/key/", &["Transaction"]),
    ("server/src/lookup/", &["Transaction"]),
    ("server/src/store/", &["Transaction"]),
];

/// Checks the dependencies between our crates in the manifests of the workspace's members.
pub(super) fn crate_edges(manifests: &[(String, String)]) -> Vec<Problem> {
    let root = manifests.iter().find(|(path, _)| path == "Cargo.toml");
    let members = root.map(|(_, text)| members_of(text)).unwrap_or_default();
    let mut problems = Vec::new();
    for (path, text) in manifests {
        let Some(name) = path.strip_suffix("/Cargo.toml").filter(|name| members.contains(name))
        else {
            continue;
        };
        let Some((_, below)) = CRATES.iter().find(|(other, _)| *other == name) else {
            let message = format!("crate {name} is not in the table of layers");
            problems.push(Problem::new(path, 0, "crate edge", message));
            continue;
        };
        for dependency in dependencies(text) {
            let Some(other) = our_crate(&dependency.name) else {
                continue;
            };
            let is_test_only = dependency.section == Section::Dev && other == "testkit";
            if !below.contains(&other) && !is_test_only {
                let message = format!("{name} must not depend on {other}");
                problems.push(Problem::new(path, dependency.line, "crate edge", message));
            }
        }
    }
    problems
}

/// Checks the imports between the step folders of the server.
pub(super) fn step_imports(source: &Source) -> Vec<Problem> {
    let Some(inside) = source.path.strip_prefix("server/src/") else {
        return Vec::new();
    };
    let folder = inside.split(['/', '.']).next().unwrap_or_default();
    let Some(place) = STEPS.iter().position(|step| *step == folder) else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for (index, target) in crate_paths(source) {
        let later = STEPS.iter().skip(place + 1).find(|step| **step == target);
        if let Some(later) = later {
            let message = format!("{folder} comes before {later} and must not use it");
            problems.push(Problem::new(&source.path, index + 1, "step order", message));
        }
    }
    problems
}

/// Checks that a crate's code has none of the words that it must not contain.
pub(super) fn absences(source: &Source) -> Vec<Problem> {
    let Some((_, words)) = ABSENCES.iter().find(|(prefix, _)| source.path.starts_with(prefix))
    else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        if source.is_test_file() || source.is_test[index] {
            continue;
        }
        for word in words.iter().filter(|word| has_word(line, word)) {
            let message = format!("this crate must not use {word}");
            problems.push(Problem::new(&source.path, index + 1, "absence", message));
        }
    }
    problems
}

fn our_crate(package: &str) -> Option<&str> {
    if package == "forebay" { Some(package) } else { package.strip_prefix("forebay-") }
}

/// Returns the members of the workspace, from its manifest.
pub(super) fn members_of(manifest: &str) -> Vec<&str> {
    let after = manifest.split_once("members = [").map_or("", |(_, after)| after);
    let list = after.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).collect()
}

/// Returns the line index and first segment of every `crate::…` path, including groups in braces.
fn crate_paths(source: &Source) -> Vec<(usize, String)> {
    const ROOT: &str = "crate::";
    let code = source.code.join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices(ROOT) {
        let line = code[..at].matches('\n').count();
        let after = &code[at + ROOT.len()..];
        for segment in first_segments(after) {
            found.push((line, segment));
        }
    }
    found
}

/// Returns the first segments of `a::b` or of `{a, b::{c, d}, e}`.
fn first_segments(path: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|&c| super::source::is_word(c)).collect()
    };
    let Some(group) = path.strip_prefix('{') else {
        return vec![word(path)];
    };
    let mut segments = vec![word(group)];
    let mut depth = 0usize;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => segments.push(word(&group[at + 1..])),
            _ => {}
        }
    }
    segments
}
