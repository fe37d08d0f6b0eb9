//! Configurations whose files change while the server runs with `config_watch_ms`.

use std::fs;
use std::time::Duration;

use forebay_testkit::clock::holds_within;
use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder, eventually};

const BIN: &str = env!("CARGO_BIN_EXE_forebay");

fn origin() -> Origin {
    Origin::start(|request| Script::answer("200 OK", &[], request.target.as_bytes()))
}

fn site(name: &str, origin: &Origin) -> String {
    let address = origin.address();
    format!(
        "[[site]]\nname = \"{name}\"\nnames = [\"{name}.test\"]\norigin = \"http://{address}\"\n"
    )
}

fn answer(server: &Server, host: &str) -> (u16, String) {
    let mut client = Client::connect(server.address());
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let response = client.response("GET").expect("an answer");
    let server_field = response.head.field("x-rule").unwrap_or_default().to_owned();
    (response.status, server_field + &String::from_utf8_lossy(&response.body))
}

fn status(server: &Server, host: &str) -> u16 {
    answer(server, host).0
}

/// The number of events of this kind in the log.
fn events(server: &Server, name: &str) -> usize {
    server.errors().matches(&format!("event=\"{name}\"")).count()
}

#[test]
fn changed_files_are_loaded_without_a_command() {
    let origin = origin();
    let builder = ServerBuilder::new(BIN);
    fs::create_dir(builder.path("conf.d")).expect("writable");
    fs::write(builder.path("page.html"), "first page").expect("writable");
    let page = builder.path("page.html").display().to_string();
    let rule =
        |value: &str| format!("cond %{{SEND_RESPONSE_HDR_HOOK}}\nset-header X-Rule {value}\n");
    fs::write(builder.path("rules.conf"), rule("one")).expect("writable");
    fs::write(builder.path("conf.d/a.toml"), site("a", &origin)).expect("writable");
    let main = format!(
        "include = [\"conf.d/*.toml\"]\nconfig_watch_ms = \"1s\"\nrules = \"rules.conf\"\n\
         error_pages = [\"502={page}\"]\n\
         [[site]]\nname = \"down\"\nnames = [\"down.test\"]\norigin = \"http://127.0.0.1:1\"\n"
    );
    let server = builder.config(&main).flag("--workers", "1").start();
    assert_eq!(status(&server, "b.test"), 421);
    assert_eq!(answer(&server, "down.test"), (502, "onefirst page".to_owned()));

    fs::write(server.path("conf.d/b.toml"), site("b", &origin)).expect("writable");
    eventually("a new file of the pattern is used", || status(&server, "b.test") == 200);
    fs::write(server.path("conf.d/b.toml"), site("c", &origin)).expect("writable");
    eventually("a changed file is used", || status(&server, "c.test") == 200);
    fs::write(&page, "second page").expect("writable");
    eventually("a changed page is used", || answer(&server, "down.test").1 == "onesecond page");
    fs::write(server.path("rules.conf"), rule("two")).expect("writable");
    eventually("a changed rule is used", || answer(&server, "down.test").1 == "twosecond page");
    fs::remove_file(server.path("conf.d/a.toml")).expect("it exists");
    eventually("a removed file is left out", || status(&server, "a.test") == 421);
    server.write_config(&main.replace("down.test", "up.test"));
    eventually("the first file is used", || status(&server, "up.test") == 502);
    eventually("all is counted", || server.stat("reloads_total") == 6.0);
    assert_eq!(server.stat("reloads_refused_total"), 0.0);
    assert_eq!(events(&server, "files_changed"), 6, "{}", server.errors());
    let errors = server.errors();
    assert!(errors.contains("conf.d/*.toml"), "{errors}");
}

