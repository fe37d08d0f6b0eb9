//! A hit on a connection that is kept makes no heap allocation, with header rules or without them,
//! over HTTP/1.1 and over HTTP/2. Over TLS, only the TLS library allocates. The test covers
//! everything from reading a request to writing its response: parsing, the key, the lookup, the
//! head, the body and the counters.
//!
//! `cargo test -p forebay-server --test allocations -- --nocapture` prints the functions of the TLS
//! library that allocate.
//!
//! The allocator sees the allocations of the whole process. Therefore this program has only one
//! test.

mod heap;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_server::config::{Config, ConfigSource, FlagValue};
use forebay_server::engine::{Hooks, Stopper, start};
use forebay_testkit::server::Folder;
use forebay_testkit::tls::rustls::ClientConfig;
use forebay_testkit::tls::rustls::version::TLS13;
use forebay_testkit::{ClientVersion, HitClient, HitRequest, Origin, Script, TestAuthority};

#[global_allocator]
static HEAP: heap::NamingHeap = heap::NamingHeap;

/// The number of hits of each kind, without TLS and over TLS, where each allocation takes the time
/// of a backtrace.
const HITS: usize = 2_000;
const TLS_HITS: usize = 20;

/// The most bytes that the bodies of these hits have together.
const BYTES_MAX: usize = 16 << 20;

/// The number of hits before allocations count: over HTTP/2, the table of the decoder of fields
/// (RFC 7541 §2.3.2) grows to its full size in the first requests.
const WARM_UP_HITS: usize = 500;

/// The most bytes of a TLS record (RFC 8446 §5.1).
const RECORD_BYTES: usize = 16 << 10;

/// The additional records of a response after a pause.
const AFTER_PAUSE: usize = 8;

/// The length of the body at `/large`, which is stored in fragments.
const LARGE_BYTES: usize = 300_000;

/// A request whose response was compressed when it was stored. Its Accept-Encoding is normalised.
const COMPRESSED: HitRequest<'static> =
    get("/compressed", &[("Accept-Encoding", "gzip, deflate, br;q=1.0, zstd")]);

/// A request for each kind of hit.
const KINDS: &[HitRequest<'static>] = &[
    get("/small", &[]),
    HitRequest { method: "HEAD", ..get("/small", &[]) },
    get("/64k", &[]),
    get("/large", &[]),
    HitRequest { status: 206, ..get("/large", &[("Range", "bytes=100-199")]) },
    HitRequest { status: 304, ..get("/small", &[("If-None-Match", "\"v1\"")]) },
    get("/x/..//caf%C3%A9;v=1", &[]),
    get("/varied", &[("Accept-Language", "de")]),
    get(
        "/small?b=1",
        &[
            ("User-Agent", "Mozilla/5.0 (X11; Linux)"),
            ("Accept", "text/html,*/*;q=0.8"),
            ("Accept-Encoding", "gzip, br"),
            ("Accept-Language", "en"),
            ("Referer", "http://a.example/"),
            ("Cookie", "a=b; session=0123456789abcdef"),
            ("Cache-Control", "max-stale=5"),
        ],
    ),
    COMPRESSED,
    get("/limited", &[("X-Key", "a")]),
];

/// The number of URLs of [`KINDS`].
const URLS: usize = 8;

const fn get(
    target: &'static str,
    fields: &'static [(&'static str, &'static str)],
) -> HitRequest<'static> {
    HitRequest { method: "GET", target, fields, status: 200 }
}

fn body_bytes(target: &str) -> usize {
    match target {
        "/64k" => 64 << 10,
        // A rule adds a query.
        target if target.starts_with("/large") => LARGE_BYTES,
        _ => 1024,
    }
}

