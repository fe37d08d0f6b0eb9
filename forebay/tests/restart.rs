//! The cache of a server with a cache directory after a stop, a kill and an upgrade, and stores
//! that the server cannot use.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use forebay_cache::{CheckDepth, StoreReader};
use forebay_testkit::clock::holds_within;
use forebay_testkit::{
    Client, Origin, Request, Response, Script, Server, ServerBuilder, Signal, StopFlag, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The number of pages that fill a server: small ones, some with variants, and long ones.
const PAGES: usize = 2000;

/// Pages whose number is at least this are storable again. Pages with a number from `PAGES` up to
/// this one are not.
const FURTHER: usize = 10_000;

/// The number of clients that load a server.
const CLIENTS: usize = 4;

/// A limit of requests that fails the test instead of letting a client run forever.
const REQUESTS_MAX: u64 = 1_000_000_000;

/// A page to request.
struct Page {
    target: String,
    language: &'static str,
    body: Vec<u8>,
}

/// Returns the page with this number. Each part of its body differs from the same part of every
/// other page.
fn page(number: usize, origin: &str) -> Page {
    let language = if number.is_multiple_of(2) { "de" } else { "fr" };
    let (kind, name, bytes) = match number % 50 {
        _ if is_private(number) => ("private", number, 500),
        0 => ("long", number, 70_000 + number * 61 % 130_000),
        // Both language variants of a resource are pages.
        2..10 => ("vary", number / 2 * 2, 200 + number / 2 % 700),
        _ => ("page", number, number * 37 % 6_000),
    };
    let target = format!("/{kind}/{name}");
    let line = format!("{origin} {target} {} ", if kind == "vary" { language } else { "" });
    let body = line.bytes().cycle().take(bytes).enumerate();
    let body = body.map(|(at, byte)| byte.wrapping_add((at / 4096) as u8)).collect();
    Page { target, language, body }
}

fn is_private(number: usize) -> bool {
    (PAGES..FURTHER).contains(&number)
}

/// Answers with the page that a target names.
fn answer(request: &Request, origin: &str) -> Script {
    let number = request.target.rsplit('/').next().expect("a target has a last segment");
    let number: usize = number.parse().expect("a number");
    let is_other = request.head.field("accept-language") == Some("fr");
    if request.target.starts_with("/vary") {
        let fields = ["Cache-Control: max-age=600", "Vary: Accept-Language"];
        let page = page(number + usize::from(is_other), origin);
        return Script::answer("200 OK", &fields, &page.body);
    }
    let field =
        if number < PAGES { "Cache-Control: max-age=600" } else { "Cache-Control: no-store" };
    Script::answer("200 OK", &[field], &page(number, origin).body)
}

fn origin(name: &'static str) -> Origin {
    Origin::start(move |request| answer(request, name))
}

/// A server with its own cache directory.
fn builder(origin: &Origin) -> ServerBuilder {
    let builder = ServerBuilder::new(PROGRAM).origin(origin).flag("--workers", "2");
    let cache_dir = builder.path("cache").display().to_string();
    builder.flag("--cache-dir", &cache_dir).flag("--cache-size", "64MiB")
}

/// Requests a page, which must be the right page of this origin. Returns whether it was a hit.
fn ask(client: &mut Client, number: usize, origin: &str) -> Result<bool, String> {
    let page = page(number, origin);
    let language = format!("Accept-Language: {}", page.language);
    let response = client.ask("GET", &page.target, &[&language]);
    let response = response.map_err(|broken| format!("{}: {broken:?}", page.target))?;
    if response.status != 200 || response.body != page.body {
        return Err(format!("{}: not the right page: {:?}", page.target, response.head));
    }
    if response.says_close() {
        *client = Client::connect(client.server());
    }
    Ok(is_hit(&response))
}

fn is_hit(response: &Response) -> bool {
    response.field("cache-status").is_some_and(|status| status.contains("; hit"))
}

/// Requests these pages, and returns the number of hits.
fn hits(server: &Server, pages: impl Iterator<Item = usize>, origin: &str) -> usize {
    let mut client = Client::connect(server.address());
    pages.filter(|number| ask(&mut client, *number, origin).expect("the right page")).count()
}

/// The numbers of pages of all kinds, mixed.
fn mixed() -> impl Iterator<Item = usize> {
    (0..PAGES).map(|at| at * 7919 % (PAGES + PAGES / 10))
}

/// Starts a server with all pages, and returns it with the number of hits for a mix.
fn filled(builder: &ServerBuilder) -> (Server, usize) {
    let server = builder.clone().start();
    assert_eq!(hits(&server, 0..PAGES, "a"), 0);
    let hit_count = hits(&server, mixed(), "a");
    assert!(hit_count >= PAGES * 9 / 10, "{hit_count}");
    (server, hit_count)
}

/// Asserts that the first answers come from the store, that every body is right, and that there are
/// as many hits as before.
fn assert_is_warm(server: &Server, origin: &Origin, hit_count: usize) {
    eventually("the log says that the store was found", || {
        server.errors().contains("the cache was found with its content")
    });
    let asked = origin.request_count();
    for number in [100, 150, 3, 4, 11, PAGES - 1] {
        let mut client = Client::connect(server.address());
        assert_eq!(ask(&mut client, number, "a"), Ok(true), "page {number}");
    }
    assert_eq!(origin.request_count(), asked, "the origin was asked");
    let now = hits(server, mixed(), "a");
    assert!(now * 100 >= hit_count * 99, "{now} hits, {hit_count} before");
    assert_is_sound(server);
}

/// Asserts that a walk over the whole store finds no fault.
fn assert_is_sound(server: &Server) {
    let reader = StoreReader::open(&store(server)).expect("the store is readable");
    let report = reader.check(CheckDepth::Checksums, |_| {});
    assert_eq!(report.fault_count, 0, "{report}");
    assert!(report.live_count > PAGES as u64 * 9 / 10, "{report}");
}

/// The path of the region's file.
fn store(server: &Server) -> PathBuf {
    server.path("cache/store")
}

/// Runs `work` while clients request all kinds of pages, some for the first time. Returns the
/// result of `work` and the errors of failed requests.
fn under_load<T>(address: SocketAddr, work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let (stop, served) = (StopFlag::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let (stop, served) = (&stop, &served);
        let guard = stop.guard();
        let loads: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || load(address, number, stop, served)))
            .collect();
        eventually("the load runs", || served.load(Relaxed) > 50 * CLIENTS);
        let done = work();
        let so_far = served.load(Relaxed);
        holds_within(Duration::from_secs(2), || served.load(Relaxed) > so_far + 50 * CLIENTS);
        drop(guard);
        let ended = loads.into_iter().map(|load| load.join().expect("no panic"));
        (done, ended.filter_map(Result::err).collect())
    })
}

