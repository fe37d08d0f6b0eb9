//! The table of counters: every number that Forebay counts, with its name and its meaning.
//!
//! Each worker counts in a slot of its own in the counter file; readers add up the slots.

use forebay_http::policy::reason::Reason;
use forebay_shm::{CounterDef, CounterKind, histogram_words};

macro_rules! counters {
    (
        $( $id:ident, $kind:ident, $name:literal, $help:literal; )*
        [reasons]
        $( $reason:ident, $word:literal, $reason_name:literal; )*
        [histograms]
        $( $histogram:ident, $bounds:expr, $histogram_name:literal, $histogram_help:literal; )*
    ) => {
        /// One counter. The value of the variant is the counter's index in a slot.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Counter {
            $( #[doc = $help] $id, )*
        }

        /// One histogram of durations. In a slot, histograms follow the counters of reasons.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Histogram {
            $( #[doc = $histogram_help] $histogram, )*
        }

        /// The name, kind and help text of everything that is counted: first each [`Counter`], then
        /// one counter for each [`Reason`], then each histogram.
        pub const COUNTERS: &[CounterDef] = &[
            $( CounterDef { name: $name, kind: CounterKind::$kind, help: $help }, )*
            $( CounterDef {
                name: $reason_name,
                kind: CounterKind::Counter,
                help: concat!("Answers with `detail=", $word, "` in Cache-Status."),
            }, )*
            $( CounterDef {
                name: $histogram_name,
                kind: CounterKind::Histogram($bounds),
                help: $histogram_help,
            }, )*
        ];

        const FIRST_REASON: usize = [$( $name ),*].len();
        const COUNTED_REASONS: &[Reason] = &[$( Reason::$reason ),*];
        const BOUNDS: &[&[u64]] = &[$( $bounds ),*];
    };
}

impl Counter {
    /// Returns the counter's index in a slot.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Returns the index, in a slot, of the counter for this reason.
pub(crate) const fn index_of_reason(reason: Reason) -> usize {
    FIRST_REASON + reason.code() as usize
}

/// Returns the reason that the counter with this index counts.
pub(crate) fn reason_at(index: usize) -> Option<Reason> {
    COUNTED_REASONS.get(index.checked_sub(FIRST_REASON)?).copied()
}

/// The number of counters, including those for reasons.
const COUNTER_COUNT: usize = FIRST_REASON + COUNTED_REASONS.len();

impl Histogram {
    /// Number of histograms.
    pub(crate) const COUNT: usize = BOUNDS.len();

    /// Returns the upper bound of each bucket of the histogram, except the last bucket, which has
    /// none.
    pub(crate) const fn bounds(self) -> &'static [u64] {
        BOUNDS[self as usize]
    }

    /// Returns the index, in a slot, of the first of the histogram's numbers.
    pub(crate) const fn first_word(self) -> usize {
        let (mut word, mut earlier) = (COUNTER_COUNT, 0);
        while earlier < self as usize {
            word += histogram_words(BOUNDS[earlier].len());
            earlier += 1;
        }
        word
    }
}

/// Returns `N` bounds, each twice the previous one.
const fn doubled<const N: usize>(first: u64) -> [u64; N] {
    let mut bounds = [first; N];
    let mut index = 1;
    while index < N {
        bounds[index] = 2 * bounds[index - 1];
        index += 1;
    }
    bounds
}

