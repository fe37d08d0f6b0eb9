//! The only table of settings: the source of types, defaults, limits, flags, `config --defaults`
//! and `docs/settings.md`.

use forebay_http::policy::cache_status::CacheName;
use forebay_http::policy::freshness::StatusFreshness;
use forebay_http::policy::targeted::TargetList;

use super::acme::{ACME_CHALLENGE_WORDS, AcmeChallenge, AcmeContacts, AcmeDir, AcmeDirectory};
use super::error_pages::ErrorPages;
use super::files::{FallbackFile, FileTypes, FilesDirectory, IndexNames};
use super::health::HealthPath;
use super::hsts::StrictTransportSecurity;
use super::listen::{ListenAddresses, TlsAddresses};
use super::lists::{
    AddressList, CompressCodings, ConcurrencyLimits, ConnectPorts, ErrorStatuses, FieldNameList,
    ForwardedFields, KeyCookies, KeyFields, LanguageList, MediaTypes, NamePatterns, ParameterNames,
    RateLimits, TagFields, UpgradeProtocols,
};
use super::origin_http2::{ORIGIN_HTTP2_WORDS, OriginHttp2};
use super::origin_tls::TlsName;
use super::origin_tls::identity::{KeyPins, OriginFile};
use super::origins::{AddedPrefix, BALANCE_WORDS, OriginHost};
use super::outliers::OutlierFactor;
use super::proxy_protocol::{PROXY_PROTOCOL_WORDS, ProxyProtocol};
use super::setting::{RawValue, Readable, Setting, SettingKind, SettingScope, ValueProblem};
use super::tls::client_auth::{
    CERTIFICATE_DEMAND_WORDS, CLIENT_AUTH_WORDS, CertificateDemand, ClientAuthMode,
};
use super::tls::{FileList, TLS_PROFILE_WORDS, TlsProfile};
use super::value::{
    AMBIGUOUS_PATH_WORDS, AccessLog, AccessLogFormat, AdminAddress, AmbiguousPath, BasicAuth,
    CacheDir, ContentType, FORMAT_WORDS, FixedAnswer, LEVEL_WORDS, LogLevel, ORIGIN_EXCESS_WORDS,
    OriginExcess, Realm, Redirect, RuntimeDir, SET_COOKIE_WORDS, SetCookie, SignedUrls,
};
use super::zone::Zone;
use crate::dns::DnsServers;
use crate::limits::GROUP_ORIGINS_MAX;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const DAY_MS: u64 = 86_400_000;
const YEAR_S: u64 = 31_536_000;

