//! The table of counters: every number that Forebay keeps, with its name and its meaning.
//!
//! A worker counts in a slot of its own, which nobody else writes; readers add the slots up.

use forebay_shm::{CounterDef, CounterKind, histogram_words};

macro_rules! counters {
    (
        $( $id:ident, $kind:ident, $name:literal, $help:literal; )*
        [histograms]
        $( $histogram:ident, $bounds:expr, $histogram_name:literal, $histogram_help:literal; )*
    ) => {
        /// One counter; its number is its place in a slot.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Counter {
            $( #[doc = $help] $id, )*
        }

        /// One histogram of durations; they lie behind the counters in a slot.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Histogram {
            $( #[doc = $histogram_help] $histogram, )*
        }

        /// Name, kind and help of every counter, in the order of [`Counter`], then of every
        /// histogram.
        pub const COUNTERS: &[CounterDef] = &[
            $( CounterDef { name: $name, kind: CounterKind::$kind, help: $help }, )*
            $( CounterDef {
                name: $histogram_name,
                kind: CounterKind::Histogram($bounds),
                help: $histogram_help,
            }, )*
        ];

        const COUNTER_COUNT: usize = [$( $name ),*].len();
        const BOUNDS: &[&[u64]] = &[$( $bounds ),*];
    };
}

impl Counter {
    /// The counter's place in a slot.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl Histogram {
    /// How many there are.
    pub(crate) const COUNT: usize = BOUNDS.len();

    /// The largest values of its buckets.
    pub(crate) const fn bounds(self) -> &'static [u64] {
        BOUNDS[self as usize]
    }

    /// Where in a slot its words begin.
    pub(crate) const fn first_word(self) -> usize {
        let (mut word, mut earlier) = (COUNTER_COUNT, 0);
        while earlier < self as usize {
            word += histogram_words(BOUNDS[earlier].len());
            earlier += 1;
        }
        word
    }
}

