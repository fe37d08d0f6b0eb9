//! The views of the profiles of foreign programs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::common::{PROGRAM, compile, locks, record, report, run};

/// Takes a lock repeatedly until its input ends, in two processes.
const TWO: &str = r#"
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void work(void) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); }
int main(void) {
    work();
    int is_child = fork() == 0;
    work();
    if (write(1, "ready\n", 6) < 0) return 1;
    struct pollfd input = { 0, POLLIN, 0 };
    while (poll(&input, 1, 5) == 0) {
        work();
        work();
    }
    return is_child ? 0 : wait(0) < 0;
}
"#;

/// Two threads that take a lock through different callers. One of them first fails a try-lock.
const WAYS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start, end, left;
__attribute__((noinline)) static void take(void) { pthread_mutex_lock(&m); }
__attribute__((noinline)) static void calm(void) { take(); pthread_mutex_unlock(&m); }
__attribute__((noinline)) static void eager(void) {
    while (pthread_mutex_trylock(&m)) {
        pthread_barrier_wait(&end);
        pthread_barrier_wait(&left);
    }
    pthread_mutex_unlock(&m);
    take(); pthread_mutex_unlock(&m);
}
static void *other(void *arg) { pthread_barrier_wait(&start); eager(); return arg; }
int main(void) {
    pthread_t thread;
    pthread_barrier_init(&start, 0, 2);
    pthread_barrier_init(&end, 0, 2);
    pthread_barrier_init(&left, 0, 2);
    for (int i = 0; i < 7; i++) calm();
    pthread_create(&thread, 0, other, 0);
    take();
    pthread_barrier_wait(&start);
    pthread_barrier_wait(&end);
    pthread_mutex_unlock(&m);
    pthread_barrier_wait(&left);
    return pthread_join(thread, 0);
}
"#;

/// Starts the program, and waits until both processes have taken the lock.
fn started(dir: &Path) -> Child {
    let mut command = record(dir, &["--quiet", "--stacks", "4", "--out", "two", "--", "./program"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    for _ in 0..2 {
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
    }
    child
}

#[test]
fn all_processes_of_a_run_are_watched_until_the_last_has_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    if !compile(dir, "cc", TWO, &["-g", "-fno-omit-frame-pointer"]) {
        return;
    }
    let mut program = started(dir);
    let seen = locks(dir, &["top", "two", "--count", "1", "--interval", "200ms"]);
    assert!(seen.starts_with("two: 2 processes run; recording is on\nprocess "), "{seen}");
    let mut pids: Vec<_> = seen.lines().skip(2).map(|row| row.split_whitespace().next()).collect();
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), 2, "{seen}");
    // The same function, called at two lines.
    for line in [15, 16] {
        let way = format!("work program.c:7 (mutex) < main program.c:{line}");
        assert!(seen.contains(&way), "{way}: {seen}");
    }
    let first = locks(dir, &["report", "two"]);
    assert!(first.contains("1 more process of this run has a profile: two."), "{first}");

    let mut watch = std::process::Command::new(PROGRAM);
    let watch = watch
        .args(["locks", "top", "two", "--interval", "100ms", "--count", "100"])
        .current_dir(dir);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut output = BufReader::new(watch.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    drop(program.stdin.take());
    assert_eq!(program.wait().expect("it ends").code(), Some(0));
    let last = output.lines().map(|line| line.expect("text")).last();
    assert_eq!(last.as_deref(), Some("two: all its 2 processes have ended"));
    assert_eq!(watch.wait().expect("it ends").code(), Some(0));

    let mut late = std::process::Command::new(PROGRAM);
    let late = late.args(["locks", "top", "two"]).current_dir(dir).output().expect("it runs");
    let said = String::from_utf8_lossy(&late.stderr);
    assert!(late.status.code() == Some(1) && said.contains("have ended; see"), "{late:?}");
}

