//! Limits that are not settings, each with its reason. Those that are settings stand in
//! `config/table.rs`.

use forebay_http::chunked::ChunkedLimits;
use forebay_http::response::OriginLimits;

/// A DNS name has at most 253 letters; `Host` values beyond this match no site.
pub(crate) const HOST_BYTES_MAX: usize = 255;

/// Ten thousand sites fit; a larger file is some other file given by mistake.
pub(crate) const CONFIG_BYTES_MAX: usize = 16 << 20;

/// More errors than anyone reads at once; the count names the rest.
pub(crate) const CONFIG_ERRORS_MAX: usize = 50;

/// What fits on a terminal; the rest of a line is not shown.
pub(crate) const CONFIG_LINE_CHARS_MAX: usize = 160;

/// One of so many runs of rules is timed: two looks at the clock for each rule cost more than most
/// rules do.
pub(crate) const RULE_SAMPLE_EVERY: u64 = 256;

/// Rule files at one place of a configuration: more is a list that belongs in fewer files.
pub(crate) const RULE_FILES_MAX: usize = 64;

/// Groups that one answer may drop (RFC 9875 asks for 32 at least); each 64 are a purge. With more
/// it drops all of its origin.
pub(crate) const INVALIDATED_GROUPS_MAX: usize = 256;

/// Purges and counts by host, prefix or tags that wait for the one under way.
pub(crate) const PURGES_QUEUED_MAX: usize = 64;

/// Of these places, those that unsafe requests leave to operators: anybody may send them.
pub(crate) const PURGES_RESERVED: usize = 16;

/// At the end the purge under way gets this long. What it leaves it has not acknowledged.
pub(crate) const PURGER_FINISH_MS_MAX: u64 = 2_000;

/// How often somebody hears of a purge that takes long.
pub(crate) const PURGE_PROGRESS_MS: u64 = 250;

/// Who waits for a purge gets a line at least so often, so that it does not give up.
pub(crate) const PURGE_REPEAT_MS: u64 = 1_000;

/// Keys that are named of what a purge would take out.
pub(crate) const PURGE_SAMPLE_MAX: usize = 10;

/// How much the thread that purges gives way to those that serve: a third of a processor that is
/// wanted by both, which is milliseconds for thousands of responses.
pub(crate) const PURGER_NICENESS: i32 = 5;

/// Beginnings of keys that one purge or listing by host means: each is a purge of its own, and more
/// sites for one host are better named.
pub(crate) const SELECTIONS_MAX: usize = 256;

/// Addresses at one place of a configuration: they are tried one after the other.
pub(crate) const ADDRESS_RANGES_MAX: usize = 256;

/// Routes are tried one after the other for every request.
pub(crate) const ROUTES_PER_SITE_MAX: usize = 256;

/// Bytes of a connection's first input buffer: a request with many cookies, and one page of most
/// uploads, in one read.
pub(crate) const INPUT_BYTES: usize = 16 << 10;

/// A buffer that grew beyond this for one large head is not kept for the next connection.
pub(crate) const BUFFER_BYTES_KEPT_MAX: usize = 64 << 10;

/// Sets of buffers that a worker keeps: about 40 MiB if each was in use, far less usually.
pub(crate) const BUFFERS_POOLED_MAX: usize = 1024;

/// Bodies up to this size are copied behind their head, so that a usual answer is one plain send:
/// a second piece needs a vectored write and a reference to the store's memory. The copy of 1 KiB
/// is 2 % of a hit (docs/performance.md).
pub(crate) const INLINE_BODY_BYTES_MAX: usize = 4 << 10;

/// Pieces of one vectored write; more go in the next.
pub(crate) const OUT_SLICES_MAX: usize = 16;

/// Bytes that a follower takes from a growing record at a time. So much a connection may hold above
/// `connection_bytes_max`, and has to copy in one turn if its client makes it wait.
pub(crate) const READ_BYTES_MAX: u64 = 64 << 10;

/// Fragments of a long stored body that a connection has the store keep at a time: enough for the
/// kernel's send buffer, and little to be copied out under a client that does not read.
pub(crate) const LENT_FRAGMENTS_MAX: usize = 2;