#[test]
fn a_bad_file_is_reported_once_and_a_mended_one_is_used() {
    let origin = origin();
    let text = format!("config_watch_ms = \"1s\"\n{}", site("a", &origin));
    let server = ServerBuilder::new(BIN).config(&text).flag("--workers", "1").start();
    server.write_config(&format!("listn = 1\n{text}"));
    eventually("it is refused", || server.stat("reloads_refused_total") == 1.0);
    let errors = server.errors();
    assert!(errors.contains("`listn` is not a setting"), "{errors}");
    // The mistake is in a file that the old configuration does not name.
    fs::write(server.path("more.toml"), "wrong").expect("writable");
    server.write_config(&format!("include = [\"more.toml\"]\n{text}"));
    eventually("it is refused", || server.stat("reloads_refused_total") == 2.0);
    assert_eq!(status(&server, "a.test"), 200);
    fs::write(server.path("more.toml"), site("b", &origin)).expect("writable");
    eventually("the mended file is used", || status(&server, "b.test") == 200);
    assert_eq!(server.stat("reloads_refused_total"), 2.0);
    assert_eq!(events(&server, "reload_refused"), 2, "{}", server.errors());
}

#[test]
fn a_configuration_that_failed_its_trial_is_not_loaded_again_by_itself() {
    let good = origin();
    let bad = Origin::start(|_| Script::answer("500 Internal Server Error", &[], b"broken"));
    let text = |origin: &Origin, period: &str| {
        format!("config_watch_ms = \"{period}\"\n{}", site("a", origin))
    };
    let server = ServerBuilder::new(BIN).config(&text(&good, "3s")).flag("--workers", "1").start();
    let arguments = ["reload", "--trial", "600s", "--errors-max", "10", "--requests-min", "2"];
    server.write_config(&text(&bad, "0"));
    let ended = std::thread::scope(|scope| {
        let command = scope.spawn(|| server.command(&arguments));
        while !command.is_finished() {
            status(&server, "a.test");
        }
        command.join().expect("no panic")
    });
    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    let (reloads, lines) = (server.stat("reloads_total"), events(&server, "files_changed"));
    // A change is loaded at the second check, so the failed files have been checked before.
    server.write_config("listn = 1");
    eventually("a change is noticed", || server.stat("reloads_refused_total") == 1.0);
    assert_eq!(server.stat("reloads_total"), reloads);
    assert_eq!(events(&server, "files_changed"), lines + 1);
    assert_eq!(status(&server, "a.test"), 200);
}

#[test]
fn a_new_file_that_is_still_being_written_is_not_used() {
    let origin = origin();
    let builder = ServerBuilder::new(BIN);
    fs::create_dir(builder.path("conf.d")).expect("writable");
    let text =
        format!("include = [\"conf.d/*.toml\"]\nconfig_watch_ms = \"1s\"\n{}", site("a", &origin));
    let server = builder.config(&text).flag("--workers", "1").start();
    let open = site("b", &origin);
    // The site is valid without its last line, which closes it.
    let path = server.path("conf.d/b.toml");
    for spaces in 0..16 {
        fs::write(&path, open.clone() + &"\n".repeat(spaces)).expect("writable");
        let is_used = || status(&server, "b.test") != 421;
        assert!(!holds_within(Duration::from_millis(200), is_used), "half a file is used");
    }
    fs::write(&path, open + "respond = \"403\"\n").expect("writable");
    eventually("the whole file is used", || status(&server, "b.test") != 421);
    assert_eq!(status(&server, "b.test"), 403);
    assert_eq!(server.stat("reloads_total"), 1.0);
}

#[test]
fn a_repair_before_the_end_of_a_failed_trial_is_used() {
    let good = origin();
    let bad = Origin::start(|_| Script::answer("500 Internal Server Error", &[], b"broken"));
    let text = |origin: &Origin, period: &str, name: &str| {
        format!("config_watch_ms = \"{period}\"\n{}{}", site("a", origin), site(name, &good))
    };
    let builder = ServerBuilder::new(BIN).config(&text(&good, "1s", "b"));
    let server = builder.flag("--workers", "1").start();
    let arguments = ["reload", "--trial", "600s", "--errors-max", "10", "--requests-min", "500"];
    server.write_config(&text(&bad, "0", "c"));
    let ended = std::thread::scope(|scope| {
        let command = scope.spawn(|| server.command(&arguments));
        eventually("the trial has begun", || status(&server, "a.test") == 500);
        server.write_config(&text(&good, "1s", "d"));
        while !command.is_finished() {
            status(&server, "a.test");
        }
        command.join().expect("no panic")
    });
    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    eventually("the repaired files are used", || status(&server, "d.test") == 200);
    assert_eq!(status(&server, "a.test"), 200);
}
