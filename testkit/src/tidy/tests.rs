//! Gives each check a bad snippet, to show that it can fail, and a good snippet.

use super::exceptions::{Exception, apply};
use super::layers::{absences, crate_edges, step_imports};
use super::locks::{raw_locks, unused_classes};
use super::manifest::reasons;
use super::source::Source;
use super::{Problem, contracts, shape, words};

type Check = fn(&Source) -> Vec<Problem>;

/// A case: its name, the check, the path and the text of the snippet, and the lines of the expected
/// problems.
type Case = (&'static str, Check, &'static str, &'static str, &'static [usize]);

/// A snippet of five lines: one import, and an ordering after it.
const IMPORT: &str = "use a::{\n    Acquire,\n    Release,\n};\nfence(SeqCst);";

#[rustfmt::skip] // a table: one case on one line
const CASES: &[Case] = &[
    ("order", contracts::orderings, "cache/src/a.rs", "x.load(Acquire);", &[1]),
    ("ordered", contracts::orderings, "cache/src/a.rs", "// ORDER: b\nx.load(Acquire);", &[]),
    ("named", contracts::orderings, "sync/src/a.rs", "x.load(acquire(\"a.b\"));", &[1]),
    ("relaxed", contracts::orderings, "cache/src/a.rs", "x.load(Relaxed);", &[]),
    ("import", contracts::orderings, "cache/src/a.rs", IMPORT, &[5]),
    ("safety", contracts::unsafe_code, "shm/src/a.rs", "let x = unsafe { y() };", &[1]),
    ("safe", contracts::unsafe_code, "shm/src/a.rs", "// SAFETY: z\nunsafe { y() }", &[]),
    ("no forbid", contracts::unsafe_code, "http/src/lib.rs", "//! x", &[0]),
    ("forbid", contracts::unsafe_code, "http/src/lib.rs", "#![forbid(unsafe_code)]", &[]),
    ("may be unsafe", contracts::unsafe_code, "shm/src/lib.rs", "//! x", &[]),
    ("ignore", contracts::leftovers, "a/tests/b.rs", "#[ignore]\nfn a() {}", &[1]),
    ("should panic", contracts::leftovers, "a/src/b.rs", "#[should_panic]", &[1]),
    ("to do", contracts::leftovers, "a/src/b.rs", "fn a() { todo!() }", &[1]),
    ("fix me", contracts::leftovers, "a/src/b.rs", "fn a() {} // FIXME later", &[1]),
    ("sleep", contracts::leftovers, "a/tests/b.rs", "std::thread::sleep(ms);", &[1]),
    ("in a string", contracts::leftovers, "a/src/b.rs", "let a = \"todo! FIXME\";", &[]),
    ("step", step_imports, "server/src/key/a.rs", "use crate::fetch::Origins;", &[1]),
    ("step group", step_imports, "server/src/key/a.rs", "use crate::{a::{b}, deliver::c};", &[1]),
    ("step path", step_imports, "server/src/lookup.rs", "\ncrate::store::put();", &[2]),
    ("earlier step", step_imports, "server/src/fetch/a.rs", "use crate::key::Key;", &[]),
    ("no step", step_imports, "server/src/flow.rs", "use crate::deliver::Answer;", &[]),
    ("clock", absences, "http/src/a.rs", "let now = Instant::now();", &[1]),
    ("http in cache", absences, "cache/src/a.rs", "use forebay_http::Fields;", &[1]),
    ("clock in server", absences, "server/src/clock.rs", "Instant::now();", &[]),
    ("type", words::own_words, "a/src/b.rs", "pub struct UpstreamPool;", &[1]),
    ("function", words::own_words, "a/src/b.rs", "fn is_cacheable() {}", &[1]),
    ("getter", words::own_words, "a/src/b.rs", "fn get_name() {}", &[1]),
    ("module", words::own_words, "a/src/b.rs", "mod utils;", &[1]),
    ("setting", words::own_words, "server/src/config/table.rs", "ttl_s: u32 = \"1\" {", &[1]),
    ("field", words::own_words, "a/src/b.rs", "    ttl: u32,", &[]),
    ("our word", words::own_words, "a/src/b.rs", "fn is_storable() {}", &[]),
    ("part of a word", words::own_words, "a/src/b.rs", "fn urban() {}", &[]),
];

/// Two files whose types share a name. The first also has a participle and a comment that is
/// counted.
pub(super) const TWICE: (&str, &str) = (
    "// What is kept.\nstruct Kept;\nenum Pair {}\nstruct Need;\n\
     impl A for B {\n    type Kept = u8;\n}\n",
    "type Pair = u8;\n#[cfg(test)]\nmod tests {\n    struct Kept;\n}\n",
);

/// Returns the lines of the problems that `check` finds.
fn lines(check: Check, path: &str, text: &str) -> Vec<usize> {
    check(&Source::new(path, text)).into_iter().map(|problem| problem.line).collect()
}

#[test]
fn every_check_sees_what_it_is_for() {
    for (name, check, path, text, expected) in CASES {
        assert_eq!(lines(*check, path, text), *expected, "{name}");
    }
}

