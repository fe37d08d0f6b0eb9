//! The Cache-Status field (RFC 9211) of responses to clients. A response for which the cache was
//! not used, such as the answer to a refused request, gets no member of this cache. The members of
//! caches nearer to the origin precede ours.

use crate::bytes::is_token_byte;
use crate::policy::reason::Detail;
use crate::policy::reuse::ForwardReason;
use crate::write::decimal;

/// The name of this cache in the field Cache-Status, in the form in which it is sent: a Token if
/// the name can be one, otherwise a String (RFC 9211 §2).
// RFC: 9211-2-3
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheName(Box<[u8]>);

impl CacheName {
    /// Creates the name; `None` if it is empty or contains characters other than printable ASCII.
    pub fn new(text: &str) -> Option<CacheName> {
        let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
        if text.is_empty() || !text.bytes().all(is_printable) {
            return None;
        }
        let starts_token = |byte: u8| byte.is_ascii_alphabetic() || byte == b'*';
        let is_in_token = |byte: u8| is_token_byte(byte) || matches!(byte, b':' | b'/');
        let bytes = text.as_bytes();
        let is_token = bytes.first().is_some_and(|byte| starts_token(*byte));
        if is_token && text.bytes().all(is_in_token) {
            return Some(CacheName(bytes.into()));
        }
        let mut item = Vec::new();
        write_string(bytes, &mut item);
        Some(CacheName(item.into()))
    }
}

/// The source of a response. `hit` and `fwd` exclude each other (RFC 9211 §2.1, §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// The response comes from the cache, without contacting the origin.
    Hit,
    /// The response comes from the origin, or from the cache after contacting the origin.
    Forwarded(ForwardReason),
    /// No stored response answers the request, and the request does not permit forwarding it.
    NotForwarded,
    /// The cache was not used: the request was refused or answered before the lookup.
    Unused,
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
    /// The reason, if the other fields of this struct do not give it.
    pub detail: Option<Detail>,
}

impl CacheStatus {
    /// The status of a request that was refused or answered before the lookup.
    pub const UNUSED: CacheStatus = CacheStatus {
        outcome: CacheOutcome::Unused,
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

    /// Creates the status of a forwarded request; the caller sets the other fields of the struct.
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

    /// Whether the response gets a member of this cache (RFC 9211 §2).
    // RFC: 9211-2-1
    pub fn is_sent(&self) -> bool {
        self.outcome != CacheOutcome::Unused
    }

    /// Appends the member of this cache (RFC 9211 §2). Does not allocate if 128 bytes and the
    /// length of the name are reserved.
    pub fn write(&self, name: &CacheName, out: &mut Vec<u8>) {
        out.extend_from_slice(&name.0);
        match self.outcome {
            CacheOutcome::Unused | CacheOutcome::NotForwarded => {}
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
            detail.write(out);
        }
    }
}

/// Appends the parameter `key` (RFC 9211 §2.7) with a key that is printable ASCII.
pub fn write_key(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"; key=");
    write_string(key, out);
}

/// Writes printable ASCII as a String (RFC 9651 §4.1.6).
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Writes the parameter `ttl`, clamped to the 15 digits that RFC 8941 §3.3.1 allows for an integer.
fn write_ttl(ttl: i64, out: &mut Vec<u8>) {
    const INTEGER_MAX: u64 = 999_999_999_999_999;
    out.extend_from_slice(if ttl < 0 { b"; ttl=-" } else { b"; ttl=" });
    decimal(out, ttl.unsigned_abs().min(INTEGER_MAX));
}