#[test]
fn each_stack_of_each_thread_is_shown_with_its_numbers_and_bars() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    if !compile(dir, "cc", WAYS, &["-g", "-O1", "-fno-omit-frame-pointer"]) {
        return;
    }
    let (code, _, error) = run(dir, &["--quiet", "--stacks", "8", "--", "./program"]);
    assert_eq!((code, &*error), (Some(0), ""));
    let text = locks(dir, &["report", "--threads", "--histograms", "program.locks"]);
    let threads: Vec<_> = text.split("\nthread ").skip(1).collect();
    assert_eq!(threads.len(), 2, "{text}");
    assert!(threads.iter().all(|thread| thread.contains("(exited)\n")), "{text}");
    // The thread with a failed try-lock comes first, and so does that call site among its own.
    let entries: Vec<_> = threads[0].split("\n\tmutex ::: ").skip(1).collect();
    assert_eq!(entries.len(), 2, "{text}");
    let numbers = "enter count 1 ::: try-lock failure count 1 ::: try-lock delay ";
    assert!(entries[0].contains(numbers), "{text}");
    for (entry, expected) in [
        (entries[0], &["eager program.c:", "other program.c:"][..]),
        (entries[1], &["take program.c:", "eager program.c:", "other program.c:"]),
    ] {
        let frames: Vec<_> =
            entry.lines().skip(1).take_while(|line| line.starts_with("\t\t")).collect();
        let agree = frames.iter().zip(expected).all(|(frame, part)| frame[2..].starts_with(part));
        assert!(frames.len() >= expected.len() && agree, "{frames:?} {expected:?}");
        assert!(entry.contains("\n\thold time (us)\n\t "), "{entry}");
    }
    let calm = "take program.c:7\n\t\tcalm program.c:8\n\t\tmain program.c:";
    assert!(threads[1].contains("enter count 7 ") && threads[1].contains(calm), "{text}");
    // In a table with one line per call site, only the callers distinguish two of the sites.
    let table = locks(dir, &["report", "program.locks"]);
    assert!(table.contains("take program.c:7 (mutex) < calm program.c:8 < main"), "{table}");
}

#[test]
fn lists_have_the_requested_order_and_length_or_the_request_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    if !compile(dir, "cc", WAYS, &["-g", "-O1", "-fno-omit-frame-pointer"]) {
        return;
    }
    let (code, _, error) = run(dir, &["--quiet", "--stacks", "8", "--", "./program"]);
    assert_eq!((code, &*error), (Some(0), ""));
    let calm = "enter count 7 ::: ";
    for (sort, is_first) in [("count", true), ("try_failed", false)] {
        let text = locks(dir, &["report", "--threads", "--sort", sort, "program.locks"]);
        let mut entries = text.lines().filter(|line| line.contains(" ::: enter count "));
        assert_eq!(entries.next().map(|line| line.contains(calm)), Some(is_first), "{text}");
    }

    let none = locks(dir, &["report", "--stacks", "program.locks"]);
    assert!(
        none.contains("\ncallers are part of the call sites: see `forebay locks report "),
        "{none}"
    );

    let whole = report(&dir.join("program.locks"));
    let count = |value: &serde_json::Value| value.as_array().map_or(0, Vec::len);
    let cut = |more: &[&str]| {
        let json = locks(dir, &[&["report", "--json", "program.locks"], more].concat());
        serde_json::from_str::<serde_json::Value>(&json).expect("JSON")
    };
    let one = cut(&["--lines", "1", "--sort", "count"]);
    assert_eq!((count(&one["sites"]), count(&one["pairs"])), (1, 1), "{one}");
    assert_eq!(one["sites"][0]["numbers"]["count"], 7, "{one}");
    let left_out = |list: &str| one["left_out"][list].as_u64().expect("a number") as usize;
    for list in ["sites", "pairs", "stacks"] {
        assert_eq!(left_out(list) + count(&one[list]), count(&whole[list]), "{list}: {one}");
    }
    let threads = whole["threads"].as_array().expect("threads").iter();
    let of_threads: usize = threads.map(|thread| count(&thread["sites"]) - 1).sum();
    assert_eq!((left_out("thread_sites"), of_threads > 0), (of_threads, true), "{one}");

    fs::write(dir.join("one.json"), one.to_string()).expect("ours");
    for (arguments, part) in [
        (&["report", "--sort", "max", "--matrix"][..], "cannot be used with"),
        (&["report", "--sort", "max", "--stacks"], "cannot be used with"),
        (&["report", "--json", "--threads"], "cannot be used with"),
        (&["report", "--json", "--matrix"], "cannot be used with"),
        (&["report", "--json", "--stacks"], "cannot be used with"),
        (&["report", "--json", "--histograms"], "cannot be used with"),
        (&["report", "--threads", "--sort", "cnt_hold"], "not available with --threads"),
        (&["diff", "one.json"], "one.json: the report omits "),
    ] {
        let mut command = std::process::Command::new(PROGRAM);
        command.arg("locks").args(arguments).arg("program.locks").current_dir(dir);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{arguments:?}: {said}");
    }
    fs::write(dir.join("none.json"), "{\"sites\": []}").expect("ours");
    let changes = locks(dir, &["diff", "--json", "--lines", "1", "none.json", "program.locks"]);
    let changes: serde_json::Value = serde_json::from_str(&changes).expect("JSON");
    assert_eq!(count(&changes["sites"]), 1, "{changes}");
    assert_eq!(changes["left_out"], count(&whole["sites"]) - 1, "{changes}");
}