/// A struct that has a field for each setting of a table.
pub(crate) trait Settings {
    /// Reads the value of one setting, which must be in this struct's table.
    fn set(&mut self, setting: &Setting, raw: RawValue<'_>) -> Result<(), ValueProblem>;

    /// Returns the settings whose values differ in `other`.
    fn differences(&self, other: &Self) -> Vec<&'static Setting>;
}

/// Declares a struct with a field for each setting, and the table of these settings.
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
            fn set(&mut self, setting: &Setting, raw: RawValue<'_>) -> Result<(), ValueProblem> {
                match setting.name {
                    $( stringify!($name) => self.$name = Readable::read(raw, setting)?, )*
                    other => unreachable!("the table of this struct has no setting {other}"),
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
    let read = setting.and_then(|setting| T::read(RawValue::Flag(setting.default?), setting).ok());
    read.expect("the default of each setting is valid for its type and limits")
}

settings! {
    /// Settings of the whole server.
    ServerSettings, SERVER, SettingScope::Server;

    listen: ListenAddresses = "127.0.0.1:8080" {
        doc: "Address and port that clients connect to, or several of them, such as \
            `[\"0.0.0.0:80\", \"[::]:80\"]`. The port of the first one is in the names of the \
            server's files in `runtime_dir`.",
        kind: SettingKind::Text {
            hint: "IP:PORT,…",
            expected: "an IP address and a port, or an array of at most 4 of them",
        },
        reloads: false,
        reason: "A server that is only being tried out must not be open to the network.",
    }
    listen_tls: TlsAddresses = "" {
        doc: "Addresses and ports for clients with TLS; see [tls.md](tls.md). Every site needs a \
            certificate then: `tls_cert` and `tls_key`.",
        kind: SettingKind::Texts {
            expected: "an array of at most 4 addresses with ports, such as [\"0.0.0.0:443\"]",
        },
        reloads: false,
        reason: "There is no certificate that could be a default.",
    }
    tls_profile: TlsProfile = "intermediate" {
        doc: "Versions of TLS that clients may use: `intermediate` permits 1.2 and 1.3, `modern` \
            only 1.3. These are the profiles of the same names in Mozilla's guidelines for \
            servers.",
        kind: SettingKind::Choice(TLS_PROFILE_WORDS),
        reloads: true,
        reason: "Programs on old systems do not support TLS 1.3; with the cipher suites of this \
            profile, TLS 1.2 has no known weakness.",
    }
    tls_http2: bool = "true" {
        doc: "Whether clients may speak HTTP/2 over TLS. Clients choose the protocol during the \
            handshake (ALPN).",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "Browsers load a page over one connection instead of six. A stream has the limits \
            of a connection, and hostile clients have a budget, so HTTP/2 uses no more memory.",
    }
    tls_watch_ms: u32 = "10s" {
        doc: "How often the files of `tls_cert` and `tls_key` are checked for changes; changed \
            files are used once they have stayed the same for this time. 0: only a reload reads \
            them.",
        kind: SettingKind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "A certificate is renewed days before it expires. The check costs two system calls \
            for each certificate; times below a second are the same as a second.",
    }
    acme_terms_agreed: bool = "false" {
        doc: "Whether you agree to the terms of service of the certificate authority at \
            `acme_directory`. Required by `acme`; see [acme.md](acme.md).",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "Only you can agree to a contract (RFC 8555 §7.3.3).",
    }
    acme_directory: AcmeDirectory = "https://acme-v02.api.letsencrypt.org/directory" {
        doc: "URL of the directory of the certificate authority that issues certificates by ACME. \
            The default is Let's Encrypt; \
            `https://acme-staging-v02.api.letsencrypt.org/directory` is its test authority.",
        kind: SettingKind::Text { hint: "URL", expected: "an https URL" },
        reloads: true,
        reason: "Let's Encrypt is free, needs no registration, and every browser trusts it.",
    }
    acme_ca: FileList = "" {
        doc: "PEM files with the authorities that may issue the certificate of the server at \
            `acme_directory`, in place of those of the system, for a private authority. The paths \
            are relative to the configuration file.",
        kind: SettingKind::Texts {
            expected: "an array of at most 4 files, such as [\"internal-ca.pem\"]",
        },
        reloads: true,
        reason: "There is no setting that switches verification off.",
    }
    acme_contact: AcmeContacts = "" {
        doc: "Mail addresses that the certificate authority gets with a new account.",
        kind: SettingKind::Texts {
            expected: "an array of at most 4 mail addresses, such as [\"ops@example.org\"]",
        },
        reloads: true,
        reason: "Let's Encrypt sends no mail; other authorities may require an address.",
    }
    acme_dir: AcmeDir = "auto" {
        doc: "Directory for the ACME account, certificates and their keys. `auto` is `acme` in \
            `$STATE_DIRECTORY`, in `$XDG_STATE_HOME/forebay`, or in `$HOME/.local/state/forebay`, \
            the first of these variables that is set. Several servers may share the directory. A \
            relative path is relative to the configuration file.",
        kind: SettingKind::Text { hint: "DIR", expected: "auto or a directory" },
        reloads: true,
        reason: "The directory is created with mode 0700. An existing one must belong to the \
            server's user and be closed to other users (`chmod 0700`).",
    }
    acme_retry_ms: u32 = "10m" {
        doc: "Time after a failed order of a certificate until the next one. It doubles with each \
            further failure, up to 6 hours; the certificate authority can ask for more, up to a \
            day.",
        kind: SettingKind::Milliseconds { min: 1000, max: 21_600_000 },
        reloads: true,
        reason: "Let's Encrypt permits 5 failed validations of a name in an hour.",
    }
    config_watch_ms: u32 = "0" {
        doc: "How often the files of the configuration are checked for changes: configuration \
            files, rules, error pages, files of `origin_ca`, `origin_tls_cert`, `origin_tls_key` \
            and `acme_ca`, and files with users, keys of URLs or values. Changed files are loaded, \
            as by a reload, once they have stayed the same for this time. 0: only a reload reads \
            them. See [configuration.md](configuration.md#reload-after-a-change).",
        kind: SettingKind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "A file that is saved before it is complete must not be in use at once, so an \
            operator has to choose this. The check costs one system call for each file; times \
            below a second are the same as a second.",
    }
    tls_handshake_ms_max: u32 = "10s" {
        doc: "Time for a client's TLS handshake, from the moment at which the connection is \
            accepted.",
        kind: SettingKind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "A handshake takes two round trips; this allows for lost packets.",
    }
    tls_handshakes_max: u32 = "256" {
        doc: "Largest number of TLS handshakes in progress in one worker; further handshakes \
            wait. One client network (an IPv4 address or an IPv6 prefix) gets at most an eighth \
            of them.",
        kind: SettingKind::Count { min: 1, max: 1_000_000, unit: "handshakes" },
        reloads: true,
        reason: "A handshake holds 24 KiB, and at most 75 KiB. 256 of them, each with two round \
            trips of 100 ms, are 1,280 handshakes a second.",
    }
    admin: AdminAddress = "auto" {
        doc: "Where the admin interface listens: a loopback address and port, the path of a Unix \
              socket, or `auto` for the socket `PORT.admin` in the runtime directory, where PORT \
              is the port that clients connect to.",
        kind: SettingKind::Text {
            hint: "IP:PORT|PATH",
            expected: "auto, a loopback address and port, or a path with a /",
        },
        reloads: false,
        reason: "Any program that can reach the admin interface controls the server, so addresses \
            that other machines can reach are refused.",
    }
    runtime_dir: RuntimeDir = "auto" {
        doc: "Directory for the counter file, the lock profile, the admin socket, the file with \
            the address of the admin interface and the socket for upgrades; \
            `auto` is `$XDG_RUNTIME_DIR/forebay`, or `/tmp/forebay-UID` if that variable is \
            not set.",
        kind: SettingKind::Text { hint: "DIR", expected: "auto or a directory" },
        reloads: false,
        reason: "The directory is created with mode 0700. An existing one must belong to the \
            server's user and be closed to other users (`chmod 0700`).",
    }
    workers: usize = "0" {
        doc: "Number of workers: threads that serve, each pinned to a processor; 0: one worker for \
            each processor that the process may use.",
        kind: SettingKind::Count { min: 0, max: 1024, unit: "threads" },
        reloads: false,
        reason: "More threads than processors only wait for each other.",
    }
    cache_size: u64 = "256MiB" {
        doc: "Memory for stored responses, including the tables for finding them.",
        kind: SettingKind::Bytes { min: 4 * MIB, max: 256 * GIB },
        reloads: false,
        reason: "Below the minimum, a single picture would evict everything else; each worker adds \
            to the minimum. Above the maximum, the location of a stored response would need more \
            bits.",
    }
    cache_dir: CacheDir = "none" {
        doc: "Directory for the cache, which then survives restart, kill -9 and upgrade of the \
            server until the machine reboots; best on a file system in memory. `none`: the cache \
            ends with the process. A second server on the same directory is refused.",
        kind: SettingKind::Text { hint: "DIR", expected: "none or a directory" },
        reloads: false,
        reason: "The directory is created with mode 0700. An existing one must belong to the \
            server's user and be closed to other users (`chmod 0700`).",
    }
    cache_record_bytes: u32 = "1KiB" {
        doc: "Expected mean size of a stored response, including its key and head.",
        kind: SettingKind::Bytes { min: 64, max: 16 * MIB },
        reloads: false,
        reason: "The expected number of responses decides the sizes of the index (8 bytes for each \
            response) and of the key index (128 bytes for each). If responses are smaller, or have \
            many tags, the indexes fill up before the memory does; if responses are larger, a \
            higher value leaves more memory for them.",
    }
    variants_max: u32 = "64" {
        doc: "Largest number of stored responses of one URL that differ in the fields that `Vary` \
            names, or in the values of these fields. A further response replaces the one with \
            the fewest uses.",
        kind: SettingKind::Count { min: 1, max: 1024, unit: "variants" },
        reloads: false,
        reason: "A client can invent values of a field that `Vary` names. With a higher limit, \
            such responses take more room before they replace one another.",
    }
    growing_percent_max: u8 = "12" {
        doc: "Share of the cache that is reserved for responses still arriving; beyond it, \
            responses pass through without being stored.",
        kind: SettingKind::Count { min: 1, max: 90, unit: "percent" },
        reloads: false,
        reason: "The share is reserved even while it is unused. On a busy server, arriving \
            responses need a few percent of the cache.",
    }
    head_bytes_max: u32 = "32KiB" {
        doc: "Largest head of a request: request line and fields.",
        kind: SettingKind::Bytes { min: KIB, max: MIB },
        reloads: true,
        reason: "Browsers with many cookies need 16 KiB; a head over the limit is answered with \
            431.",
    }
    field_count_max: u16 = "100" {
        doc: "Largest number of fields in the head of a request.",
        kind: SettingKind::Count { min: 8, max: 10_000, unit: "fields" },
        reloads: true,
        reason: "Browsers send about 20 fields, and each costs the origin time too; a request with \
            more than the limit is answered with 431.",
    }
    target_bytes_max: u32 = "8KiB" {
        doc: "Longest target of a request.",
        kind: SettingKind::Bytes { min: 64, max: MIB },
        reloads: true,
        reason: "RFC 9110 §4.1 asks for at least 8000 bytes; a target over the limit is answered \
            with 414.",
    }
    head_ms_max: u32 = "10s" {
        doc: "Time for the whole head of a request, from its first byte.",
        kind: SettingKind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "A client that sends a byte now and then must not hold a connection forever.",
    }
    idle_ms_max: u32 = "60s" {
        doc: "Longest time that a connection may idle between two requests.",
        kind: SettingKind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "Browsers send their next request within seconds; an idle connection costs little, \
            but not nothing.",
    }
    body_rate_min: u64 = "240" {
        doc: "Lowest rate at which a client must send or receive a body. A client may lag behind \
            this rate by at most `body_grace_ms` of waiting; earlier bytes that moved faster do \
            not make up for it. 0: no limit.",
        kind: SettingKind::Count { min: 0, max: 1 << 30, unit: "bytes a second" },
        reloads: true,
        reason: "The rate of a modem with 2400 bits a second; a slower client holds memory for no \
            gain.",
    }
    body_grace_ms: u32 = "20s" {
        doc: "Longest time for which a client may lag behind `body_rate_min`.",
        kind: SettingKind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "A mobile connection may stall for several seconds.",
    }
    connections_per_worker_max: u32 = "8192" {
        doc: "Largest number of client connections of one worker; beyond it, each new connection \
            closes an idle one, or is closed itself if none is idle.",
        kind: SettingKind::Count { min: 1, max: 1_000_000, unit: "connections" },
        reloads: true,
        reason: "Bounds memory and descriptors; the process's limit on open files must allow that \
            many.",
    }
    connections_per_address_max: u32 = "4096" {
        doc: "Largest number of client connections from one address, or one IPv6 network, to one \
            worker; beyond it, each new connection closes an idle one of them, or is closed \
            itself if none is idle.",
        kind: SettingKind::Count { min: 1, max: 1_000_000, unit: "connections" },
        reloads: true,
        reason: "One address cannot take all connections, yet the limit is enough for a company \
            behind one address.",
    }
    ipv6_network_bits: u8 = "64" {
        doc: "Length of the prefix of IPv6 addresses that count as one client wherever clients \
            share a limit.",
        kind: SettingKind::Count { min: 32, max: 128, unit: "bits" },
        reloads: true,
        reason: "A host with IPv6 usually has a prefix of 64 bits, and so as many addresses as it \
            likes.",
    }
    rate_limit_entries: u32 = "65536" {
        doc: "Number of clients or field values whose requests the rate limits (`rate_limit`) of \
            all workers together remember, in 8 bytes each. See [rate-limits.md](rate-limits.md).",
        kind: SettingKind::Count { min: 1024, max: 1 << 27, unit: "clients or field values" },
        reloads: false,
        reason: "A client needs an entry only while it has used a part of its limit. If there are \
            more such clients than entries, those with about the fewest requests start from zero \
            (`rate_limit_entries_replaced_total`).",
    }
    trusted_proxies: AddressList = "" {
        doc: "Addresses, or networks such as `10.0.0.0/8`, of proxies in front of this server that \
            state truly the client's address in `X-Forwarded-For`, the scheme in \
            `X-Forwarded-Proto`, and the request's ID in `X-Request-Id`. See \
            [proxies.md](proxies.md).",
        kind: SettingKind::Texts { expected: "an array of addresses or networks, such as \
            [\"127.0.0.1\", \"10.0.0.0/8\"]" },
        reloads: true,
        reason: "Any client can send these fields, so only the operator can say whose are true.",
    }
    abandoned_fetches_per_network_max: u32 = "16" {
        doc: "Number of fetches of one worker that continue although their clients have left, for \
            each client network; beyond it, the oldest of them is stopped.",
        kind: SettingKind::Count { min: 0, max: 1_000_000, unit: "fetches" },
        reloads: true,
        reason: "A client that has left usually comes back for the same page, but a client that \
            requests and leaves must not make the origin work for nothing.",
    }
    requests_per_connection_max: u32 = "1000000" {
        doc: "Number of requests after which a client connection is closed.",
        kind: SettingKind::Count { min: 1, max: u32::MAX as u64, unit: "requests" },
        reloads: true,
        reason: "Long-lived connections end now and then, so that their clients may get another \
            worker; this happens too rarely to cost anything.",
    }
    http2: bool = "false" {
        doc: "Whether clients may speak HTTP/2 without TLS, by prior knowledge: a connection that \
            begins with the preface of HTTP/2.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "Browsers speak HTTP/2 over TLS only; without TLS it is for other proxies and for \
            gRPC.",
    }
    connection_bytes_max: u32 = "256KiB" {
        doc: "Largest buffer memory of one client connection; an idle connection has none.",
        kind: SettingKind::Bytes { min: 16 * KIB, max: 64 * MIB },
        reloads: true,
        reason: "Must hold a head in each direction; further bytes wait in the kernel.",
    }
    output_bytes_max: u64 = "4MiB" {
        doc: "Largest memory of one worker for responses whose clients do not read them, not \
            counting bodies that are sent from the cache. While this memory is used up, each \
            connection queues one response at a time; of a body that is not stored, it queues \
            one piece of at most 128 KiB, and keeps its origin connection. Over HTTP/2, see \
            [http2.md](http2.md#memory-of-clients-that-do-not-read).",
        kind: SettingKind::Bytes { min: 0, max: 64 * GIB },
        reloads: true,
        reason: "Room for 128 clients with 32 KiB each; if many more clients do not read, they are \
            slow or hostile, and the kernel buffers for them too.",
    }
    shutdown_ms_max: u32 = "30s" {
        doc: "Time for requests in flight to finish when the server stops.",
        kind: SettingKind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "A supervisor kills a server that takes too long to stop, typically after 90 \
            seconds or less.",
    }
    origin_address_ms_max: u32 = "10s" {
        doc: "How long the resolved addresses of an origin are used for new connections. After \
            this time, or earlier if none of the addresses accepts a connection, new connections \
            wait until the name is resolved again. 0: every connection resolves the name. Several \
            addresses take turns, within the resolver's order of address families.",
        kind: SettingKind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "The system's resolver does not say how long an answer is valid. To move an \
            origin, keep serving at the old address for longer than this; open connections stay \
            there.",
    }
    origin_stale_address_ms_max: u32 = "1h" {
        doc: "How long addresses are still used after `origin_address_ms_max` has passed, if the \
            name cannot be resolved, or if resolving it takes longer than 1.5 seconds or half of \
            `origin_connect_ms_max`, whichever is shorter.",
        kind: SettingKind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "A resolver that fails must not take working origins down with it; an hour \
            leaves time to repair it.",
    }
    dns_servers: DnsServers = "" {
        doc: "Name servers, such as `[\"127.0.0.1:8600\"]`, that are asked for the addresses of \
            origins and for SRV records, one after the other until one answers; the port is 53 if \
            not given. Empty: the system's resolver finds addresses, and the servers of \
            `/etc/resolv.conf` are asked for SRV records. With these servers, addresses are used \
            for as long as the answer says, from 1 second to `origin_address_ms_max`; \
            `/etc/hosts` is not used.",
        kind: SettingKind::Texts { expected: "an array of up to 8 IP addresses, with or without a \
            port" },
        reloads: true,
        reason: "The system's resolver also knows names that are not in DNS.",
    }
    origin_connections_max: u32 = "256" {
        doc: "Largest number of connections of one worker to one origin; further requests wait. \
            One client network gets at most eight ninths of the connections.",
        kind: SettingKind::Count { min: 1, max: 65_536, unit: "connections" },
        reloads: true,
        reason: "More requests at the same time do not help an origin that is slow already.",
    }
    origin_retry_percent: u8 = "10" {
        doc: "Largest share of requests that are sent once more: to another origin of their site \
            or route, after the first one reset the connection or did not answer in time; or to \
            the same origin, after it reset the connection. All origins of a site and its routes \
            share the limit. Only requests that may be repeated (GET, HEAD, PUT, DELETE and \
            OPTIONS without content) are sent again. One retry a second is always allowed, unless \
            the setting is 0.",
        kind: SettingKind::Count { min: 0, max: 100, unit: "percent" },
        reloads: true,
        reason: "Without a limit, retries double the load when the origins are already in trouble.",
    }
    tunnels_per_worker_max: u32 = "4096" {
        doc: "Largest number of tunnels of one worker (`upgrade_protocols`).",
        kind: SettingKind::Count { min: 0, max: 1_000_000, unit: "tunnels" },
        reloads: true,
        reason: "A tunnel takes a client connection for a long time; half of \
            `connections_per_worker_max` is left to requests.",
    }
    tunnels_per_address_max: u32 = "1024" {
        doc: "Largest number of tunnels of one worker from one address, or one IPv6 network.",
        kind: SettingKind::Count { min: 0, max: 1_000_000, unit: "tunnels" },
        reloads: true,
        reason: "One address cannot take all tunnels, yet the limit is enough for a company \
            behind one address.",
    }
    tunnel_drain_ms_max: u32 = "10s" {
        doc: "How long tunnels stay open when the server stops, or another process takes over; at \
            most `shutdown_ms_max`.",
        kind: SettingKind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "Most tunnels never end by themselves, so a longer wait would only delay the stop.",
    }
    compressions_max: u32 = "32" {
        doc: "Largest number of responses that one worker compresses at the same time \
            (`compress`); a further one is stored and sent as it arrives. With several sites, each \
            may take half of them. 0: none.",
        kind: SettingKind::Count { min: 0, max: 4096, unit: "responses" },
        reloads: true,
        reason: "Each holds up to 4 MiB, in addition to `cache_size`. In each turn of its event \
            loop, a worker compresses at most 4 KiB, however many responses there are.",
    }
    decompressions_max: u32 = "32" {
        doc: "Largest number of responses that one worker decompresses at the same time \
            (`decompress`); a further one keeps its coding and is not stored. One client network \
            may take a quarter of them, responses that are not stored may take half, and with \
            several sites, each may take half.",
        kind: SettingKind::Count { min: 1, max: 4096, unit: "responses" },
        reloads: true,
        reason: "Each holds up to 16 MiB (br; zstd: 8 MiB, gzip: 64 KiB), in addition to \
            `cache_size`. In each turn of its event loop, a worker decodes a piece of one response \
            (gzip: 16 KiB, zstd: at most 128 KiB, br: at most 16 MiB), however many responses \
            there are.",
    }
    origin_pool_idle_count_max: u32 = "64" {
        doc: "Largest number of idle connections that one worker keeps to one origin.",
        kind: SettingKind::Count { min: 0, max: 65_536, unit: "connections" },
        reloads: true,
        reason: "Enough for a burst; a simple origin needs a thread or a process for each of its \
            connections.",
    }
    origin_pool_idle_ms_max: u32 = "60s" {
        doc: "How long an idle connection to an origin is kept.",
        kind: SettingKind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "Below the 75 seconds after which common origins close the connection themselves.",
    }
    access_log_format: AccessLogFormat = "json" {
        doc: "Format of a line in the access logs.",
        kind: SettingKind::Choice(FORMAT_WORDS),
        reloads: true,
        reason: "JSON has every field; older log tools read `combined`.",
    }
    access_log_sample: u32 = "1" {
        doc: "Each access log gets one in this many of its requests; 1: every request.",
        kind: SettingKind::Count { min: 1, max: 1_000_000, unit: "requests" },
        reloads: true,
        reason: "A sample of one in a hundred shows the same proportions at a hundredth of the \
            cost.",
    }
    lock_profile: bool = "false" {
        doc: "Whether the server profiles its own locks from the start; `forebay locks on` and \
            `off` switch this while the server runs.",
        kind: SettingKind::Bool,
        reloads: false,
        reason: "Profiling costs some tens of nanoseconds for each acquisition of a lock; a hit \
            takes no lock.",
    }
    lock_profile_stacks: u32 = "0" {
        doc: "While locks are profiled, records the call stack of one in this many waits and \
            failed try-locks of each thread; 0: none. `forebay locks on --stacks` sets it while \
            the server runs.",
        kind: SettingKind::Count { min: 0, max: 1_000_000_000, unit: "waits and failed try-locks" },
        reloads: false,
        reason: "The call sites of a lock are enough, unless one of them has many callers.",
    }
    lock_profile_size: u64 = "3MiB" {
        doc: "Size of the lock profile, the file `PORT.locks` in the runtime directory; 0: there \
            is no file, and locks cannot be profiled.",
        kind: SettingKind::Bytes { min: 0, max: 64 * MIB },
        reloads: false,
        reason: "The default has room for 47 threads: the workers and a few others. Each further \
            thread needs 59 KiB. On most systems the runtime directory is in memory.",
    }
    zone: Zone = "off" {
        doc: "Zone in which the server runs, such as a data centre. Origins with this `zone` get \
            all requests while one of them can take them: see [origins.md](origins.md#zones). \
            `off`: the zones of origins have no effect.",
        kind: SettingKind::Text { hint: "NAME|off", expected: ZONE_EXPECTED },
        reloads: true,
        reason: "Servers in several zones can have the same list of origins.",
    }
    cache_name: CacheName = "forebay" {
        doc: "Name of this cache in the field `Cache-Status` of responses (RFC 9211), and in the \
            access log.",
        kind: SettingKind::Text {
            hint: "NAME",
            expected: "1 to 64 characters of printable ASCII",
        },
        reloads: true,
        reason: "Several caches on the way to a client are told apart by their names.",
    }
    log_level: LogLevel = "info" {
        doc: "Lowest level of events that are logged to standard error.",
        kind: SettingKind::Choice(LEVEL_WORDS),
        reloads: true,
        reason: "At `info` the server logs nothing about single requests.",
    }
}

settings! {
    /// Settings that can differ between routes.
    RouteSettings, ROUTE, SettingScope::Route;

    cache: bool = "true" {
        doc: "Whether responses are stored and served from the cache.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "The origin should say which responses must not be stored; this setting is for \
            origins that do not.",
    }
    ambiguous_path: AmbiguousPath = "refuse" {
        doc: "How a request is routed if an origin may take its path for a path of another route, \
            such as `/x/..%2fprivate`: `refuse` answers it with 400; `normal-form` takes the route \
            of the path's normal form, unless one of the routes in question says `refuse`. The \
            path is forwarded unchanged. See [sites.md](sites.md#paths-with-several-readings).",
        kind: SettingKind::Choice(AMBIGUOUS_PATH_WORDS),
        reloads: true,
        reason: "Otherwise a client could choose the route: it could make the cache store a page \
            of a route with `cache = false`, for all clients. One route can stay strict while \
            others are relaxed.",
    }
    default_freshness_s: u32 = "0" {
        doc: "Freshness lifetime of a response that specifies none, in place of the heuristic; 0: \
            the heuristic applies. It applies only to responses for which RFC 9111 allows a \
            heuristic lifetime.",
        kind: SettingKind::Seconds { min: 0, max: YEAR_S },
        reloads: true,
        reason: "No guess fits every site. [sites.md](sites.md#freshness) shows which lifetime \
            takes precedence.",
    }
    override_freshness_s: u32 = "0" {
        doc: "Freshness lifetime of every response with a status below 400 that has a lifetime or \
            may have a heuristic one (RFC 9111 §4.2.2), whatever lifetime the origin specifies; 0: \
            the origin's lifetime counts. A response that the origin forbids \
            to store is not stored, one that sets a cookie keeps its lifetime, and one with \
            `no-cache` is still validated.",
        kind: SettingKind::Seconds { min: 0, max: YEAR_S },
        reloads: true,
        reason: "For origins whose `Cache-Control` cannot be changed. The origin usually knows \
            better.",
    }
    status_freshness: StatusFreshness = "" {
        doc: "Freshness lifetimes by status, such as `404=1m`, of responses that specify none, in \
            place of `default_freshness_s` and the heuristic. Errors that are otherwise not \
            stored, such as a 503, are stored for this time.",
        kind: SettingKind::Texts {
            expected: "an array of statuses and lifetimes, such as [\"404=1m\", \"503=5s\"]",
        },
        reloads: true,
        reason: "An origin gets fewer requests while it fails, or when clients request missing \
            pages. By default only the origin decides how long errors are stored.",
    }
    heuristic_percent: u8 = "10" {
        doc: "Freshness lifetime of a response that specifies none, as a share of the time since \
            its Last-Modified; 0: no heuristic.",
        kind: SettingKind::Count { min: 0, max: 100, unit: "percent" },
        reloads: true,
        reason: "RFC 9111 §4.2.2 names 10 % as typical.",
    }
    freshness_jitter_percent: u8 = "0" {
        doc: "Largest share of the remaining freshness lifetime that is cut off, at random, when a \
            response is stored or validated; 0: none.",
        kind: SettingKind::Count { min: 0, max: 50, unit: "percent" },
        reloads: true,
        reason: "Pages that were stored together, after a restart or a purge, would become stale \
            together, and the origin would get all their validations at the same time. A lifetime \
            is never longer than the origin allows.",
    }
    heuristic_s_max: u32 = "1h" {
        doc: "Longest freshness lifetime that the heuristic gives.",
        kind: SettingKind::Seconds { min: 0, max: YEAR_S },
        reloads: true,
        reason: "A page that has not changed for years may still change at any moment, and the \
            origin has not said that an old copy will do.",
    }
    heuristic_error_s_max: u32 = "1m" {
        doc: "Longest freshness lifetime that the heuristic or `default_freshness_s` gives to an \
            error: a response with status 404, 405, 410, 414 or 501, or a public response with any \
            status from 400 on. For the heuristic, `heuristic_s_max` is a limit too.",
        kind: SettingKind::Seconds { min: 0, max: YEAR_S },
        reloads: true,
        reason: "The date of an error page says nothing about how long the error will last.",
    }
    targeted_cache_control: TargetList = "CDN-Cache-Control" {
        doc: "Response fields of the origin whose directives this cache obeys in place of \
            `Cache-Control` and `Expires` (RFC 9213), the most preferred first: the first one that \
            is present and valid counts. Clients get `CDN-Cache-Control`, but no other field of \
            the list: see [sites.md](sites.md#directives-for-this-cache-alone).",
        kind: SettingKind::Texts {
            expected: "an array of field names, such as \
                [\"Forebay-Cache-Control\", \"CDN-Cache-Control\"]",
        },
        reloads: true,
        reason: "`CDN-Cache-Control` is the name in the standard. Directives under a name of your \
            own affect no other cache, and `Surrogate-Control` helps with origins that were \
            written for other caches.",
    }
    cache_status_key: bool = "false" {
        doc: "Whether `Cache-Status` has the parameter `key`: the site's name and the URL of the \
            stored response, after changes by rules.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "For finding out which requests share a response. The URL may have a part that \
            rules added and that clients need not know.",
    }
    stale_while_revalidate_s: u32 = "0" {
        doc: "Time for which a stale response is served while a request in the background \
            validates it (RFC 5861 §3). It applies to responses whose Cache-Control has no \
            `stale-while-revalidate`.",
        kind: SettingKind::Seconds { min: 0, max: YEAR_S },
        reloads: true,
        reason: "Serving stale responses is the origin's decision.",
    }
    stale_if_error_s: u32 = "0" {
        doc: "Time for which a stale response is served in place of an error of the origin: no \
            connection, a timeout, a broken or malformed answer, or the status 500, 502, 503 or \
            504 (RFC 5861 §4). It applies to responses whose Cache-Control has no \
            `stale-if-error`.",
        kind: SettingKind::Seconds { min: 0, max: YEAR_S },
        reloads: true,
        reason: "An origin may answer with an error on purpose.",
    }
    stale_if_unreachable_s: u32 = "1h" {
        doc: "Time for which a stale response is served if no connection to the origin can be \
            opened. If `stale_if_error_s` is longer, that time applies.",
        kind: SettingKind::Seconds { min: 0, max: YEAR_S },
        reloads: true,
        reason: "A cache that is disconnected from its origin may serve stale responses (RFC 9111 \
            §4.2.4), and most readers prefer an old page to an error. After an hour the operator \
            should know.",
    }
    bypass_cookies: NamePatterns = "" {
        doc: "Names of cookies: a request with one of them is not answered from the cache, and its \
            response is not stored. A name may end in `*`. Names are compared as the most lenient \
            origins read them: case is ignored, `.`, space and `[` count as `_`, and commas \
            separate cookies too.",
        kind: SettingKind::Texts {
            expected: "an array of names, such as [\"session\", \"wordpress_logged_in_*\"]",
        },
        reloads: true,
        reason: "For applications that make different pages for users who are logged in, but do \
            not say so by `Vary` or `Cache-Control`.",
    }
    bypass_fields: NamePatterns = "" {
        doc: "Names of request fields: a request with one of them is not answered from the cache, \
            and its response is not stored. A name may end in `*`.",
        kind: SettingKind::Texts { expected: "an array of names, such as [\"X-Preview\"]" },
        reloads: true,
        reason: "For the same applications as `bypass_cookies`, if a field marks the requests.",
    }
    sort_query: bool = "false" {
        doc: "Whether the parameters of the query are sorted by their names, in the key and in \
            the request to the origin. Parameters of the same name keep their order. See \
            [sites.md](sites.md#requests-that-mean-the-same).",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "Some origins give the order of parameters a meaning.",
    }
    keep_query: ParameterNames = "*" {
        doc: "Names of query parameters that are kept; the others are removed from the key and \
            from the request to the origin. A name may end in `*`.",
        kind: SettingKind::Texts { expected: "an array of names, such as [\"id\", \"page\"]" },
        reloads: true,
        reason: "Only the operator knows which parameters the origin reads. Every other parameter \
            makes separate keys, with which any client can fill the cache.",
    }
    drop_query: ParameterNames = "" {
        doc: "Names of query parameters that are removed from the key and from the request to the \
            origin, even if `keep_query` has them. A name may end in `*`.",
        kind: SettingKind::Texts {
            expected: "an array of names, such as [\"utm_*\", \"fbclid\"]",
        },
        reloads: true,
        reason: "Parameters for counting visitors in the browser make no difference to the origin. \
            An origin that counts them itself would lose them.",
    }
    keep_cookies: ParameterNames = "*" {
        doc: "Names of cookies that are kept; the others are removed before variants are compared, \
            and from the request to the origin. A name may end in `*`. A request with one of \
            `bypass_cookies` keeps all its cookies.",
        kind: SettingKind::Texts { expected: "an array of names, such as [\"lang\", \"theme\"]" },
        reloads: true,
        reason: "The default keeps all cookies, because an origin that needs a cookie must get it. \
            A shorter list avoids variants: with `Vary: Cookie`, cookies that scripts set to count \
            visitors give each visitor a variant of its own.",
    }
    key_fields: KeyFields = "" {
        doc: "Request fields whose values are in the key, as if each response had them in `Vary`. \
            They are forwarded to the origin even if `unkeyed_fields` has them. See \
            [sites.md](sites.md#fields-and-cookies-in-the-key).",
        kind: SettingKind::Texts { expected: "an array of names, such as [\"X-Device\"]" },
        reloads: true,
        reason: "For origins that make different pages for different values of a field, but do not \
            say so by `Vary`.",
    }
    key_cookies: KeyCookies = "" {
        doc: "Names of cookies whose values are in the key. `keep_cookies` keeps them. A cookie \
            counts in each spelling that an origin may read as its name, as in `bypass_cookies`.",
        kind: SettingKind::Texts { expected: "an array of names, such as [\"plan\"]" },
        reloads: true,
        reason: "For the same origins as `key_fields`. With `Vary: Cookie`, all cookies of a \
            client would be in the key.",
    }
    languages: LanguageList = "" {
        doc: "Languages of the origin's responses: `Accept-Language` of a request is replaced by \
            the language of the list that suits it best (RFC 4647 §3.4), and removed if none does, \
            before variants are compared and in the request to the origin. If the list is empty, \
            the field is not changed.",
        kind: SettingKind::Texts {
            expected: "an array of language tags, such as [\"en\", \"pt-BR\"]",
        },
        reloads: true,
        reason: "Browsers send hundreds of different lists of languages, and each would have a \
            variant of its own. Only the operator knows the languages of the origin.",
    }
    ignore_client_no_cache: bool = "false" {
        doc: "Whether `no-cache`, `max-age`, `min-fresh` and `Pragma` of requests are ignored, so \
            that a fresh stored response is served even if the client asks for a newer one.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "Reload in a browser should show the current page. Some robots send `no-cache` \
            with every request, and RFC 9111 §5.2.1 lets a cache ignore it.",
    }
    set_cookie: SetCookie = "strip" {
        doc: "How a response with Set-Cookie is stored, if the origin declares it public or \
            explicitly fresh: `strip` stores it without the cookies, which only the client that \
            caused the fetch gets; `refuse` does not store it; `keep` sends the cookies to \
            every client that the stored response is served to.",
        kind: SettingKind::Choice(SET_COOKIE_WORDS),
        reloads: true,
        reason: "A cookie identifies one client. Other clients that received it could act in that \
            client's name.",
    }
    content_of_get: bool = "false" {
        doc: "Whether a GET or HEAD request may have content. If `false`, a request with content \
            is answered with 400.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "Content of a GET has no meaning (RFC 9110 §9.3.1), and an origin that does not \
            expect content takes it for the next request. Some search servers use it.",
    }
    body_bytes_max: u64 = "16GiB" {
        doc: "Largest body of a request; bodies are forwarded as they arrive and never buffered \
            whole.",
        kind: SettingKind::Bytes { min: 0, max: 1024 * TIB },
        reloads: true,
        reason: "Large uploads must be possible; a body over the limit is answered with 413.",
    }
    upload_buffer_bytes: u32 = "64KiB" {
        doc: "How much of a request's body is read before the request takes one of \
            `origin_connections_max`. If the client pauses for five seconds (in a chunked body: \
            half a second), the body is forwarded earlier; with `Expect: 100-continue`, nothing is \
            read before the request takes its connection.",
        kind: SettingKind::Bytes { min: 0, max: MIB },
        reloads: true,
        reason: "Most forms are shorter, so a client that sends one slowly does not hold a \
            connection to the origin. A worker buffers 16 MiB at most; further bodies are \
            forwarded as they arrive.",
    }
    upgrade_protocols: UpgradeProtocols = "" {
        doc: "Protocols to which clients may switch by `Upgrade`, such as `websocket`: see \
            [tunnels.md](tunnels.md). Without them, `Upgrade` is not forwarded.",
        kind: SettingKind::Texts {
            expected: "an array of protocols, such as [\"websocket\"]",
        },
        reloads: true,
        reason: "A tunnel takes a connection on both sides for as long as it lasts, and nothing in \
            it is checked.",
    }
    tunnel_idle_ms_max: u32 = "10m" {
        doc: "Longest time without a byte in either direction of a tunnel; then the tunnel is \
            closed.",
        kind: SettingKind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "A client that has vanished never closes its tunnel. Applications that stay \
            connected send a ping more often than every ten minutes.",
    }
    origin_connect_ms_max: u32 = "3s" {
        doc: "Time to open a connection to the origin; if it is not enough, the client gets 504.",
        kind: SettingKind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "Allows for one lost packet, which the kernel sends again after a second.",
    }
    origin_first_byte_ms_max: u32 = "30s" {
        doc: "Time from the end of the request to the head of the origin's response; if it is not \
            enough, the client gets 504.",
        kind: SettingKind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "Most slow pages take less time than this, and few people wait for longer.",
    }
    origin_idle_ms_max: u32 = "30s" {
        doc: "Longest pause within the body of the origin's response, while the request's body \
            does not move either; after a longer pause the response counts as incomplete.",
        kind: SettingKind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "An origin that died without closing its connections must not hold ours forever.",
    }
    origin_excess: OriginExcess = "close" {
        doc: "The treatment of an origin's response if more bytes follow it than its framing \
            announced: `close` uses the response and closes the connection, so that the bytes \
            are lost; `refuse` refuses the response too, if it has not been sent yet.",
        kind: SettingKind::Choice(ORIGIN_EXCESS_WORDS),
        reloads: true,
        reason: "The framing says where the response ends, and no later request gets the extra \
            bytes. For an origin with a wrong Content-Length, `refuse` is safer until it is \
            repaired.",
    }
    origin_tries_max: u8 = "16" {
        doc: "Largest number of times that a request is sent: to one origin of its site or route \
            after the other or, if no other one gets requests, to the same origin again. 1: after \
            a failure, the client gets the error. A request that an idle connection did not take, \
            because the origin had closed or reset it, is sent on a new connection nevertheless.",
        kind: SettingKind::Count { min: 1, max: 16, unit: "times" },
        reloads: true,
        reason: "A site or route has at most 32 origins, targets included, and \
            `origin_retry_percent` limits the share of requests that are repeated. Fewer tries \
            bound the time that a client waits.",
    }
    hedge_ms: u32 = "0" {
        doc: "Time after which a GET or HEAD request that its origin has not answered goes to \
            another origin of its site or route too; the first answer is used, and the other \
            request is given up. Hedges are retries within `origin_retry_percent`. 0: off. See \
            [origins.md](origins.md#hedging).",
        kind: SettingKind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "Hedging gives the origins work for nothing. It pays if few requests take much \
            longer than this time, for example one of twenty, and if the reason is the origin and \
            not the request.",
    }
    origin_error_statuses: ErrorStatuses = "502,503,504" {
        doc: "Statuses of answers that count as failures of an origin, if its site or route has \
            several: 500 to 599, or none. After such an answer, a request that may be repeated \
            goes on to another origin within `origin_retry_percent`; after five in a row, the \
            origin gets no requests for a while, as long as another one does. See \
            [origins.md](origins.md#when-an-origin-fails).",
        kind: SettingKind::Texts { expected: "an array of statuses, such as [502, 503]" },
        reloads: true,
        reason: "With these statuses, a server says that it, or the application behind it, is \
            down or overloaded. Such answers are fast, so without the setting a broken origin \
            gets its share of the requests, or with `least` more than that. A 500 is more often \
            due to the request, and would be an error at each origin.",
    }
    fill_rate_min: u64 = "1024" {
        doc: "Lowest rate at which a body must arrive from the origin to be stored. Once a body is \
            more than ten seconds behind this rate, counting only the time for which Forebay \
            waited for the origin, it is no longer stored; clients still get it. 0: no limit.",
        kind: SettingKind::Count { min: 0, max: 1 << 30, unit: "bytes a second" },
        reloads: true,
        reason: "An arriving body holds memory in which other responses could be stored.",
    }
    fill_ms_max: u32 = "10m" {
        doc: "Longest time that a body may take to arrive from the origin if it is to be stored.",
        kind: SettingKind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "Long enough for a large file from a slow origin; a stream without an end is never \
            stored.",
    }
    hit_for_miss_ms: u32 = "10s" {
        doc: "How long, after a response that could not be stored, requests for its URL do not \
            wait for one another; 0: they always wait for the first request.",
        kind: SettingKind::Milliseconds { min: 0, max: DAY_MS },
        reloads: true,
        reason: "Requests for a URL whose responses are never storable would gain nothing by \
            waiting for one another. A response that can be stored ends the time early.",
    }
    object_bytes_max: u64 = "64TiB" {
        doc: "Largest body that is fetched and stored in one piece, if `growing_percent_max` has \
            room for it. With `range_unit_bytes`, a larger one is stored in parts if the origin \
            sends ranges of it with a strong `ETag`; otherwise it passes through.",
        kind: SettingKind::Bytes { min: 0, max: 64 * TIB },
        reloads: true,
        reason: "A large download is stored if it fits. `growing_percent_max` limits the room for \
            it; a body of more than a quarter of that room, and more than 16 MiB, is stored in \
            parts where that is possible.",
    }
    range_unit_bytes: u64 = "1MiB" {
        doc: "Size of the parts in which a response is fetched and stored when clients request \
            ranges; 0: requests for ranges that are not stored are forwarded as they are.",
        kind: SettingKind::Bytes { min: 0, max: GIB },
        reloads: true,
        reason: "A player that seeks in a film gets from the cache each part that any client has \
            requested before. Longer parts need fewer requests, and fetch more bytes that no \
            client wants. Set 0 for an origin whose servers have different tags for one file.",
    }
    unkeyed_fields: FieldNameList = "forwarded,x-forwarded-host,x-forwarded-port,\
        x-forwarded-prefix,x-forwarded-scheme,x-forwarded-server,x-host,x-http-method,\
        x-http-method-override,x-method-override,x-original-host,x-original-url,x-real-ip,\
        x-rewrite-url,proxy,_" {
        doc: "Request fields that are not forwarded to the origin if its response may be stored; \
            `_` stands for every name with an underscore. Lines that rules have set or added are \
            forwarded; the client's lines are not.",
        kind: SettingKind::Texts { expected: "an array of field names, or _" },
        reloads: true,
        reason: "Many origins build links, redirects or whole pages from these fields, which are \
            not in the key: one client could manipulate a page, which would then be stored for all \
            others. Many origins treat an underscore as a hyphen.",
    }
    forwarded_fields: ForwardedFields = "x-forwarded-for,x-forwarded-proto,x-request-id" {
        doc: "Fields that tell the origin about the request that this server received: \
            `x-forwarded-for`, `x-forwarded-proto`, `x-forwarded-host`, `forwarded` (RFC 7239), \
            `x-request-id`. They take the place of the client's lines, except for those of \
            `trusted_proxies`; see [proxies.md](proxies.md#fields-that-the-origin-gets).",
        kind: SettingKind::Texts {
            expected: "an array of x-forwarded-for, x-forwarded-proto, x-forwarded-host, \
                forwarded, x-request-id",
        },
        reloads: true,
        reason: "Origins need the client's address and scheme; the ID connects the logs of both. \
            The host is in `Host` already, and `Forwarded` says the same as the other fields.",
    }
    tag_fields: TagFields = "surrogate-key,cache-tag,xkey,cache-tags,purge-cache-tags,\
        x-magento-tags,cache-groups" {
        doc: "Response fields of the origin that hold tags, by which responses can be purged \
            together. `surrogate-key` separates tags by spaces, `xkey` by spaces or commas, \
            `cache-tag` and Magento's `x-magento-tags` by commas, Drupal's `cache-tags` and \
            `purge-cache-tags` by spaces or vertical bars; `cache-groups` is a list of strings \
            (RFC 9875).",
        kind: SettingKind::Texts {
            expected: "an array of surrogate-key, cache-tag, xkey, cache-tags, purge-cache-tags, \
                x-magento-tags, cache-groups",
        },
        reloads: true,
        reason: "These are the fields of the common caches; a field that an origin does not send \
            costs nothing.",
    }
    compress: CompressCodings = "" {
        doc: "Content codings with which responses are compressed when they are stored, the most \
            preferred first: `zstd`, `br` and `gzip`. If the list is not empty, `Accept-Encoding` \
            of requests is replaced by the codings of the list that the client prefers, or by \
            `identity`. See [compression.md](compression.md).",
        kind: SettingKind::Texts {
            expected: "an array of zstd, br and gzip, such as [\"zstd\", \"br\"]",
        },
        reloads: true,
        reason: "Compression takes processor time, once for each stored response, and origins \
            often compress themselves.",
    }
    compress_types: MediaTypes = "application/atom+xml,application/javascript,application/json,\
        application/ld+json,application/manifest+json,application/rss+xml,application/wasm,\
        application/xhtml+xml,application/xml,font/otf,font/ttf,image/svg+xml,text/*" {
        doc: "Media types that `compress` applies to, without parameters; `text/*` stands for all \
            types of text.",
        kind: SettingKind::Texts {
            expected: "an array of media types, such as [\"text/html\", \"image/svg+xml\"]",
        },
        reloads: true,
        reason: "Pictures, films and most fonts for browsers are compressed already.",
    }
    compress_bytes_min: u64 = "1KiB" {
        doc: "Least length of a body that is compressed. A body whose length the origin does not \
            say is compressed too.",
        kind: SettingKind::Bytes { min: 0, max: GIB },
        reloads: true,
        reason: "A shorter response fits into one packet with its head, so nothing is gained.",
    }
    decompress: bool = "false" {
        doc: "Whether a response with `Content-Encoding: gzip`, `br` or `zstd` is decompressed for \
            clients whose `Accept-Encoding` does not list the coding. If so, and without \
            `compress`, `Accept-Encoding` of requests is replaced by those of the three codings \
            that the client accepts, or by `identity`. See \
            [compression.md](compression.md#decompression).",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "It is nginx's `gunzip`. Few clients accept no coding, and most origins give these \
            a response without one.",
    }
    early_hints: bool = "false" {
        doc: "Whether a browser that waits for the validation of a stored page gets a 103 (RFC \
            8297) with the stored `Link` fields for `preload`, `modulepreload` and `preconnect`.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "The browser loads styles and scripts while the origin answers. Some clients and \
            proxies in between do not know a 103.",
    }
    validate_variants: bool = "false" {
        doc: "Whether a request that selects a stale variant of a URL, or none of the stored \
            variants, goes to the origin with the strong `ETag`s of the other variants, so that a \
            304 can name one of them. See [validation.md](validation.md#variants).",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "A variant that the origin has already sent need not be sent again. But if an \
            origin gives the same strong tag, such as a version number, to several variants, \
            clients get the wrong variant. Only the operator knows whether it does.",
    }
    tags_shown: bool = "false" {
        doc: "Whether clients get the `tag_fields` of a response. They always get the field \
            `cache-groups`.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "Tags are meant for caches and reveal how a site is built. Another cache in front \
            of this one may need them.",
    }
    https_redirect_port: u16 = "0" {
        doc: "Port of the `https` URL to which a request without TLS is redirected (308, the same \
            host and target). 0: no redirect.",
        kind: SettingKind::Count { min: 0, max: 65_535, unit: "" },
        reloads: true,
        reason: "Behind a router, clients connect to port 443 even if `listen_tls` has another \
            one. A site may offer TLS before its own links use `https`.",
    }
    redirect: Redirect = "off" {
        doc: "Status (301, 302, 303, 307 or 308) and URL to which every request is redirected, \
            such as `301 https://www.example.org$uri`. `$path`, `$query` (with its `?`), `$uri` \
            (both) and `$host` are parts of the request's URL. `off`: no redirect. See \
            [redirects.md](redirects.md).",
        kind: SettingKind::Text {
            hint: "STATUS URL",
            expected: "off, or a status and a URL, such as \"301 https://example.org$uri\"",
        },
        reloads: true,
        reason: "Of `redirect`, `respond` and `files`, the one of the innermost section applies. A \
            site whose routes all have one of them needs no `origin`.",
    }
    respond: FixedAnswer = "off" {
        doc: "Status and text that answer every request in place of the origin, such as \
            `503 back at noon`. Without a text, an `error_pages` file of this status is the body. \
            `off`: no fixed answer. See [redirects.md](redirects.md#fixed-answers).",
        kind: SettingKind::Text {
            hint: "STATUS TEXT",
            expected: "off, or a status from 200 to 599 and a text, such as \"410 gone\"",
        },
        reloads: true,
        reason: "PURGE from `purge_from` still reaches the cache, so that old pages can be \
            removed during maintenance.",
    }
    respond_type: ContentType = "text/plain; charset=utf-8" {
        doc: "`Content-Type` of the text of `respond`.",
        kind: SettingKind::Text { hint: "TYPE", expected: "a media type, such as \"text/html\"" },
        reloads: true,
        reason: "A browser must not take a text for a page with scripts.",
    }
    respond_retry_after_s: u32 = "0" {
        doc: "`Retry-After` of the answers of `respond`. 0: no such field.",
        kind: SettingKind::Seconds { min: 0, max: YEAR_S },
        reloads: true,
        reason: "Crawlers come back after this time, and keep the pages of a site in maintenance.",
    }
    origin_host: OriginHost = "client" {
        doc: "`Host` of requests to the origin: `client`: as the client sent it; `origin`: the \
            host and port of the origin's URL; or any other host, such as `\"app.internal\"`. \
            Keys, purges, logs and `X-Forwarded-Host` have the client's host. See \
            [sites.md](sites.md#host-and-path-for-the-origin).",
        kind: SettingKind::Text {
            hint: "HOST",
            expected: "client, origin or a host, such as \"app.internal\"",
        },
        reloads: true,
        reason: "Applications write links with the host that they get. nginx sends the host of \
            `proxy_pass` unless it is told otherwise; that is `origin`.",
    }
    origin_strip_prefix: bool = "false" {
        doc: "Whether `path_prefix` of the route is left out of the path that the origin gets: \
            with `path_prefix = \"/app\"`, `/app/a?b` is then `/a?b`, and `/app` is `/`. See \
            [sites.md](sites.md#host-and-path-for-the-origin).",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "It is what `files_strip_prefix` is for files.",
    }
    origin_add_prefix: AddedPrefix = "/" {
        doc: "Path that is put before the path that the origin gets, after `origin_strip_prefix`: \
            with `\"/v2\"`, `/a` is `/v2/a`. `/`: none.",
        kind: SettingKind::Text { hint: "PATH", expected: "a path that begins with /" },
        reloads: true,
        reason: "Both settings together are `proxy_pass` with a path in nginx.",
    }
    files: FilesDirectory = "off" {
        doc: "Absolute path of the directory whose files answer requests in place of the origin; \
            the path of the URL is the path below the directory. In a flag, the path is relative \
            to the current directory. `off`: the origin answers. See [files.md](files.md).",
        kind: SettingKind::Text {
            hint: "DIR",
            expected: "off, or the absolute path of a directory, such as \"/srv/www\"",
        },
        reloads: true,
        reason: "The responses pass through the cache like those of an origin, so files that are \
            in use are served from memory.",
    }
    files_strip_prefix: bool = "false" {
        doc: "Whether `path_prefix` of the route is left out of the path below the directory: with \
            `files = \"/srv/app\"` and `path_prefix = \"/static/\"`, `/static/a.css` is then \
            `/srv/app/a.css` instead of `/srv/app/static/a.css`.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "`false` is nginx's `root`, and `true` its `alias`.",
    }
    files_index: IndexNames = "index.html" {
        doc: "Names of the files that answer requests for a directory, in the order in which they \
            are tried. A directory with none of them is answered with 403; its content is never \
            listed.",
        kind: SettingKind::Texts {
            expected: "an array of at most 8 file names, such as [\"index.html\"]",
        },
        reloads: true,
        reason: "A list of a directory shows files to which no page links.",
    }
    files_fallback: FallbackFile = "off" {
        doc: "Path below the directory of the file that answers, with status 200, requests for \
            which no file exists, such as `/index.html` of a program that runs in the browser and \
            has the pages of all URLs. Such an answer is not stored, and has `Cache-Control: \
            no-cache`. `off`: such requests are answered with 404.",
        kind: SettingKind::Text {
            hint: "/FILE",
            expected: "off, or a path below the directory, such as \"/index.html\"",
        },
        reloads: true,
        reason: "It is the last file of nginx's `try_files`. Without it, search engines and \
            caches can tell a missing page from an existing one.",
    }
    files_types: FileTypes = "" {
        doc: "Media types by extension, in addition to the built-in ones and before them, such as \
            `wasm=application/wasm`. A file with an unknown extension is \
            `application/octet-stream`.",
        kind: SettingKind::Texts {
            expected: "an array of extensions and media types, such as \
                [\"html=text/html; charset=iso-8859-1\"]",
        },
        reloads: true,
        reason: "Types of text have `charset=utf-8`; files in another encoding need a type of \
            their own.",
    }
    files_precompressed: bool = "false" {
        doc: "Whether a client gets `FILE.br`, `FILE.zst` or `FILE.gz` in place of `FILE` if it \
            accepts the coding and the compressed file is not older.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "Only a site that is built with such files needs the system calls that look for \
            them. `compress` compresses other files.",
    }
    hsts: StrictTransportSecurity = "off" {
        doc: "Value of `Strict-Transport-Security` in every response over TLS (RFC 6797), in place \
            of the origin's field, such as `max-age=31536000; includeSubDomains`. `off`: the \
            origin's field is passed on.",
        kind: SettingKind::Text {
            hint: "VALUE",
            expected: "off, or max-age=SECONDS with includeSubDomains and preload as needed",
        },
        reloads: true,
        reason: "Browsers then use TLS only, and the site cannot switch that off before `max-age` \
            is over; so it is for sites that are sure of their TLS.",
    }
    error_pages: ErrorPages = "" {
        doc: "Files with the bodies of Forebay's own error responses, by status; they are read at \
            the start and on a reload. Errors of the origin, and of requests without a route, \
            are not replaced.",
        kind: SettingKind::Texts {
            expected: "an array of statuses and absolute paths of files that end in .html, .json \
                or .txt, such as [\"502=/etc/forebay/502.html\"]",
        },
        reloads: true,
        reason: "The text of a fault is for operators; users of a site expect a page of the site.",
    }
    origin_error_pages: ErrorPages = "" {
        doc: "Files with the bodies that clients get in place of the origin's error responses, by \
            status; they are read at the start and on a reload. Status and `Allow`, `Retry-After`, \
            `Set-Cookie` and `WWW-Authenticate` stay the origin's. The origin's response is stored \
            as if there were no page.",
        kind: SettingKind::Texts {
            expected: "an array of statuses and absolute paths of files that end in .html, .json \
                or .txt, such as [\"404=/etc/forebay/404.html\"]",
        },
        reloads: true,
        reason: "Only the operator knows whether clients read the bodies of the origin's errors, \
            as clients of an API do.",
    }
    allow_from: AddressList = "" {
        doc: "Client addresses, or networks such as `10.0.0.0/8`, that the route serves; all \
            others get 403. If empty, the route serves every address that `deny_from` does not \
            have. See [access.md](access.md).",
        kind: SettingKind::Texts { expected: "an array of addresses or networks, such as \
            [\"127.0.0.1\", \"10.0.0.0/8\"]" },
        reloads: true,
        reason: "A site is public unless its operator says otherwise.",
    }
    deny_from: AddressList = "" {
        doc: "Client addresses, or networks such as `10.0.0.0/8`, that get 403, even if \
            `allow_from` has them. See [access.md](access.md).",
        kind: SettingKind::Texts { expected: "an array of addresses or networks, such as \
            [\"192.0.2.7\", \"198.51.100.0/24\"]" },
        reloads: true,
        reason: "With both lists, one address of an allowed network can be left out.",
    }
    basic_auth: BasicAuth = "off" {
        doc: "File with user names and hashes of passwords, as `htpasswd -B` writes it. Requests \
            without a right user name and password get 401. The file is read at the start and on \
            a reload. `off`: no password is needed. See [access.md](access.md#users).",
        kind: SettingKind::Text {
            hint: "FILE",
            expected: "the absolute path of a file with lines such as USER:$2y$..., or off",
        },
        reloads: true,
        reason: "Only bcrypt and SHA-crypt are accepted: other hashes in such files can be guessed \
            quickly.",
    }
    signed_urls: SignedUrls = "off" {
        doc: "File with secret keys, one in each line. Requests get 403 unless their URLs end with \
            `expires=TIME&signature=HEX`, signed with one of the keys; `forebay sign` makes such \
            URLs. The two parameters belong neither to the key nor to the request to the origin. \
            `off`: no signature is needed. See [access.md](access.md#signed-urls).",
        kind: SettingKind::Text {
            hint: "FILE",
            expected: "the absolute path of a file with keys of at least 32 characters, or off",
        },
        reloads: true,
        reason: "A signature lets a program give a client one file for a limited time, without a \
            request to the program for each file.",
    }
    basic_auth_realm: Realm = "restricted" {
        doc: "Name that a browser shows when it asks for user name and password.",
        kind: SettingKind::Text {
            hint: "TEXT",
            expected: "up to 255 printable ASCII characters, without quotes and backslashes",
        },
        reloads: true,
        reason: "Browsers remember a password for each realm of a host.",
    }
    basic_auth_forward: bool = "false" {
        doc: "Whether the origin gets the `Authorization` field that `basic_auth` has checked. If \
            so, responses are stored only if they permit it, as in `Cache-Control: public`.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "Without the field, all users get the same responses, so one stored response \
            serves all of them, each after the check.",
    }
    client_certificate: CertificateDemand = "auto" {
        doc: "Whether a request needs a verified certificate of its client: `required`; `off`; \
            `auto` is `required` if `tls_client_auth` of the site is `required`, else `off`. \
            Requests without one get 403, also those without TLS. See \
            [tls.md](tls.md#certificates-of-clients).",
        kind: SettingKind::Choice(CERTIFICATE_DEMAND_WORDS),
        reloads: true,
        reason: "The port without TLS is always open; it must not lead around the certificate.",
    }
    forward_client_certificate: bool = "false" {
        doc: "Whether the origin gets the certificate of the client in the field `Client-Cert` \
            (RFC 9440). If so, responses to requests with a certificate are stored only if they \
            permit it, as in `Cache-Control: public`. The field of clients is removed on all \
            routes of the site, as it is with `tls_client_auth`.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "Without the field, all clients get the same responses, so one stored response \
            serves all of them, each after the check.",
    }
    rate_limit: RateLimits = "" {
        doc: "Limits on the rate of requests, such as `100/1s`, `600/1m burst=50` or `10/1s \
            by=field:x-api-key`; a request beyond one of them gets 429. `burst` is the number of \
            requests that may come at the same time, by default the number in the rate. `by` is \
            `address` (each client network, the default), `route` (all clients together) or \
            `field:NAME` (each value of a field). See [rate-limits.md](rate-limits.md).",
        kind: SettingKind::Texts { expected: "an array of at most 4 limits, such as \
            [\"100/1s\", \"600/1m burst=50 by=route\"]" },
        reloads: true,
        reason: "Only the operator knows how many requests a client of the site needs. Each limit \
            is checked for each request.",
    }
    concurrency_limit: ConcurrencyLimits = "" {
        doc: "Limits on the number of requests in progress, such as `20` or `500 by=route`. `by` \
            is as for `rate_limit`. A request beyond a limit of a client or of a field's value \
            gets 429, and one beyond a limit of the route 503. See \
            [rate-limits.md](rate-limits.md#requests-in-progress).",
        kind: SettingKind::Texts { expected: "an array of at most 4 limits, such as [\"20\", \
            \"500 by=route\"]" },
        reloads: true,
        reason: "Only the operator knows how many requests the origin of the site can serve at the \
            same time. Each limit is checked for each request.",
    }
    purge_from: AddressList = "" {
        doc: "Client addresses, or networks such as `10.0.0.0/8`, that may send `PURGE` and \
            `BAN` requests: see [purging.md](purging.md). If empty, these are forwarded like any \
            other method. A purge by prefix or tags can reach the whole site, so the route of the \
            path `/` must permit it too.",
        kind: SettingKind::Texts { expected: "an array of addresses or networks, such as \
            [\"127.0.0.1\", \"10.0.0.0/8\"]" },
        reloads: true,
        reason: "A client that is allowed to purge can make the requests of all clients go to the \
            origin.",
    }
}

settings! {
    /// Settings that can differ between sites.
    SiteSettings, PER_SITE, SettingScope::PerSite;

    access_log: AccessLog = "off" {
        doc: "File that gets a line for each request; `-` is standard output, `off` is no log. In \
            `[[site]]`: for the requests of the site, in place of the file at the top. At the top: \
            also for requests that no site serves. Sites with the same file share it. See \
            [logs.md](logs.md#logs-of-sites).",
        kind: SettingKind::Text { hint: "PATH|-|off", expected: "a file, \"-\" or \"off\"" },
        reloads: true,
        reason: "A log line costs more than a hit; switch the log on where it is read.",
    }
    tls_cert: FileList = "" {
        doc: "PEM files with the certificate of the site and the certificates of its issuers, in \
            this order. Several files are alternatives of different kinds, such as ECDSA and RSA; \
            a client gets the first that it supports, ECDSA before RSA. At the top of the file: \
            for sites without certificates of their own, and for names that no site has. The paths \
            are relative to the configuration file.",
        kind: SettingKind::Texts {
            expected: "an array of at most 4 files, such as [\"example.org.pem\"]",
        },
        reloads: true,
        reason: "A reload reads the files again; connections stay open. See [tls.md](tls.md).",
    }
    tls_key: FileList = "" {
        doc: "PEM files with the private keys of `tls_cert`, in the same order.",
        kind: SettingKind::Texts {
            expected: "an array of at most 4 files, such as [\"example.org.key\"]",
        },
        reloads: true,
        reason: "A key that other users can read causes a warning.",
    }
    acme: bool = "false" {
        doc: "Whether Forebay orders the certificate of the site by ACME, and renews it; see \
            [acme.md](acme.md). At the top of the file: for all sites without `tls_cert`.",
        kind: SettingKind::Bool,
        reloads: true,
        reason: "The order publishes the names of the site, and needs `acme_terms_agreed`.",
    }
    acme_challenge: AcmeChallenge = "http-01" {
        doc: "How the certificate authority checks that this server has the names of the site: \
            `http-01` by a request to port 80, `tls-alpn-01` by a TLS connection to port 443.",
        kind: SettingKind::Choice(ACME_CHALLENGE_WORDS),
        reloads: true,
        reason: "Port 80 is open for redirects to `https` anyway. `tls-alpn-01` does not work \
            behind a proxy that ends TLS.",
    }
    tls_ocsp: FileList = "" {
        doc: "Files with OCSP responses (RFC 6960, in DER) about the certificates of `tls_cert`, \
            in the same order, which clients get in the handshake; `off` for a certificate \
            without one. The paths are relative to the configuration file.",
        kind: SettingKind::Texts {
            expected: "an array of at most 4 files, such as [\"example.org.ocsp\"]",
        },
        reloads: true,
        reason: "Few authorities still answer OCSP. Forebay fetches no responses; a program that \
            renews the file every few days is needed.",
    }
    tls_client_auth: ClientAuthMode = "off" {
        doc: "Whether clients are asked for a certificate in the TLS handshake: `off`; `optional`, \
            so that routes can require one (`client_certificate`); `required`: a handshake \
            without a certificate fails. A certificate that an authority of `tls_client_ca` has \
            not issued always makes the handshake fail. See \
            [tls.md](tls.md#certificates-of-clients).",
        kind: SettingKind::Choice(CLIENT_AUTH_WORDS),
        reloads: true,
        reason: "Browsers whose users have certificates ask them which one to send.",
    }
    tls_client_ca: FileList = "" {
        doc: "PEM files with the authorities that may issue the certificates of clients. The paths \
            are relative to the configuration file.",
        kind: SettingKind::Texts {
            expected: "an array of at most 4 files, such as [\"clients-ca.pem\"]",
        },
        reloads: true,
        reason: "The authorities of the system are of no use here: they issue certificates to \
            everyone.",
    }
    tls_client_crl: FileList = "" {
        doc: "PEM files with lists of revoked certificates, at least one for each authority of \
            `tls_client_ca` and each authority between it and a client. The paths are relative to \
            the configuration file. Without files, no certificate is revoked.",
        kind: SettingKind::Texts {
            expected: "an array of at most 4 files, such as [\"clients-crl.pem\"]",
        },
        reloads: true,
        reason: "A list that is out of date lets no client in, because a newer list may have \
            revoked the client's certificate.",
    }
    connect_ports: ConnectPorts = "" {
        doc: "Ports to which clients may open tunnels with CONNECT, such as `443`: see \
            [tunnels.md](tunnels.md#connect). The port only has to be in the list: every tunnel \
            goes to the origin of the site's route for `/`. Without ports, CONNECT is answered \
            with 501.",
        kind: SettingKind::Texts { expected: "an array of ports, such as [443, 5432]" },
        reloads: true,
        reason: "A tunnel reaches everything that the origin serves at its port, past all other \
            routes, rules and the cache.",
    }
    origin_ca: FileList = "" {
        doc: "PEM files with the authorities that may issue the certificate of an `https` origin, \
            in place of those of the system. The paths are relative to the configuration file.",
        kind: SettingKind::Texts {
            expected: "an array of at most 4 files, such as [\"internal-ca.pem\"]",
        },
        reloads: true,
        reason: "An origin in a private network often has a certificate from a private authority. \
            There is no setting that switches verification off.",
    }
    origin_outlier_factor: OutlierFactor = "0" {
        doc: "An origin whose answers begin so many times later than those of the others gets no \
            requests for a while, if its site or route has several origins: see \
            [origins.md](origins.md#slow-origins). 0: no origin is left out because it is slow.",
        kind: SettingKind::Count { min: 0, max: 100, unit: "times, but not 1" },
        reloads: true,
        reason: "If origins answer different URLs, as with `hash`, some of them may have a right \
            to be slower. 3 is a good value for origins that are equal.",
    }
    origin_outlier_ms_min: u32 = "100ms" {
        doc: "Time to the first byte below which the answers of an origin are never too slow for \
            `origin_outlier_factor`.",
        kind: SettingKind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "Visitors notice no difference below this time. Without a limit, an origin that \
            answers in 3 ms would be left out beside one that answers in 1 ms.",
    }
    health_path: HealthPath = "off" {
        doc: "Path and query that each worker requests from each origin, to check whether it \
            works: see [origins.md](origins.md#health-checks). `off`: only requests of clients \
            check origins.",
        kind: SettingKind::Text {
            hint: "PATH|off",
            expected: "a path, such as \"/health\", or off",
        },
        reloads: true,
        reason: "No path is right for every origin.",
    }
    health_status: u16 = "200" {
        doc: "Status with which a working origin answers a health check.",
        kind: SettingKind::Count { min: 200, max: 599, unit: "as a status" },
        reloads: true,
        reason: "A redirect to an error page is no sign of health.",
    }
    health_interval_ms: u32 = "5s" {
        doc: "Time between two health checks of an origin.",
        kind: SettingKind::Milliseconds { min: 1000, max: DAY_MS },
        reloads: true,
        reason: "Each worker checks by itself. Workers start checks once a second.",
    }
    health_ms_max: u32 = "2s" {
        doc: "Time for a health check, from connecting to the head of the answer; never more than \
            `health_interval_ms`.",
        kind: SettingKind::Milliseconds { min: 1, max: DAY_MS },
        reloads: true,
        reason: "An origin that needs longer for a page without content is in trouble.",
    }
    origin_tls_name: TlsName = "origin" {
        doc: "Name that the certificate of an `https` origin must have, and that is sent as SNI; \
            `origin`: the host of the origin's URL.",
        kind: SettingKind::Text { hint: "NAME", expected: "origin, a host name or an IP address" },
        reloads: true,
        reason: "An origin whose URL has an IP address usually has a certificate for a name.",
    }
    origin_http2: OriginHttp2 = "never" {
        doc: "Whether requests to the origin use HTTP/2: `never`: they use HTTP/1.1; `auto`: if an \
            `https` origin chooses it in the TLS handshake; `always`: also without TLS, and an \
            origin that does not speak HTTP/2 gets no requests. gRPC needs HTTP/2. See \
            [origins.md](origins.md#http2).",
        kind: SettingKind::Choice(ORIGIN_HTTP2_WORDS),
        reloads: true,
        reason: "Pooled connections with HTTP/1.1 are as fast for most origins, and if one of them \
            breaks, only one request suffers.",
    }
    origin_tls_cert: OriginFile = "off" {
        doc: "PEM file with the certificate that Forebay shows to an `https` origin that asks for \
            one, and the certificates of its issuers. The path is relative to the configuration \
            file. `off`: Forebay shows none. See [tls.md](tls.md#tls-to-origins).",
        kind: SettingKind::Text { hint: "FILE", expected: "off or a file" },
        reloads: true,
        reason: "Few origins ask for a certificate.",
    }
    origin_tls_key: OriginFile = "off" {
        doc: "PEM file with the private key of `origin_tls_cert`.",
        kind: SettingKind::Text { hint: "FILE", expected: "off or a file" },
        reloads: true,
        reason: "A key that other users can read causes a warning.",
    }
    origin_tls_pin: KeyPins = "" {
        doc: "Public keys of which the certificate of an `https` origin must have one, each as \
            `sha256/` and the base64 of the SHA-256 of the key. The other checks of the \
            certificate stay: a pin replaces no authority. If empty, any key is accepted.",
        kind: SettingKind::Texts {
            expected: "an array of at most 16 keys, such as \
                [\"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"]",
        },
        reloads: true,
        reason: "If an authority issues a certificate for the origin to someone else, the pin does \
            not accept it. Name the next key before the origin changes it.",
    }
    origin_proxy_protocol: ProxyProtocol = "off" {
        doc: "Version of the PROXY protocol with whose header each connection to the origin \
            begins, so that the origin gets the client's address: `v1`, `v2`; `off`: no header. \
            A connection with a header serves the requests of one client connection only. See \
            [origins.md](origins.md#proxy-protocol).",
        kind: SettingKind::Choice(PROXY_PROTOCOL_WORDS),
        reloads: true,
        reason: "An origin that does not expect the header refuses the connection. Most origins \
            read `X-Forwarded-For`, with which clients share connections.",
    }
}

/// The setting `include` of a configuration file.
pub(crate) const INCLUDE: Setting = Setting {
    name: "include",
    kind: SettingKind::Texts {
        expected: "an array of files or patterns, such as [\"conf.d/*.toml\"]",
    },
    default: Some(""),
    scope: SettingScope::File,
    reloads: true,
    doc: "Further configuration files, relative to the file that includes them; `*` and `?` stand \
        for characters of a file's name. See [configuration.md](configuration.md#several-files).",
    reason: "Each site can have a file of its own, which a program can create and remove.",
};

/// The setting `rules` of the server, of a site or of a route.
pub(crate) const RULES: Setting = Setting {
    name: "rules",
    kind: SettingKind::Texts {
        expected: "a file, or an array of files, such as [\"headers.conf\"]",
    },
    default: Some(""),
    scope: SettingScope::Everywhere,
    reloads: true,
    doc: "Files of header rules, relative to the configuration file. Rules of the server run \
        first, then rules of the site, then rules of the route. The flag can be repeated, adds to \
        the rules of the configuration file, and is relative to the current directory.",
    reason: "See [rules.md](rules.md).",
};

/// The settings of a site that routes do not have.
pub(crate) const SITE: &[Setting] = &[NAME, NAMES, SITE_LISTEN, ORIGIN, BALANCE];

/// The settings of one origin, in its table form.
pub(crate) const ORIGIN_TABLE: &[Setting] = &[URL, WEIGHT, BACKUP, ORIGIN_ZONE, TARGETS_MAX];

/// The setting `name` of a site.
pub(crate) const NAME: Setting = Setting {
    name: "name",
    kind: SettingKind::Text {
        hint: "NAME",
        expected: "up to 255 printable ASCII characters, without spaces",
    },
    default: None,
    scope: SettingScope::Site,
    reloads: true,
    doc: "Name of the site in logs and in the cache; after a change of the name, the cache has no \
        responses for the site.",
    reason: "The name is part of the key of each stored response.",
};

/// The setting `names` of a site.
pub(crate) const NAMES: Setting = Setting {
    name: "names",
    kind: SettingKind::Texts { expected: "an array of host names, such as [\"example.org\"]" },
    default: None,
    scope: SettingScope::Site,
    reloads: true,
    doc: "Hosts that the site serves, without port: `example.org`, `*.example.org` for every \
        name below it, or `*` for every host that no other site serves.",
    reason: "A host that no site serves is answered with 421: Forebay is never an open proxy.",
};

/// The setting `listen` of a site.
pub(crate) const SITE_LISTEN: Setting = Setting {
    name: "listen",
    kind: SettingKind::Texts {
        expected: "an address of the server's `listen` or `listen_tls`, or an array of them",
    },
    default: Some(""),
    scope: SettingScope::Site,
    reloads: true,
    doc: "The only addresses at which the site is served. At these addresses, it comes before the \
        sites without this setting, which are served at every address. See \
        [sites.md](sites.md#other-sites-at-another-address).",
    reason: "Most servers serve the same sites at each of their addresses.",
};

/// The setting `origin` of a site.
pub(crate) const ORIGIN: Setting = Setting {
    name: "origin",
    kind: SettingKind::Text {
        hint: "URL",
        expected: "http://HOST[:PORT], https://HOST[:PORT], srv+http://NAME, srv+https://NAME or \
            unix:/PATH",
    },
    default: None,
    scope: SettingScope::Site,
    reloads: true,
    doc: "URL of the origin to which requests for the site, or for the route, are forwarded; or \
        `unix:` and the path of its Unix socket; or `srv+http://` and the name of SRV records, \
        whose targets are the origins; or a table with one of these as `url`, and \
        settings of the origin; or an array of up to 16 of these texts and tables: see \
        [origins.md](origins.md). A `[[site.route]]` without it has the origins of its site. The \
        flag can be repeated.",
    reason: "With `https`, the origin's certificate is verified, and nothing is ever sent in the \
        clear instead; see [tls.md](tls.md#tls-to-origins). More than 16 origins are better behind \
        a name with several addresses.",
};

/// The setting `balance` of a site.
pub(crate) const BALANCE: Setting = Setting {
    name: "balance",
    kind: SettingKind::Choice(BALANCE_WORDS),
    default: Some("round-robin"),
    scope: SettingScope::Site,
    reloads: true,
    doc: "How a site, or a route with `origin`, chooses one of several origins for a request: in \
        turn (`round-robin`); of two origins, the one with fewer requests in progress (`least`); \
        or by the URL (`hash`).",
    reason: "`round-robin` needs no knowledge of the origins. `least` suits requests of unequal \
        cost, and `hash` suits origins that have a cache of their own.",
};

/// The setting `url` of an origin in its table form.
pub(crate) const URL: Setting =
    Setting { name: "url", doc: "URL of the origin.", reason: "See `origin`.", ..ORIGIN };

/// The setting `weight` of an origin.
pub(crate) const WEIGHT: Setting = Setting {
    name: "weight",
    kind: SettingKind::Count { min: 1, max: 1000, unit: "parts" },
    default: Some("1"),
    scope: SettingScope::Site,
    reloads: true,
    doc: "The origin's share of the requests, relative to the other origins.",
    reason: "To give an origin no requests, leave the origin out.",
};

/// The setting `backup` of an origin.
pub(crate) const BACKUP: Setting = Setting {
    name: "backup",
    kind: SettingKind::Bool,
    default: Some("false"),
    scope: SettingScope::Site,
    reloads: true,
    doc: "Whether the origin gets requests only while no other origin can take them.",
    reason: "A spare origin may be slow or far away.",
};

/// The setting `zone` of an origin.
pub(crate) const ORIGIN_ZONE: Setting = Setting {
    name: "zone",
    kind: SettingKind::Text { hint: "NAME|off", expected: ZONE_EXPECTED },
    default: Some("off"),
    scope: SettingScope::Site,
    reloads: true,
    doc: "Zone in which the origin runs. An origin outside of the server's `zone` gets requests \
        only while no origin of that zone can take them.",
    reason: "Requests within a zone are usually faster, and cheaper.",
};

/// The setting `targets_max` of an origin.
pub(crate) const TARGETS_MAX: Setting = Setting {
    name: "targets_max",
    kind: SettingKind::Count { min: 1, max: GROUP_ORIGINS_MAX as u64, unit: "targets" },
    default: Some("16"),
    scope: SettingScope::Site,
    reloads: true,
    doc: "Largest number of targets of an origin with a URL `srv+http` or `srv+https`: those with \
        the smallest priority are used; see [origins.md](origins.md#srv-records).",
    reason: "A site or a route has at most 32 origins, targets included: room for a service and \
        another one as its backup.",
};

const ZONE_EXPECTED: &str = "off, or up to 64 printable ASCII characters, without spaces";

/// The setting `path_prefix` of a route.
pub(crate) const PATH_PREFIX: Setting = Setting {
    name: "path_prefix",
    kind: SettingKind::Text { hint: "PATH", expected: "a path that begins with /" },
    default: None,
    scope: SettingScope::OneRoute,
    reloads: true,
    doc: "Beginning of the paths of the route, unless another route has a `path` or `path_regex` \
        that matches; the longest matching prefix wins. `/static/` \
        matches itself and paths below it, `/static` matches these and `/static`, and neither \
        matches `/statics`. In the value, percent-encode only spaces and bytes outside ASCII, with \
        digits in upper case (`%C3%A4`). For requests that spell a path in another way, see \
        `ambiguous_path`.",
    reason: "A prefix ends where a path segment ends, so a route never matches an unrelated path.",
};

/// The setting `path` of a route.
pub(crate) const PATH: Setting = Setting {
    name: "path",
    kind: SettingKind::Text { hint: "PATH", expected: "a path that begins with /" },
    default: None,
    scope: SettingScope::OneRoute,
    reloads: true,
    doc: "The only path of the route, in place of `path_prefix`; its query may be any. `/feed` \
        does not match `/feed/`. It wins over regular expressions and prefixes.",
    reason: "A redirect of one page must not apply to the pages below it.",
};

/// The setting `path_regex` of a route.
pub(crate) const PATH_REGEX: Setting = Setting {
    name: "path_regex",
    kind: SettingKind::Text {
        hint: "REGEX",
        expected: "a regular expression in single quotes, such as '\\.(jpg|png)$'",
    },
    default: None,
    scope: SettingScope::OneRoute,
    reloads: true,
    doc: "Regular expression for the paths of the route, in place of `path_prefix`. It may match \
        anywhere in the path, which begins with `/` and has no query; `^` and `$` are its ends. \
        The first `path_regex` of the file that matches wins over prefixes. See \
        [sites.md](sites.md#regular-expressions).",
    reason: "The order is that of nginx's `location`. Matching takes linear time, so there is no \
        look-around and no back-reference.",
};

/// The setting `before_regex` of a route.
pub(crate) const BEFORE_REGEX: Setting = Setting {
    name: "before_regex",
    kind: SettingKind::Bool,
    default: Some("false"),
    scope: SettingScope::OneRoute,
    reloads: true,
    doc: "Whether the `path_prefix` of the route wins over every `path_regex` of the site, for the \
        paths of which it is the longest prefix. It must be written if such a route differs from \
        the route of a `path_regex` in access, rate limits or caching. See \
        [sites.md](sites.md#regular-expressions).",
    reason: "`true` is nginx's `location ^~`. With `false`, `/account/x.jpg` belongs to a \
        `path_regex` for images, whatever the route of `/account` protects.",
};

/// The setting `methods` of a route.
pub(crate) const METHODS: Setting = Setting {
    name: "methods",
    kind: SettingKind::Texts {
        expected: "an array of up to 16 methods, such as [\"POST\", \"PUT\"]",
    },
    default: Some(""),
    scope: SettingScope::OneRoute,
    reloads: true,
    doc: "Methods of the route: a request with another method has the route that it would have \
        without this one. `GET` includes HEAD; PURGE and BAN have the route of GET. Without GET, \
        the route stores no responses. See [sites.md](sites.md#conditions).",
    reason: "A response to GET also answers HEAD, so both have one route.",
};

/// The setting `with_fields` of a route.
pub(crate) const WITH_FIELDS: Setting = Setting {
    name: "with_fields",
    kind: SettingKind::Texts {
        expected: "an array of up to 16 names, with or without a value, such as [\"X-Api=2\"]",
    },
    default: Some(""),
    scope: SettingScope::OneRoute,
    reloads: true,
    doc: "Fields that a request of the route must have: all of them, each with its value if one is \
        given. The route stores no responses. See [sites.md](sites.md#conditions).",
    reason: "The key of a stored response is its URL, which does not tell the routes of such \
        requests apart.",
};

/// The setting `with_query` of a route.
pub(crate) const WITH_QUERY: Setting = Setting {
    name: "with_query",
    doc: "Parameters of the query that a request of the route must have, compared byte by byte. \
        Otherwise like `with_fields`.",
    reason: "`drop_query` and `keep_query` may remove the parameter from the key.",
    ..WITH_FIELDS
};

/// The setting `with_cookies` of a route.
pub(crate) const WITH_COOKIES: Setting = Setting {
    name: "with_cookies",
    doc: "Cookies that a request of the route must have, with names as in `bypass_cookies`. \
        Otherwise like `with_fields`.",
    reason: "For example, testers with a cookie get another origin or other settings.",
    ..WITH_FIELDS
};

/// The settings of which each route has one.
pub(crate) const ROUTE_PATHS: &[Setting] = &[PATH, PATH_REGEX, PATH_PREFIX];

/// The settings that only routes have.
pub(crate) const ROUTE_ONLY: &[Setting] =
    &[PATH_PREFIX, PATH, PATH_REGEX, BEFORE_REGEX, METHODS, WITH_FIELDS, WITH_QUERY, WITH_COOKIES];

/// Returns every setting, in the order of the documentation.
pub fn all() -> impl Iterator<Item = &'static Setting> + Clone {
    SERVER
        .iter()
        .chain(PER_SITE)
        .chain(ROUTE)
        .chain([&RULES, &INCLUDE])
        .chain(SITE)
        .chain(ROUTE_ONLY)
}

/// Returns the settings that are allowed before the first section. Each of them has a flag.
pub(crate) fn top_level() -> impl Iterator<Item = &'static Setting> + Clone {
    SERVER.iter().chain(PER_SITE).chain(ROUTE).chain([&RULES])
}
