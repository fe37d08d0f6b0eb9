//! Configurations that operators get wrong, and the whole messages about them.
//!
//! `bad/NAME.toml` is a configuration, and `bad/NAME.message` is the answer of `forebay check` to
//! it. `bad/flags/NAME.message` is the answer to command lines. `bad/files` has the files that the
//! configurations name. `UPDATE_GOLDEN=1` writes the messages. Read each one that has changed: an
//! operator who is tired has to know where the mistake is, and what to type.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use forebay_testkit::ServerBuilder;
use forebay_testkit::tls::TestAuthority;
use serde_json::Value;

const BIN: &str = env!("CARGO_BIN_EXE_forebay");

/// Command lines with a mistake.
const FLAGS: &[(&str, &[&str])] = &[
    ("check-no-such-file", &["check", "no-such.toml"]),
    ("check-directory", &["check", "files"]),
    ("check-two-files", &["check", "empty-file.toml", "no-site.toml"]),
    ("serve-no-such-file", &["serve", "--config", "no-such.toml"]),
    ("serve-bad-file", &["serve", "--config", "setting-misspelt.toml"]),
    ("serve-without-origin", &["serve"]),
    ("serve-file-and-origin", &["serve", "--config", "files/shop.toml", "--origin", "http://a"]),
    ("serve-files-that-do-not-exist", &["serve", "--files", "/nonexistent"]),
    ("serve-files-and-origin", &["serve", "--files", "files", "--origin", "http://127.0.0.1:1"]),
    ("serve-flag-misspelt", &["serve", "--origin", "http://127.0.0.1:1", "--cachesize", "1GiB"]),
    ("serve-flag-of-a-site", &["serve", "--config", "files/shop.toml", "--names", "a.org"]),
    ("serve-size", &["serve", "--origin", "http://127.0.0.1:1", "--cache-size", "1GB"]),
    ("serve-listen", &["serve", "--origin", "http://127.0.0.1:1", "--listen", ":8080"]),
    ("serve-origin", &["serve", "--origin", "127.0.0.1:3000"]),
    ("serve-connect-files", &["serve", "--files", "files", "--connect-ports", "443"]),
    ("serve-acme", &["serve", "--origin", "http://127.0.0.1:1", "--acme", "true"]),
    ("serve-rules", &["serve", "--origin", "http://127.0.0.1:1", "--rules", "no-such.conf"]),
    ("serve-flag-and-bad-file", &["serve", "--config", "setting-misspelt.toml", "--workers", "x"]),
];

#[test]
fn mistakes_get_a_message_that_helps() {
    let folder = WorkFolder::new();
    let mut names = BTreeSet::new();
    for path in configurations() {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let file = format!("{name}.toml");
        let output = folder.run(&["check", &file]);
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{file} is valid, or not read: {shown}");
        assert!(output.stdout.is_empty(), "{file}: {}", text(&output.stdout));
        assert_helps(&file, &shown);
        compare(&golden_folder().join(format!("{name}.message")), &shown);
        assert_same_in_json(&shown, &folder.run(&["check", "--json", &file]));
        names.insert(name);
    }
    assert!(names.len() >= 80, "only {} configurations", names.len());
    let is_orphan = |name: &String| !names.contains(name);
    let orphans: Vec<_> =
        stems(&golden_folder(), "message").into_iter().filter(is_orphan).collect();
    assert!(orphans.is_empty(), "messages without configurations: {orphans:?}");
}

#[test]
fn mistakes_on_the_command_line_get_a_message_that_helps() {
    let folder = WorkFolder::new();
    for (name, arguments) in FLAGS {
        let output = folder.run(arguments);
        let shown = format!("exit code: {:?}\n{}", output.status.code(), text(&output.stderr));
        assert!(matches!(output.status.code(), Some(1 | 2)), "{name}: {shown}");
        compare(&golden_folder().join("flags").join(format!("{name}.message")), &shown);
    }
}

/// Checks that each error of a message says what to write: by a hint, or by the valid values.
fn assert_helps(file: &str, shown: &str) {
    let (errors, count) = shown.trim_end().rsplit_once("\n\n").expect("errors and their number");
    for error in errors.split("\n\n") {
        let helps = ["\n  hint: ", "\n  expected: "].iter().any(|part| error.contains(part));
        assert!(helps, "{file}: this error does not say what to write:\n{error}");
    }
    let number = errors.split("\n\n").count();
    assert!(count.starts_with(&format!("{number} error")), "{file}: {count}");
}

/// Checks that the JSON has the errors that the message has.
fn assert_same_in_json(shown: &str, output: &Output) {
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let errors = json["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), shown.trim_end().split("\n\n").count() - 1, "{json}\n{shown}");
    for error in errors {
        let part = |name: &str| error[name].as_str().unwrap_or_default();
        let place = match error["line"].as_u64() {
            Some(line @ 1..) => format!("{}:{line}:{}", part("file"), error["column"]),
            _ => part("file").to_owned(),
        };
        assert!(shown.contains(&format!("{place}: {}\n", part("message"))), "{error}\n{shown}");
        assert!(shown.contains(part("hint")) && shown.contains(part("expected")), "{error}");
    }
}

/// A copy of the configurations in a directory of this process. Commands run in it, so that
/// messages have relative paths. An absolute path in a configuration begins with
/// `/proc/self/cwd`.
struct WorkFolder(ServerBuilder);

impl WorkFolder {
    fn new() -> WorkFolder {
        let folder = WorkFolder(ServerBuilder::bare(BIN, "check"));
        folder.copy(&golden_folder(), Path::new(""));
        let dir = folder.0.path("generated");
        fs::create_dir(&dir).expect("writable");
        let authority = TestAuthority::new();
        for name in ["cert", "other"] {
            let issued = authority.issue(&["example.org"]);
            fs::write(dir.join(format!("{name}.pem")), issued.cert).expect("writable");
            let key = dir.join(format!("{name}.key"));
            fs::write(&key, issued.key).expect("writable");
            fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("our file");
        }
        folder
    }

    fn copy(&self, from: &Path, to: &Path) {
        for entry in fs::read_dir(from).expect("the folder exists") {
            let entry = entry.expect("readable");
            let to = to.join(entry.file_name());
            let target = self.0.path(&to.to_string_lossy());
            if entry.path().is_dir() {
                fs::create_dir(&target).expect("writable");
                self.copy(&entry.path(), &to);
            } else {
                fs::copy(entry.path(), target).expect("writable");
            }
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BIN);
        command.args(arguments).current_dir(self.0.path("")).env_clear();
        command.env("WORKERS", "4").env("WRONG_ORIGIN", "hunter2");
        command.env("XDG_RUNTIME_DIR", self.0.path(""));
        command.output().expect("the program runs")
    }
}

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad")
}

fn configurations() -> Vec<PathBuf> {
    let folder = golden_folder();
    let names = stems(&folder, "toml");
    names.iter().map(|name| folder.join(format!("{name}.toml"))).collect()
}

/// Returns the sorted names of the files with an ending, without the ending.
fn stems(folder: &Path, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder exists");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let has_ending = |path: &PathBuf| path.extension().is_some_and(|found| found == ending);
    let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut names: Vec<_> = paths.filter(has_ending).map(stem).collect();
    names.sort();
    names
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("messages are UTF-8")
}

fn compare(golden: &Path, found: &str) {
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(golden, found).expect("the folder can be written");
    }
    let wanted = fs::read_to_string(golden).unwrap_or_default();
    assert!(wanted == found, "{} differs; now:\n{found}", golden.display());
}
