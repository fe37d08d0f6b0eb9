//! Faults: the reasons why requests fail, the sides that cause them, and their consequences.
//!
//! A [`Fault`] alone decides the status code of the answer and the fate of the client's connection.
//! Nothing else in the server chooses a 4xx or 5xx, except that the decision about a range may
//! choose 416.

use forebay_http::error::RequestError;
use forebay_http::policy::reason::Reason;

use crate::counters::Counter;
use crate::events::Event;

/// The side that caused a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The client's request, or its connection.
    Client,
    /// The origin's answer, or its connection.
    Origin,
    /// Forebay: a limit of its own or of the machine, or a bug.
    Us,
}

/// The reason why a request does not get the response that it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request is malformed or asks for a feature that Forebay does not have.
    Request(RequestError),
    /// The target has bytes that a URI cannot have, so it cannot be forwarded unchanged.
    TargetNotForwardable,
    /// The origin might resolve the path to a path of another route.
    AmbiguousPath,
    /// The route takes a prefix off the path or adds one, and the origin might resolve the path to
    /// one outside the prefix.
    PathOutsidePrefix,
    /// A chunked request body is malformed.
    RequestBody,
    /// A GET or HEAD request has content, which its route does not accept.
    GetContent,
    /// The request body is longer than the limit.
    RequestBodyTooLarge,
    /// The head did not arrive in time.
    HeadTimeout,
    /// A body moved slower than `body_rate_min`.
    TooSlow,
    /// The client closed or reset its connection.
    ClientGone,
    /// No site serves this host.
    NoSite,
    /// The requested host's certificates differ from those of this connection.
    OtherCertificates,
    /// The site has no tunnels to the port of a CONNECT, or only over TLS.
    ConnectRefused,
    /// The request has passed through this server before.
    Loop,
    /// The route does not serve the client's address.
    AddressRefused,
    /// The route requires a client certificate, and the client has shown none.
    NoCertificate,
    /// The certificate of the client is no longer valid.
    CertificateRefused,
    /// The route asks for a user name and a password, and the request has none that can be read.
    NoCredentials,
    /// The user does not exist, or has another password.
    WrongPassword,
    /// The route serves signed URLs only, and the URL has no signature, or the method is not GET or
    /// HEAD.
    NotSigned,
    /// The signature of the URL was made with another key, or for another URL.
    WrongSignature,
    /// The signature of the URL has expired.
    SignatureExpired,
    /// Too many passwords wait for their check, or one could not be checked.
    LoginsBusy,
    /// As many requests are in progress as a limit of the route permits.
    ConcurrencyLimited {
        /// Whether the limit counts the requests of all clients, so that this client need not be
        /// the cause.
        is_shared: bool,
    },
    /// The request exceeds a rate limit.
    RateLimited {
        /// The index of the limit in the list of the route.
        limit: u8,
        /// The time after which the request would be admitted.
        wait_s: u32,
    },
    /// The client's address is not allowed to purge.
    PurgeForbidden,
    /// A PURGE request names more tags, or longer tags, than a response can have.
    PurgeTags,
    /// A PURGE request by tags names no tags in the fields from which its route reads tags.
    PurgeNoTags,
    /// A PURGE or BAN names responses by an expression other than a prefix or a list of tags.
    PurgePattern,
    /// During an upgrade, the other process has a cache of its own, which this purge cannot reach.
    PurgeElsewhere,
    /// The purge could not run, because other purges took too long.
    PurgeBusy,
    /// The client sent only-if-cached, and no usable response is stored.
    OnlyIfCached,
    /// The cache reclaimed the stored response while it was being sent.
    HitCut,
    /// The client was slow while another request waited for an origin connection.
    GaveWay,
    /// Header rules made an invalid message.
    Rules,
    /// A bug in Forebay ended the fetch.
    Internal,
    /// All permitted connections to the origin are in use.
    OriginBusy,
    /// The client's network, or all clients together, have as many tunnels as the settings permit.
    TunnelsFull,
    /// The origin's name has no address.
    OriginName,
    /// No address of the origin accepted a connection.
    OriginConnect,
    /// Connecting to the origin took too long.
    OriginConnectTimeout,
    /// The TLS handshake with the origin failed, or its certificate is not valid.
    OriginTls(&'static str),
    /// The origin did not begin to answer in time.
    OriginFirstByteTimeout,
    /// The origin stopped in the middle of its answer.
    OriginIdleTimeout,
    /// The origin closed the connection before its answer was complete.
    OriginBroke,
    /// The origin's answer is malformed, framed twice or too long.
    OriginAnswer(&'static str),
    /// The content of the origin's answer cannot be decompressed. The connection is in order.
    OriginCoding(&'static str),
    /// The directory or a file of a route with `files` could not be opened or read.
    FilesFailed,
    /// The process or the system had no descriptor, memory or thread left to read a file.
    FilesBusy,
    /// A file was changed while it was being read.
    FileChanged,
    /// The fetches of other requests, for which this request waited, failed. The number is the
    /// status of the last failure.
    FetchesFailed(u16),
}

/// The reason of [`Fault::AmbiguousPath`].
const AMBIGUOUS_PATH: &str = "the path can be read as a path of another route; write it without \
                              /./, /../, //, \\, ; and needless percent-encoding";

/// The reason of [`Fault::PathOutsidePrefix`].
const PATH_OUTSIDE_PREFIX: &str = "the path is not below the prefix of its route, or can be read \
                                   as one that is not; write it without /./, /../, //, \\, ; and \
                                   needless percent-encoding";

impl Fault {
    /// Returns the side that caused the fault.
    pub(crate) fn side(self) -> Side {
        match self {
            Fault::Request(_)
            | Fault::TargetNotForwardable
            | Fault::AmbiguousPath
            | Fault::PathOutsidePrefix
            | Fault::RequestBody
            | Fault::GetContent
            | Fault::RequestBodyTooLarge
            | Fault::HeadTimeout
            | Fault::TooSlow
            | Fault::ClientGone
            | Fault::NoSite
            | Fault::OtherCertificates
            | Fault::ConnectRefused
            | Fault::Loop
            | Fault::AddressRefused
            | Fault::NoCertificate
            | Fault::CertificateRefused
            | Fault::NoCredentials
            | Fault::WrongPassword
            | Fault::NotSigned
            | Fault::WrongSignature
            | Fault::SignatureExpired
            | Fault::RateLimited { .. }
            | Fault::ConcurrencyLimited { is_shared: false }
            | Fault::PurgeForbidden
            | Fault::PurgeTags
            | Fault::PurgeNoTags
            | Fault::PurgePattern
            | Fault::OnlyIfCached => Side::Client,
            Fault::ConcurrencyLimited { is_shared: true } => Side::Us,
            Fault::OriginBusy
            | Fault::TunnelsFull
            | Fault::LoginsBusy
            | Fault::PurgeBusy
            | Fault::PurgeElsewhere
            | Fault::HitCut
            | Fault::GaveWay
            | Fault::Rules
            | Fault::Internal => Side::Us,
            _ => Side::Origin,
        }
    }

    /// Whether the fault means that no connection to the origin could be opened.
    pub(crate) fn is_unreachable(self) -> bool {
        matches!(
            self,
            Fault::OriginName
                | Fault::OriginConnect
                | Fault::OriginConnectTimeout
                | Fault::OriginTls(_)
        )
    }

    /// Returns the status of the error response (RFC 9110 §15).
    // RFC: 9111-5.2.2.2-4
    pub(crate) fn status(self) -> u16 {
        match self {
            Fault::Request(error) => error.status(),
            Fault::TargetNotForwardable
            | Fault::AmbiguousPath
            | Fault::PathOutsidePrefix
            | Fault::RequestBody
            | Fault::GetContent
            | Fault::ClientGone
            | Fault::PurgeTags
            | Fault::PurgeNoTags
            | Fault::PurgePattern => 400,
            Fault::NoCredentials | Fault::WrongPassword => 401,
            Fault::AddressRefused
            | Fault::NoCertificate
            | Fault::CertificateRefused
            | Fault::ConnectRefused
            | Fault::NotSigned
            | Fault::WrongSignature
            | Fault::SignatureExpired
            | Fault::PurgeForbidden => 403,
            Fault::RequestBodyTooLarge => 413,
            Fault::HeadTimeout | Fault::TooSlow | Fault::GaveWay => 408,
            Fault::NoSite | Fault::OtherCertificates => 421,
            Fault::RateLimited { .. } | Fault::ConcurrencyLimited { is_shared: false } => 429,
            Fault::ConcurrencyLimited { is_shared: true } => 503,
            Fault::Loop => 508,
            Fault::HitCut | Fault::Rules | Fault::Internal | Fault::FilesFailed => 500,
            Fault::OriginBusy
            | Fault::FilesBusy
            | Fault::FileChanged
            | Fault::TunnelsFull
            | Fault::LoginsBusy
            | Fault::PurgeBusy
            | Fault::PurgeElsewhere => 503,
            Fault::FetchesFailed(status) => status,
            Fault::OnlyIfCached
            | Fault::OriginConnectTimeout
            | Fault::OriginFirstByteTimeout
            | Fault::OriginIdleTimeout => 504,
            Fault::OriginName
            | Fault::OriginConnect
            | Fault::OriginTls(_)
            | Fault::OriginBroke
            | Fault::OriginAnswer(_)
            | Fault::OriginCoding(_) => 502,
        }
    }

    /// Returns the sentence that the error response and the log give as the reason.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Fault::Request(error) => error.reason(),
            Fault::TargetNotForwardable => "the request target has bytes that a URI cannot have",
            Fault::AmbiguousPath => AMBIGUOUS_PATH,
            Fault::PathOutsidePrefix => PATH_OUTSIDE_PREFIX,
            Fault::RequestBody => "the request body is malformed",
            Fault::GetContent => "a GET or HEAD request must not have content here",
            Fault::RequestBodyTooLarge => "the request body is longer than this server accepts",
            Fault::HeadTimeout => "the request head did not arrive in time",
            Fault::TooSlow => "the body moves slower than this server allows",
            Fault::ClientGone => "the client closed the connection",
            Fault::NoSite => "this server does not serve the requested host",
            Fault::OtherCertificates => {
                "another certificate serves the requested host; open a new connection for this host"
            }
            Fault::ConnectRefused => "this site has no tunnels to this port, or only over TLS",
            Fault::Loop => "request loop: the origin forwards back to this server",
            Fault::AddressRefused => "the client's address is not allowed here",
            Fault::NoCertificate => "a certificate of the client is needed here",
            Fault::CertificateRefused => "the certificate of the client is no longer valid",
            Fault::NoCredentials => "a user name and a password are needed here",
            Fault::WrongPassword => "the user name or the password is wrong",
            Fault::NotSigned => "only a GET or HEAD request with a signed URL is served here",
            Fault::WrongSignature => "the signature of the URL is wrong",
            Fault::SignatureExpired => "the signature of the URL has expired",
            Fault::LoginsBusy => "too many passwords are being checked; try again",
            Fault::RateLimited { .. } => "too many requests; try again later",
            Fault::ConcurrencyLimited { is_shared: false } => {
                "too many requests of this client are in progress; try again later"
            }
            Fault::ConcurrencyLimited { is_shared: true } => {
                "too many requests are in progress here; try again later"
            }
            Fault::PurgeForbidden => "the client's address is not allowed to purge here",
            Fault::PurgeTags => "the purge names too many tags, or tags that are too long",
            Fault::PurgeNoTags => "the purge has no tags in the fields that this route reads",
            Fault::PurgePattern => {
                "this form is unknown: purge a URL, a prefix (a path that ends with .*) or tags"
            }
            Fault::PurgeElsewhere => {
                "nothing was purged: a process with another cache is taking over; try again"
            }
            Fault::PurgeBusy => {
                "the purge did not complete, because other purges did not finish in time; try again"
            }
            Fault::OnlyIfCached => "no usable response is stored, and only-if-cached was requested",
            Fault::HitCut => "the cache reclaimed this response while it was being sent",
            Fault::GaveWay => {
                "the client was slow while other requests waited for an origin connection"
            }
            Fault::Rules => "the header rules of this server made an invalid message",
            Fault::Internal => "an internal error of this server ended the request",
            Fault::OriginBusy => "all permitted connections to the origin are in use",
            Fault::TunnelsFull => "this server has reached its limit of tunnels; try again later",
            Fault::OriginName => "the origin's name has no address",
            Fault::OriginConnect => "no address of the origin accepted a connection",
            Fault::OriginConnectTimeout => "the origin did not accept a connection in time",
            Fault::OriginFirstByteTimeout => "the origin did not answer in time",
            Fault::OriginIdleTimeout => "the origin stopped sending",
            Fault::OriginBroke => "the origin closed the connection before its answer was complete",
            Fault::OriginTls(why) | Fault::OriginAnswer(why) | Fault::OriginCoding(why) => why,
            Fault::FilesFailed => "the file cannot be read",
            Fault::FilesBusy => "this server cannot open more files now; try again",
            Fault::FileChanged => "the file changed while it was being read; try again",
            Fault::FetchesFailed(_) => "the origin failed to answer other requests for this URL",
        }
    }

    /// Whether the client's connection ends with the error response. After malformed input the
    /// start of the next request is unknown (RFC 9112 §2.2, §6.3).
    pub(crate) fn closes(self) -> bool {
        match self {
            Fault::TargetNotForwardable
            | Fault::AmbiguousPath
            | Fault::PathOutsidePrefix
            | Fault::NoSite
            | Fault::OtherCertificates
            | Fault::Loop
            | Fault::AddressRefused
            | Fault::NoCertificate
            | Fault::NoCredentials
            | Fault::WrongPassword
            | Fault::NotSigned
            | Fault::WrongSignature
            | Fault::SignatureExpired
            | Fault::RateLimited { .. }
            | Fault::ConcurrencyLimited { .. }
            | Fault::PurgeForbidden
            | Fault::PurgeTags
            | Fault::PurgeNoTags
            | Fault::PurgePattern
            | Fault::OnlyIfCached => false,
            Fault::GaveWay => true,
            fault => fault.side() == Side::Client,
        }
    }

    /// Whether the error response asks for a user name and a password (RFC 9110 §15.5.2).
    pub(crate) fn asks_for_credentials(self) -> bool {
        matches!(self, Fault::NoCredentials | Fault::WrongPassword)
    }

    /// Returns the counter of this fault. If an error response is sent, `faults_sent_total` counts
    /// it too.
    pub(crate) fn counter(self) -> Option<Counter> {
        match self {
            Fault::Request(_)
            | Fault::TargetNotForwardable
            | Fault::AmbiguousPath
            | Fault::PathOutsidePrefix
            | Fault::RequestBody
            | Fault::GetContent
            | Fault::NoSite
            | Fault::OtherCertificates
            | Fault::ConnectRefused
            | Fault::Loop
            | Fault::PurgeForbidden
            | Fault::PurgeTags
            | Fault::PurgeNoTags
            | Fault::PurgePattern => Some(Counter::RequestsRefused),
            Fault::AddressRefused => Some(Counter::AddressesRefused),
            Fault::NoCertificate | Fault::CertificateRefused => {
                Some(Counter::ClientCertificatesMissing)
            }
            Fault::NoCredentials => Some(Counter::CredentialsMissing),
            Fault::WrongPassword => Some(Counter::PasswordsWrong),
            Fault::NotSigned | Fault::WrongSignature | Fault::SignatureExpired => {
                Some(Counter::SignaturesRefused)
            }
            Fault::LoginsBusy => Some(Counter::PasswordChecksRefused),
            Fault::RateLimited { .. } => Some(Counter::RateLimited),
            Fault::ConcurrencyLimited { .. } => Some(Counter::ConcurrencyLimited),
            Fault::RequestBodyTooLarge => Some(Counter::BodiesTooLarge),
            Fault::HeadTimeout => Some(Counter::HeadTimeouts),
            Fault::TooSlow => Some(Counter::SlowClients),
            Fault::HitCut => Some(Counter::HitsCut),
            Fault::GaveWay => Some(Counter::GaveWay),
            Fault::Rules => Some(Counter::RulesFailed),
            Fault::OriginBusy => Some(Counter::OriginBusy),
            Fault::TunnelsFull => Some(Counter::TunnelsRefused),
            Fault::OriginName | Fault::OriginConnect | Fault::OriginConnectTimeout => {
                Some(Counter::OriginConnectErrors)
            }
            Fault::OriginTls(_) => Some(Counter::OriginTlsErrors),
            Fault::OriginFirstByteTimeout | Fault::OriginIdleTimeout => {
                Some(Counter::OriginTimeouts)
            }
            Fault::OriginBroke | Fault::OriginAnswer(_) | Fault::OriginCoding(_) => {
                Some(Counter::OriginBadAnswers)
            }
            Fault::FilesFailed | Fault::FilesBusy => Some(Counter::FilesFailed),
            Fault::FileChanged => Some(Counter::FilesChanged),
            // The code that detects these faults counts them.
            Fault::PurgeBusy | Fault::PurgeElsewhere | Fault::FetchesFailed(_) => None,
            Fault::ClientGone | Fault::OnlyIfCached | Fault::Internal => None,
        }
    }
}