#[test]
fn a_report_says_that_its_program_has_changed_since() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    if !compile(dir, "cc", WAYS, &["-g"]) {
        return;
    }
    let (code, _, error) = run(dir, &["--", "./program"]);
    assert!(code == Some(0) && !error.contains("names may be wrong"), "{error}");
    let none = locks(dir, &["report", "--stacks", "program.locks"]);
    assert!(
        none.contains(
            "\nthe profile was recorded without callers: see `forebay locks record --stacks`\n"
        ),
        "{none}"
    );
    let file = dir.join("program.locks");
    assert_eq!(report(&file)["changed_files"], serde_json::json!([]));
    let program = dir.join("program").canonicalize().expect("the path exists");
    fs::copy(&program, dir.join("another")).expect("copied");
    fs::rename(dir.join("another"), &program).expect("renamed");
    let line = format!(
        "\n{} has changed since this was recorded: names may be wrong\n",
        program.display()
    );
    let text = locks(dir, &["report", "program.locks"]);
    assert!(text.contains(&line), "{text}");
    let changed = serde_json::json!([{ "path": program.to_str(), "what": "changed" }]);
    assert_eq!(report(&file)["changed_files"], changed);
    fs::remove_file(&program).expect("ours");
    let text = locks(dir, &["report", "program.locks"]);
    assert!(text.contains("is missing: its functions have no names\n"), "{text}");
    assert_eq!(report(&file)["changed_files"][0]["what"], "missing");
}

/// The system loads a program at a different address in each run.
#[test]
fn call_sites_of_two_runs_match_at_any_load_address() {
    for flags in [&["-g"][..], &[], &["-s"]] {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        if !compile(dir, "cc", WAYS, &[flags, &["-fPIE", "-pie"]].concat()) {
            return;
        }
        for out in ["a", "b"] {
            let (code, _, error) = run(dir, &["--quiet", "--out", out, "--", "./program"]);
            assert_eq!((code, &*error), (Some(0), ""));
        }
        fs::write(dir.join("a.json"), report(&dir.join("a")).to_string()).expect("ours");
        for before in ["a", "a.json"] {
            let text = locks(dir, &["diff", "--json", before, "b"]);
            let changes: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let sites = changes["sites"].as_array().expect("sites");
            assert!(sites.len() >= 2, "{flags:?} {text}");
            let is_same = |site: &serde_json::Value| site["change"]["count"] == 0;
            assert!(sites.iter().all(is_same), "{flags:?} {text}");
        }
    }
}

