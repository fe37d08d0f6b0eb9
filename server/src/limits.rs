//! Limits that are not settings, each with its reason. Limits that are settings are in
//! `config/table.rs`.

mod access;
mod acme;
mod dns;
mod http2;
mod metrics;
mod negotiation;
mod routes;
mod streams;
mod tls;

pub(crate) use access::*;
pub(crate) use acme::*;
pub(crate) use dns::*;
pub(crate) use http2::*;
pub(crate) use metrics::*;
pub(crate) use negotiation::*;
pub(crate) use routes::*;
pub(crate) use streams::*;
pub(crate) use tls::*;

use forebay_http::chunked::ChunkedLimits;
use forebay_http::response::OriginLimits;

/// Longest host name. A DNS name has at most 253 characters; a longer host matches no site.
pub(crate) const HOST_BYTES_MAX: usize = 255;

/// Longest path of an origin's Unix socket: the kernel's limit, without the final NUL.
pub(crate) const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The interval at which a worker checks whether a client that waits for a response, or for more of
/// one, has left.
pub(crate) const CLIENT_CHECK_MS: u64 = 1_000;

/// Largest error page. It is copied into the send queue of each request that gets it, so large
/// content, such as images, belongs in files of its own.
pub(crate) const ERROR_PAGE_BYTES_MAX: usize = 64 << 10;

/// Maximum number of error pages of one route: about the number of error statuses in use.
pub(crate) const ERROR_PAGES_MAX: usize = 40;

/// Largest configuration file or rule file. Ten thousand sites fit; a larger file is probably not a
/// configuration at all.
pub(crate) const CONFIG_BYTES_MAX: usize = 16 << 20;

/// Maximum number of errors of a configuration that are reported: more than an operator reads in
/// one go. Further errors are only counted.
pub(crate) const CONFIG_ERRORS_MAX: usize = 50;

/// Characters of a configuration line that an error message shows: the width of a wide terminal.
pub(crate) const CONFIG_LINE_CHARS_MAX: usize = 160;

/// One in this many runs of rules is timed: reading the clock twice for each rule costs more than
/// most rules.
pub(crate) const RULE_SAMPLE_EVERY: u64 = 256;

/// Rule files that one setting `rules` may name.
pub(crate) const RULE_FILES_MAX: usize = 64;

/// Groups that one answer may invalidate (RFC 9875 asks for at least 32); one purge handles up to
/// 64 groups. An answer with more groups invalidates its whole origin.
pub(crate) const INVALIDATED_GROUPS_MAX: usize = 256;

/// Queued jobs of the purge thread: purges, and counts for dry runs, by host, prefix or tags.
pub(crate) const PURGES_QUEUED_MAX: usize = 64;

/// Queue slots of the purge thread that are reserved for operators, because any client may cause
/// invalidations by unsafe requests.
pub(crate) const PURGES_RESERVED: usize = 16;

/// How long the running purge may continue when the server stops. A purge that is cut off has not
/// been acknowledged to its client.
pub(crate) const PURGER_FINISH_MS_MAX: u64 = 2_000;

/// Interval between progress reports of a long purge.
pub(crate) const PURGE_PROGRESS_MS: u64 = 250;

/// Longest time between two lines of output to a client that waits for a purge, so that the client
/// does not give up.
pub(crate) const PURGE_REPEAT_MS: u64 = 1_000;

/// Keys that a dry run of a purge lists as examples.
pub(crate) const PURGE_SAMPLE_MAX: usize = 10;

/// Niceness of the purge thread. If a worker needs the same processor, the purge thread gets about
/// a quarter of it, which is enough to purge thousands of responses in milliseconds.
pub(crate) const PURGER_NICENESS: i32 = 5;

/// Maximum number of key prefixes that one purge or listing by host covers; each prefix is purged
/// separately. A host with more sites must be purged site by site.
pub(crate) const SELECTIONS_MAX: usize = 512;

