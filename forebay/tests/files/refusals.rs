//! Paths, methods and configurations that are refused.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{PROGRAM, ask, builder, config, get, start, write};
use forebay_testkit::{Client, ServerBuilder};

/// A builder, and a directory with files that must not be served.
fn hostile_directory() -> (ServerBuilder, PathBuf) {
    let (builder, www) = builder();
    let outside = builder.path("secret");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("key"), "secret").expect("a file");
    write(&www, "a/b.txt", "inside");
    write(&www, ".git/config", "secret");
    write(&www, "a/.htaccess", "secret");
    write(&www, ".well-known/acme", "challenge");
    symlink(&outside, www.join("out")).expect("a link");
    symlink("../secret/key", www.join("key")).expect("a link");
    symlink("/etc/passwd", www.join("passwd")).expect("a link");
    symlink("a/b.txt", www.join("in")).expect("a link");
    symlink("../www/a/b.txt", www.join("through")).expect("a link");
    symlink("a/../a/b.txt", www.join("around")).expect("a link");
    symlink("loop", www.join("loop")).expect("a link");
    symlink("/proc/self/exe", www.join("magic")).expect("a link");
    mknodat(CWD, www.join("pipe"), FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
    (builder, www)
}

#[test]
fn no_path_leads_out_of_the_directory() {
    let (builder, www) = hostile_directory();
    let server = start((builder, &www), "cache = false\nambiguous_path = 'normal-form'\n");
    for (target, status) in [
        ("/a/b.txt", 200),
        ("/in", 200),
        ("/around", 200),
        ("/.well-known/acme", 200),
        ("/a%2fb.txt", 404),
        ("/../secret/key", 404),
        ("/a/../../secret/key", 404),
        ("/a/..%2f..%2fsecret/key", 404),
        ("/%2e%2e/secret/key", 404),
        ("/%2e%2e%2fsecret%2fkey", 404),
        ("/%252e%252e/secret/key", 404),
        ("/%252e%252e%252fsecret/key", 404),
        ("/..%5csecret%5ckey", 404),
        ("/..%c0%afsecret/key", 404),
        ("/%c0%ae%c0%ae/secret/key", 404),
        ("/a/b.txt%00.html", 404),
        ("/a/b.txt%00", 404),
        ("/a/b.txt%0a", 404),
        ("/a//b.txt", 404),
        ("//a/b.txt", 404),
        ("/./a/b.txt", 404),
        ("/a/b.txt/", 404),
        ("/a/b.txt/x", 404),
        ("/a/b%", 400),
        ("/a/b%zz", 400),
        ("/.git/config", 404),
        ("/a/.htaccess", 404),
        ("/%2egit/config", 404),
        ("/out", 403),
        ("/out/key", 403),
        ("/key", 403),
        ("/passwd", 403),
        ("/through", 403),
        ("/magic", 403),
        ("/loop", 403),
        ("/pipe", 403),
        ("/a/", 403),
        ("/", 403),
        ("/none/", 404),
        ("/none", 404),
    ] {
        let mut client = Client::connect(server.address());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.org\r\n\r\n"));
        let answer = client.response("GET").expect("an answer");
        assert_eq!(answer.status, status, "{target}");
        assert!(!answer.text().contains("secret") && !answer.text().contains("root:"), "{target}");
    }
    assert_eq!(get(&server, "/in", &[]).text(), "inside");
    assert_eq!(server.stat("files_denied_total"), 8.0);
    assert!(server.errors().contains("file_denied"), "{}", server.errors());
    let long = format!("/{}", "x".repeat(300));
    assert_eq!(get(&server, &long, &[]).status, 404);
}

#[test]
fn only_get_and_head_are_allowed() {
    let (builder, www) = builder();
    write(&www, "a.txt", "a");
    let server = start((builder, &www), "");
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"] {
        let answer = ask(&server, method, "/a.txt", &[]);
        assert_eq!((answer.status, answer.field("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let mut client = Client::connect(server.address());
    client.send("POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.response("POST").expect("an answer").status, 405);
    assert_eq!(fs::read(www.join("a.txt")).expect("it exists"), b"a");
    assert_eq!(get(&server, "/a.txt", &[]).status, 200);
}

#[test]
fn a_missing_directory_is_an_error_of_the_configuration() {
    let (builder, www) = builder();
    let missing = www.join("none");
    write(&www, "file", "");
    for (settings, messages) in [
        (
            config(&missing, ""),
            vec!["forebay.toml:5:9", "`files` cannot be", "there is no such directory"],
        ),
        (config(&www.join("file"), ""), vec!["it is not a directory"]),
        (config(Path::new("www"), ""), vec!["write the absolute path of the directory"]),
        (
            config(&www, "redirect = '301 /x'\n"),
            vec!["`redirect` and `files` are in the same section"],
        ),
        (config(&www, "files_index = ['a/b']\n"), vec!["`files_index` cannot contain \"a/b\""]),
        (
            config(&www, "files_fallback = 'index.html'\n"),
            vec!["`files_fallback` cannot be \"index.html\"", "such as \"/index.html\""],
        ),
        (config(&www, "files_fallback = '/../x'\n"), vec!["no part of it begins with a dot"]),
        (config(&www, "files_types = ['html']\n"), vec!["write an extension without its dot"]),
    ] {
        let output = builder.clone().config(&settings).run();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        for message in messages {
            assert!(errors.contains(message), "{message}: {errors}");
        }
    }
    let both = ServerBuilder::new(PROGRAM)
        .flag("--files", &www.display().to_string())
        .flag("--origin", "http://127.0.0.1:1")
        .run();
    let errors = String::from_utf8_lossy(&both.stderr).into_owned();
    assert!(errors.contains("`--files` and `--origin` are both given"), "{errors}");
}
