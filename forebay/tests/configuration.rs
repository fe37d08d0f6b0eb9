//! Configuration files, as a running server and the commands read them: includes, trials,
//! differences, checks.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;

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

fn status(server: &Server, host: &str) -> u16 {
    let mut client = Client::connect(server.address());
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response("GET").expect("an answer").status
}

#[test]
fn a_reload_reads_new_and_removed_files_of_a_pattern() {
    let origin = origin();
    let builder = ServerBuilder::new(BIN);
    fs::create_dir(builder.path("conf.d")).expect("writable");
    fs::write(builder.path("conf.d/a.toml"), site("a", &origin)).expect("writable");
    let main = "include = [\"conf.d/*.toml\"]\n";
    let server = builder.config(main).flag("--workers", "1").start();
    assert_eq!((status(&server, "a.test"), status(&server, "b.test")), (200, 421));

    fs::write(server.path("conf.d/b.toml"), site("b", &origin)).expect("writable");
    assert!(server.command(&["reload"]).status.success());
    assert_eq!((status(&server, "a.test"), status(&server, "b.test")), (200, 200));

    fs::write(server.path("conf.d/c.toml"), site("a", &origin)).expect("writable");
    let output = server.command(&["reload"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("conf.d/c.toml:2:8: two sites have the name \"a\""), "{told}");
    assert!(told.contains("conf.d/a.toml:2:8"), "{told}");
    assert_eq!((status(&server, "a.test"), status(&server, "b.test")), (200, 200));

    fs::remove_file(server.path("conf.d/c.toml")).expect("it exists");
    fs::remove_file(server.path("conf.d/a.toml")).expect("it exists");
    assert!(server.command(&["reload"]).status.success());
    assert_eq!((status(&server, "a.test"), status(&server, "b.test")), (421, 200));
}

#[test]
fn a_trial_falls_back_if_requests_fail_and_stays_if_they_do_not() {
    let good = origin();
    let bad = Origin::start(|_| Script::answer("500 Internal Server Error", &[], b"broken"));
    let builder = ServerBuilder::new(BIN).config(&site("a", &good));
    let server = builder.flag("--workers", "1").start();
    let trial = |site: &str, time: &str, status_expected: u16| {
        server.write_config(site);
        let arguments = ["reload", "--trial", time, "--errors-max", "10", "--requests-min", "5"];
        let command = std::thread::scope(|scope| {
            let command = scope.spawn(|| server.command(&arguments));
            eventually("the trial runs", || server.errors().contains("is on trial"));
            eventually("the trial has its configuration", || {
                status(&server, "a.test") == status_expected
            });
            while !command.is_finished() {
                status(&server, "a.test");
            }
            command.join().expect("no panic")
        });
        let told = String::from_utf8_lossy(&command.stdout).into_owned()
            + &String::from_utf8_lossy(&command.stderr);
        (command.status.code(), told)
    };
    let (code, told) = trial(&site("a", &bad), "600s", 500);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("trial failed: "), "{told}");
    assert_eq!(status(&server, "a.test"), 200);
    assert_eq!(server.stat("reloads_rolled_back_total"), 1.0);
    assert!(server.stat("server_errors_total") >= 5.0);
    assert!(server.errors().contains("the previous configuration is in use again"));

    let (code, told) = trial(&site("a", &good), "1s", 200);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("trial passed: "), "{told}");
    assert_eq!(server.stat("reloads_rolled_back_total"), 1.0);
}