/// Longest name of this cache in Cache-Status, which is in every head that is sent.
pub(crate) const CACHE_NAME_BYTES_MAX: usize = 64;

/// Longest freshness lifetime that a setting can give to a status: a year, as for other lifetimes.
pub(crate) const STATUS_FRESHNESS_S_MAX: u32 = 31_536_000;

/// Maximum number of names of targeted fields in one setting: each field of an origin's response is
/// compared with all of these names.
pub(crate) const TARGETED_FIELDS_MAX: usize = 8;

/// Address ranges in one setting. A client's address is compared with each of them.
pub(crate) const ADDRESS_RANGES_MAX: usize = 256;

/// Field names in one setting: each field of a request to the origin is compared with all of them.
pub(crate) const FIELD_NAMES_MAX: usize = 64;

/// Cookies of a request that are compared with the names of `bypass_cookies`, `keep_cookies` and
/// `with_cookies`. Browsers keep fewer than 200 for a site. A request with more cookies bypasses
/// the cache, and meets all conditions on cookies.
pub(crate) const COOKIES_MAX: usize = 256;

/// Maximum number of parameters of a query that are compared with the names of `keep_query` and
/// `drop_query`. Even large forms have fewer. A query with more parameters has no normal form, and
/// its request bypasses the cache. It meets all conditions on parameters (`with_query`).
pub(crate) const PARAMETERS_MAX: usize = 512;

/// Maximum number of ports to which a site has tunnels. The port of each CONNECT is compared with
/// all of them.
pub(crate) const CONNECT_PORTS_MAX: usize = 16;

/// Maximum number of protocols to which the clients of a route may switch. Each protocol that a
/// request offers is compared with all of them.
pub(crate) const UPGRADE_PROTOCOLS_MAX: usize = 8;

/// Total bytes of the paths to which origins might resolve one path: four times the longest target
/// that is accepted by default. A client can make the server compute these paths for each request.
pub(crate) const PATH_READINGS_BYTES_MAX: usize = 32 << 10;

/// Bytes of a connection's first input buffer: most requests fit into one read. The buffer grows
/// for a larger head.
pub(crate) const INPUT_BYTES: usize = 4 << 10;

/// Least space for a request body behind a head that is still in use, so that an upload arrives in
/// large pieces.
pub(crate) const BODY_INPUT_BYTES_MIN: usize = 16 << 10;

/// A buffer that has grown beyond this size is freed, not kept for the next connection.
pub(crate) const BUFFER_BYTES_KEPT_MAX: usize = 64 << 10;

/// Sets of buffers that a worker keeps for later connections: about 40 MiB if all buffers were
/// completely filled, usually far less.
pub(crate) const BUFFERS_POOLED_MAX: usize = 1024;

/// Bodies up to this size are copied behind their head, so that most responses are one plain send.
/// A separate piece needs a vectored write and a handle on the store's memory. Copying 1 KiB is 2 %
/// of a hit (docs/performance.md).
pub(crate) const INLINE_BODY_BYTES_MAX: usize = 4 << 10;

/// Bytes of responses that may wait on a connection when its next pipelined request is answered:
/// larger writes would cost only a little less per response.
pub(crate) const PIPELINED_BYTES_MAX: usize = 32 << 10;

/// Bytes that one connection may queue while the worker's waiting output is at its limit: one usual
/// response, so that each further connection needs little memory.
pub(crate) const OUTPUT_SHARE_BYTES_MIN: usize = 4 << 10;

/// Pipelined requests that one connection answers before other connections of the worker get their
/// turn: about 100 microseconds.
pub(crate) const REQUESTS_PER_TURN_MAX: u32 = 32;

/// A fetch whose body has received no bytes for this long is not joined: a further request starts
/// its own fetch. Retransmitting a lost packet takes less time.
pub(crate) const FOLLOW_STALLED_MS: u64 = 5_000;

/// Time for which an origin may send a body slower than `fill_rate_min`.
pub(crate) const FILL_GRACE_MS: u64 = 10_000;

