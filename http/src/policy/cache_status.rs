//! The Cache-Status field (RFC 9211), which every final response to a client carries.

use crate::policy::reuse::ForwardReason;
use crate::write::decimal;

/// The name of this cache in the field Cache-Status.
const CACHE_NAME: &[u8] = b"forebay";

/// The source of a response. `hit` and `fwd` exclude each other (RFC 9211 §2.1, §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// The response comes from the cache, without contacting the origin.
    Hit,
    /// The response comes from the origin, or from the cache after contacting the origin.
    Forwarded(ForwardReason),
    /// Neither from the cache nor from the origin: the request was refused before the lookup.
    Refused,
}

/// The member that Forebay adds to the field Cache-Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// The source of the response: the parameter `hit` or `fwd`.
    pub outcome: CacheOutcome,
    /// Status code of the origin's response.
    pub fwd_status: Option<u16>,
    /// Remaining freshness in seconds; negative if the response was used stale.
    pub ttl: Option<i64>,
    /// Whether the response was stored.
    pub stored: bool,
    /// Whether the request followed the fetch of another request.
    pub collapsed: bool,
    /// Details, as a token of RFC 8941: a letter, then letters, digits and `-`.
    pub detail: Option<&'static str>,
}

impl CacheStatus {
    /// The status of a request that was refused before the lookup.
    pub const REFUSED: CacheStatus = CacheStatus {
        outcome: CacheOutcome::Refused,
        fwd_status: None,
        ttl: None,
        stored: false,
        collapsed: false,
        detail: None,
    };

    /// Creates the status of a hit with this remaining freshness.
    pub const fn hit(ttl: i64) -> CacheStatus {
        CacheStatus {
            outcome: CacheOutcome::Hit,
            fwd_status: None,
            ttl: Some(ttl),
            stored: false,
            collapsed: false,
            detail: None,
        }
    }

    /// Creates the status of a forwarded request; the caller sets the other members.
    pub const fn forwarded(reason: ForwardReason) -> CacheStatus {
        CacheStatus {
            outcome: CacheOutcome::Forwarded(reason),
            fwd_status: None,
            ttl: None,
            stored: false,
            collapsed: false,
            detail: None,
        }
    }

    /// Appends the field value (RFC 9211 §2). Does not allocate if 128 bytes are reserved.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(CACHE_NAME);
        match self.outcome {
            CacheOutcome::Refused => {}
            CacheOutcome::Hit => out.extend_from_slice(b"; hit"),
            CacheOutcome::Forwarded(reason) => {
                out.extend_from_slice(b"; fwd=");
                out.extend_from_slice(reason.token().as_bytes());
            }
        }
        if let Some(status) = self.fwd_status {
            out.extend_from_slice(b"; fwd-status=");
            decimal(out, u64::from(status));
        }
        if let Some(ttl) = self.ttl {
            write_ttl(ttl, out);
        }
        if self.stored {
            out.extend_from_slice(b"; stored");
        }
        if self.collapsed {
            out.extend_from_slice(b"; collapsed");
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            out.extend_from_slice(detail.as_bytes());
        }
    }
}

/// Writes the parameter `ttl`, clamped to the 15 digits that RFC 8941 §3.3.1 allows for an integer.
fn write_ttl(ttl: i64, out: &mut Vec<u8>) {
    const INTEGER_MAX: u64 = 999_999_999_999_999;
    out.extend_from_slice(if ttl < 0 { b"; ttl=-" } else { b"; ttl=" });
    decimal(out, ttl.unsigned_abs().min(INTEGER_MAX));
}