counters! {
    ConnectionsAccepted, Counter, "connections_accepted_total",
        "Client connections accepted.";
    ConnectionsOpen, Gauge, "connections_open",
        "Client connections open now.";
    ConnectionsRefused, Counter, "connections_refused_total",
        "Client connections closed right after they were accepted, because a worker or an address \
            had too many, none of them idle.";
    AcceptErrors, Counter, "accept_errors_total",
        "Failures to accept a connection, usually because file descriptors ran out.";
    TlsHandshakes, Counter, "tls_handshakes_total",
        "TLS handshakes of clients that were completed.";
    TlsResumed, Counter, "tls_resumed_total",
        "TLS handshakes that resumed an earlier session; `tls_handshakes_total` counts them too.";
    TlsHandshaking, Gauge, "tls_handshaking",
        "Connections of clients whose TLS handshake is not complete.";
    TlsTimedOut, Counter, "tls_timed_out_total",
        "TLS handshakes that took longer than `tls_handshake_ms_max`.";
    TlsGone, Counter, "tls_gone_total",
        "TLS handshakes during which the client closed the connection.";
    TlsNotTls, Counter, "tls_not_tls_total",
        "Connections to a TLS listener whose first bytes were not TLS.";
    TlsNoCertificate, Counter, "tls_no_certificate_total",
        "TLS handshakes for a name without a certificate.";
    TlsClientCertificatesRefused, Counter, "tls_client_certificates_refused_total",
        "TLS handshakes of clients without a certificate that they need, or with one that is not \
         valid.";
    TlsIncompatible, Counter, "tls_incompatible_total",
        "TLS handshakes without a common version, cipher suite, key exchange or protocol.";
    TlsAlerts, Counter, "tls_alerts_total",
        "TLS handshakes ended by a client's alert, usually because it rejects the certificate.";
    TlsMalformed, Counter, "tls_malformed_total",
        "TLS handshakes in which the client violated the protocol.";
    TlsKeysRotated, Counter, "tls_keys_rotated_total",
        "Replacements of the key that seals session tickets.";
    Requests, Counter, "requests_total",
        "Requests whose head was parsed.";
    RequestsRefused, Counter, "requests_refused_total",
        "Requests refused before they were forwarded (400, 403, 414, 417, 421, 431, 501, 505, \
         508).";
    TlsCertificatesReplaced, Counter, "tls_certificates_replaced_total",
        "Sets of certificates that were replaced because their files had changed.";
    TlsCertificatesRefused, Counter, "tls_certificates_refused_total",
        "Times that changed certificate files could not be used; the old ones stayed in use.";
    AcmeOrders, Counter, "acme_orders_total",
        "Orders of certificates by ACME that began.";
    AcmeCertificates, Counter, "acme_certificates_total",
        "Certificates that were issued by ACME.";
    AcmeFailures, Counter, "acme_failures_total",
        "Orders of certificates that failed, and times that the directory of certificates could \
            not be used. The certificates in use stayed in use.";
    AcmeHttpChallenges, Counter, "acme_http_challenges_total",
        "Requests that were answered with the proof of an http-01 challenge.";
    AcmeTlsChallenges, Counter, "acme_tls_challenges_total",
        "TLS handshakes for tls-alpn-01 challenges.";
    AcmeCertificatesMissing, Gauge, "acme_certificates_missing",
        "Sites with `acme` that have no certificate yet, and so no TLS.";
    AcmeExpiry, Gauge, "acme_expiry_unix_seconds",
        "The Unix time at which the first certificate by ACME expires; 0 if there is none.";
    HttpsRedirects, Counter, "https_redirects_total",
        "Requests without TLS that were redirected to `https` (`https_redirect_port`).";
    Redirects, Counter, "redirects_total",
        "Requests answered with the `redirect` of their route.";
    FixedAnswers, Counter, "fixed_answers_total",
        "Requests answered with the `respond` of their route.";
    HeadTimeouts, Counter, "head_timeouts_total",
        "Requests whose head did not arrive in time (408).";
    IdleTimeouts, Counter, "idle_timeouts_total",
        "Idle connections closed after `idle_ms_max`.";
    IdleDisplaced, Counter, "idle_displaced_total",
        "Idle connections closed to make room for new ones.";
    Http2Connections, Counter, "http2_connections_total",
        "Client connections that speak HTTP/2.";
    Http2TlsConnections, Counter, "http2_tls_connections_total",
        "Client connections that speak HTTP/2 over TLS; `http2_connections_total` counts them too.";
    Http2Requests, Counter, "http2_requests_total",
        "Requests over HTTP/2; they also count as `requests_total`.";
    Http2StreamsRefused, Counter, "http2_streams_refused_total",
        "Requests over HTTP/2 that were refused, because a worker or a client network had too \
            many at a time; the client may send them again.";
    Http2Resets, Counter, "http2_resets_total",
        "Streams of HTTP/2 that were reset by their clients, or because of malformed messages.";
    Http2Glitches, Counter, "http2_glitches_total",
        "Frames of HTTP/2 that cost work and that no honest client sends often, such as resets, \
         pings, settings, tiny data frames and small window updates.";
    Http2Errors, Counter, "http2_errors_total",
        "HTTP/2 connections ended because the client broke a rule or caused too many glitches.";
    SlowClients, Counter, "slow_clients_total",
        "Connections closed because a body moved slower than `body_rate_min`.";
    ClientsLeft, Counter, "clients_left_total",
        "Responses given up because the client had closed its connection while the origin sent \
         nothing; only responses that are not stored.";
    UploadsUnbuffered, Counter, "uploads_unbuffered_total",
        "Request bodies that were buffered only in part, because the buffers for their client's \
         network were full.";
    BodiesTooLarge, Counter, "bodies_too_large_total",
        "Request bodies over the limit (413).";
    EarlyFlushes, Counter, "early_flushes_total",
        "Times that a connection sent its queued responses before it answered its next request, \
            because the queue had reached its memory limit.";
    OutputWaiting, Gauge, "output_waiting_bytes",
        "Bytes of responses that wait for their clients: in send queues, in the streams of HTTP/2 \
            connections, and in the output of these connections.";
    RequestsPerConnectionReached, Counter, "requests_per_connection_reached_total",
        "Connections closed after `requests_per_connection_max` requests.";
    Hits, Counter, "hits_total",
        "Requests answered from the cache.";
    HitsNotModified, Counter, "hits_not_modified_total",
        "Hits answered with 304 because the client's copy was current.";
    HitsRange, Counter, "hits_range_total",
        "Hits answered with 206 from a complete stored response.";
    HitsStale, Counter, "hits_stale_total",
        "Hits answered with a stale response, which is validated in the background or whose origin \
            cannot be reached.";
    StaleIfError, Counter, "stale_if_error_total",
        "Requests answered with a stale response because the origin failed.";
    EarlyHints, Counter, "early_hints_total",
        "Requests that got a 103 with the links of the stored page that was validated for them.";
    OutdatedByHead, Counter, "outdated_by_head_total",
        "Stored responses that a HEAD has made stale, because the origin answered with another \
            validator or length.";
    BackgroundFetches, Counter, "background_fetches_total",
        "Fetches that validate a stale response in the background.";
    HitsContinued, Counter, "hits_continued_total",
        "Hits whose remaining bytes came from the origin, because parts of the stored body had \
            been evicted.";
    PartsFetched, Counter, "parts_fetched_total",
        "Parts of responses that the origin sent for range requests, or because they had been \
            evicted.";
    PartsRefused, Counter, "parts_refused_total",
        "Answers in which an origin did not send exactly the requested part of the requested \
            version of a stored response.";
    PartsStored, Counter, "parts_stored_total",
        "Parts of responses that were fetched and stored.";
    PartsNotStored, Counter, "parts_not_stored_total",
        "Parts of responses that were fetched, but not stored for lack of room.";
    HitsCut, Counter, "hits_cut_total",
        "Hits cut off because the cache reclaimed the response while it was being sent.";
    Misses, Counter, "misses_total",
        "Requests that found no stored response.";
    Stale, Counter, "stale_total",
        "Requests that found a stored response that had to be validated.";
    Bypasses, Counter, "bypasses_total",
        "Requests that bypass the cache because of their method, body, route or a directive.";
    ForwardedNotModified, Counter, "forwarded_not_modified_total",
        "Answers of an origin sent to the client as a 304, because the client's copy was current.";
    Collapsed, Counter, "collapsed_total",
        "Requests answered from the fetch of another request.";
    CollapseFailures, Counter, "collapse_failures_total",
        "Requests that waited for the fetches of other requests, and failed with these fetches.";
    HitsForMiss, Counter, "hits_for_miss_total",
        "Requests that were not collapsed, because less than `hit_for_miss_ms` earlier a response \
            for their key could not be stored.";
    Stored, Counter, "stored_total",
        "Responses stored.";
    NotStored, Counter, "not_stored_total",
        "Fetches whose response could not be stored.";
    FillsTooSlow, Counter, "fills_too_slow_total",
        "Responses not stored because they arrived slower than `fill_rate_min`, or for longer than \
         `fill_ms_max`.";
    RequestsNormalised, Counter, "requests_normalised_total",
        "Requests changed by `sort_query`, `keep_query`, `drop_query`, `keep_cookies` or \
         `languages`.";
    UnkeyedFieldsRemoved, Counter, "unkeyed_fields_removed_total",
        "Fetches that did not forward a field of the client's request because of `unkeyed_fields`.";
    CredentialsMissing, Counter, "credentials_missing_total",
        "Requests refused because they had no user name and password that could be read (401).";
    PasswordsWrong, Counter, "passwords_wrong_total",
        "Requests refused because the user name or the password was wrong (401).";
    PasswordChecks, Counter, "password_checks_total",
        "Passwords checked against their hashes, because the worker remembered no earlier check.";
    PasswordChecksRefused, Counter, "password_checks_refused_total",
        "Requests refused because too many passwords were waiting for their check (503).";
    SignaturesRefused, Counter, "signatures_refused_total",
        "Requests refused because their URLs had no valid signature (403; `signed_urls`).";
    AddressesRefused, Counter, "addresses_refused_total",
        "Requests refused because of `allow_from` or `deny_from` (403).";
    ClientCertificatesMissing, Counter, "client_certificates_missing_total",
        "Requests refused because their clients have shown no certificate, or one that is no \
         longer valid (403).";
    RateLimited, Counter, "rate_limited_total",
        "Requests refused because of `rate_limit` (429).";
    ConcurrencyLimited, Counter, "concurrency_limited_total",
        "Requests refused because of `concurrency_limit` (429 or 503).";
    ConcurrencyEntriesShared, Counter, "concurrency_entries_shared_total",
        "Requests that `concurrency_limit` counted together with those of another client or field \
         value, because all entries that they could use belonged to others.";
    RateLimitEntriesReplaced, Counter, "rate_limit_entries_replaced_total",
        "Clients or field values whose counts for `rate_limit` were given up, because \
         `rate_limit_entries` is too small.";
    ForwardedFieldsReplaced, Counter, "forwarded_fields_replaced_total",
        "Requests that were sent to origins without the client's own `X-Forwarded-For`, \
         `X-Forwarded-Proto`, `X-Forwarded-Host`, `Forwarded` or `X-Request-Id`, because the \
         client is not a trusted proxy.";
    ForwardedForMalformed, Counter, "forwarded_for_malformed_total",
        "Requests of trusted proxies with a malformed or too long `X-Forwarded-For`.";
    SetCookieStripped, Counter, "set_cookie_stripped_total",
        "Responses stored without the cookies that they set.";
    Validated, Counter, "validated_total",
        "Stored responses that the origin confirmed with 304.";
    VariantsNamed, Counter, "variants_named_total",
        "Stored variants that the origin named with 304 for requests that did not select them \
         (`validate_variants`).";
    FillsAborted, Counter, "fills_aborted_total",
        "Responses cut off while they were being stored.";
    FetchesAbandoned, Counter, "fetches_abandoned_total",
        "Fetches that all clients had left, and that were stopped because a client network had \
            left more than `abandoned_fetches_per_network_max` of them.";
    TargetedInvalid, Counter, "targeted_invalid_total",
        "Responses of origins with a field of `targeted_cache_control` that was ignored, because \
         it is no valid dictionary of directives.";
    TagsRefused, Counter, "tags_refused_total",
        "Responses not stored because they have too many tags, or tags that are too long.";
    Invalidated, Counter, "invalidated_total",
        "Stored responses invalidated by an unsafe request.";
    OriginsInvalidated, Counter, "origins_invalidated_total",
        "Answers to unsafe requests that invalidated their origin: they named too many groups.";
    GroupsLate, Counter, "groups_late_total",
        "Answers to unsafe requests that were sent before their groups were invalidated, because \
            the invalidation took too long and continued in the background.";
    Purged, Counter, "purged_total",
        "Stored responses that an operator purged: removed, or marked to be validated.";
    PurgeRequests, Counter, "purge_requests_total",
        "PURGE requests from clients that are allowed to send them.";
    PurgesBusy, Counter, "purges_busy_total",
        "Purges (including invalidations) that gave up because other purges took too long or \
         filled the queue.";
    PurgesFailed, Counter, "purges_failed_total",
        "Purges that failed or stopped before their end: the server stopped, another process has \
         a cache of its own, or an internal error ended them.";
    OriginRequests, Counter, "origin_requests_total",
        "Requests sent to an origin.";
    OriginConnections, Counter, "origin_connections_total",
        "Connections opened to an origin.";
    OriginConnectionsOpen, Gauge, "origin_connections_open",
        "Connections to origins open now.";
    OriginReused, Counter, "origin_reused_total",
        "Requests sent to an origin on a pooled connection.";
    OriginRetries, Counter, "origin_retries_total",
        "Requests sent again to the same origin because their connection was closed or reset.";
    OriginFailovers, Counter, "origin_failovers_total",
        "Requests sent to another origin of their site or route because an origin failed.";
    OriginOutOfZone, Counter, "origin_out_of_zone_total",
        "Times that a request went to an origin outside of the server's `zone`, because no origin \
         of the zone could take it.";
    OriginRetriesRefused, Counter, "origin_retries_refused_total",
        "Requests not sent again because of `origin_retry_percent`.";
    HedgedRequests, Counter, "hedged_requests_total",
        "Requests sent to a second origin because the first one had not answered after `hedge_ms`.";
    HedgesWon, Counter, "hedges_won_total",
        "Hedged requests for which the answer of the second origin was used.";
    HedgesRefused, Counter, "hedges_refused_total",
        "Requests not sent to a second origin because of `origin_retry_percent`.";
    OriginEjections, Counter, "origin_ejections_total",
        "Times that an origin got no requests for a while because it failed or was slow.";
    OriginOutliers, Counter, "origin_outliers_total",
        "Times that an origin got no requests for a while because its answers took much longer \
         than those of the others (`origin_outlier_factor`).";
    OriginChecks, Counter, "origin_checks_total",
        "Health checks of origins (`health_path`).";
    OriginChecksFailed, Counter, "origin_checks_failed_total",
        "Failed health checks of origins: no connection, no answer in time, or another status.";
    OriginConnectErrors, Counter, "origin_connect_errors_total",
        "Failures to open a connection to an origin: refused, unresolved or timed out.";
    OriginHttp2Connections, Counter, "origin_http2_connections_total",
        "Connections to origins that speak HTTP/2; they also count as `origin_connections_total`.";
    OriginHttp2Requests, Counter, "origin_http2_requests_total",
        "Requests to origins over HTTP/2, each on a stream of its own; they also count as \
            `origin_requests_total`.";
    OriginHttp2Refused, Counter, "origin_http2_refused_total",
        "Requests over HTTP/2 that an origin refused without processing them.";
    OriginHttp2Goaways, Counter, "origin_http2_goaways_total",
        "Connections over HTTP/2 that an origin ended with GOAWAY.";
    OriginTlsHandshakes, Counter, "origin_tls_handshakes_total",
        "TLS handshakes with origins that were completed.";
    OriginTlsErrors, Counter, "origin_tls_errors_total",
        "TLS handshakes with origins that failed: an invalid certificate, or no common version.";
    OriginAddressErrors, Counter, "origin_address_errors_total",
        "Failures to connect to one address of an origin; another address may have worked.";
    OriginResolutions, Counter, "origin_resolutions_total",
        "Resolutions of an origin's name.";
    OriginResolutionErrors, Counter, "origin_resolution_errors_total",
        "Failures to resolve an origin's name.";
    OriginTargetChanges, Counter, "origin_target_changes_total",
        "Changes of the targets of an SRV origin.";
    OriginTargetsLeftOut, Counter, "origin_targets_left_out_total",
        "Targets of SRV origins that got no requests because of `targets_max`, when they were \
         found.";
    OriginStaleAddresses, Counter, "origin_stale_addresses_total",
        "Uses of an origin's old addresses because its name could not be resolved in time.";
    OriginTimeouts, Counter, "origin_timeouts_total",
        "Origin answers that did not begin or continue in time.";
    OriginBadAnswers, Counter, "origin_bad_answers_total",
        "Origin answers refused: malformed, ambiguous in length, truncated or too long.";
    OriginBusy, Counter, "origin_busy_total",
        "Requests answered with 503 because no connection to the origin became free in time.";
    GaveWay, Counter, "gave_way_total",
        "Slow clients cut off because another request waited for a connection to the origin.";
    OriginUnasked, Counter, "origin_unasked_total",
        "Origin connections closed because the origin sent bytes while no request was open.";
    RuledAnswers, Counter, "ruled_answers_total",
        "Requests that header rules answered: redirects and refusals.";
    RulesFailed, Counter, "rules_failed_total",
        "Requests answered with 500 because header rules made a message invalid.";
    FaultsSent, Counter, "faults_sent_total",
        "Error responses that Forebay itself sent to clients.";
    ErrorPages, Counter, "error_pages_sent_total",
        "Error responses of Forebay itself with a page of `error_pages`.";
    OriginErrorPages, Counter, "origin_error_pages_sent_total",
        "Error responses of an origin whose body a page of `origin_error_pages` replaced.";
    ServerErrors, Counter, "server_errors_total",
        "Responses to clients with a status from 500, or that broke off because of the origin; not \
        those to requests with `only-if-cached`.";
    ResponsesCut, Counter, "responses_cut_total",
        "Connections reset in the middle of a response, so that clients notice the truncation.";
    BytesIn, Counter, "bytes_in_total",
        "Bytes read from clients.";
    BytesOut, Counter, "bytes_out_total",
        "Bytes written to clients.";
    OriginBytesIn, Counter, "origin_bytes_in_total",
        "Body bytes read from origins.";
    Panics, Counter, "panics_total",
        "Connections that ended in a panic; each is a bug.";
    WorkersStuck, Counter, "workers_stuck_total",
        "Times that a worker's event loop did not turn for five seconds.";
    LogLinesDropped, Counter, "log_lines_dropped_total",
        "Access-log lines dropped because the writer fell behind.";
    LogLinesFailed, Counter, "log_lines_failed_total",
        "Access-log lines that could not be written, usually because a disk was full.";
    EventsLost, Counter, "events_lost_total",
        "Events whose line could not be written to standard error: a write failed or took too \
         long.";
    AdminCrowded, Counter, "admin_crowded_total",
        "Admin connections that were closed, or refused, because too many were open.";
    Traces, Counter, "traces_total",
        "Traces of requests that operators have begun.";
    TracesOpen, Gauge, "traces_open",
        "Traces of requests that are open now.";
    TracesRefused, Counter, "traces_refused_total",
        "Traces of requests that were refused because too many were open.";
    TraceRequestsLost, Counter, "trace_requests_lost_total",
        "Requests that a trace does not show because the trace was not read in time.";
    LockProfileFailed, Counter, "lock_profile_failed_total",
        "1 if the lock profile could not be created, so that the server runs without one; \
            otherwise 0.";
    Reloads, Counter, "reloads_total",
        "New configurations that a running server has applied.";
    ReloadsRefused, Counter, "reloads_refused_total",
        "New configurations that a running server has refused; it kept the previous one.";
    ReloadsRolledBack, Counter, "reloads_rolled_back_total",
        "New configurations that a trial has replaced by the previous one.";
    Upgrades, Counter, "upgrades_total",
        "Upgrades in which a process took over, since the first process was started.";
    UpgradesFailed, Counter, "upgrades_failed_total",
        "Upgrades in which a process asked to take over but failed to, since the first process was \
            started.";
    Tunnels, Counter, "tunnels_total",
        "Connections that were switched to another protocol.";
    TunnelsOpen, Gauge, "tunnels_open",
        "Tunnels that are open now.";
    TunnelsRefused, Counter, "tunnels_refused_total",
        "Requests for a tunnel refused because of `tunnels_per_worker_max` or \
         `tunnels_per_address_max` (503).";
    TunnelsDeclined, Counter, "tunnels_declined_total",
        "Requests for a tunnel that the origin answered without switching protocols.";
    TunnelsIdle, Counter, "tunnels_idle_total",
        "Tunnels closed after `tunnel_idle_ms_max`.";
    TunnelsDrained, Counter, "tunnels_drained_total",
        "Tunnels closed because the server stopped or another process took over.";
    ResponsesCompressed, Counter, "responses_compressed_total",
        "Responses that were compressed when they were stored (`compress`).";
    CompressBytesIn, Counter, "compress_bytes_in_total",
        "Bytes of bodies before they were compressed.";
    CompressBytesOut, Counter, "compress_bytes_out_total",
        "Bytes of bodies after they were compressed.";
    CompressionsOpen, Gauge, "compressions_open",
        "Responses that are being compressed now.";
    CompressFailed, Counter, "compress_failed_total",
        "Responses that broke off because the encoder failed, or that were stored uncompressed \
            because no encoder could be created.";
    CompressNotAccepted, Counter, "compress_not_accepted_total",
        "Responses stored uncompressed because the client accepts no coding of `compress`.";
    CompressBusy, Counter, "compress_busy_total",
        "Responses stored uncompressed because `compressions_max`, or the half of it that one of \
            several sites may take, was in use.";
    CompressStatus, Counter, "compress_status_total",
        "Responses stored uncompressed because their status is not 200.";
    CompressType, Counter, "compress_type_total",
        "Responses stored uncompressed because their type is not in `compress_types`.";
    CompressSmall, Counter, "compress_small_total",
        "Responses stored uncompressed because they are shorter than `compress_bytes_min`.";
    CompressEncoded, Counter, "compress_encoded_total",
        "Responses that the origin had compressed.";
    CompressNoTransform, Counter, "compress_no_transform_total",
        "Responses stored uncompressed because of `no-transform`.";
    CompressOriginVaries, Counter, "compress_origin_varies_total",
        "Responses stored uncompressed because the origin varies by Accept-Encoding itself.";
    CompressPersonal, Counter, "compress_personal_total",
        "Responses stored uncompressed because they may be meant for one client.";
    CompressDigest, Counter, "compress_digest_total",
        "Responses stored uncompressed because they have a digest, a signature or a malformed tag.";
    ResponsesDecompressed, Counter, "responses_decompressed_total",
        "Responses whose content coding was removed, because their client does not accept it \
            (`decompress`).";
    DecompressBytesIn, Counter, "decompress_bytes_in_total",
        "Bytes of bodies before they were decompressed.";
    DecompressBytesOut, Counter, "decompress_bytes_out_total",
        "Bytes of bodies after they were decompressed.";
    DecompressionsOpen, Gauge, "decompressions_open",
        "Responses that are being decompressed now.";
    DecompressFailed, Counter, "decompress_failed_total",
        "Responses that broke off because their compressed body was malformed or became too long, \
            or that kept their coding because no decoder could be created.";
    DecompressBusy, Counter, "decompress_busy_total",
        "Responses that kept their coding and were not stored, because `decompressions_max`, or \
            the share of it that their site, their client network or responses that are not \
            stored may take, was in use.";
    DecompressNoTransform, Counter, "decompress_no_transform_total",
        "Responses that kept a coding that their client does not accept, because of \
            `no-transform`.";
    FilesAnswers, Counter, "files_answers_total",
        "Answers from the directories of `files`, for the cache or for a client. Hits need none.";
    FilesBytes, Counter, "files_bytes_total",
        "Bytes read from files of `files`.";
    FilesMissing, Counter, "files_missing_total",
        "Answers of routes with `files` that had no file for the path (404).";
    FilesFallbacks, Counter, "files_fallbacks_total",
        "Answers with the file of `files_fallback` in place of a missing file.";
    FilesDenied, Counter, "files_denied_total",
        "Files that were not served (403): no permission, not a regular file, or a symbolic link \
            that leads out of the directory.";
    FilesFailed, Counter, "files_failed_total",
        "Files that could not be read, because of an error or for lack of descriptors.";
    FilesChanged, Counter, "files_changed_total",
        "Responses that failed because their file changed while it was being read.";
    [reasons]
    Heuristic, "heuristic", "reason_heuristic_total";
    StaleWhileRevalidate, "stale-while-revalidate", "reason_stale_while_revalidate_total";
    StaleIfError, "stale-if-error", "reason_stale_if_error_total";
    StaleIfUnreachable, "stale-if-unreachable", "reason_stale_if_unreachable_total";
    Method, "method", "reason_method_total";
    RequestBody, "request-body", "reason_request_body_total";
    Range, "range", "reason_range_total";
    RequestNoStore, "request-no-store", "reason_request_no_store_total";
    Status, "status", "reason_status_total";
    MustUnderstand, "must-understand", "reason_must_understand_total";
    NoStore, "no-store", "reason_no_store_total";
    Private, "private", "reason_private_total";
    Authorization, "authorization", "reason_authorization_total";
    Vary, "vary", "reason_vary_total";
    SetCookie, "set-cookie", "reason_set_cookie_total";
    NoFreshness, "no-freshness", "reason_no_freshness_total";
    Tags, "tags", "reason_tags_total";
    RuledOut, "ruled-out", "reason_ruled_out_total";
    ContentRange, "content-range", "reason_content_range_total";
    NoStrongTag, "no-strong-tag", "reason_no_strong_tag_total";
    TooLarge, "too-large", "reason_too_large_total";
    NoRoom, "no-room", "reason_no_room_total";
    OriginFailed, "origin-failed", "reason_origin_failed_total";
    MarkedStale, "marked-stale", "reason_marked_stale_total";
    Declined, "declined", "reason_declined_total";
    NotStorable, "not-storable", "reason_not_storable_total";
    NotReusable, "not-reusable", "reason_not_reusable_total";
    NotFollowed, "not-followed", "reason_not_followed_total";
    LeaderFailed, "leader-failed", "reason_leader_failed_total";
    NotShared, "not-shared", "reason_not_shared_total";
    OnlyIfCached, "only-if-cached", "reason_only_if_cached_total";
    CacheOff, "cache-off", "reason_cache_off_total";
    BypassCookie, "bypass-cookie", "reason_bypass_cookie_total";
    BypassField, "bypass-field", "reason_bypass_field_total";
    Precondition, "precondition", "reason_precondition_total";
    ConnectionFields, "connection-fields", "reason_connection_fields_total";
    Upgrade, "upgrade", "reason_upgrade_total";
    ManyCookies, "many-cookies", "reason_many_cookies_total";
    ManyParameters, "many-parameters", "reason_many_parameters_total";
    Tunnel, "tunnel", "reason_tunnel_total";
    OriginUnreachable, "origin-unreachable", "reason_origin_unreachable_total";
    OriginTlsFailed, "origin-tls-failed", "reason_origin_tls_failed_total";
    OriginTimedOut, "origin-timed-out", "reason_origin_timed_out_total";
    OriginBadAnswer, "origin-bad-answer", "reason_origin_bad_answer_total";
    OriginBusy, "origin-busy", "reason_origin_busy_total";
    OtherOrigin, "other-origin", "reason_other_origin_total";
    Fallback, "fallback", "reason_fallback_total";
    NoTransform, "no-transform", "reason_no_transform_total";
    [histograms]
    LoopTurn, &doubled::<13>(16), "loop_turn_us",
        "Duration in microseconds of one turn of a worker's loop, from one poll of its sockets to \
            the next. All clients of the worker wait during a turn.";
    OriginFirstByte, &doubled::<17>(1), "origin_first_byte_ms",
        "Time in milliseconds from sending a request to an origin until the head of the answer has \
            arrived.";
}

