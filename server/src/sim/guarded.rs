//! Sites whose routes serve only some requests: by their method, fields, parameters and cookies, by
//! the address of the client or of the listener, by a signature, or by the number of requests in
//! progress. Their clients check only these decisions: an origin's failure needs no excuse. Another
//! site has tunnels.
//!
//! `routed.rs`, `signed.rs`, `in_progress.rs` and `tunnels.rs` hold the clients, `guarded_http2.rs`
//! their connections over HTTP/2, `guarded_origin.rs` the origins.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use forebay_testkit::Response;
use forebay_testkit::server::Folder;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::in_progress::InProgressLog;
use super::rng::Rng;
use super::run::{REQUEST_MS_MAX, Run};
use super::wire::WireEnd;
use super::{in_progress, routed, signed, tunnels};

/// The host whose routes have conditions. At the second listener, another site has this host.
pub(super) const ROUTED_HOST: &str = "routed.test";

/// The host of the site with signed URLs, and with pages for a single network.
pub(super) const SIGNED_HOST: &str = "signed.test";

/// The host of the site whose requests in progress are limited.
pub(super) const LIMITED_HOST: &str = "limited.test";

/// The host of the site whose clients open tunnels over HTTP/2.
pub(super) const TUNNEL_HOST: &str = "tunnel.test";

/// The protocol in the tunnels.
pub(super) const TUNNEL_PROTOCOL: &str = "sim";

/// The path prefixes of the pages that need a signature, and of the pages for [`INNER_NETWORK`].
pub(super) const SIGNED: &str = "/signed/";
pub(super) const INNER: &str = "/inner/";

/// The first three numbers of the addresses that [`INNER`] serves.
pub(super) const INNER_NETWORK: [u8; 3] = [10, 8, 7];

/// The limits on the requests of one address, and of all addresses, that are in progress at
/// [`LIMITED_HOST`].
pub(super) const IN_PROGRESS_MAX: (usize, usize) = (3, 7);

/// The key with which URLs are signed.
pub(super) const URL_KEY: &str = "0123456789abcdef0123456789abcdef";

/// The indexes of the origins. The routes of [`ROUTED_HOST`] with conditions have the origins
/// before `STORING`, in the order of the configuration.
pub(super) const STORING: u64 = 4;
pub(super) const SECOND_LISTENER: u64 = 5;
const SIGNED_ORIGIN: u64 = 6;
const LIMITED_ORIGIN: u64 = 7;
const TUNNEL_ORIGIN: u64 = 8;
const ORIGIN_COUNT: u64 = 9;

/// The field with which a client marks a request that must not reach an origin.
pub(super) const FORBIDDEN: &str = "X-Forbidden";

/// The port of the clients that connect to the second listener.
pub(super) const SECOND_LISTENER_PORT: u16 = 39_999;

/// The clients of an act, all of which use one of the guarded sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// A client of [`ROUTED_HOST`].
    Routed,
    /// A client of [`SIGNED_HOST`].
    Signed,
    /// Several clients of [`LIMITED_HOST`] with one address.
    InProgress,
    /// A client of [`TUNNEL_HOST`].
    Tunnels,
}

/// The state of the guarded sites that the origins and the clients of a run share.
pub(super) struct GuardedSites {
    folder: Folder,
    pub(super) in_progress: InProgressLog,
    /// The versions of the pages of [`ROUTED_HOST`], by their paths.
    pub(super) versions: RefCell<BTreeMap<String, PageVersions>>,
    /// The signed pages that a client has got, and that may be stored.
    pub(super) stored: RefCell<BTreeSet<String>>,
    /// The percentage of the origins' answers that have a fault.
    pub(super) fault_percent: u64,
}

/// The versions of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageVersions {
    pub(super) current: u64,
    /// The oldest version that a request may get: an unsafe request for it has been answered.
    pub(super) floor: u64,
}

impl GuardedSites {
    pub(super) fn new(seed: u64) -> GuardedSites {
        let folder = Folder::new();
        let sites = GuardedSites {
            folder,
            in_progress: InProgressLog::default(),
            versions: RefCell::default(),
            stored: RefCell::default(),
            fault_percent: Rng::of(&[seed, 6]).pick(&[0, 0, 40]),
        };
        std::fs::write(sites.key_file(), URL_KEY).expect("the file with keys is written");
        sites
    }

    fn key_file(&self) -> PathBuf {
        self.folder.path("keys")
    }

    /// Returns the sections of the configuration for the guarded sites.
    pub(super) fn settings(&self) -> String {
        settings(&self.key_file())
    }
}