/// Bytes of an origin's body that are read although no client gets them, to keep the connection
/// open: reading them costs about as much as opening another connection.
pub(crate) const DISCARDED_BYTES_MAX: usize = 64 << 10;

/// Time for reading [`DISCARDED_BYTES_MAX`], during which the connection to the origin is occupied.
pub(crate) const DISCARDED_MS_MAX: u64 = 1_000;

/// Pieces of one vectored write; the next write takes the rest.
pub(crate) const OUT_SLICES_MAX: usize = 16;

/// Bytes that a follower takes from a growing record at a time. A connection may hold this many
/// bytes beyond `connection_bytes_max`, and copies them in one turn if its client stalls.
pub(crate) const READ_BYTES_MAX: u64 = 64 << 10;

/// Fragments of a long stored body that one connection pins at a time: enough for the kernel's send
/// buffer, and little to copy if the client does not read.
pub(crate) const LENT_FRAGMENTS_MAX: usize = 2;

/// Pinned pieces of stored bodies in one client's send queue. A client may request many pieces
/// together, and each piece keeps a segment from being reclaimed.
pub(crate) const LENT_PIECES_MAX: usize = 16;

/// Connections that the kernel queues for one listener; `net.core.somaxconn` may lower this number.
pub(crate) const LISTEN_BACKLOG: i32 = 4096;

/// Pause after the process has run out of file descriptors, so that connections can close.
pub(crate) const ACCEPT_RETRY_MS: u64 = 50;

/// Connections that are examined to find an idle one, which is closed to make room for a new one.
/// Usually the first is idle; examining one costs less than accepting a connection.
pub(crate) const IDLE_LOOKS_MAX: usize = 64;

/// Idle connections that are asked one after another to make room for a new one; each of them may
/// have received a request in the meantime. If none makes room, the new connection is refused.
pub(crate) const DISPLACED_MAX: usize = 4;

/// Slices into which the sweep over connections is divided: each call visits one slice, so that no
/// turn of the loop grows with the number of connections.
pub(crate) const SWEEP_SLICES: usize = 10;

/// How long a worker waits for another purge to end before it postpones an invalidation. Purges
/// take microseconds; if one takes longer, the worker's other connections must not wait.
pub(crate) const INVALIDATE_WAIT_US_MAX: u64 = 1_000;

/// An invalidation that was postponed is tried again in the background, every `INVALIDATE_RETRY_MS`
/// for at most `INVALIDATE_MS_MAX`; the answer to the unsafe request waits for it. The purge thread
/// tries each purge for at most `INVALIDATE_MS_MAX` too.
pub(crate) const INVALIDATE_RETRY_MS: u64 = 10;
pub(crate) const INVALIDATE_MS_MAX: u64 = 5_000;

/// Interval at which the control thread sweeps the store: it looks for dead processes that shared
/// the store, and cleans up after them.
pub(crate) const STORE_SWEEP_MS: u64 = 1_000;

/// Time between two slices of the sweep over connections. A deadline is noticed at most
/// `SWEEP_SLICES` times this interval late.
pub(crate) const SWEEP_MS: u64 = 50;

/// Bytes of input that a connection reads and discards after its last response.
pub(crate) const LINGER_BYTES_MAX: usize = 1 << 20;

/// How long a connection reads and discards input after its last response.
pub(crate) const LINGER_MS_MAX: u64 = 2_000;

/// Events that one worker logs per second. Counters include the events that are not logged.
pub(crate) const EVENTS_PER_SECOND_MAX: u32 = 20;

/// Lines of events that wait for standard error. A line is rarely longer than a kilobyte, and the
/// queue holds the events of several workers for some seconds.
pub(crate) const EVENT_LINES_MAX: usize = 256;

/// Time for writing the queued lines of events, and the last message, when the process ends.
pub(crate) const EVENTS_FINISH_MS_MAX: u64 = 1_000;

/// Interval at which an ending process checks whether the queued lines of events are written.
pub(crate) const EVENTS_FINISH_POLL_MS: u64 = 2;

