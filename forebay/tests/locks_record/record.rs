//! Running and recording programs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use forebay_testkit::has_compiler;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{PROGRAM, compiled, library, locks, names, record, report, run};

#[test]
fn a_program_is_run_and_the_report_names_its_functions_and_lines() {
    let Some(dir) = compiled() else { return };
    let dir = dir.path();
    let (code, said, report_text) = run(dir, &["--", "./locks", "tries", "2"]);
    assert_eq!(code, Some(0), "{report_text}");
    assert!(said.contains("expect|"), "the program's output is mixed with the report: {said}");
    for part in ["tries locks.c:", "take_mutex locks.c:", "(mutex)", "not recorded: "] {
        assert!(report_text.contains(part), "no {part:?} in {report_text}");
    }
    let report = report(&dir.join("locks.locks"));
    let sites = report["sites"].as_array().expect("sites");
    // The largest loss comes first: five failed try-locks, and a delay of five sleeps.
    assert_eq!(sites[0]["numbers"]["try_failed"], 5, "{report}");
    let delay_ns = sites[0]["numbers"]["try_delay_ns"].as_u64();
    assert!(delay_ns > Some(10_000_000), "{report}");
    let pair = &report["pairs"][0];
    assert!(pair["holder"]["name"].to_string().contains("take_mutex"), "{report}");
}

#[test]
fn the_walk_in_the_docs_finds_the_hot_lock() {
    if !has_compiler("cc") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hot-lock/hot_lock.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-Wall", "-Werror", "-pthread", "-o"]).arg(dir.join("hot_lock"));
    let output = cc.arg(source).output().expect("cc is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (code, _, error) = run(dir, &["--quiet", "./hot_lock"]);
    assert_eq!((code, &*error), (Some(0), ""));
    let report = report(&dir.join("hot_lock.locks"));
    let pair = &report["pairs"][0];
    let name = |side: &str| pair[side]["name"].to_string();
    assert!(name("holder").contains("rebuild hot_lock.c:"), "{report}");
    assert!(name("waiter").contains("look_up hot_lock.c:"), "{report}");
    let sites = report["sites"].as_array().expect("sites");
    let tried = sites.iter().find(|site| site["site"]["name"].to_string().contains("log_hits"));
    let numbers = &tried.expect("it tried")["numbers"];
    assert_eq!(numbers["wait_total_ns"], 0, "{numbers}");
    assert!(numbers["try_delay_ns"].as_u64() > Some(2_000_000), "{numbers}");
}

#[test]
fn callers_and_locks_are_told_apart_on_demand() {
    let Some(dir) = compiled() else { return };
    let dir = dir.path();
    let first = |arguments: &[&str]| {
        let all = [&["--quiet", "--out", "x"], arguments, &["--", "./locks"]].concat();
        let (code, _, error) = run(dir, &[&all[..], &["recursive", "100"]].concat());
        assert_eq!((code, &*error), (Some(0), ""), "{arguments:?}");
        let report = report(&dir.join("x"));
        (report["sites"][0]["site"].clone(), report)
    };
    let (site, _) = first(&[]);
    assert_eq!(site["stack"].as_array().map(Vec::len), Some(1), "{site}");
    assert_eq!(site["lock"], "mutex");
    let (site, _) = first(&["--stacks", "3"]);
    assert!(site["stack"][1].to_string().contains("main locks.c:"), "{site}");
    let (site, _) = first(&["--per-lock"]);
    assert!(site["lock"].to_string().contains("mutex 0x"), "{site}");
    let (_, sampled) = first(&["--sample", "10"]);
    assert_eq!((&sampled["skip"], &sampled["is_on"]), (&9.into(), &true.into()));
    let (code, _, error) = run(dir, &["--quiet", "--out", "x", "./locks", "conditions", "5"]);
    assert_eq!((code, &*error), (Some(0), ""));
    let sleep = report(&dir.join("x"));
    let sites = sleep["sites"].as_array().expect("sites").iter();
    let slept: u64 = sites.filter_map(|site| site["asleep_count"].as_u64()).sum();
    assert!(slept >= 7, "{sleep}");
    let asleep = |row: &str| locks(dir, &["report", "--sort", "asleep", row]);
    assert!(asleep("x").contains(" try_delay asleep name\n"), "{}", asleep("x"));
    assert!(asleep("x").contains("(mutex, after a condition)\n"), "{}", asleep("x"));
    let (_, off) = first(&["--off"]);
    assert_eq!(off["is_on"], false);
    assert_eq!(names(dir), ["locks", "x"], "each run replaces the profile of the run before");
}

#[test]
fn a_recorded_program_ends_as_it_would_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("exit 255", 255)] {
        let (found, _, error) = run(dir.path(), &["--", "sh", "-c", script]);
        assert_eq!(found, Some(code), "{script}: {error}");
        assert!(error.contains("no profile was made"), "{script}: {error}");
    }
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut command = record(dir.path(), &["--quiet", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(pid, Signal::TERM).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(5), "the signal reaches the program");
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let dir = tempfile::tempdir().expect("a directory");
    for (before, expected) in [("trap '' HUP TERM", "lived"), ("true", "")] {
        let mut shell = Command::new("sh");
        let script = format!(
            "{before}; exec \"$0\" locks record --quiet -- \
             sh -c 'kill -HUP $$; kill -TERM $$; echo lived'"
        );
        shell.args(["-c", &script, PROGRAM]).current_dir(dir.path());
        let output = shell.env("FOREBAY_LOCKPROF", library()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim_end(), expected, "{before}: {output:?}");
    }
}

