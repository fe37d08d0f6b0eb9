//! `forebay locks now`: programs that are stuck.

use std::path::Path;
use std::process::Command;

use forebay_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{PROGRAM, compiled_program, locks, record};

fn now(file: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    let output =
        command.args(["locks", "now"]).args(arguments).arg(file).output().expect("it runs");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_deadlock_is_reported_while_it_lasts_and_after_the_process_was_killed() {
    let Some(dir) = compiled_program("deadlock") else { return };
    let file = dir.path().join("deadlock.locks");
    let mut child = record(dir.path(), &["--quiet", "./deadlock"]).spawn().expect("it runs");
    let mut stuck = Value::Null;
    eventually("both wait", || {
        let found: Value = serde_json::from_str(&now(&file, &["--json"])).unwrap_or_default();
        stuck = found["processes"][0].clone();
        stuck["deadlocks"][0].is_array()
    });
    let threads = stuck["threads"].as_array().expect("threads");
    let of = |name: &str| threads.iter().find(|thread| thread["name"] == name).expect(name);
    let (left, right) = (of("left"), of("right"));
    let mut both = [left["tid"].as_u64(), right["tid"].as_u64()];
    both.sort();
    assert_eq!(stuck["deadlocks"], serde_json::json!([both]));
    for (one, other) in [(left, right), (right, left)] {
        assert_eq!(one["awaits"]["lock"], other["holds"][0]["lock"], "{stuck}");
        assert_eq!(one["awaits"]["held_by"], serde_json::json!([other["tid"]]));
        let site = one["awaits"]["site"]["name"].to_string();
        assert!(site.contains("_first deadlock.c:"), "{site}");
    }
    what_goes_on_is_not_denied(dir.path());
    let pid = stuck["pid"].as_i64().and_then(|pid| Pid::from_raw(pid as i32)).expect("a process");
    kill_process(pid, Signal::KILL).expect("the process exists");
    child.wait().expect("it ends");
    let ended = now(&file, &[]);
    for part in
        ["has exited; this is its last state", "waits for", "wait for one another", "s after"]
    {
        assert!(ended.contains(part), "no {part:?} in {ended}");
    }
}

/// A wait is counted when it ends. Reports therefore mention waits in progress, and `top` counts
/// them as they grow.
fn what_goes_on_is_not_denied(dir: &Path) {
    let file = "deadlock.locks";
    let report = locks(dir, &["report", file]);
    assert!(report.contains("2 threads are waiting now, for up to "), "{report}");
    let report: Value =
        serde_json::from_str(&locks(dir, &["report", "--json", file])).expect("JSON");
    assert_eq!(report["waiting_threads"], 2);
    let top = locks(dir, &["top", "--interval", "100ms", "--count", "2", file]);
    for site in ["left_first", "right_first"] {
        assert!(top.contains(site), "no {site} in {top}");
    }
    let mut flame = Command::new(PROGRAM);
    let output = flame.args(["locks", "flame", file]).current_dir(dir).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nothing to draw yet: 2 threads are waiting now"), "{said}");
}
