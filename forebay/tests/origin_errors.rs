//! Errors of origins: the words in Cache-Status, the access log, the events and the counters agree.

use forebay_testkit::{Client, Origin, Script, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

#[test]
fn an_error_names_its_cause_in_the_words_of_the_event() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
    let origins = [
        Some(Origin::start(|_| Script::new().stall())),
        Some(Origin::start(|_| Script::new().reset())),
        Some(Origin::start(move |_| Script::new().send(head).close())),
        None,
    ];
    let gone = Origin::echo();
    let refusing = gone.address();
    gone.stop();
    for (origin, (status, detail, event)) in origins.into_iter().zip([
        (504, "origin-timed-out", "origin_timed_out"),
        (502, "origin-bad-answer", "origin_bad_answer"),
        (502, "origin-bad-answer", "origin_bad_answer"),
        (502, "origin-unreachable", "origin_unreachable"),
    ]) {
        let address = origin.as_ref().map_or(refusing, Origin::address);
        let server = ServerBuilder::new(PROGRAM)
            .flag("--origin", &format!("http://{address}"))
            .flag("--origin-first-byte-ms-max", "300ms")
            .flag("--access-log", "-")
            .start();
        let answer = Client::connect(server.address()).ask("GET", "/a", &[]).expect("whole");
        assert_eq!(answer.status, status, "{detail}");
        let cache_status = answer.field("cache-status").unwrap_or_default().to_owned();
        assert_eq!(cache_status, format!("forebay; fwd=uri-miss; detail={detail}"));
        // The line of the event has the reason that the access log has.
        let mut reason = String::new();
        eventually("the access log has the reason", || {
            let output = server.output();
            let line = output.lines().find(|line| line.contains("\"/a\"")).unwrap_or_default();
            let entry: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            reason = entry["fault"].as_str().unwrap_or_default().to_owned();
            !reason.is_empty()
        });
        let errors = server.errors();
        let is_told = errors.lines().any(|line| line.contains(event) && line.contains(&reason));
        assert!(is_told, "{detail}: {reason:?} in {errors}");
        let counter = format!("reason_{}_total", detail.replace('-', "_"));
        assert_eq!(server.stat(&counter), 1.0, "{counter}");
    }
}