#[test]
fn cpp_locks_are_named_after_their_callers() {
    const SOURCE: &str = "#include <mutex>\n#include <shared_mutex>\n#include <string>\n\
         template <typename T> struct Store { std::mutex m; std::shared_mutex s; T t;\n\
         __attribute__((noinline)) void put(T const &t) { std::lock_guard g(m); this->t = t; }\n\
         __attribute__((noinline)) T get() { std::shared_lock g(s); return t; } };\n\
         int main() { Store<std::string> s; s.put(\"a\"); return s.get() != \"a\"; }\n";
    for optimised in ["-O0", "-O2"] {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        if !compile(dir, "g++", SOURCE, &["-g", "-std=c++17", "-fno-omit-frame-pointer", optimised])
        {
            return;
        }
        let (code, _, error) =
            run(dir, &["--quiet", "--stacks", "8", "--out", "x", "--", "./program"]);
        assert_eq!((code, &*error), (Some(0), ""));
        let text = locks(dir, &["report", "--threads", "x"]);
        let put = "Store<std::string >::put(std::string const&) program.cc:5\n";
        let get = "Store<std::string >::get() program.cc:6\n";
        for name in [put, get] {
            assert!(text.contains(name), "{optimised} {name}: {text}");
        }
        assert!(!text.contains("basic_string"), "{text}");
        let report = report(&dir.join("x"));
        for site in report["sites"].as_array().expect("sites") {
            let name = site["site"]["name"].as_str().expect("text");
            assert!(name.starts_with("Store<std::string >::"), "{optimised} {name}");
        }
        let note = "only the C++ library: record with --stacks 8";
        assert!(!text.contains(note), "{optimised} {text}");
        let (_, _, error) = run(dir, &["--out", "y", "--", "./program"]);
        let is_noted = error.contains(&format!("\n2 call sites show {note}"));
        assert!(is_noted || optimised == "-O2", "{error}");
    }
    // Without line numbers, a site is the function and the offset in it.
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    assert!(compile(dir, "g++", SOURCE, &["-std=c++17"]));
    let (code, _, error) = run(dir, &["--quiet", "--stacks", "8", "--out", "x", "--", "./program"]);
    assert_eq!((code, &*error), (Some(0), ""));
    let text = locks(dir, &["report", "--threads", "x"]);
    assert!(text.contains("Store<std::string >::put(std::string const&)+0x"), "{text}");
}

#[test]
fn a_cpp_condition_wait_is_named_after_its_caller() {
    // Once the main thread holds the lock after `begun`, the other thread is waiting.
    const SOURCE: &str = "#include <condition_variable>\n#include <mutex>\n#include <thread>\n\
         std::mutex m; std::condition_variable c; bool begun, ready;\n\
         __attribute__((noinline)) void wait_here() { std::unique_lock<std::mutex> l(m);\n\
         begun = true; c.notify_all();\n\
         c.wait(l, [] { return ready; }); }\n\
         int main() { std::unique_lock<std::mutex> l(m); std::thread t(wait_here);\n\
         c.wait(l, [] { return begun; }); ready = true; c.notify_all(); l.unlock(); t.join(); }\n";
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    if !compile(dir, "g++", SOURCE, &["-g", "-O2", "-std=c++17"]) {
        return;
    }
    let (code, _, error) = run(dir, &["--quiet", "--out", "x", "--", "./program"]);
    assert_eq!((code, &*error), (Some(0), ""));
    let text = locks(dir, &["report", "x"]);
    assert!(text.contains("wait_here() program.cc:7 (mutex, after a condition)"), "{text}");
    assert!(!text.contains("condition_variable:"), "{text}");
}