/// Pieces of stored bodies that wait to be sent to one client, who may have asked for many at once:
/// each keeps a segment from being used again.
pub(crate) const LENT_PIECES_MAX: usize = 16;

/// Connections that the kernel queues for one listener. `net.core.somaxconn` may hold it lower.
pub(crate) const LISTEN_BACKLOG: i32 = 4096;

/// Pause after running out of file descriptors, in which some connection may end.
pub(crate) const ACCEPT_RETRY_MS: u64 = 50;

/// One call of the sweep sees this part of the connections, so that no turn of the loop grows
/// with their number.
pub(crate) const SWEEP_SLICES: usize = 10;

/// How long a worker's thread sleeps for another purge to end before it drops what an unsafe
/// request has changed. They take microseconds; if not, others must not wait for it.
pub(crate) const INVALIDATE_WAIT_US_MAX: u64 = 1_000;

/// After that it is tried again in the background, so often and so long; the answer to the unsafe
/// request waits for it. Purges that walk are tried for as long.
pub(crate) const INVALIDATE_RETRY_MS: u64 = 10;
pub(crate) const INVALIDATE_MS_MAX: u64 = 5_000;

/// How often the control thread looks after the store: whether others that share it have died, and
/// what they left behind.
pub(crate) const STORE_SWEEP_MS: u64 = 1_000;

/// Time between two slices; deadlines are kept to `SWEEP_SLICES` times this.
pub(crate) const SWEEP_MS: u64 = 50;

/// After its last answer a connection reads and drops what the client still sends, up to this.
pub(crate) const LINGER_BYTES_MAX: usize = 1 << 20;

/// And for this long.
pub(crate) const LINGER_MS_MAX: u64 = 2_000;

/// Events that one worker logs in a second; the counters go on.
pub(crate) const EVENTS_PER_SECOND_MAX: u32 = 20;

/// The head of an origin's answer: real ones have about 20 fields and 2 KiB; more are refused.
pub(crate) const ORIGIN_LIMITS: OriginLimits =
    OriginLimits { head_bytes_max: 64 << 10, field_count_max: 200 };

/// What a chunked request body may carry besides data. Nobody uses extensions, and few trailers.
pub(crate) const CHUNKED_LIMITS: ChunkedLimits = ChunkedLimits {
    extension_bytes_max: 4 << 10,
    trailer_bytes_max: 8 << 10,
    trailer_count_max: 32,
};

/// Read buffer of an origin connection: large bodies move in pieces of up to this.
pub(crate) const ORIGIN_BUFFER_BYTES_MAX: usize = 128 << 10;

/// Names of origins whose addresses are kept; they come from the configuration only. One more, and
/// a quarter leaves, those not used longest.
pub(crate) const HOSTS_MAX: usize = 16 << 10;

/// Names that one worker has the system resolve at once; more wait. A resolver that works takes
/// milliseconds, so this many do thousands a second. One that hangs holds a thread each time for
/// half a minute, whoever still waits for it; so that is all that it can hold.
pub(crate) const RESOLUTIONS_MAX: usize = 32;

/// Threads of one worker that may block: nothing but resolving names does.
pub(crate) const BLOCKING_THREADS_MAX: usize = RESOLUTIONS_MAX;

/// Addresses kept of one name; beyond this each has too small a share of the time to connect.
pub(crate) const HOST_ADDRESSES_MAX: usize = 16;

/// Pause after a name could not be resolved, and before one whose addresses take no connection is
/// resolved anew. Without it each request for a broken name takes a thread; with a longer one a
/// mended or moved name is noticed late.
pub(crate) const HOST_RETRY_MS: u64 = 1_000;

/// For so long, from its beginning, all wait for a resolution before they use stale addresses. Half
/// of the usual `origin_connect_ms_max`, so that what is left allows for one lost packet, which is
/// sent again after a second. RFC 8767 §5 suggests 1.8 s: a resolver whose servers work, the first
/// of them not at once, is faster.
pub(crate) const HOST_WAIT_MS: u64 = 1_500;

/// After a failure a resolver has so long to show that it works again before anybody who has stale
/// addresses waits for it: else each try holds up all. The failure recheck timer of RFC 8767 §5.
pub(crate) const HOST_DOUBTED_MS: u64 = 30_000;