#[test]
fn sizes_are_counted_without_inline_tests() {
    let body = "fn a() {}\n".repeat(400);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    fn b() {}\n".repeat(140));
    assert_eq!(lines(shape::file_sizes, "a/src/b.rs", &format!("{body}{tests}")), []);
    assert_eq!(lines(shape::file_sizes, "a/src/b.rs", &format!("{body}{body}{tests}")), [0]);
    assert_eq!(lines(shape::file_sizes, "a/src/lib.rs", &body), [0]);
    assert_eq!(lines(shape::file_sizes, "a/src/b.rs", &tests.repeat(2)), [0]);

    let long = format!("fn a(x: [u8; 3]) {{\n{}}}\nfn b();\n", "    c();\n".repeat(69));
    assert_eq!(lines(shape::function_sizes, "a/src/b.rs", &long), [1]);
    let commented = format!("fn a() {{\n{}}}\n", "    // c\n\n".repeat(69));
    assert_eq!(lines(shape::function_sizes, "a/src/b.rs", &commented), []);

    let wide = format!("{}\n{}\n", "é".repeat(100), "é".repeat(101));
    assert_eq!(lines(shape::columns, "a/src/b.rs", &wide), [2]);
}

#[test]
fn strings_comments_and_characters_are_told_from_code() {
    let text = concat!(
        "let a = \"{ // \\\" }\"; // fn b\n",
        "let c: &'a str = r#\"\"fn\"#; let d = '{';\n",
        "/* fn e\n */\n",
        "fn f<'x>() { '\\'' }\n",
    );
    let source = Source::new("a/src/b.rs", text);
    assert_eq!(source.declared(&["fn"]), [(4, "f".to_string())]);
    assert!(source.comments[0].contains("fn b") && source.comments[2].contains("fn e"));
    assert!(source.code.iter().all(|line| !line.contains("fn b") && !line.contains('"')));
    let functions = source.functions();
    assert_eq!((functions.len(), functions[0].size), (1, 1));
}

#[test]
fn manifests_give_reasons_and_keep_to_the_layers() {
    let root = ("Cargo.toml".to_string(), "members = [\"http\", \"cache\", \"odd\"]".to_string());
    let edges = |path: &str, text: &str| {
        let manifest = (format!("{path}/Cargo.toml"), text.to_string());
        crate_edges(&[root.clone(), manifest]).len()
    };
    assert_eq!(edges("cache", "[dependencies]\nforebay-http.workspace = true\n"), 1);
    assert_eq!(edges("cache", "[dependencies]\nforebay-shm = { path = \"x\" }\n"), 0);
    assert_eq!(edges("http", "[dev-dependencies]\nforebay-testkit.workspace = true\n"), 0);
    assert_eq!(edges("http", "[dependencies]\nforebay-testkit.workspace = true\n"), 1);
    assert_eq!(edges("odd", ""), 1);
    assert_eq!(edges("bench", "[dependencies]\nforebay-http = \"1\"\n"), 0);

    let unexplained = |text: &str| reasons("a/Cargo.toml", text).len();
    assert_eq!(unexplained("[dependencies]\na = \"1\"\n"), 1);
    assert_eq!(unexplained("[dependencies]\na = \"1\" # why\n# why\nb.workspace = true\n"), 0);
    assert_eq!(
        unexplained("[dependencies]\na = { version = \"1\", features = [\n  \"x\",\n] } # why\n"),
        1
    );
    assert_eq!(unexplained("[target.'cfg(unix)'.dev-dependencies]\na = \"1\"\n"), 1);
    assert_eq!(
        unexplained("[package]\nname = \"a\"\n[dependencies]\nforebay-shm.workspace = true\n"),
        0
    );
}

#[test]
fn every_class_has_a_lock_and_only_sync_makes_locks_of_its_own() {
    let table = "lock_classes! {\n    /// A.\n    Hosts = \"a.hosts\";\n    Test = \"test\";\n}\n\
                 fn a() -> LockClass { LockClass::Hosts }\n";
    let unused = |path: &str, text: &str| -> Vec<usize> {
        let sources = [Source::new("sync/src/class.rs", table), Source::new(path, text)];
        unused_classes(&sources).into_iter().map(|problem| problem.line).collect()
    };
    let makes = "fn b() { Mutex::new(LockClass::Hosts, 0); }";
    assert_eq!(unused("a/src/b.rs", makes), []);
    assert_eq!(unused("a/src/b.rs", "Mutex::new(LockClass::HostsToo, 0);"), [3]);
    assert_eq!(unused("a/src/b.rs", "// LockClass::Hosts\n\"LockClass::Hosts\";"), [3]);
    assert_eq!(unused("a/tests/b.rs", makes), [3]);
    assert_eq!(unused("a/src/b.rs", &format!("#[cfg(test)]\nmod tests {{\n{makes}\n}}\n")), [3]);

    let root = ("Cargo.toml".to_string(), "members = [\"sync\", \"cache\"]".to_string());
    let raw = |path: &str, dependency: &str| {
        let text = format!("[dependencies]\n{dependency} = \"1\" # why\n");
        raw_locks(&[root.clone(), (format!("{path}/Cargo.toml"), text)]).len()
    };
    assert_eq!(raw("cache", "parking_lot"), 1);
    assert_eq!(raw("cache", "lock_api"), 1);
    assert_eq!(raw("cache", "forebay-sync"), 0);
    assert_eq!(raw("sync", "parking_lot"), 0);
    assert_eq!(raw("bench/micro", "parking_lot"), 0);
}

#[test]
fn machine_paths_and_unneeded_exceptions_are_problems() {
    let path = concat!("see /wor", "k/main");
    assert_eq!(contracts::machine_paths("README.md", path).len(), 1);
    assert_eq!(contracts::machine_paths("README.md", "the work of a day").len(), 0);

    let exception = Exception { rule: "columns", path: "a.rs", what: "", reason: "a table" };
    let problem = Problem::new("a.rs", 1, "columns", "too wide");
    assert_eq!(apply(vec![problem.clone()], &[exception]), []);
    assert_eq!(apply(vec![problem.clone()], &[]), [problem]);
    assert_eq!(apply(vec![], &[exception]).len(), 1);
}