/// `N` bounds, each twice the one before.
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
        "Client connections closed at once because a worker or an address had too many.";
    AcceptErrors, Counter, "accept_errors_total",
        "Times that accepting a connection failed, mostly for want of file descriptors.";
    Requests, Counter, "requests_total",
        "Requests whose head was parsed.";
    RequestsRefused, Counter, "requests_refused_total",
        "Requests refused before they were forwarded (400, 403, 414, 417, 421, 431, 501, 505, \
         508).";
    HeadTimeouts, Counter, "head_timeouts_total",
        "Requests whose head did not arrive in time (408).";
    IdleTimeouts, Counter, "idle_timeouts_total",
        "Idle connections closed after their time.";
    SlowClients, Counter, "slow_clients_total",
        "Connections closed because a body moved slower than the least rate.";
    BodiesTooLarge, Counter, "bodies_too_large_total",
        "Request bodies over the limit (413).";
    EarlyFlushes, Counter, "early_flushes_total",
        "Times that answers were sent early because a connection may hold no more memory.";
    RequestsPerConnectionReached, Counter, "requests_per_connection_reached_total",
        "Connections closed after their last permitted request.";
    Hits, Counter, "hits_total",
        "Requests answered from the cache.";
    HitsNotModified, Counter, "hits_not_modified_total",
        "Hits answered with 304 because the client's copy was current.";
    HitsRange, Counter, "hits_range_total",
        "Hits answered with 206 from a complete stored response.";
    HitsContinued, Counter, "hits_continued_total",
        "Hits whose rest came from the origin because parts of what was stored had left meanwhile.";
    HitsCut, Counter, "hits_cut_total",
        "Hits broken off because the memory of what was to be sent was needed for something else.";
    Misses, Counter, "misses_total",
        "Requests that found nothing stored.";
    Stale, Counter, "stale_total",
        "Requests that found a stored response which had to be validated.";
    Bypasses, Counter, "bypasses_total",
        "Requests that the cache does not answer: method, body, route or directive.";
    Collapsed, Counter, "collapsed_total",
        "Requests answered from the fetch of another request.";
    CollapseTimeouts, Counter, "collapse_timeouts_total",
        "Followers that waited too long and fetched for themselves.";
    Stored, Counter, "stored_total",
        "Responses stored.";
    NotStored, Counter, "not_stored_total",
        "Fetches whose response could not be stored.";
    Validated, Counter, "validated_total",
        "Stored responses that the origin confirmed with 304.";
    FillsAborted, Counter, "fills_aborted_total",
        "Responses that broke off while they were being stored.";
    TagsRefused, Counter, "tags_refused_total",
        "Responses that could not be stored because they have too many tags, or too long ones.";
    Invalidated, Counter, "invalidated_total",
        "Stored responses dropped because of an unsafe request.";
    OriginsInvalidated, Counter, "origins_invalidated_total",
        "Answers to unsafe requests that dropped all of their origin: they named too many groups.";
    GroupsLate, Counter, "groups_late_total",
        "Answers to unsafe requests that were sent before their groups were dropped, because that \
         took too long; it went on.";
    Purged, Counter, "purged_total",
        "Stored responses that an operator purged: dropped, or marked to be validated.";
    PurgeRequests, Counter, "purge_requests_total",
        "PURGE requests from clients that may send them.";
    PurgesBusy, Counter, "purges_busy_total",
        "Purges, also of unsafe requests, that dropped nothing because another one did not end.";
    PurgesFailed, Counter, "purges_failed_total",
        "Purges that were not done, or not to their end: the server stopped, another process has \
         a cache of its own, or an error of this server's own ended them.";
    OriginRequests, Counter, "origin_requests_total",
        "Requests sent to an origin.";
    OriginConnections, Counter, "origin_connections_total",
        "Connections opened to an origin.";
    OriginConnectionsOpen, Gauge, "origin_connections_open",
        "Connections to origins open now.";
    OriginReused, Counter, "origin_reused_total",
        "Requests sent on a pooled connection.";
    OriginRetries, Counter, "origin_retries_total",
        "Requests sent again because a pooled connection was dead.";
    OriginConnectErrors, Counter, "origin_connect_errors_total",
        "Connections to an origin that failed or took too long.";
    OriginAddressErrors, Counter, "origin_address_errors_total",
        "Times that an address of an origin took no connection; there may be others.";
    OriginResolutions, Counter, "origin_resolutions_total",
        "Times that the name of an origin was resolved.";
    OriginResolutionErrors, Counter, "origin_resolution_errors_total",
        "Times that the name of an origin could not be resolved.";
    OriginStaleAddresses, Counter, "origin_stale_addresses_total",
        "Times that the last addresses of an origin were used for want of newer ones.";
    OriginTimeouts, Counter, "origin_timeouts_total",
        "Origin answers that did not begin or go on in time.";
    OriginBadAnswers, Counter, "origin_bad_answers_total",
        "Origin answers refused: unparsable, doubly framed, truncated, overlong.";
    OriginBusy, Counter, "origin_busy_total",
        "Requests that found every permitted connection to the origin in use (503).";
    GaveWay, Counter, "gave_way_total",
        "Clients let down for a request that waited for their connection to the origin.";
    OriginUnasked, Counter, "origin_unasked_total",
        "Origin connections closed because of bytes that nobody asked for.";
    RuledAnswers, Counter, "ruled_answers_total",
        "Requests that header rules answered by themselves: redirects, refusals.";
    RulesFailed, Counter, "rules_failed_total",
        "Requests that header rules have made into what is no valid message (500).";
    FaultsSent, Counter, "faults_sent_total",
        "Error responses of Forebay's own sent to clients.";
    ResponsesCut, Counter, "responses_cut_total",
        "Connections reset in the middle of a response, so that it can't be taken for whole.";
    BytesIn, Counter, "bytes_in_total",
        "Bytes read from clients.";
    BytesOut, Counter, "bytes_out_total",
        "Bytes written to clients.";
    OriginBytesIn, Counter, "origin_bytes_in_total",
        "Body bytes read from origins.";
    Panics, Counter, "panics_total",
        "Connections that ended in a panic; each is a bug.";
    LogLinesDropped, Counter, "log_lines_dropped_total",
        "Access-log lines dropped because the writer was behind.";
    LockProfileFailed, Counter, "lock_profile_failed_total",
        "Times that the lock profile could not be made: 1 if there is none for that reason.";
    Reloads, Counter, "reloads_total",
        "Configurations applied while running.";
    ReloadsRefused, Counter, "reloads_refused_total",
        "Configurations refused; the running one stayed.";
    Upgrades, Counter, "upgrades_total",
        "Times that a process took over from the one before, since the first was started.";
    UpgradesFailed, Counter, "upgrades_failed_total",
        "Times that a process asked to take over and did not, since the first was started.";
    [histograms]
    LoopTurn, &doubled::<13>(16), "loop_turn_us",
        "Microseconds that a turn of a worker's loop took: what it did between two looks at its \
         sockets. Who waits for the worker waits for that long.";
    OriginFirstByte, &doubled::<17>(1), "origin_first_byte_ms",
        "Milliseconds from a request to an origin until the head of its answer was there.";
}

#[cfg(test)]
mod tests {
    use forebay_shm::{CounterFile, CounterValue};

    use super::*;

    #[test]
    fn names_are_unique_and_in_the_form_of_prometheus() {
        let mut names: Vec<_> = COUNTERS.iter().map(|def| def.name).collect();
        for def in COUNTERS {
            let valid = def.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(valid, "{}", def.name);
            let counter = matches!(def.kind, CounterKind::Counter);
            assert_eq!(counter, def.name.ends_with("_total"), "{}", def.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNTERS.len());
        assert_eq!(Counter::UpgradesFailed.index() + 1, COUNTER_COUNT);
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