fn load(
    address: SocketAddr,
    client_number: usize,
    stop: &StopFlag,
    served: &AtomicUsize,
) -> Result<(), String> {
    let mut client = Client::connect(address);
    for turn in stop.steps(REQUESTS_MAX) {
        let turn = turn as usize;
        let known = (turn * 7919 + client_number * 1009) % (PAGES + 300);
        ask(&mut client, known, "a")?;
        ask(&mut client, FURTHER + turn * CLIENTS + client_number, "a")?;
        served.fetch_add(1, Relaxed);
    }
    Ok(())
}

#[test]
fn the_cache_survives_a_stop_and_a_kill() {
    let origin = origin("a");
    let builder = builder(&origin);
    let (mut server, hit_count) = filled(&builder);
    assert!(server.stop().is_some_and(|status| status.success()), "{}", server.errors());
    server = builder.clone().start();
    assert_is_warm(&server, &origin, hit_count);
    server.signal(Signal::KILL);
    assert!(server.wait().is_some());
    assert_is_warm(&builder.start(), &origin, hit_count);
}

#[test]
fn recovered_records_are_verified_and_damaged_ones_are_fetched_again() {
    let origin = origin("a");
    let builder = builder(&origin);
    let (mut server, _) = filled(&builder);
    assert!(server.stop().is_some_and(|status| status.success()), "{}", server.errors());
    let damaged = PAGES - 1;
    let mut file = std::fs::read(store(&server)).expect("the path exists");
    let body = page(damaged, "a").body;
    let mut places = file.windows(body.len()).enumerate().filter(|(_, bytes)| *bytes == body);
    let (place, _) = places.next().expect("the page is stored");
    file[place + body.len() / 2] ^= 1;
    std::fs::write(store(&server), &file).expect("the file is accessible");

    let server = builder.start();
    let asked = origin.request_count();
    // The first request for the page is a miss, however few records are verified by then.
    assert_eq!(hits(&server, damaged..PAGES, "a"), 0);
    assert_eq!(origin.request_count(), asked + 1);
    assert_eq!(server.stat("cache_dropped_damaged_total"), 1.0);
    let target = page(damaged, "a").target;
    eventually("the log names the damaged page", || {
        let log = server.errors();
        let mut lines = log.lines().filter(|line| line.contains("record_damaged"));
        lines.any(|line| line.ends_with(&target) || line.contains(&format!("{target} ")))
    });
    assert_eq!(hits(&server, damaged..PAGES, "a"), 1);
    assert_is_sound(&server);
}