/// Returns at least a hundred rules, of all kinds that run on a hit: two `add-header` and two
/// `set-header` rules that always run, values with variables, conditions that match or do not
/// match, regular expressions, and rules that change the request before the lookup.
fn rules() -> String {
    let mut text = String::new();
    let mut rule = |hook: &str, lines: &str| {
        text.push_str(&format!("cond %{{{hook}}}\n{lines}\n\n"));
    };
    rule("SEND_RESPONSE_HDR_HOOK", "add-header X-Add-1 one\nadd-header X-Add-2 two");
    rule("SEND_RESPONSE_HDR_HOOK", "set-header X-Set-1 one\nset-header X-Fixed 2");
    rule("READ_REQUEST_HDR_HOOK", "set-header X-Early %{METHOD}");
    rule("READ_REQUEST_HDR_HOOK", "cond %{CLIENT-URL:PATH} =large\nset-destination QUERY c");
    rule("READ_REQUEST_HDR_HOOK", "cond %{CLIENT-HEADER:Host} =b\nset-destination HOST a.example");
    rule("SEND_RESPONSE_HDR_HOOK", "set-header X-Now \"%{NOW:YEAR} %{ID:UNIQUE} %{IP:CLIENT}\"");
    rule(
        "SEND_RESPONSE_HDR_HOOK",
        "cond %{HEADER:ETag} /v([0-9])/\nset-header X-V %{LAST-CAPTURE:1}",
    );
    rule("SEND_RESPONSE_HDR_HOOK", "rm-header Vary");
    for number in 0..31 {
        let name = format!("X-Number-{number}");
        let equal = format!("cond %{{CLIENT-HEADER:Host}} =a.example\nset-header {name} yes");
        rule("SEND_RESPONSE_HDR_HOOK", &equal);
        let other = format!("cond %{{STATUS}} ={}\nset-header {name} no", 500 + number);
        rule("SEND_RESPONSE_HDR_HOOK", &other);
        let regex =
            format!("cond %{{CLIENT-HEADER:User-Agent}} /bot-{number}[.x]/\nrm-header {name}");
        rule("SEND_RESPONSE_HDR_HOOK", &regex);
    }
    let count = text.matches("cond %{SEND").count() + text.matches("cond %{READ").count();
    assert!(count >= 100, "{count} rules");
    text
}

#[test]
fn a_hit_on_a_kept_connection_allocates_nothing_outside_of_the_tls_library() {
    heap::ignore_this_thread();
    for rules in [None, Some(rules())] {
        let server = TestedServer::start(rules);
        // The first response at `/compressed` has no length, so only HTTP/2 can tell its end.
        for version in [ClientVersion::Http2, ClientVersion::Http1] {
            let mut client = HitClient::connect(server.plain, version);
            let mut tls_client = HitClient::connect_tls(server.tls, version, &server.trusting);
            for hit in hits(version) {
                server.warm_up(&mut client, hit);
                server.nothing_allocates(&mut client, hit);
                server.warm_up(&mut tls_client, hit);
                server.only_tls_allocates(&mut tls_client, hit);
            }
        }
        server.stop();
    }
}

/// Returns each kind of hit, and how many are requested at a time.
fn hits(version: ClientVersion) -> impl Iterator<Item = (HitRequest<'static>, usize)> {
    let streams: &[usize] = if version == ClientVersion::Http2 { &[1, 10] } else { &[1] };
    KINDS.iter().flat_map(|hit| streams.iter().map(move |streams| (*hit, *streams)))
}

/// A server with its origin.
struct TestedServer {
    plain: SocketAddr,
    tls: SocketAddr,
    trusting: Arc<ClientConfig>,
    has_rules: bool,
    origin: Origin,
    stopper: Stopper,
    thread: std::thread::JoinHandle<bool>,
    _folder: Folder,
}