/// Interval of the control thread's housekeeping, such as the check for stuck workers.
pub(crate) const HOUSEKEEPING_MS: u64 = 1_000;

/// A worker whose event loop makes no turn for this many intervals of [`HOUSEKEEPING_MS`] counts as
/// stuck. A turn takes less than a millisecond, but on a busy machine a worker may have to wait for
/// a processor.
pub(crate) const WORKER_STILL_TICKS_MAX: u32 = 5;

/// Time for all workers to reply to a command. A turn takes less than a millisecond; a worker that
/// needs longer is stuck. The new process of an upgrade waits for `UPGRADE_ANSWER_MS_MAX`, which is
/// longer.
pub(crate) const WORKER_REPLY_MS_MAX: u64 = 2_000;

/// Memory that the program and its allocator need besides the cache, as measured with a full cache
/// (`docs/why/memory.md`). Connections need more while they are busy.
pub(crate) const PROGRAM_BYTES: u64 = 32 << 20;

/// How long a worker may take to end after the drain. A worker that is stuck must not prevent the
/// end of the process.
pub(crate) const WORKER_END_MS_MAX: u64 = 1_000;

/// Limits of the head of an origin's response. Usual heads have about 20 fields and 2 KiB; a
/// response over the limits is refused.
pub(crate) const ORIGIN_LIMITS: OriginLimits =
    OriginLimits { head_bytes_max: 64 << 10, field_count_max: 200 };

/// Limits of extensions and trailers in a chunked request body: extensions are unused in practice,
/// and trailers are rare.
pub(crate) const CHUNKED_LIMITS: ChunkedLimits = ChunkedLimits {
    extension_bytes_max: 4 << 10,
    trailer_bytes_max: 8 << 10,
    trailer_count_max: 32,
};

/// Read buffer of an origin connection: large bodies move in pieces of up to this size.
pub(crate) const ORIGIN_BUFFER_BYTES_MAX: usize = 128 << 10;

/// Maximum number of health checks that one worker runs at the same time: each needs a connection.
/// Further checks are late, which matters only if hundreds of origins are checked.
pub(crate) const HEALTH_CHECKS_MAX: usize = 64;

/// Interim responses (1xx) that are forwarded for one request; further ones are dropped.
pub(crate) const INTERIM_COUNT_MAX: u32 = 16;

/// How often a missing fragment is fetched for one request before the request fetches the rest of
/// its response by itself.
pub(crate) const FRAGMENT_TRIES_MAX: usize = 2;

/// How often one request tries to lead or follow a fetch before it is passed through. It tries
/// again after a failed fetch, after learning that it needs another variant, and if that variant
/// was replaced in the meantime.
pub(crate) const JOINS_MAX: usize = 5;

/// Failed fetches after which a request that waited for them fails too. A fetch may fail because of
/// the request that started it, so another fetch is started. The limit keeps requests to a failing
/// origin few, however many clients wait for a URL.
pub(crate) const FAILED_FETCHES_MAX: u32 = 3;

/// Maximum number of requests of one worker that may go to an origin by themselves at the same time
/// after [`FAILED_FETCHES_MAX`] failed fetches; at most one for each client network. Other requests
/// fail immediately.
pub(crate) const TRIES_ALONE_MAX: usize = 4;

/// Maximum number of fields in the keys of one route, and also of cookies. Each costs a search in
/// the request's fields on each lookup.
pub(crate) const KEY_PARTS_MAX: usize = 8;

/// Entity tags of other variants that a request to the origin carries. A head is copied for each,
/// and more tags make If-None-Match longer than some origins read. The latest variants are taken.
pub(crate) const OTHER_TAGS_MAX: usize = 8;

/// Maximum number of fetches of one worker that validate stale responses in the background. Above
/// it, stale responses are served without validation; a later request validates them.
pub(crate) const BACKGROUND_FETCHES_MAX: usize = 64;