#[test]
fn another_reload_ends_a_trial_and_its_configuration_stays() {
    let origin = origin();
    let builder = ServerBuilder::new(BIN).config(&site("a", &origin));
    let server = builder.flag("--workers", "1").start();
    server.write_config(&site("b", &origin));
    let ended = std::thread::scope(|scope| {
        let command = scope.spawn(|| server.command(&["reload", "--trial", "600s"]));
        eventually("the trial runs", || server.errors().contains("is on trial"));
        server.write_config(&site("c", &origin));
        assert!(server.command(&["reload", "--wait"]).status.success());
        command.join().expect("no panic")
    });
    assert_eq!(ended.status.code(), Some(5), "{ended:?}");
    assert_eq!((status(&server, "b.test"), status(&server, "c.test")), (421, 200));
    let refused = server.command(&["reload", "--errors-max", "5"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    server.write_config("listn = 1");
    assert_eq!(server.command(&["reload", "--trial", "1s"]).status.code(), Some(1));
}

#[test]
fn differences_are_told_in_words_with_an_exit_code() {
    let builder = ServerBuilder::bare(BIN, "diff");
    let site = "[[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = \"http://a\"\n";
    let run = |old: &str, new: &str, flags: &[&str]| {
        let paths = [("old.toml", old), ("new.toml", new)].map(|(name, text)| {
            fs::write(builder.path(name), text).expect("writable");
            builder.path(name).display().to_string()
        });
        let output = Command::new(BIN).arg("diff").args(flags).args(&paths).output();
        let output = output.expect("the program runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    assert_eq!(run(site, site, &[]), (Some(0), "no difference\n".to_owned()));
    let new = format!("workers = 3\n{site}cache = false\n");
    let expected = "workers: 0 (default) -> 3; needs a restart
cache: true (default) -> false (site \"a\", route /)
A reload refuses these changes; `forebay serve ... --upgrade` applies them without a failed request.
";
    assert_eq!(run(site, &new, &[]), (Some(1), expected.to_owned()));
    let (code, json) = run(site, &new, &["--json"]);
    assert_eq!(code, Some(1));
    assert!(json.contains("\"setting\":\"workers\"") && json.contains("\"applies\":\"restart\""));
    let (code, told) = run(site, "listn = 1", &[]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("new.toml:1:1: `listn` is not a setting"), "{told}");
}

#[test]
fn a_running_server_says_what_a_reload_would_change() {
    let origin = origin();
    let text = site("a", &origin);
    let server = ServerBuilder::new(BIN).config(&text).flag("--workers", "1").start();
    let run = |flags: &[&str]| {
        let output = server.command(&[&["diff"], flags].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    assert_eq!(run(&[]), (Some(0), "no difference\n".to_owned()));
    // The flag `--workers` stays in force, so the value in the file changes nothing.
    server.write_config(&format!("workers = 3\n{text}cache = false\n"));
    let expected = "cache: true (default) -> false (site \"a\", route /)\n\
                    A reload applies these changes.\n";
    assert_eq!(run(&[]), (Some(1), expected.to_owned()));
    let (_, json) = run(&["--json"]);
    assert!(json.contains("\"setting\":\"cache\""), "{json}");
    server.write_config(&format!("variants_max = 3\n{text}"));
    let (code, told) = run(&[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("variants_max: 64 (default) -> 3; needs a restart"), "{told}");
    assert!(told.contains("`forebay serve ... --upgrade` applies them without"), "{told}");
    let output = server.command(&["reload"]);
    let refused = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(refused.contains("variants_max: 64 (default) -> 3; needs a restart"), "{refused}");
    assert!(refused.contains("`forebay serve ... --upgrade` applies them without"), "{refused}");
    server.write_config("listn = 1");
    let (code, told) = run(&[]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("a reload would be refused:") && told.contains("`listn`"), "{told}");
    assert_eq!(status(&server, "a.test"), 200);
}

#[test]
fn a_secret_in_a_variable_appears_nowhere() {
    let builder = ServerBuilder::bare(BIN, "check");
    let text =
        "[[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = { env = \"SECRET_ORIGIN\" }\n";
    fs::write(builder.path("f.toml"), text).expect("writable");
    let file = builder.path("f.toml").display().to_string();
    for arguments in [&["check", &file][..], &["check", "--json", &file], &["diff", &file, &file]] {
        let mut command = Command::new(BIN);
        let output = command.args(arguments).env("SECRET_ORIGIN", "hunter2").output();
        let output = output.expect("the program runs");
        let told = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && !told.contains("hunter2"), "{told}");
        assert!(told.contains("environment variable `SECRET_ORIGIN`"), "{told}");
    }
    let mut command = Command::new(BIN);
    let output = command.args(["check", &file]).env("SECRET_ORIGIN", "http://u:hunter2@b").output();
    let told = String::from_utf8_lossy(&output.expect("the program runs").stderr).into_owned();
    assert!(!told.contains("hunter2") && told.contains("the value is not shown"), "{told}");
    assert!(told.contains("origin = { env = \"SECRET_ORIGIN\" }"), "{told}");
}

#[test]
fn check_with_resolve_tries_origins_and_finds_loops() {
    let origin = origin();
    let builder = ServerBuilder::bare(BIN, "check");
    let file = builder.path("f.toml").display().to_string();
    let run = |text: &str| {
        fs::write(&file, text).expect("writable");
        let output = Command::new(BIN).args(["check", "--resolve", &file]).output();
        let output = output.expect("the program runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, told) = run(&site("a", &origin));
    assert_eq!(code, Some(0), "{told}");
    let address = origin.address();
    assert!(told.contains(&format!("origin {address}: {address} accepts connections")), "{told}");

    let (code, told) =
        run(&format!("listen = \"0.0.0.0:{}\"\n{}", address.port(), site("a", &origin)));
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("is this server itself, which listens on 0.0.0.0:"), "{told}");

    // The server itself listens on port 80, which an origin on a socket does not use.
    let socket = builder.path("app.sock");
    let origin_line = format!("origin = \"unix:{}\"\n", socket.display());
    let text = format!(
        "listen = \"127.0.0.1:80\"\n[[site]]\nname = \"a\"\nnames = [\"*\"]\n{origin_line}"
    );
    let (code, told) = run(&text);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("app.sock: cannot connect: No such file"), "{told}");
    let _app = UnixListener::bind(&socket).expect("a socket");
    let (code, told) = run(&text);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("app.sock accepts connections"), "{told}");

    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let closed = free.local_addr().expect("it is bound");
    drop(free);
    let text = format!(
        "access_log = \"/nowhere/access.log\"\n[[site]]\nname = \"a\"\nnames = [\"*\"]\n\
         origin = [\"http://{closed}\", \"http://no-such-name.invalid\"]\n"
    );
    let (code, told) = run(&text);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(&format!("cannot connect to {closed}: Connection refused")), "{told}");
    assert!(told.contains("the name no-such-name.invalid does not resolve"), "{told}");
    assert!(told.contains("access_log: cannot use the directory /nowhere"), "{told}");
}

#[test]
fn check_with_resolve_refuses_a_cache_directory_that_the_start_refuses() {
    let origin = origin();
    let builder = ServerBuilder::bare(BIN, "check");
    let dir = builder.path("cache");
    let file = builder.path("f.toml").display().to_string();
    let text = format!("cache_dir = {:?}\n{}", dir.display().to_string(), site("a", &origin));
    fs::write(&file, text).expect("writable");
    let run = || {
        let output = Command::new(BIN).args(["check", "--resolve", &file]).output();
        let output = output.expect("the program runs");
        let texts = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&texts).into_owned())
    };
    assert_eq!(run().0, Some(0), "the start makes a directory that does not exist");
    assert!(!dir.exists(), "the check makes no directory");
    fs::create_dir(&dir).expect("a directory");
    for (mode, code, expected) in [
        (0o755, 1, "the mode 0755 lets other users in; keep them out with chmod 0700"),
        (0o700, 0, "exists and is closed to other users"),
    ] {
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).expect("it is ours");
        let (found, told) = run();
        assert_eq!(found, Some(code), "{mode:o}: {told}");
        assert!(told.contains(expected), "{mode:o}: {told}");
    }
}