impl Fault {
    /// Returns the event that reports a fault of the origin's side; `None` for other faults,
    /// and for [`Fault::FetchesFailed`], because each failed fetch reports its own fault.
    pub(crate) fn event(self) -> Option<Event> {
        match self {
            Fault::OriginName | Fault::OriginConnect | Fault::OriginConnectTimeout => {
                Some(Event::OriginUnreachable)
            }
            Fault::OriginTls(_) => Some(Event::OriginTlsFailed),
            Fault::OriginFirstByteTimeout | Fault::OriginIdleTimeout => Some(Event::OriginTimedOut),
            Fault::OriginBroke | Fault::OriginAnswer(_) | Fault::OriginCoding(_) => {
                Some(Event::OriginBadAnswer)
            }
            Fault::FilesFailed | Fault::FilesBusy => Some(Event::FilesFailed),
            Fault::FileChanged => Some(Event::FileChanged),
            _ => None,
        }
    }
}

impl Fault {
    /// Returns the reason in Cache-Status for a request that got no response from the origin;
    /// `None` for faults of other kinds. The reasons have the same names as the events.
    pub(crate) fn cache_reason(self) -> Option<Reason> {
        match self.event() {
            Some(Event::OriginUnreachable) => Some(Reason::OriginUnreachable),
            Some(Event::OriginTlsFailed) => Some(Reason::OriginTlsFailed),
            Some(Event::OriginTimedOut) => Some(Reason::OriginTimedOut),
            Some(Event::OriginBadAnswer) => Some(Reason::OriginBadAnswer),
            _ if self == Fault::OriginBusy => Some(Reason::OriginBusy),
            _ => None,
        }
    }
}

impl From<RequestError> for Fault {
    fn from(error: RequestError) -> Fault {
        Fault::Request(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_status_and_events_use_the_same_words() {
        for fault in [
            Fault::OriginName,
            Fault::OriginConnect,
            Fault::OriginConnectTimeout,
            Fault::OriginTls(""),
            Fault::OriginFirstByteTimeout,
            Fault::OriginIdleTimeout,
            Fault::OriginBroke,
            Fault::OriginAnswer(""),
            Fault::OriginCoding(""),
        ] {
            let event = fault.event().map(|event| event.describe().0.replace('_', "-"));
            let word = fault.cache_reason().map(|reason| reason.word().to_owned());
            assert!(event.is_some() && event == word, "{fault:?}: {event:?} {word:?}");
        }
    }
}