/// An address that took no connection is tried after the others of its name; each time that this
/// is over, one request tries it first. If nothing answers there, that costs the request its share
/// of the time to connect.
pub(crate) const ADDRESS_FAILED_MS: u64 = 10_000;

/// Interim answers (1xx) passed on for one request; more are dropped.
pub(crate) const INTERIM_COUNT_MAX: u32 = 16;

/// Times that one request joins a fetch before it goes to the origin by itself: once for the
/// resource, once for its variant, once more if that was replaced meanwhile.
pub(crate) const JOINS_MAX: usize = 3;

/// Time for which a URL whose answer could not be stored is fetched by each request for itself; a
/// URL that has become storable is noticed after it.
pub(crate) const DECLINED_MS: u64 = 10_000;

/// Lines of the access log gather up to this before the writer gets them.
pub(crate) const LOG_BATCH_BYTES: usize = 32 << 10;

/// Batches that wait for the writer, of all workers together: 8 MiB.
pub(crate) const LOG_BATCHES_MAX: usize = 256;

/// A quiet server's log is at most this far behind.
pub(crate) const LOG_FLUSH_MS: u64 = 200;

/// Bytes of an admin request's body: a URL.
pub(crate) const ADMIN_BODY_BYTES_MAX: usize = 64 << 10;

/// Pieces of an answer in lines that wait for its client.
pub(crate) const ADMIN_PIECES_MAX: usize = 4;

/// Resources that are listed in one turn of the control thread's loop: some 100 microseconds.
pub(crate) const LISTED_AT_ONCE_MAX: usize = 64;

/// Admin connections at once.
pub(crate) const ADMIN_CONNECTIONS_MAX: usize = 64;

/// An admin client that sends nothing for this long is closed.
pub(crate) const ADMIN_IDLE_MS_MAX: u64 = 30_000;

/// A sliding window asks this often whether its slowest reader holds up the others for too long.
pub(crate) const WINDOW_ASK_MS: u64 = 500;

/// A long body for which there is no room at its end is tried again so often, this far apart: who
/// is asked to give up a segment does so within some 50 ms.
pub(crate) const STORE_TRIES_MAX: u32 = 20;
pub(crate) const STORE_TRY_MS: u64 = 10;

/// So long a client may stand still while what it is sent passes through, and a request waits for
/// the permit; longer than it takes to send a lost acknowledgement again.
pub(crate) const GIVE_WAY_MS: u64 = 1_000;

/// Who waits for a permit asks another to give way this often: some times before it gives up.
pub(crate) const GIVE_WAY_ASK_MS: u64 = 250;

/// At the end the access log's writer gets this long for what it has not written.
pub(crate) const LOG_FINISH_MS_MAX: u64 = 2_000;

/// How often the control thread looks whether the log's writer has finished.
pub(crate) const LOG_FINISH_POLL_MS: u64 = 5;

/// A server that is told to stop still takes a request on every open connection for so long: the
/// answer says that the connection ends, and no client meets a close in the middle of asking.
pub(crate) const DRAIN_IDLE_MS: u64 = 250;

/// Who asks to take over says so at once; others wait behind it.
pub(crate) const UPGRADE_HELLO_MS_MAX: u64 = 2_000;

/// Either side of an upgrade has its next word ready; a process that is stopped or hangs must not
/// keep the other waiting.
pub(crate) const UPGRADE_ANSWER_MS_MAX: u64 = 5_000;

/// A process that takes over gets this long to be ready, cache included. Until then others wait.
pub(crate) const UPGRADE_READY_MS_MAX: u64 = 60_000;

/// So long a process that takes over waits for a place in the store: most of the time it has, and
/// longer than `shutdown_ms_max` usually is, for which the one before the last may still be there.
pub(crate) const STORE_JOIN_MS_MAX: u64 = 40_000;

/// How often it looks for one.
pub(crate) const STORE_JOIN_RETRY_MS: u64 = 10;

/// A message of an upgrade: its longest part is the reason of a refusal.
pub(crate) const UPGRADE_MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Descriptors in one message of an upgrade; the kernel takes 253.
pub(crate) const UPGRADE_DESCRIPTORS_MAX: usize = 128;

/// Listening sockets that are handed over in all: as many as `workers` can be.
pub(crate) const UPGRADE_SOCKETS_MAX: usize = 1024;