#[test]
fn profiles_that_are_still_written_are_not_replaced() {
    if !has_compiler("cc") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    // The program runs until its input ends.
    let source = "#include <pthread.h>\n#include <stdio.h>\n\
                  static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n\
                  int main(void) { pthread_mutex_lock(&m); puts(\"ready\"); fflush(stdout);\n\
                  getchar(); return pthread_mutex_unlock(&m); }\n";
    fs::write(dir.join("lives.c"), source).expect("written");
    let mut cc = Command::new("cc");
    let output = cc.args(["-pthread", "-o", "lives", "lives.c"]).current_dir(dir).output();
    let output = output.expect("cc is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let mut command = record(dir, &["--quiet", "--out", "x", "--", "./lives"]);
    let mut first = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    BufReader::new(first.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let second = ["--quiet", "--out", "x", "--", "sh", "-c", "touch ran"];
    let (code, _, error) = run(dir, &second);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("is still writing this profile; choose another file"), "{error}");
    assert_eq!(names(dir), ["lives", "lives.c", "x"]);

    drop(first.stdin.take());
    assert_eq!(first.wait().expect("it ends").code(), Some(0));
    let (code, _, error) = run(dir, &second);
    assert_eq!((code, &*error), (Some(0), ""));
    assert_eq!(
        names(dir),
        ["lives", "lives.c", "ran"],
        "the profile of a process that has ended is replaced"
    );
}

#[test]
fn a_program_that_cannot_be_recorded_does_not_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    fs::write(dir.join("text"), "no program").expect("written");
    fs::write(dir.join("precious"), "no profile").expect("written");
    for (arguments, part) in [
        (&["--", "no such program"][..], "no such program"),
        (&["--", "./text"], "not a 64-bit program"),
        (&["--out", "precious", "--", "sh", "-c", "touch ran"], "choose another file"),
        (&["--out", "no/where", "--", "sh", "-c", "touch ran"], "no/where: "),
        // No file can be created in /proc.
        (
            &["--out", "/proc/x", "--", "sh", "-c", "touch ran"],
            "/proc/x: cannot create the profile",
        ),
        (&["--stack", "8", "--", "sh", "-c", "touch ran"], "--stack: neither an option"),
    ] {
        let (code, _, error) = run(dir, arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {error}");
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    let (code, _, error) = run(dir, &["--threads", "12001", "--", "sh", "-c", "touch ran"]);
    assert!(code == Some(2) && error.contains("12001 is not in 1..=12000"), "{code:?} {error}");
    assert_eq!(names(dir), ["precious", "text"]);
    assert_eq!(fs::read(dir.join("precious")).expect("readable"), b"no profile");
    let mut command = record(dir, &["--", "sh", "-c", "touch ran"]);
    let output = command.env("FOREBAY_LOCKPROF", "/no/such.so").output().expect("it runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such.so"), "{output:?}");
}

#[test]
fn a_full_disk_is_refused_before_the_program_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    for (size, refused) in [("1100k", true), ("4m", false)] {
        let script = format!(
            "mkdir -p small && mount -t tmpfs -o size={size} tmpfs small || exit 99\n\
             \"$0\" locks record --quiet --out small/x -- sh -c 'touch ran'; echo $?; ls small"
        );
        let mut shell = Command::new("unshare");
        shell.args(["-rm", "sh", "-c", &script, PROGRAM]).current_dir(dir);
        let output = shell.env("FOREBAY_LOCKPROF", library()).output();
        let Some(output) =
            output.ok().filter(|output| !matches!(output.status.code(), Some(1 | 99)))
        else {
            return println!("no small disk can be made here");
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            said.contains("x: no room for a profile, which takes 0.9 MB"),
            refused,
            "{said}"
        );
        // Neither a profile nor the test file remains.
        let expected: &[u8] = if refused { b"1\n" } else { b"0\n" };
        assert_eq!(output.stdout, expected, "{output:?}");
        assert_eq!(dir.join("ran").exists(), !refused, "{size}");
    }
}
