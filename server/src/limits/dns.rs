//! Limits of the addresses of origins, and of the DNS client.

/// Names of origins whose addresses are kept; all names come from the configuration. At the limit,
/// the quarter of the names that was resolved least recently is removed.
pub(crate) const HOSTS_MAX: usize = 16 << 10;

/// Maximum number of names that one worker resolves at the same time; further names wait. A working
/// resolver takes milliseconds, so this many threads resolve thousands of names per second. A
/// resolver that hangs holds a thread for half a minute per name, even if no request waits any
/// longer; this limit bounds the number of such threads.
pub(crate) const RESOLUTIONS_MAX: usize = 32;

/// Addresses that are kept for one name. With more, each address would get too small a share of the
/// time to connect.
pub(crate) const HOST_ADDRESSES_MAX: usize = 16;

/// Pause after a failed resolution, and before a name whose addresses all refuse connections is
/// resolved again. Without a pause, every request for a broken name would take a thread; with a
/// longer one, a repaired or moved name would be noticed late.
pub(crate) const HOST_RETRY_MS: u64 = 1_000;

/// How long requests wait for a resolution, from its start, before they use stale addresses: half
/// of the default `origin_connect_ms_max`, so that the rest allows for one lost packet, which is
/// sent again after a second. RFC 8767 §5 suggests 1.8 s; a resolver with working servers is
/// faster, even if its first server does not answer immediately.
pub(crate) const HOST_WAIT_MS: u64 = 1_500;

/// The time after a failed resolution in which requests use stale addresses and do not wait for the
/// resolver. Without it, each attempt would delay all requests. RFC 8767 §5: failure recheck timer.
pub(crate) const HOST_DOUBTED_MS: u64 = 30_000;

/// Interval at which one request first tries an address that has refused a connection; all other
/// requests try that address last. If the address does not answer, the one request loses the
/// address's share of the time to connect.
pub(crate) const ADDRESS_FAILED_MS: u64 = 10_000;

/// Name servers that are asked. resolv.conf(5) uses three at most.
pub(crate) const DNS_SERVERS_MAX: usize = 8;

/// How long one name server may take to answer one attempt. A working server on the same network
/// answers in milliseconds; one that has to ask others itself seldom needs longer than this.
pub(crate) const DNS_ATTEMPT_MS: u64 = 1_000;

/// How often all name servers are asked in turn, because a datagram may be lost.
pub(crate) const DNS_ROUNDS_MAX: usize = 2;

/// The size of datagrams that name servers may send: larger ones are fragmented on many networks
/// (DNS flag day 2020). Longer answers come over TCP.
pub(crate) const DNS_DATAGRAM_BYTES_MAX: u16 = 1_232;

/// The largest answer over TCP: some hundred targets.
pub(crate) const DNS_MESSAGE_BYTES_MAX: usize = 32 << 10;

/// Records in each section of an answer. Longer answers are refused before they are read.
pub(crate) const DNS_RECORDS_MAX: u16 = 1_024;

/// Aliases (CNAME) that are followed within one answer.
pub(crate) const DNS_ALIASES_MAX: usize = 8;

/// The least time for which the result of a resolution is used, even if its records have a shorter
/// validity: names are resolved at most this often.
pub(crate) const DNS_VALID_MS_MIN: u64 = 1_000;

/// How long the start of the server, and a reload, wait for the targets of new services: a working
/// name server answers within milliseconds, and one that fails must not keep a server from
/// starting.
pub(crate) const SERVICE_WAIT_MS: u64 = 3_000;

/// How long the targets of a service are kept that no configuration has any more: longer than the
/// longest trial, a day, because a trial may return to the previous configuration.
pub(crate) const SERVICE_KEPT_MS: u64 = 90_000_000;

/// Targets in the text of one event.
pub(crate) const TARGETS_SHOWN_MAX: usize = 16;
