//! `forebay cache` on the cache of a running, killed or stopped server, and on a damaged one.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use forebay_testkit::server::Folder;
use forebay_testkit::{
    Client, Origin, Request, Script, Server, ServerBuilder, Signal, StopFlag, eventually,
};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

const LONG_BYTES: usize = 400_000;

/// A limit that fails the test instead of letting a client run forever.
const REQUESTS_MAX: u64 = 1_000_000_000;

fn builder(origin: &Origin) -> ServerBuilder {
    let builder = ServerBuilder::new(PROGRAM).origin(origin);
    let dir = builder.path("cache").display().to_string();
    // The cache is small, so that segments are reclaimed all the time.
    builder.flag("--cache-dir", &dir).flag("--workers", "2").flag("--cache-size", "12MiB")
}

/// Pages of several lengths; `/vary/` has variants.
fn origin() -> Origin {
    Origin::start(|request: &Request| {
        let number: usize =
            request.target.rsplit('/').next().and_then(|last| last.parse().ok()).unwrap_or(0);
        let (vary, byte_count) = match request.target.split('/').nth(1) {
            Some("long") => ("X: y", LONG_BYTES),
            Some("vary") => ("Vary: Accept-Language", 700),
            _ => ("X: y", 200 + number % 40 * 500),
        };
        let body = request.target.bytes().cycle().take(byte_count).collect::<Vec<_>>();
        Script::answer("200 OK", &["Cache-Control: max-age=600", "ETag: \"a\"", vary], &body)
    })
}

/// Runs a client that makes hits, misses, variants, long bodies and purges, until the test ends or
/// the server is killed.
fn load(server: &Server, which: usize, stop: &StopFlag) {
    let mut client = Client::connect(server.address());
    for count in stop.steps(REQUESTS_MAX) {
        let count = count as usize + 1;
        let number = (count * 7919 + which * 31) % 1500;
        let language = format!("Accept-Language: l{}", number % 12);
        let (target, fields) = match count % 24 {
            0 => (format!("/long/{}", number % 16), vec![]),
            1..=5 => (format!("/vary/{}", number % 40), vec![language.as_str()]),
            6 if which == 0 => {
                let url = format!("http://example.test/vary/{}", number % 40);
                let second = format!("http://example.test/long/{}", number % 16);
                let purged = server.command(&["purge", &url, &second]);
                if !purged.status.success() {
                    break;
                }
                continue;
            }
            7..=14 => (format!("/page/{}", number % 50), vec![]),
            _ => (format!("/page/{number}"), vec![]),
        };
        let Ok(response) = client.ask("GET", &target, &fields) else { break };
        assert!(target.bytes().cycle().zip(&response.body).all(|(left, right)| left == *right));
    }
}

fn cache_dir(server: &Server) -> PathBuf {
    server.path("cache")
}