#[test]
fn after_a_kill_under_load_the_remaining_records_are_right() {
    let origin = origin("a");
    let builder = builder(&origin);
    let (mut server, hit_count) = filled(&builder);
    for round in 0..3 {
        let (_, failed) = under_load(server.address(), || server.signal(Signal::KILL));
        assert_eq!(failed.len(), CLIENTS, "round {round}: each client fails once: {failed:?}");
        assert!(server.wait().is_some());
        server = builder.clone().start();
        assert_is_warm(&server, &origin, hit_count);
    }
}

#[test]
fn an_upgrade_under_load_loses_nothing() {
    let origin = origin("a");
    let builder = builder(&origin);
    let (mut old, hit_count) = filled(&builder);
    let (new, failed) = under_load(old.address(), || {
        let new = old.successor().start();
        assert!(old.wait().is_some_and(|status| status.success()), "{}", old.errors());
        new
    });
    assert_eq!(failed, Vec::<String>::new());
    assert_is_warm(&new, &origin, hit_count);
}

#[test]
fn another_origin_never_gets_the_pages_of_the_first() {
    let (first, second) = (origin("a"), origin("b"));
    let builder = builder(&first);
    let (mut server, hit_count) = filled(&builder);
    assert!(server.stop().is_some_and(|status| status.success()));
    let mut other = builder.clone().origin(&second).start();
    assert_eq!(hits(&other, 0..PAGES, "b"), 0);
    assert_eq!(hits(&other, 0..PAGES, "b"), PAGES);
    assert!(other.stop().is_some_and(|status| status.success()));
    assert_is_warm(&builder.start(), &first, hit_count);
}

#[test]
fn a_second_server_is_refused_and_the_first_goes_on() {
    let origin = origin("a");
    let builder = builder(&origin);
    let (server, hit_count) = filled(&builder);
    let output = builder.run();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("--upgrade"), "{text}");
    let now = hits(&server, mixed(), "a");
    assert_eq!(now, hit_count);
    assert_is_sound(&server);
}

/// Case, damage to the file, the message, and whether the old file is kept.
type Foreign = (&'static str, fn(&mut Vec<u8>), &'static str, bool);

const FOREIGN: [Foreign; 5] = [
    ("a flipped bit in the header", |file| file[50] ^= 1, "the cache is damaged", true),
    ("no region at all", |file| file.fill(b'x'), "the cache is damaged", true),
    ("a file that is cut off", |file| file.truncate(1 << 20), "the cache is damaged", true),
    (
        "another layout version",
        |file| {
            file[8..12].copy_from_slice(&2u32.to_le_bytes());
            sign(file);
        },
        "the cache has layout version 2,",
        false,
    ),
    (
        "another boot",
        |file| {
            file[32..48].copy_from_slice(&[7; 16]);
            sign(file);
        },
        "before the last boot",
        false,
    ),
];

