//! Call stacks of waits for a real server's locks: `forebay locks on --stacks`.

use std::time::Duration;

use forebay_testkit::{Client, Server, ServerBuilder, StopFlag};
use serde_json::Value;

use crate::common::{PROGRAM, file_of, fresh, locks, report, text_of};

/// The number of concurrent clients. It exceeds the number of workers, so that work queues up.
const CLIENTS: u64 = 8;

/// A limit of requests that no test reaches.
const REQUESTS_MAX: u64 = 1_000_000_000;

/// Returns how many stacks were taken. The table of `report` is quick, because it resolves no
/// function names.
fn taken(file: &str) -> u64 {
    let table = text_of(&["report", "--lines", "1", file]);
    let line =
        table.lines().find(|line| line.starts_with("stacks of waits and failed try-locks: "));
    let count = line.and_then(|line| line.split("; ").nth(1)?.split(' ').next());
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{table}"))
}

/// Requests new URLs until the condition holds.
fn miss_until(server: &Server, what: &str, has_happened: impl Fn() -> bool) {
    let stop = StopFlag::default();
    std::thread::scope(|scope| {
        let _guard = stop.guard();
        for number in 0..CLIENTS {
            let stop = &stop;
            scope.spawn(move || {
                let mut client = Client::connect(server.address());
                for round in stop.steps(REQUESTS_MAX) {
                    let target = format!("/{number}/{round}");
                    client.ask("GET", &target, &[]).expect("served");
                }
            });
        }
        forebay_testkit::eventually(what, &has_happened);
    });
}

fn sum(rows: &Value, at: impl Fn(&Value) -> &Value) -> u64 {
    let rows = rows.as_array().expect("rows");
    rows.iter().map(|row| at(row).as_u64().expect("a number")).sum()
}

#[test]
fn stacks_name_the_callers_of_waits() {
    let origin = fresh();
    let server = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "2").start();
    let file = file_of(&server).display().to_string();
    let said = text_of(&["on", "--stacks", "1", &file]);
    assert_eq!(
        said,
        format!("{file}: recording is on, stacks of one in 1 waits and failed try-locks\n")
    );
    miss_until(&server, "workers wait for each other", || taken(&file) > 5);
    text_of(&["off", &file]);

    let found = report(&file);
    assert_eq!(
        (&found["stack_sample"], found["room"]["rejected"]["stacks"].as_u64()),
        (&1.into(), Some(0))
    );
    // Each wait was sampled, so the stacks add up to the numbers of the call sites.
    for column in ["cnt_lock", "wait_total_ns", "try_delay_ns"] {
        let of_places = sum(&found["sites"], |site| &site["numbers"][column]);
        let name = if column == "cnt_lock" { "wait_count" } else { column };
        let of_stacks = sum(&found["stacks"], |stack| &stack[name]);
        assert_eq!(of_stacks, of_places, "{column}");
    }
    let rows = found["stacks"].as_array().expect("rows");
    for row in rows {
        let callers: Vec<&str> =
            row["callers"].as_array().expect("callers").iter().filter_map(Value::as_str).collect();
        // The innermost frame is the call site.
        let site = row["waiter"]["stack"][0].as_str().expect("a site");
        assert!(callers.first().is_some_and(|caller| caller.ends_with(site)), "{site}: {row}");
        assert!(!callers.iter().any(|caller| caller.contains("sync/src/")), "{row}");
    }
    let is_of_server = |row: &Value| row["callers"].to_string().contains(" server/src/");
    assert!(rows.iter().any(is_of_server), "{found}");

    let text = text_of(&["report", "--stacks", &file]);
    assert!(text.contains("stacks of waits and failed try-locks: one in 1; "), "{text}");
    assert!(text.contains(" server/src/"), "{text}");
    let threads = text_of(&["report", "--threads", &file]);
    assert!(threads.contains(" sampled with this stack, lost "), "{threads}");
    let folded = text_of(&["flame", "--folded", &file]);
    assert!(
        folded.lines().any(|line| line.contains(" server/src/") && line.contains(";held by ")),
        "{folded}"
    );
}

#[test]
fn a_hit_takes_no_lock_and_has_no_stack() {
    let origin = fresh();
    let server = Server::before(PROGRAM, &origin);
    let file = file_of(&server).display().to_string();
    let mut client = Client::connect(server.address());
    let mut ask = || client.ask("GET", "/", &[]).expect("served").status;
    text_of(&["on", "--stacks", "1", &file]);
    assert_eq!((ask(), ask()), (200, 200));
    let sites = |found: &Value| found["sites"].as_array().map(Vec::len);
    assert!(sites(&report(&file)) > Some(0), "a miss takes locks");
    // The fetch may end after its client has received the answer.
    forebay_testkit::eventually("the fetch has ended", || {
        text_of(&["reset", &file]);
        let goes_on = || sites(&report(&file)) > Some(0);
        !forebay_testkit::clock::holds_within(Duration::from_millis(50), goes_on)
    });
    for _ in 0..100 {
        assert_eq!(ask(), 200);
    }
    let found = report(&file);
    assert_eq!((sites(&found), &found["room"]["samples"]), (Some(0), &0.into()), "{found}");
    let said = |end: &str| {
        let text = text_of(&["report", "--stacks", &file]);
        assert!(text.ends_with(end), "{end}: {text}");
    };
    said("\nno wait or failed try-lock has been sampled yet\n");
    text_of(&["on", "--stacks", "0", &file]);
    said("\nno stacks are sampled: see `forebay locks on --stacks`\n");
}

#[test]
fn a_small_profile_has_no_room_for_stacks_and_says_so() {
    let origin = fresh();
    let server =
        ServerBuilder::new(PROGRAM).origin(&origin).flag("--lock-profile-size", "200KiB").start();
    let file = file_of(&server).display().to_string();
    let refused = locks(&["on", "--stacks", "5", &file]);
    let said = String::from_utf8(refused.stderr).expect("text");
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("the profile has no room for stacks"), "{said}");
    assert_eq!(
        report(&file)["is_on"],
        Value::from(false),
        "the refused command did not switch the profile on"
    );
    assert_eq!(text_of(&["on", &file]), format!("{file}: recording is on\n"));
}

#[test]
fn a_setting_samples_stacks_from_the_start() {
    let origin = fresh();
    let builder = ServerBuilder::new(PROGRAM).origin(&origin);
    let server = builder.flag("--lock-profile", "true").flag("--lock-profile-stacks", "7").start();
    let file = file_of(&server).display().to_string();
    let found = report(&file);
    assert_eq!((&found["is_on"], &found["stack_sample"]), (&true.into(), &7.into()));
    text_of(&["on", &file]);
    assert_eq!(
        report(&file)["stack_sample"],
        Value::from(7),
        "`on` without --stacks keeps the setting"
    );
}
