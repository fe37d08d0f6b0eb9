//! The one table of settings. Types, defaults, limits, flags, `config --defaults` and
//! `docs/settings.md` all come from here.

use std::net::SocketAddr;

use super::lists::{AddressList, TagFields};
use super::setting::{Kind, Problem, Raw, Readable, Scope, Setting};
use super::value::{
    AccessLog, AccessLogFormat, AdminAddress, CacheDir, FORMAT_WORDS, LEVEL_WORDS, LogLevel,
    RuntimeDir,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const DAY_MS: u64 = 86_400_000;
const YEAR_S: u64 = 31_536_000;

/// A struct with a field for each setting of a table.
pub(crate) trait Settings {
    /// Reads one value; `setting` is of this struct's table.
    fn set(&mut self, setting: &Setting, raw: Raw<'_>) -> Result<(), Problem>;

    /// The settings that have other values in `other`.
    fn differences(&self, other: &Self) -> Vec<&'static Setting>;
}

/// Makes a struct with a field for each setting, and the table of these settings.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $struct:ident, $table:ident, $scope:expr;
        $( $name:ident: $type:ty = $default:literal {
            doc: $doc:literal,
            kind: $kind:expr,
            reloads: $reloads:literal,
            reason: $reason:literal,
        } )*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $struct { $( #[doc = $doc] pub $name: $type, )* }

        pub(crate) const $table: &[Setting] = &[$( Setting {
            name: stringify!($name),
            kind: $kind,
            default: Some($default),
            scope: $scope,
            reloads: $reloads,
            doc: $doc,
            reason: $reason,
        } ),*];

        impl Settings for $struct {
            fn set(&mut self, setting: &Setting, raw: Raw<'_>) -> Result<(), Problem> {
                match setting.name {
                    $( stringify!($name) => self.$name = Readable::read(raw, setting)?, )*
                    other => unreachable!("{other} is not of this table"),
                }
                Ok(())
            }

            fn differences(&self, other: &Self) -> Vec<&'static Setting> {
                let differs = [$( self.$name != other.$name ),*];
                $table.iter().zip(differs).filter(|(_, differs)| *differs).map(|(s, _)| s).collect()
            }
        }

        impl Default for $struct {
            fn default() -> Self {
                let mut table = $table.iter();
                $struct { $( $name: default_of::<$type>(table.next()), )* }
            }
        }
    };
}

fn default_of<T: Readable>(setting: Option<&Setting>) -> T {
    let read = setting.and_then(|setting| T::read(Raw::Flag(setting.default?), setting).ok());
    read.expect("the defaults of the table fit its types and limits")
}

settings! {
    /// Settings of the whole server.
    ServerSettings, SERVER, Scope::Server;

    listen: SocketAddr = "127.0.0.1:8080" {
        doc: "Address and port that clients connect to.",
        kind: Kind::Text { hint: "IP:PORT", expected: "an IP address and a port" },
        reloads: false,
        reason: "A server that was only tried out is not open to the network.",
    }
    admin: AdminAddress = "auto" {
        doc: "Where the admin interface listens: a port of this machine, the path of a Unix \
              socket, or `auto` for the socket `PORT.admin` in the runtime directory, where PORT \
              is the one that clients connect to.",
        kind: Kind::Text { hint: "IP:PORT|PATH", expected: "auto, a loopback address and port, \
            or a path with a /" },
        reloads: false,
        reason: "Who reaches it controls the server, so addresses that other machines reach are \
            refused.",
    }
    runtime_dir: RuntimeDir = "auto" {
        doc: "Directory for the counter file, the lock profile, the admin socket and the socket \
            for upgrades; `auto` is `$XDG_RUNTIME_DIR/forebay`, or `/tmp/forebay-UID` without it.",
        kind: Kind::Text { hint: "DIR", expected: "auto or a directory" },
        reloads: false,
        reason: "It is made with mode 0700 and has to belong to the user.",
    }
    workers: usize = "0" {
        doc: "Threads that serve, each with a processor of its own; 0: one for each processor \
            that the process may use.",
        kind: Kind::Count { min: 0, max: 1024, unit: "threads" },
        reloads: false,
        reason: "More threads than processors only wait for each other.",
    }
    cache_size: u64 = "256MiB" {
        doc: "Memory for stored responses, everything included that is needed to find them.",
        kind: Kind::Bytes { min: 4 * MIB, max: 256 * GIB },
        reloads: false,
        reason: "Below the minimum a single picture would push out everything else; more workers \
            need more. Above the maximum places in it would need larger numbers.",
    }
    cache_dir: CacheDir = "none" {
        doc: "Directory for the cache, which then outlives the server (restart, kill -9, upgrade), \
            until the machine is started again: best on a file system in memory. `none`: the cache \
            ends with the process. A second server on it is refused.",
        kind: Kind::Text { hint: "DIR", expected: "none or a directory" },
        reloads: false,
        reason: "It is made with mode 0700 and has to belong to the user.",
    }
    cache_record_bytes: u32 = "1KiB" {
        doc: "How large a stored response is expected to be in the mean, its key and head \
            included.",
        kind: Kind::Bytes { min: 64, max: 16 * MIB },
        reloads: false,
        reason: "It sizes the tables that responses are found by and the order of keys and tags, 8 \
            and 128 bytes for each. If responses are smaller in fact, or have many tags, these are \
            full before the memory is; if they are larger, a higher value leaves more memory for \
            them.",
    }
    growing_percent_max: u8 = "12" {
        doc: "Share of the cache that is set aside for responses that are still arriving; beyond \
            it they pass through unstored.",
        kind: Kind::Count { min: 1, max: 90, unit: "percent" },
        reloads: false,
        reason: "What has arrived is kept elsewhere, so this share is missing there, used or not; \
            a busy server has a few percent of its cache under way.",
    }
    collapse_wait_ms_max: u32 = "10s" {
        doc: "How long a request waits for another one's fetch of the same URL to make progress \
            before it fetches for itself.",
        kind: Kind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "One origin connection that hangs must not hold up everyone who wants that page.",
    }
    head_bytes_max: u32 = "32KiB" {
        doc: "Largest head of a request: request line and fields.",
        kind: Kind::Bytes { min: KIB, max: MIB },
        reloads: true,
        reason: "Browsers with many cookies need 16 KiB; a larger head is answered with 431.",
    }
    field_count_max: u16 = "100" {
        doc: "Most fields in the head of a request.",
        kind: Kind::Count { min: 8, max: 10_000, unit: "fields" },
        reloads: true,
        reason: "Browsers send about 20; each costs the origin time too. More are answered with \
            431.",
    }
    target_bytes_max: u32 = "8KiB" {
        doc: "Longest target of a request.",
        kind: Kind::Bytes { min: 64, max: MIB },
        reloads: true,
        reason: "RFC 9110 §4.1 asks for at least 8000 bytes; a longer one is answered with 414.",
    }
    head_ms_max: u32 = "10s" {
        doc: "Time for the whole head of a request, from its first byte.",
        kind: Kind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "A client that sends a byte now and then must not hold a connection for ever.",
    }
    idle_ms_max: u32 = "60s" {
        doc: "Time that a connection may wait between two requests.",
        kind: Kind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "Browsers come back within seconds; an idle connection costs little but not \
            nothing.",
    }
    body_bytes_max: u64 = "16GiB" {
        doc: "Largest body of a request; it is passed on as it arrives and never held.",
        kind: Kind::Bytes { min: 0, max: 1024 * TIB },
        reloads: true,
        reason: "Room for large uploads; a larger one is answered with 413.",
    }
    body_rate_min: u64 = "240" {
        doc: "Least bytes a second, in either direction, that a client must keep up while a body \
            is under way, averaged after the grace time; 0: no limit.",
        kind: Kind::Count { min: 0, max: 1 << 30, unit: "bytes a second" },
        reloads: true,
        reason: "What a modem of 2400 bits a second does; who is slower holds memory for nothing.",
    }
    body_grace_ms: u32 = "20s" {
        doc: "Time before the least rate counts.",
        kind: Kind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "A mobile connection may stand still for some seconds.",
    }
    connections_per_worker_max: u32 = "8192" {
        doc: "Most client connections of one worker; further ones are closed.",
        kind: Kind::Count { min: 1, max: 1_000_000, unit: "connections" },
        reloads: true,
        reason: "Bounds memory and descriptors; the limit of the process for open files has to \
            allow it.",
    }
    connections_per_address_max: u32 = "4096" {
        doc: "Most client connections from one address to one worker; further ones are closed.",
        kind: Kind::Count { min: 1, max: 1_000_000, unit: "connections" },
        reloads: true,
        reason: "One address cannot take all places, yet a whole company behind one address \
            finds enough.",
    }
    requests_per_connection_max: u32 = "1000000" {
        doc: "Requests after which a connection is closed.",
        kind: Kind::Count { min: 1, max: u32::MAX as u64, unit: "requests" },
        reloads: true,
        reason: "Lets long connections move to another worker at times, too rarely to cost \
            anything.",
    }
    connection_bytes_max: u32 = "256KiB" {
        doc: "Most buffer memory of one client connection; an idle one has none.",
        kind: Kind::Bytes { min: 16 * KIB, max: 64 * MIB },
        reloads: true,
        reason: "Has to hold a head in each direction; what more arrives waits in the kernel.",
    }
    shutdown_ms_max: u32 = "30s" {
        doc: "Time that requests under way get to finish when the server stops.",
        kind: Kind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "Supervisors kill after 90 seconds or less.",
    }
    origin_connect_ms_max: u32 = "3s" {
        doc: "Time to open a connection to the origin; then the client gets 504.",
        kind: Kind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "Allows for one lost packet, which is sent again after a second.",
    }
    origin_address_ms_max: u32 = "10s" {
        doc: "How long the addresses of an origin's name are used for new connections before the \
            name is resolved anew, for which they wait; sooner if none of them takes a \
            connection. 0: it is resolved for each connection. Of several addresses each takes its \
            turn, within the resolver's order of families.",
        kind: Kind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "The system does not tell how long its answer holds; who moves an origin serves \
            at the old address for longer than this. Connections that are open stay where they \
            are.",
    }
    origin_stale_address_ms_max: u32 = "1h" {
        doc: "How much longer they are used for new connections if the name cannot be resolved \
            anew, or not within 1.5 seconds or half of `origin_connect_ms_max`.",
        kind: Kind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "A resolver that fails must not take origins with it that work; an hour is time \
            to mend it.",
    }
    origin_first_byte_ms_max: u32 = "30s" {
        doc: "Time from the end of the request to the head of the origin's response; then the \
            client gets 504.",
        kind: Kind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "Longer than slow pages take, shorter than people wait.",
    }
    origin_idle_ms_max: u32 = "30s" {
        doc: "Time without a byte in the middle of the origin's response; then it counts as \
            broken off.",
        kind: Kind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "An origin that died without a word must not hold connections for ever.",
    }
    origin_connections_max: u32 = "256" {
        doc: "Most connections of one worker to one origin; further requests wait.",
        kind: Kind::Count { min: 1, max: 65_536, unit: "connections" },
        reloads: true,
        reason: "An origin that is slow already is not helped by more requests at once.",
    }
    origin_pool_idle_count_max: u32 = "64" {
        doc: "Most idle connections that one worker keeps to one origin.",
        kind: Kind::Count { min: 0, max: 65_536, unit: "connections" },
        reloads: true,
        reason: "Enough for a burst; each holds a thread or a process in simple origins.",
    }
    origin_pool_idle_ms_max: u32 = "60s" {
        doc: "Time that an idle connection to an origin is kept.",
        kind: Kind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "Below the 75 seconds after which common origins close it themselves.",
    }
    access_log: AccessLog = "off" {
        doc: "File that gets a line for each request; `-` is standard output, `off` is none.",
        kind: Kind::Text { hint: "PATH|-|off", expected: "a file, \"-\" or \"off\"" },
        reloads: true,
        reason: "It costs more than a hit does; switch it on where it is read.",
    }
    access_log_format: AccessLogFormat = "json" {
        doc: "How a line of the access log looks.",
        kind: Kind::Choice(FORMAT_WORDS),
        reloads: true,
        reason: "JSON has every field; `combined` is what older log tools read.",
    }
    access_log_sample: u32 = "1" {
        doc: "Logs one of so many requests.",
        kind: Kind::Count { min: 1, max: 1_000_000, unit: "requests" },
        reloads: true,
        reason: "One in a hundred shows the same shares at a hundredth of the cost.",
    }
    lock_profile: bool = "false" {
        doc: "Whether what happens at the server's own locks is recorded from the start; `forebay \
            locks on` and `off` switch it while the server runs.",
        kind: Kind::Bool,
        reloads: false,
        reason: "It costs some tens of nanoseconds each time that a lock is taken; a hit takes \
            none.",
    }
    lock_profile_stacks: u32 = "0" {
        doc: "Of how many waits and tries in vain of each thread one is recorded with its callers, \
            while locks are recorded; `forebay locks on --stacks` sets it while the server runs. \
            0: none.",
        kind: Kind::Count { min: 0, max: 1_000_000_000, unit: "waits and tries" },
        reloads: false,
        reason: "The places where locks are taken say enough until one of them has many callers.",
    }
    lock_profile_size: u64 = "3MiB" {
        doc: "Size of the file `PORT.locks` in the runtime directory, in which it is recorded; 0: \
            there is no such file, and nothing can be recorded.",
        kind: Kind::Bytes { min: 0, max: 64 * MIB },
        reloads: false,
        reason: "Room for 47 threads, the workers and some others; each more needs 59 KiB. The \
            runtime directory is memory on most systems.",
    }
    log_level: LogLevel = "info" {
        doc: "Least important event that is logged to standard error.",
        kind: Kind::Choice(LEVEL_WORDS),
        reloads: true,
        reason: "At `info` the server is silent about single requests.",
    }
}

settings! {
    /// Settings that each route can have for itself.
    RouteSettings, ROUTE, Scope::Route;

    cache: bool = "true" {
        doc: "Whether responses are stored and served from the cache.",
        kind: Kind::Bool,
        reloads: true,
        reason: "What must not be stored is best said by the origin; this is for those that do \
            not.",
    }
    default_freshness_s: u32 = "0" {
        doc: "How long a response is fresh that says nothing about it and allows no heuristic.",
        kind: Kind::Seconds { min: 0, max: YEAR_S },
        reloads: true,
        reason: "0: it is validated each time. No guess is right for every site.",
    }
    heuristic_percent: u8 = "10" {
        doc: "Share of the time since its last change for which a response is fresh that says \
            nothing about it; 0: no heuristic.",
        kind: Kind::Count { min: 0, max: 100, unit: "percent" },
        reloads: true,
        reason: "RFC 9111 §4.2.2 names 10 % as typical.",
    }
    heuristic_s_max: u32 = "1d" {
        doc: "Limit of the heuristic.",
        kind: Kind::Seconds { min: 0, max: YEAR_S },
        reloads: true,
        reason: "A page that rested for years may still change tomorrow.",
    }
    object_bytes_max: u64 = "16MiB" {
        doc: "Largest body that is stored; larger ones pass through.",
        kind: Kind::Bytes { min: 0, max: 64 * TIB },
        reloads: true,
        reason: "A few films would push out every page. The share for arriving responses limits \
            it too.",
    }
    tag_fields: TagFields = "surrogate-key,cache-tag,xkey,cache-groups" {
        doc: "Fields of the origin's responses that tags are read from, by which responses can be \
            purged together: words between blanks in `surrogate-key`, between blanks or commas in \
            `xkey`, between commas in `cache-tag`, and the strings of `cache-groups` (RFC 9875).",
        kind: Kind::Texts { expected: "an array of surrogate-key, cache-tag, xkey, cache-groups" },
        reloads: true,
        reason: "Origins that were written for other caches find their field; what an origin does \
            not send costs nothing.",
    }
    tags_shown: bool = "false" {
        doc: "Whether clients get the `tag_fields`; `cache-groups` they always get.",
        kind: Kind::Bool,
        reloads: true,
        reason: "They are for caches on the way and say how a site is built. Another cache in \
            front of this one may need them.",
    }
    purge_from: AddressList = "" {
        doc: "Addresses of clients, or networks such as `10.0.0.0/8`, that may send `PURGE` \
            requests: see [operations.md](operations.md). Without any, PURGE is forwarded as a \
            method like others. Purges by tags, which reach the whole site, need it for the path \
            `/` too.",
        kind: Kind::Texts { expected: "an array of addresses or networks, such as \
            [\"127.0.0.1\", \"10.0.0.0/8\"]" },
        reloads: true,
        reason: "Who may purge can load the origin with everybody's requests.",
    }
}

/// `rules` of the server, a site or a route.
pub(crate) const RULES: Setting = Setting {
    name: "rules",
    kind: Kind::Texts { expected: "a file, or an array of files, such as [\"headers.conf\"]" },
    default: Some(""),
    scope: Scope::Everywhere,
    reloads: true,
    doc: "Files of header rules, relative to the configuration file: those of the server run \
        first, then those of the site, then those of the route. As a flag it can be given more \
        than once.",
    reason: "See [rules.md](rules.md).",
};

/// Settings of a site that are not in a struct of their own.
pub(crate) const SITE: &[Setting] = &[NAME, NAMES, ORIGIN];

/// `name` of a site.
pub(crate) const NAME: Setting = Setting {
    name: "name",
    kind: Kind::Text { hint: "NAME", expected: "a word of printable ASCII letters" },
    default: None,
    scope: Scope::Site,
    reloads: true,
    doc: "What the site is called in logs and in the cache; another name is another, empty cache.",
    reason: "It stands in the key of each stored response.",
};

/// `names` of a site.
pub(crate) const NAMES: Setting = Setting {
    name: "names",
    kind: Kind::Texts { expected: "an array of host names, such as [\"example.org\"]" },
    default: None,
    scope: Scope::Site,
    reloads: true,
    doc: "Hosts that the site serves, without port: `example.org`, `*.example.org` for every \
        name below it, or `*` for every host that no other site serves.",
    reason: "A host that no site serves is answered with 421: Forebay is never an open proxy.",
};

/// `origin` of a site.
pub(crate) const ORIGIN: Setting = Setting {
    name: "origin",
    kind: Kind::Text { hint: "URL", expected: "http://HOST or http://HOST:PORT" },
    default: None,
    scope: Scope::Site,
    reloads: true,
    doc: "Where responses come from.",
    reason: "TLS to origins is not there yet, so `https` is refused rather than sent in the clear.",
};

/// `path_prefix` of a route.
pub(crate) const PATH_PREFIX: Setting = Setting {
    name: "path_prefix",
    kind: Kind::Text { hint: "PATH", expected: "a path that begins with /" },
    default: None,
    scope: Scope::OneRoute,
    reloads: true,
    doc: "Paths that the route is for; the longest prefix that matches wins. `/static/` matches \
        what is below it, `/static` matches itself and what is below it, neither matches \
        `/statics`. Compared with the path as it is forwarded: percent-encoding is not decoded.",
    reason: "A prefix ends where a path segment ends, so that a route never takes in a stranger.",
};

/// Every setting, in the order of the documents.
pub fn all() -> impl Iterator<Item = &'static Setting> + Clone {
    SERVER.iter().chain(ROUTE).chain([&RULES]).chain(SITE).chain([&PATH_PREFIX])
}

/// The settings that can stand before the first section, and so can be flags.
pub(crate) fn top_level() -> impl Iterator<Item = &'static Setting> + Clone {
    SERVER.iter().chain(ROUTE).chain([&RULES])
}