/// Updates the header's checksum: see `docs/format/region.md`.
fn sign(file: &mut [u8]) {
    let area_count = u32::from_le_bytes(file[64..68].try_into().expect("four bytes")) as usize;
    let signed = file[..120].iter().chain(&file[128..128 + 32 * area_count]);
    let checksum = signed.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    file[120..128].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn an_unusable_store_is_replaced_and_the_log_says_why() {
    let origin = origin("a");
    for (what, change, said, is_kept) in FOREIGN {
        let builder = builder(&origin);
        let mut server = builder.clone().start();
        hits(&server, 0..100, "a");
        assert!(server.stop().is_some_and(|status| status.success()));
        let mut file = std::fs::read(store(&server)).expect("the path exists");
        change(&mut file);
        std::fs::write(store(&server), &file).expect("the file is accessible");

        let mut server = builder.clone().start();
        eventually("the log reports the replaced store", || server.errors().contains("cache_"));
        let errors = server.errors();
        assert!(errors.contains("cache_replaced") && errors.contains(said), "{what}: {errors}");
        let kept = std::fs::read(server.path("cache/store.damaged"));
        assert_eq!(kept.is_ok(), is_kept, "{what}");
        assert!(
            kept.is_err() || kept.is_ok_and(|kept| kept == file),
            "{what}: the kept file has changed"
        );
        assert_eq!(errors.contains("store.damaged"), is_kept, "{what}: {errors}");
        assert_eq!(hits(&server, 0..100, "a"), 0, "{what}");
        assert!(server.stop().is_some_and(|status| status.success()), "{what}");
        assert_eq!(hits(&builder.start(), 0..100, "a"), 100, "{what}");
    }
}

#[test]
fn another_cache_size_begins_cold_and_says_so() {
    let origin = origin("a");
    let builder = builder(&origin);
    let (mut server, _) = filled(&builder);
    assert!(server.stop().is_some_and(|status| status.success()));
    let server = builder.flag("--cache-size", "65MiB").start();
    eventually("the log reports the replaced store", || server.errors().contains("cache_"));
    let errors = server.errors();
    assert!(errors.contains("cache_replaced") && errors.contains("another size"), "{errors}");
    assert_eq!(hits(&server, 0..100, "a"), 0);
    assert_eq!(hits(&server, 0..100, "a"), 100);
}

/// The exit code for a file system that cannot be mounted, so that the test is skipped.
const NO_MOUNT: i32 = 77;

#[test]
fn a_full_disk_is_an_error_that_says_so() {
    let origin = origin("a");
    let builder = builder(&origin);
    let folder = builder.path("small");
    std::fs::create_dir(&folder).expect("the folder is writable");
    let builder = builder.flag("--cache-dir", &folder.join("cache").display().to_string());
    let output = beside_a_small_disk(&folder, &builder.command());
    if output.status.code() == Some(NO_MOUNT) {
        eprintln!("skipped: no file system can be mounted here");
        return;
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    let store = folder.join("cache/store").display().to_string();
    assert!(text.contains(&store) && text.contains("are free"), "{text}");
}

/// Runs a program that sees a file system of 16 MiB in place of this folder.
fn beside_a_small_disk(folder: &Path, program: &Command) -> Output {
    let script = format!(
        "mount -t tmpfs -o size=16m none '{}' || exit {NO_MOUNT}; exec \"$@\"",
        folder.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]).arg(program.get_program());
    command.args(program.get_args()).stdin(Stdio::null());
    match command.output() {
        Ok(output) if is_denied(&output) => {
            Output { status: ExitStatus::from_raw(NO_MOUNT << 8), ..output }
        }
        Ok(output) => output,
        Err(_) => Output {
            status: ExitStatus::from_raw(NO_MOUNT << 8),
            stdout: Vec::new(),
            stderr: Vec::new(),
        },
    }
}

/// Whether `unshare` itself failed.
fn is_denied(output: &Output) -> bool {
    output.stderr.starts_with(b"unshare:")
}