/// The same limit as [`BACKGROUND_FETCHES_MAX`], but for the fetches of one client network.
pub(crate) const BACKGROUND_FETCHES_PER_NETWORK_MAX: usize = 16;

/// Time between two attempts to reach an origin that is down while stale responses are served. It
/// is short enough that the origin is back in use within a second.
pub(crate) const ORIGIN_PROBE_MS: u64 = 500;

/// Origins of one site. A larger number is better served by a name with several addresses.
pub(crate) const ORIGINS_PER_SITE_MAX: usize = 16;

/// Origins of one site, if each SRV origin has all its targets. A request remembers those that it
/// was sent to in a word of 32 bits, and each choice of an origin looks at all of them.
pub(crate) const GROUP_ORIGINS_MAX: usize = 32;

/// How long an origin counts as down after a failure to reach it: the time of several attempts.
pub(crate) const ORIGIN_DOWN_MS: u64 = 4 * ORIGIN_PROBE_MS;

/// Size of a batch of access log lines, which a worker hands to the log's writer thread.
pub(crate) const LOG_BATCH_BYTES: usize = 32 << 10;

/// Maximum number of different access logs of a configuration. Each has a thread, a file, and a
/// buffer of up to 33 KiB in each worker.
pub(crate) const ACCESS_LOGS_MAX: usize = 128;

/// Size from which on the queue of a log's writer thread takes no further batch: the lines of a
/// busy server during a fraction of a second.
pub(crate) const LOG_QUEUE_BYTES_MAX: u64 = 8 << 20;

/// Size of the queues of all access logs of a configuration together. With more than four logs,
/// each queue has an equal part; so a log whose disk or reader stalls takes no room from another.
pub(crate) const LOG_QUEUES_BYTES_MAX: u64 = 32 << 20;

/// Longest delay of a line in the log of a quiet server.
pub(crate) const LOG_FLUSH_MS: u64 = 200;

/// Bytes of an admin request's body, which has a URL or tags.
pub(crate) const ADMIN_BODY_BYTES_MAX: usize = 64 << 10;

/// Pieces of a streamed admin response that wait for a slow client.
pub(crate) const ADMIN_PIECES_MAX: usize = 4;

/// Resources listed in one turn of the control thread's loop: about 100 microseconds.
pub(crate) const LISTED_AT_ONCE_MAX: usize = 64;

/// Open admin connections.
pub(crate) const ADMIN_CONNECTIONS_MAX: usize = 64;

/// Traces that may be open at the same time. Each has a queue of up to 2.5 MB.
pub(crate) const TRACERS_MAX: usize = 4;

/// Records in the queue of a trace: some milliseconds of a busy server.
pub(crate) const TRACE_QUEUE_MAX: usize = 256;

/// Steps in the record of a traced request. Only a long response that is fetched in many parts has
/// more.
pub(crate) const TRACE_STEPS_MAX: usize = 64;

/// Bytes of each text from a client in the record of a traced request.
pub(crate) const TRACE_TEXT_BYTES_MAX: usize = 1 << 10;

/// Bytes of the URL, host or path that selects traced requests.
pub(crate) const TRACE_FILTER_BYTES_MAX: usize = 2 << 10;

/// Interval at which a trace sends an empty line. The line shows the client that the server runs,
/// and lets the server notice that a client is gone.
pub(crate) const TRACE_HEARTBEAT_MS: u64 = 5_000;

/// Idle time after which an admin connection is closed.
pub(crate) const ADMIN_IDLE_MS_MAX: u64 = 30_000;

/// Interval at which a fill that waits for room checks whether its slowest reader delays the
/// others.
pub(crate) const WINDOW_ASK_MS: u64 = 500;

/// How often and at which interval a fill tries to finish a body while the store has no room for
/// its last part. A worker that is asked to release a segment does so within about 50 ms.
pub(crate) const STORE_TRIES_MAX: u32 = 20;
pub(crate) const STORE_TRY_MS: u64 = 10;