#[cfg(test)]
mod tests {
    use forebay_shm::{CounterFile, CounterValue};

    use super::*;

    #[test]
    fn names_are_unique_and_in_the_form_of_prometheus() {
        let mut names: Vec<_> = COUNTERS.iter().map(|def| def.name).collect();
        for def in COUNTERS {
            let is_valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            let valid = def.name.bytes().all(is_valid);
            assert!(valid, "{}", def.name);
            let counter = matches!(def.kind, CounterKind::Counter);
            assert_eq!(counter, def.name.ends_with("_total"), "{}", def.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNTERS.len());
        assert_eq!(Counter::FilesChanged.index() + 1, FIRST_REASON);
    }

    #[test]
    fn every_reason_has_a_counter_of_its_name() {
        assert_eq!(COUNTED_REASONS, Reason::ALL);
        for reason in Reason::ALL {
            let index = index_of_reason(*reason);
            let name = format!("reason_{}_total", reason.word().replace('-', "_"));
            assert_eq!((COUNTERS[index].name, reason_at(index)), (name.as_str(), Some(*reason)));
            assert!(COUNTERS[index].help.contains(&format!("`detail={}`", reason.word())));
        }
        assert_eq!((reason_at(0), reason_at(COUNTER_COUNT)), (None, None));
    }

    #[test]
    fn a_histogram_lies_where_its_words_are_written() {
        let file = CounterFile::create(None, COUNTERS, 1).expect("memory");
        let slot = file.slot(0);
        for (histogram, last) in
            [(Histogram::LoopTurn, 65_536), (Histogram::OriginFirstByte, 65_536)]
        {
            let name = COUNTERS[COUNTER_COUNT + histogram as usize].name;
            let found = || {
                let found = file.values(COUNTERS).find(|(def, _)| def.name == name);
                match found.expect("it is in the table").1 {
                    CounterValue::Histogram(value) => value,
                    number => panic!("{name}: {number:?}"),
                }
            };
            assert_eq!((found().count(), found().sum), (0, 0), "{name}");
            assert_eq!(histogram.bounds().last(), Some(&last), "{name}");
            slot.observe(histogram.first_word(), histogram.bounds(), last + 1, last);
            assert_eq!(
                (found().buckets.last().map(|bucket| bucket.count), found().sum),
                (Some(1), last)
            );
        }
        assert_eq!(Histogram::OriginFirstByte as usize + 1, Histogram::COUNT);
    }
}
