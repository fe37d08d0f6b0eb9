//! The reasons that Cache-Status gives in its parameter `detail`, in one table with their words.
//! The access log, the counters and `forebay explain` use the same words.

macro_rules! reasons {
    ($( $(#[doc = $doc:literal])+ $id:ident $word:literal )*) => {
        /// Why a response was not stored or not shared, why the cache was bypassed, why a stale
        /// response was served, or why the origin gave no response.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Reason {
            $( $(#[doc = $doc])+ $id, )*
        }

        impl Reason {
            /// All reasons, in the order of their codes.
            pub const ALL: &[Reason] = &[$( Reason::$id ),*];

            /// The word for the reason: a token of RFC 9651.
            pub const fn word(self) -> &'static str {
                match self {
                    $( Reason::$id => $word, )*
                }
            }
        }
    };
}

reasons! {
    /// The lifetime of the stored response is a heuristic.
    Heuristic "heuristic"

    /// A stale response was served while a fetch in the background validates it.
    StaleWhileRevalidate "stale-while-revalidate"
    /// A stale response was served because the origin failed.
    StaleIfError "stale-if-error"
    /// A stale response was served because the origin cannot be reached.
    StaleIfUnreachable "stale-if-unreachable"

    /// The method is not GET.
    Method "method"
    /// The request has a body, which the key does not cover.
    RequestBody "request-body"
    /// The request has a malformed Range, or ranges are not stored.
    Range "range"
    /// The request says `no-store`.
    RequestNoStore "request-no-store"
    /// Responses with this status are not stored.
    Status "status"
    /// The response says `must-understand`, and Forebay does not understand the status.
    MustUnderstand "must-understand"
    /// The response says `no-store`.
    NoStore "no-store"
    /// The response says `private`.
    Private "private"
    /// The request has Authorization, and the response does not allow sharing.
    Authorization "authorization"
    /// The response varies by something that a key cannot express.
    Vary "vary"
    /// The response sets a cookie, and its fields or the route's settings do not allow storing it.
    SetCookie "set-cookie"
    /// The response is not fresh and cannot be validated.
    NoFreshness "no-freshness"
    /// The tags of the response are too many or too long.
    Tags "tags"
    /// Header rules forbid using the cache or storing the response.
    RuledOut "ruled-out"
    /// The origin's part of a response is not the one that was requested, or has no total length.
    ContentRange "content-range"
    /// A part of a response has no strong entity tag, so it cannot be combined with others.
    NoStrongTag "no-strong-tag"
    /// The body is too long to store.
    TooLarge "too-large"
    /// There was no room for the response while it arrived.
    NoRoom "no-room"
    /// The response is an error of the origin, which does not replace the stored response.
    OriginFailed "origin-failed"

    /// A soft purge or the response to a HEAD has made the stored response stale before its time.
    MarkedStale "marked-stale"
    /// An earlier response for the key was not storable, so its requests are not collapsed.
    Declined "declined"
    /// The request waited for a fetch whose response was not storable.
    NotStorable "not-storable"
    /// The request waited for a fetch whose response does not suit the request.
    NotReusable "not-reusable"
    /// The request asks for a response newer than the fetch for which it waited.
    NotFollowed "not-followed"
    /// The fetches that the request waited for failed.
    LeaderFailed "leader-failed"
    /// The stored response changed so often that the request could not share a fetch.
    NotShared "not-shared"

    /// The request says `only-if-cached`, and no stored response answers it.
    OnlyIfCached "only-if-cached"

    /// The route has `cache = false`.
    CacheOff "cache-off"
    /// The request has a cookie of `bypass_cookies`.
    BypassCookie "bypass-cookie"
    /// The request has a field of `bypass_fields`.
    BypassField "bypass-field"
    /// The request has a precondition that only the origin can evaluate.
    Precondition "precondition"
    /// The Connection field of the request names other fields.
    ConnectionFields "connection-fields"
    /// Another process, with a cache of its own, is taking over.
    Upgrade "upgrade"
    /// The request has more cookies than are compared with the names of the route's settings.
    ManyCookies "many-cookies"
    /// The query has more parameters than are compared with the names of the route's settings.
    ManyParameters "many-parameters"
    /// The request asks for another protocol, which its route permits.
    Tunnel "tunnel"

    /// No connection to the origin could be opened.
    OriginUnreachable "origin-unreachable"
    /// TLS to the origin failed.
    OriginTlsFailed "origin-tls-failed"
    /// The origin did not answer in time, or stopped in the middle of its answer.
    OriginTimedOut "origin-timed-out"
    /// The origin's answer is malformed, or its connection ended before the answer did.
    OriginBadAnswer "origin-bad-answer"
    /// All permitted connections to the origin are in use.
    OriginBusy "origin-busy"

    /// Rules have changed the URL to one whose responses come from other origins or files than this
    /// request's.
    OtherOrigin "other-origin"
    /// The page of `files_fallback` answers, which must not hide a file that is added later.
    Fallback "fallback"
    /// The request says `no-transform`, and stored responses may be decompressed.
    NoTransform "no-transform"
}

impl Reason {
    /// The index of the reason in [`Reason::ALL`].
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the reason with this code.
    pub fn from_code(code: u8) -> Option<Reason> {
        Reason::ALL.get(usize::from(code)).copied()
    }
}

/// The parameter `detail` of Cache-Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// The reason.
    pub reason: Reason,
    /// The reason why an earlier response for the key was not stored, if `reason` follows from
    /// that. Its word is appended to the word of `reason`, after a dash.
    pub cause: Option<Reason>,
}

impl Detail {
    /// Creates a detail. `cause` is the reason why another response was not stored, if `reason`
    /// follows from that.
    pub const fn caused(reason: Reason, cause: Option<Reason>) -> Detail {
        Detail { reason, cause }
    }

    /// Appends the detail as a token: `private`, `declined-private`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.reason.word().as_bytes());
        if let Some(cause) = self.cause {
            out.push(b'-');
            out.extend_from_slice(cause.word().as_bytes());
        }
    }
}

impl From<Reason> for Detail {
    fn from(reason: Reason) -> Detail {
        Detail { reason, cause: None }
    }
}

impl std::fmt::Display for Detail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.reason.word())?;
        self.cause.map_or(Ok(()), |cause| write!(f, "-{}", cause.word()))
    }
}