fn settings(key_file: &Path) -> String {
    let mut text = String::new();
    let mut site = |name: &str, host: &str, index: u64, lines: &str| {
        let origin = address(index);
        let _ = write!(
            text,
            "[[site]]\nname = \"{name}\"\nnames = [\"{host}\"]\n\
             origin = \"http://{origin}\"\n{lines}"
        );
    };
    let mut routes = String::new();
    for (index, condition) in routed::CONDITIONS.iter().enumerate() {
        let origin = address(index as u64);
        let _ = write!(
            routes,
            "[[site.route]]\npath_prefix = \"/\"\norigin = \"http://{origin}\"\n{condition}\n"
        );
    }
    site(ROUTED_HOST, ROUTED_HOST, STORING, &routes);
    let listen = format!("listen = [\"{}\"]\n", LISTENERS[1]);
    site("second.test", ROUTED_HOST, SECOND_LISTENER, &listen);
    let [first, second, third] = INNER_NETWORK;
    let routes = format!(
        "[[site.route]]\npath_prefix = \"{SIGNED}\"\nsigned_urls = \"{}\"\n\
         [[site.route]]\npath_prefix = \"{INNER}\"\n\
         allow_from = [\"{first}.{second}.{third}.0/24\"]\n",
        key_file.display()
    );
    site(SIGNED_HOST, SIGNED_HOST, SIGNED_ORIGIN, &routes);
    let (of_address, of_route) = IN_PROGRESS_MAX;
    let limits = format!("concurrency_limit = [\"{of_address}\", \"{of_route} by=route\"]\n");
    site(LIMITED_HOST, LIMITED_HOST, LIMITED_ORIGIN, &limits);
    let protocols = format!("upgrade_protocols = [\"{TUNNEL_PROTOCOL}\"]\n");
    site(TUNNEL_HOST, TUNNEL_HOST, TUNNEL_ORIGIN, &protocols);
    text
}

/// The addresses at which the server listens, by name only: its connections are in memory.
pub(super) const LISTENERS: [&str; 2] = ["127.0.0.1:8080", "127.0.0.1:8081"];

/// Returns the index of the origin of a guarded site with this address.
pub(super) fn index_of(server: SocketAddr) -> Option<u64> {
    (0..ORIGIN_COUNT).find(|index| address(*index) == server)
}

fn address(index: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 20 + index as u8], 80))
}

/// Starts the clients of a visit.
pub(super) fn start(run: &Rc<Run>, act: u64, worker: usize, visit: Visit) -> Vec<JoinHandle<()>> {
    let (own, rng) = (Rc::clone(run), Rng::of(&[run.scenario.seed, 5, act]));
    match visit {
        Visit::InProgress => in_progress::start(run, act, rng),
        _ => vec![tokio::task::spawn_local(async move {
            match visit {
                Visit::Routed => routed::play(&own, act, worker, rng).await,
                Visit::Tunnels => tunnels::play(&own, act, worker, rng).await,
                _ => signed::play(&own, act, worker, rng).await,
            }
        })],
    }
}

/// A client's connection to a guarded site.
pub(super) struct GuardedClient<'a> {
    run: &'a Run,
    end: WireEnd,
    input: Vec<u8>,
    /// How long the client waits before it reads a response.
    pub(super) pause_ms: u64,
}

impl<'a> GuardedClient<'a> {
    /// Opens the connection of an act with this number among the connections of the act.
    pub(super) fn open(
        run: &'a Run,
        worker: usize,
        from: SocketAddr,
        (act, number): (u64, u64),
    ) -> GuardedClient<'a> {
        let end = run.connect(worker, from, (act + 1) << 32 | number);
        GuardedClient { run, end, input: Vec::new(), pause_ms: 0 }
    }

    /// Sends a request; returns its response if all of it arrives.
    pub(super) async fn exchange(&mut self, method: &str, request: &str) -> Option<Response> {
        let answered = async {
            self.end.write(request.as_bytes()).await.ok()?;
            sleep(Duration::from_millis(self.pause_ms)).await;
            self.response(method).await
        };
        let limit = Duration::from_millis(REQUEST_MS_MAX);
        let Ok(response) = timeout(limit, answered).await else {
            self.run.fail(format!("no response within {REQUEST_MS_MAX} ms: {request}"));
            return None;
        };
        response
    }

    async fn response(&mut self, method: &str) -> Option<Response> {
        loop {
            match Response::parse(&self.input, method, false) {
                Ok(Some((response, Some(size)))) => {
                    self.input.drain(..size);
                    return Some(response);
                }
                Ok(_) => {}
                Err(error) => self.run.fail(format!("a client got a bad response: {error}")),
            }
            let bytes = self.end.read().await.ok().filter(|bytes| !bytes.is_empty())?;
            self.run.trace("guarded client", &bytes);
            self.input.extend_from_slice(&bytes);
        }
    }

    pub(super) fn reset(&self) {
        self.end.reset();
    }
}