/// A client is slow if it moves fewer than [`STALL_BYTES`] in this period. Then its exchange with
/// the origin is broken off if another request waits for the permit. The period is longer than the
/// retransmission of a lost acknowledgement takes.
pub(crate) const STALL_MS: u64 = 1_000;

/// A pause in a request's body after which the exchange with the origin begins even if the buffer
/// for the first part of the body is not full, because the client may be waiting for a response.
/// With a body of known length, clients rarely wait.
pub(crate) const UPLOAD_PAUSE_MS: u64 = 5_000;

/// The pause that replaces [`UPLOAD_PAUSE_MS`] for a body of unknown length, which a client may
/// generate while it sends.
pub(crate) const CHUNKED_PAUSE_MS: u64 = 500;

/// Bytes of the first parts of bodies that one worker buffers. If there is no room, a body is not
/// buffered further, and its request waits for a connection to the origin. The bytes of the last
/// read of a body are not counted.
pub(crate) const UPLOAD_ROOM_BYTES: u64 = 16 << 20;

/// The bytes per [`STALL_MS`] below which a client is slow: 128 kbit/s, less than a weak mobile
/// connection carries.
pub(crate) const STALL_BYTES: u64 = 16 << 10;

/// Interval at which a request that waits for a permit asks a stalled exchange to break off:
/// several times before the request gives up.
pub(crate) const PREEMPT_ASK_MS: u64 = 250;

/// Time for the log's writer thread to write its queue when the server stops.
pub(crate) const LOG_FINISH_MS_MAX: u64 = 2_000;

/// Maximum number of replacements of the access logs after which queues are still being written.
/// Each stalled log holds a thread, a file and its queue until it is given up, the queues of one
/// replacement together at most 32 MiB; with daily rotation this is a week.
pub(crate) const REPLACED_LOGS_MAX: usize = 8;

/// Interval at which the writer thread of an access log whose reader stalls checks whether the log
/// was given up.
pub(crate) const LOG_GIVEN_UP_POLL_MS: u32 = 250;

/// Interval at which the control thread checks whether the log's writer thread has finished.
pub(crate) const LOG_FINISH_POLL_MS: u64 = 5;

/// How long a draining server accepts one more request on every open connection. The response says
/// that the connection ends, so that no connection closes while its client sends a request.
pub(crate) const DRAIN_IDLE_MS: u64 = 250;

/// Time for a process that connects for an upgrade to send its first message; other processes wait
/// until then.
pub(crate) const UPGRADE_HELLO_MS_MAX: u64 = 2_000;

/// Time for each further message of an upgrade, except `Ready`. The sender need not prepare
/// anything, and a process that is stopped or hangs must not block the other.
pub(crate) const UPGRADE_ANSWER_MS_MAX: u64 = 5_000;

/// Time for a process that takes over to prepare everything, including the cache, and to send
/// `Ready`; other processes wait until then.
pub(crate) const UPGRADE_READY_MS_MAX: u64 = 60_000;

/// How long all threads of a process that takes over wait for participant rows of the store. It is
/// most of `UPGRADE_READY_MS_MAX`, and longer than the default `shutdown_ms_max`, during which the
/// predecessor of the running server may still occupy rows.
pub(crate) const STORE_JOIN_MS_MAX: u64 = 40_000;

/// Interval at which a process that takes over checks for a free participant row.
pub(crate) const STORE_JOIN_RETRY_MS: u64 = 10;

/// Bytes of the content of an upgrade message. The longest message contains the reason for a
/// refusal.
pub(crate) const UPGRADE_MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Maximum number of descriptors in one message of an upgrade; the kernel's limit is 253.
pub(crate) const UPGRADE_DESCRIPTORS_MAX: usize = 128;

/// Listening sockets handed over in one upgrade: the largest value of `workers`, for the addresses
/// of `listen` and those of `listen_tls`.
pub(crate) const UPGRADE_SOCKETS_MAX: usize = 1024 * 2 * LISTEN_ADDRESSES_MAX;