fn tool(command: &str, place: &Path, flags: &[&str]) -> Output {
    let mut all = Command::new(PROGRAM);
    all.args(["cache", command]).arg(place).args(flags).output().expect("forebay was built")
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Checks the whole cache; returns the findings, counted by name.
fn check(server: &Server) -> (Output, Value, BTreeMap<String, usize>) {
    let output = tool("check", &cache_dir(server), &["--deep", "--json"]);
    let report = json_of(&output);
    let mut names = BTreeMap::new();
    for finding in report["findings"].as_array().into_iter().flatten() {
        *names.entry(finding["name"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    (output, report, names)
}

#[test]
fn a_check_finds_no_fault_in_a_working_server_and_only_leftovers_of_a_killed_one() {
    let origin = origin();
    let builder = builder(&origin);
    let mut server = builder.clone().start();
    let stop = StopFlag::default();
    thread::scope(|scope| {
        let _guard = stop.guard();
        for which in 0..4 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || load(server, which, stop));
        }
        let stat = |name| server.stat(name);
        eventually("segments are reclaimed", || stat("cache_segments_freed_total") > 4.0);
        for round in 0..20 {
            let (output, report, _) = check(&server);
            assert_eq!(output.status.code(), Some(0), "round {round}: {report}");
            assert_eq!(report["faults"], 0, "round {round}: {report}");
            assert!(report["records"].as_u64() > Some(100), "round {round}: {report}");
        }
        assert!(stat("purged_total") > 0.0 && stat("hits_total") > 100.0);
        server.signal(Signal::KILL);
    });
    assert!(server.wait().is_some());

    let (output, report, names) = check(&server);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(names["dead"] >= 2, "each worker leaves one: {report}");
    let of_death = ["dead", "suspect", "drained", "live_bytes"];
    let of_eviction = ["fragments_missing", "orphan_fragments", "orphan_variant"];
    let is_known = |name: &String| of_death.iter().chain(&of_eviction).any(|known| known == name);
    assert!(names.keys().all(is_known), "{names:?}");

    // The next server cleans up after the dead one.
    let mut next = builder.start();
    assert!(Client::connect(next.address()).ask("GET", "/page/1", &[]).is_ok());
    eventually("the participants of the dead server are swept", || {
        !check(&next).2.contains_key("dead")
    });
    assert!(next.stop().is_some_and(|status| status.success()));
    let (output, report, names) = check(&next);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(names.keys().all(|name| is_known(name) && name != "dead"), "{report}");
}

/// Returns a stopped server with a page, a long body and variants in its cache.
fn stopped(origin: &Origin) -> Server {
    let mut server = builder(origin).start();
    let mut client = Client::connect(server.address());
    for target in ["/page/3", "/long/1", "/page/1"] {
        assert_eq!(client.ask("GET", target, &[]).expect("served").status, 200);
    }
    for language in ["de", "en"] {
        let field = format!("Accept-Language: {language}");
        assert_eq!(client.ask("GET", "/vary/1", &[&field]).expect("served").status, 200);
    }
    assert!(server.stop().is_some_and(|status| status.success()));
    server
}

/// Returns all entries that `ls` lists.
fn listed(server: &Server, flags: &[&str]) -> Vec<Value> {
    let output = tool("ls", &cache_dir(server), &[&["--json"], flags].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = text_of(&output);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn stored_responses_are_listed_printed_and_added_up() {
    let origin = origin();
    let server = stopped(&origin);
    let (output, report, names) = check(&server);
    assert_eq!((output.status.code(), names.len()), (Some(0), 0), "{report}");
    let said = text_of(&tool("check", &cache_dir(&server), &[]));
    assert!(said.ends_with(": 0 faults, 0 wrong counts, 0 notes\nsound\n"), "{said}");

    let all = listed(&server, &[]);
    let count = |kind: &str| all.iter().filter(|record| record["kind"] == kind).count() as u64;
    assert_eq!((count("whole"), count("long"), count("base")), (4, 1, 1), "{all:?}");
    for record in all.iter().filter(|record| record["kind"] == "whole") {
        let fresh = record["fresh_s"].as_i64();
        assert!((Some(500)..=Some(600)).contains(&fresh), "{record}");
    }
    for (prefix, count, text) in [
        ("http://example.test/page/3", 1, "whole"),
        ("http://example.test/vary/1", 3, " variant "),
        ("http://example.test/", 6, "long"),
        ("http://other.test/", 0, "KIND"),
    ] {
        assert_eq!(listed(&server, &["--prefix", prefix]).len(), count, "{prefix}");
        let lines = text_of(&tool("ls", &cache_dir(&server), &["--prefix", prefix]));
        assert_eq!(lines.lines().count(), 1 + count, "{lines}");
        assert!(lines.contains(text), "{lines}");
    }

    let stats = json_of(&tool("stats", &cache_dir(&server), &["--json"]));
    for kind in ["whole", "long", "base", "fragment"] {
        assert_eq!(stats["records"][kind]["count"], count(kind), "{kind} in {stats}");
    }
    let number = |name: &str| stats[name].as_u64().expect("a number");
    let shares = ["free_bytes", "live_bytes", "dead_bytes", "pinned_bytes", "metadata_bytes"];
    assert_eq!(shares.map(number).iter().sum::<u64>(), number("region_bytes"), "{stats}");
    let table = text_of(&tool("stats", &cache_dir(&server), &[]));
    assert!(table.contains("= region") && table.contains(" sealed, "), "{table}");
    assert!(table.lines().any(|line| line.starts_with("live ") && line.contains('#')), "{table}");
}

#[test]
fn a_stored_response_is_printed_whole_or_the_reason_is_given() {
    let origin = origin();
    let server = stopped(&origin);
    let site = origin.address().to_string();
    for (target, byte_count) in [("/page/3", 1700), ("/long/1", LONG_BYTES)] {
        let url = format!("http://example.test{target}");
        let output = tool("get", &cache_dir(&server), &["--site", &site, &url]);
        assert_eq!(output.status.code(), Some(0), "{target}");
        let split = output.stdout.windows(4).position(|part| part == b"\r\n\r\n");
        let (head, body) = output.stdout.split_at(split.expect("a head") + 4);
        let head = String::from_utf8_lossy(head);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("max-age=600"), "{head}");
        assert!(target.bytes().cycle().take(byte_count).eq(body.iter().copied()), "{target}");
    }
    let cases = [
        (site.as_str(), "http://example.test/page/4", 1, "not stored on site"),
        ("other", "http://example.test/page/3", 1, "not stored on site"),
        (&site, "http://example.test/vary/1", 1, "accept-language"),
        (&site, "ftp://example.test/", 2, "http://"),
    ];
    for (site, url, code, text) in cases {
        let output = tool("get", &cache_dir(&server), &["--site", site, url]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{url}: {said}");
        assert!(said.contains(text), "{url}: {said}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let origin = origin();
    let server = stopped(&origin);
    let site = origin.address().to_string();
    let get = ["--site", &site, "http://example.test/long/1"];
    for (command, flags) in [
        ("check", &["--deep"][..]),
        ("stats", &[]),
        ("ls", &[]),
        ("ls", &["--json"]),
        ("get", &get),
    ] {
        let (reader, writer) = std::io::pipe().expect("descriptors are left");
        drop(reader);
        let mut all = Command::new(PROGRAM);
        all.args(["cache", command]).arg(cache_dir(&server)).args(flags).stdout(writer);
        let output = all.output().expect("forebay was built");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{command}");
    }
}

/// The file of a region, as `docs/format/region.md` describes it.
struct RegionFile(File);

impl RegionFile {
    fn of(server: &Server) -> RegionFile {
        let file = File::options().read(true).write(true).open(cache_dir(server).join("store"));
        RegionFile(file.expect("the file is accessible"))
    }

    fn bytes<const N: usize>(&self, offset: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, offset).expect("the file is long enough");
        bytes
    }

    fn word(&self, offset: u64) -> u64 {
        u64::from_le_bytes(self.bytes(offset))
    }

    fn set(&self, offset: u64, word: u64) {
        self.0.write_all_at(&word.to_le_bytes(), offset).expect("the file is accessible");
    }

    fn area_count(&self) -> u64 {
        u32::from_le_bytes(self.bytes(64)).into()
    }

    /// Offset of an area's entry in the directory.
    fn entry(&self, kind: u32) -> u64 {
        let mut entries = (0..self.area_count()).map(|number| 128 + 32 * number);
        let is_it = |entry: &u64| u32::from_le_bytes(self.bytes(*entry)) == kind;
        entries.find(is_it).expect("the region has this area")
    }

    fn area(&self, kind: u32) -> u64 {
        self.word(self.entry(kind) + 8)
    }

    /// The offset of the word of the index that refers to this unit.
    fn index_word(&self, unit: u64) -> u64 {
        let bytes = self.word(self.entry(INDEX) + 16);
        let mut words = (0..bytes / 8).map(|number| self.area(INDEX) + 8 * number);
        let is_it = |word: &u64| self.word(*word) != 0 && self.word(*word) & 0xffff_ffff == unit;
        words.find(is_it).expect("an index word names this unit")
    }

    /// Updates the checksum.
    fn seal(&self) {
        let mut covered = vec![0; 128 + 32 * self.area_count() as usize];
        self.0.read_exact_at(&mut covered, 0).expect("the file is long enough");
        covered.drain(120..128);
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.set(120, covered.iter().fold(0xcbf2_9ce4_8422_2325, mix));
    }
}

const STORE: u32 = 16;
const SEGMENTS: u32 = 17;
const INDEX: u32 = 18;
const DATA: u32 = 24;

#[test]
fn damage_is_found_and_sets_the_exit_code() {
    let origin = origin();
    let server = stopped(&origin);
    let file = RegionFile::of(&server);
    let page = &listed(&server, &["--prefix", "http://example.test/page/3"])[0];
    let unit = page["unit"].as_u64().expect("a number");
    let record = file.area(DATA) + unit * 64;
    let word = file.index_word(unit);
    // Case, offset of the damage, its bits, and the finding with and without checksums.
    let cases = [
        ("a body", record + 1200, 1 << 20, "checksum", ""),
        ("a word's fingerprint", word, 1 << 50, "other_key", "other_key"),
        ("a word's place", word, 1 << 31, "no_segment", "no_segment"),
        ("a word's size class", word, 1 << 36, "size_class", "size_class"),
        ("a record's lengths", record + 16, 0xffff << 32, "checksum", "size_class"),
        ("a record's kind", record + 8, 7 << 48, "no_record", "no_record"),
        ("a record's marks", record, 1 << 60, "marks", "marks"),
        ("a segment's state", file.area(SEGMENTS), 7, "segment_state", "segment_state"),
    ];
    for (what, offset, bits, deep, shallow) in cases {
        let before = file.word(offset);
        file.set(offset, before ^ bits);
        let (output, report, names) = check(&server);
        assert_eq!((output.status.code(), &report["sound"]), (Some(1), &false.into()), "{what}");
        assert!(names.contains_key(deep), "{what}: {report}");

        let said = tool("check", &cache_dir(&server), &["--json"]);
        assert_eq!(said.status.code(), Some(i32::from(!shallow.is_empty())), "{what}: {said:?}");
        assert!(text_of(&said).contains(shallow), "{what}: {said:?}");
        file.set(offset, before);
    }
    let (output, report, _) = check(&server);
    assert_eq!(output.status.code(), Some(0), "the file is as before: {report}");
    file.set(record + 1200, !file.word(record + 1200));
    let said = text_of(&tool("check", &cache_dir(&server), &["--deep"]));
    assert!(said.starts_with("fault: the checksum of a record is wrong, unit "), "{said}");
    assert!(said.ends_with("corrupt\n"), "{said}");
}

#[test]
fn an_unreadable_cache_is_told_from_a_corrupt_one() {
    let origin = origin();
    let server = stopped(&origin);
    let folder = Folder::new();
    let other = folder.path("other");
    std::fs::write(&other, "something else").expect("the folder is writable");
    let cases = [
        (folder.path("none"), "No such file or directory"),
        (folder.path(""), "no cache here"),
        (other, "not usable"),
        ("/dev/null".into(), "/dev/null: "),
    ];
    for (place, text) in cases {
        for command in ["check", "stats", "ls"] {
            refused(command, &place, text);
        }
    }

    let file = RegionFile::of(&server);
    let version = file.entry(INDEX);
    // Offset, bits, whether the checksum is updated, and the message.
    let cases = [
        (0, 1, false, "not usable"),
        (8, 1 << 4, false, "another version of this program made the region"),
        (40, 1, false, "checksum"),
        (40, 1, true, "before the last boot of the machine"),
        (version, 1 << 40, true, "version 261"),
        (file.area(STORE), 1, false, "damaged or not complete"),
    ];
    for (offset, bits, is_sealed, text) in cases {
        let before = (file.word(offset), file.word(120));
        file.set(offset, before.0 ^ bits);
        if is_sealed {
            file.seal();
        }
        refused("check", &cache_dir(&server), text);
        file.set(offset, before.0);
        file.set(120, before.1);
    }
    assert_eq!(check(&server).0.status.code(), Some(0), "the file is as before");
    // Only root can switch to another user, and root itself may read every file.
    let path = cache_dir(&server).join("store");
    if std::fs::metadata("/proc/self").is_ok_and(|of_us| of_us.uid() == 0) {
        let mut as_other = Command::new(PROGRAM);
        let output = as_other.args(["cache", "check"]).arg(cache_dir(&server)).uid(65_534).output();
        let output = output.expect("forebay was built");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("Permission denied"), "{said}");
    }
    file.0.set_len(4096).expect("the file is accessible");
    refused("check", &path, "");
}

fn refused(command: &str, place: &Path, text: &str) {
    let output = tool(command, place, &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(2), 0),
        "{text:?} in {command}: {said}"
    );
    assert!(said.starts_with("forebay: ") && said.contains(text), "{text:?} in {command}: {said}");
}

#[test]
fn the_counters_of_a_server_end_with_the_parts_of_its_cache() {
    let origin = origin();
    let server = builder(&origin).start();
    Client::connect(server.address()).ask("GET", "/long/1", &[]).expect("served");
    let table = text_of(&server.command(&["stats"]));
    let budget = 12 << 20;
    let end = table.lines().last().unwrap_or_default();
    assert!(end.starts_with("sum ") && end.ends_with("= budget"), "{table}");
    assert!(end.contains(&budget.to_string()), "{table}");
    for name in ["live", "dead", "pinned", "growing", "copied", "metadata", "free"] {
        let line = |line: &&str| line.split_whitespace().next() == Some(name);
        assert_eq!(table.lines().filter(line).count(), 1, "{name} in {table}");
    }
}