impl TestedServer {
    fn start(rules: Option<String>) -> TestedServer {
        let origin = Origin::start(|request| {
            let vary =
                if request.target == "/varied" { "Vary: accept-language" } else { "X-Fixed: 1" };
            Script::answer(
                "200 OK",
                &["Cache-Control: max-age=3600", "Content-Type: text/css", "ETag: \"v1\"", vary],
                &vec![b'x'; body_bytes(&request.target)],
            )
        });
        let (folder, authority) = (Folder::new(), TestAuthority::new());
        let (cert, key) = authority.issue(&["a.example"]).write(&folder.path(""), "default");
        let file = folder.path("test.rules");
        std::fs::write(&file, rules.as_deref().unwrap_or_default()).expect("a file");
        let paths = [folder.path("run"), file, cert, key];
        let origin_address = origin.address();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let config = configured(origin_address, &paths);
            let again = config.clone();
            let hooks =
                Hooks { load: Box::new(move || Ok(again.clone())), applied: Box::new(|_| ()) };
            let running = start(config, hooks).expect("it starts");
            tell.send((running.urls.clone(), running.stopper())).expect("the test waits");
            running.run().expect("it runs")
        });
        let (urls, stopper) = told.recv().expect("the server starts");
        let address = |scheme| {
            let mut addresses = urls.iter().filter_map(|url| url.strip_prefix(scheme));
            addresses.next().and_then(|address| address.parse().ok()).expect("an address")
        };
        let (plain, tls) = (address("http://"), address("https://"));
        let trusting = authority.client(&[&TLS13]);
        let has_rules = rules.is_some();
        TestedServer { plain, tls, trusting, has_rules, origin, stopper, thread, _folder: folder }
    }

    /// Stores the response, and fills pools and buffers.
    fn warm_up(&self, client: &mut HitClient, (hit, streams): (HitRequest<'_>, usize)) {
        self.ask(client, (hit, 1), 1);
        if hit.target == COMPRESSED.target {
            let is_coded = |head: &[u8]| head.ends_with(b"\x02br") || head == b"oding: br";
            assert!(client.heads().windows(9).any(is_coded), "the response is not compressed");
        }
        self.ask(client, (hit, streams), WARM_UP_HITS);
    }

    /// Asserts that hits allocate nothing.
    fn nothing_allocates(&self, client: &mut HitClient, (hit, streams): (HitRequest<'_>, usize)) {
        let made = heap::allocations_during(|| _ = self.ask(client, (hit, streams), HITS));
        assert!(made.is_empty(), "{streams} at a time of {hit:?} allocate in {made:#?}");
    }

    /// Asserts that hits allocate only in the TLS library, and as often as `docs/tls.md` says.
    fn only_tls_allocates(&self, client: &mut HitClient, (hit, streams): (HitRequest<'_>, usize)) {
        let mut hits = 0;
        let made = heap::allocations_during(|| hits = self.ask(client, (hit, streams), TLS_HITS));
        let case = format!("{hits} hits, {streams} at a time, of {hit:?} allocate in {made:#?}");
        let is_tls = made.keys().all(|name| name.trim_start_matches('<').starts_with("rustls::"));
        assert!(is_tls, "{case}");
        // One for the request, one for each record of the response, and one for each write. After
        // a pause of the whole machine, a response is sent in short records.
        let bytes = hits * body_bytes(hit.target);
        let most = 2 * hits + 2 * bytes / RECORD_BYTES + AFTER_PAUSE;
        assert!(made.values().sum::<usize>() <= most, "{case}");
        println!("{case}");
    }

    /// Sends about `count` requests for hits; returns their number.
    fn ask(
        &self,
        client: &mut HitClient,
        (hit, streams): (HitRequest<'_>, usize),
        count: usize,
    ) -> usize {
        let rounds = count.min(BYTES_MAX / body_bytes(hit.target)).div_ceil(streams);
        for _ in 0..rounds {
            client.ask(&vec![hit; streams]);
            let is_ruled =
                client.heads().windows(11).any(|part| part.eq_ignore_ascii_case(b"X-Number-30"));
            assert_eq!(is_ruled, self.has_rules, "{}", hit.target);
        }
        rounds * streams
    }

    fn stop(self) {
        assert_eq!(
            self.origin.request_count(),
            2 * URLS,
            "each URL is fetched once with each scheme, and all other requests are hits"
        );
        self.stopper.stop();
        assert!(self.thread.join().expect("no panic"), "all requests finished");
    }
}

fn configured(origin: SocketAddr, paths: &[PathBuf; 4]) -> Config {
    // With several routes, the server examines all readings of a path and compares them with
    // regular expressions, which must not allocate either. Nor must the log of another site.
    let sites = format!(
        "[[site]]\nname = \"s\"\nnames = [\"*\"]\norigin = \"http://{origin}\"\n\
         [[site.route]]\npath_prefix = \"/private/\"\ncache = false\nbefore_regex = true\n\
         [[site.route]]\npath_regex = '\\.(jpg|png)$'\n\
         [[site.route]]\npath_regex = '^/.*[0-9]x'\n\
         [[site.route]]\npath_prefix = \"/compressed\"\ncompress = [\"br\", \"gzip\"]\n\
         [[site.route]]\npath_prefix = \"/limited\"\nbefore_regex = true\n\
         rate_limit = [\"90000/1s\", \"90000/1s by=route\", \"90000/1s by=field:x-key\"]\n\
         concurrency_limit = [\"9\", \"9 by=route\", \"9 by=field:x-key\"]\n\
         [[site]]\nname = \"logged\"\nnames = [\"logged.example\"]\n\
         origin = \"http://{origin}\"\naccess_log = \"/dev/null\"\n"
    );
    let [dir, rules, cert, key] = paths.each_ref().map(|path| path.display().to_string());
    let flags = [
        ("listen", "127.0.0.1:0"),
        ("listen-tls", "127.0.0.1:0"),
        ("tls-cert", &cert),
        ("tls-key", &key),
        // The control thread, which looks for changed certificates, allocates too.
        ("tls-watch-ms", "1h"),
        ("http2", "true"),
        ("workers", "1"),
        ("runtime-dir", &dir),
        ("rules", &rules),
    ];
    let flags = flags.map(|(name, value)| FlagValue { name, value });
    let source = ConfigSource::Toml { text: &sites, file: "sites.toml" };
    Config::load(source, &flags).expect("a valid configuration")
}
