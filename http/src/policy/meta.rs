//! Facts about a stored response that a hit needs. They are computed once, when the response is
//! stored or updated.
//!
//! The encoded facts take 64 bytes. Numbers are little-endian.
//!
//! | bytes | type | field |
//! |---|---|---|
//! | 0–1 | u16 | `status` |
//! | 2–3 | u16 | `flags`; bit 3 is set, undefined bits are 0 |
//! | 4–7 | u32 | `initial_age_s` |
//! | 8–11 | u32 | `stale_while_revalidate_s`; all ones if there is none |
//! | 12–15 | u32 | `stale_if_error_s`; all ones if there is none |
//! | 16–23 | u64 | `response_time`, Unix seconds |
//! | 24–27 | u32 | `lifetime_s` |
//! | 28–31 | u32 | offset of the ETag value in the field block |
//! | 32–35 | u32 | length of the ETag value in bytes; 0 if there is no ETag |
//! | 36–39 | u32 | `hidden_bytes` |
//! | 40–47 | u64 | `last_modified`, Unix seconds; all ones if there is none |
//! | 48–55 | u64 | `body_bytes`; all ones if the length is not known |
//! | 56–63 | u64 | `date`, Unix seconds: the value of Date, or else the time of arrival |
//!
//! A stored head consists of the encoded facts, `hidden_bytes` bytes of field lines that no client
//! gets, and the field block.
//!
//! Decoding rejects other sizes and undefined bits, so that a later layout is not misread.

use crate::fields::{FieldBlock, FieldId};
use crate::policy::compression::BodyForm;
use crate::policy::directives::ResponseDirectives;
use crate::policy::etag::{EntityTag, WEAK, can_validate};
use crate::policy::exchange::date_field;
use crate::policy::exchange::{CacheRules, OriginResponse, ResponseTiming};
use crate::policy::freshness::{LifetimeSource, freshness_lifetime, initial_age};
use crate::policy::reason::{Detail, Reason};
use crate::policy::targeted::TargetList;
use crate::policy::update::is_renewable;

/// Bytes of an encoded [`StoredMeta`].
pub const STORED_META_BYTES: usize = 64;

const NO_CACHE: u16 = 1 << 0;
const FORBIDS_STALE: u16 = 1 << 1;
const PERMITS_AUTHORIZED: u16 = 1 << 2;
/// Always set: records of the previous layout do not have this bit.
const LAYOUT: u16 = 1 << 3;
const IS_HEURISTIC: u16 = 1 << 4;
const SETS_COOKIE: u16 = 1 << 5;
const ANSWERS_COOKIE: u16 = 1 << 6;
const IS_NEGOTIATED: u16 = 1 << 7;
const IS_COMPRESSED: u16 = 1 << 8;
const IS_WEAKENED: u16 = 1 << 9;
const IS_DECOMPRESSED: u16 = 1 << 10;
const FLAGS_ALL: u16 = NO_CACHE
    | FORBIDS_STALE
    | PERMITS_AUTHORIZED
    | LAYOUT
    | IS_HEURISTIC
    | SETS_COOKIE
    | ANSWERS_COOKIE
    | IS_NEGOTIATED
    | IS_COMPRESSED
    | IS_WEAKENED
    | IS_DECOMPRESSED;

const NONE: u64 = u64::MAX;
const NO_LIMIT: u32 = u32::MAX;

/// The facts about a stored response that a hit needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredMeta {
    /// Status code.
    pub status: u16,
    /// Validate the response before each use.
    pub no_cache: bool,
    /// Never use the response stale, even if the client would accept that.
    pub forbids_stale: bool,
    /// The response may be used for other requests with Authorization.
    pub permits_authorized: bool,
    /// Whether the response, or a 304 for the response, set a cookie. The stored lines may lack the
    /// Set-Cookie field.
    pub sets_cookie: bool,
    /// Whether the request that the body answers had a cookie, so that the body may be for one
    /// client.
    pub answers_cookie: bool,
    /// Whether the freshness lifetime is a heuristic.
    pub is_heuristic: bool,
    /// Whether this server decided which content coding the response has, if any, and so added
    /// Accept-Encoding to Vary.
    pub is_negotiated: bool,
    /// Whether this server compressed the body. Its bytes are not the origin's, so no range of them
    /// is sent or requested.
    pub is_compressed: bool,
    /// Whether this server took the content coding off the body. The same applies to its bytes.
    pub is_decompressed: bool,
    /// Whether this server made the origin's strong entity tag weak.
    pub is_weakened: bool,
    /// Age of the response on arrival, in seconds.
    pub initial_age_s: u32,
    /// When the response arrived, Unix seconds.
    pub response_time: u64,
    /// Freshness lifetime, seconds.
    pub lifetime_s: u32,
    /// Largest staleness in seconds at which the origin allows serving the response while it is
    /// validated; `None` if the origin does not say.
    pub stale_while_revalidate_s: Option<u32>,
    /// Largest staleness in seconds at which the origin allows serving the response if the origin
    /// fails; `None` if the origin does not say.
    pub stale_if_error_s: Option<u32>,
    /// Value of Last-Modified, Unix seconds.
    pub last_modified: Option<u64>,
    /// Value of Date, or the time of arrival, Unix seconds.
    pub date: u64,
    /// Length of the body in bytes; `None` until the length is known.
    pub body_bytes: Option<u64>,
    /// Length of the stored field lines that no client gets. They precede the field block.
    pub hidden_bytes: u32,
    etag: ValueSpan,
}

/// The position of a value in the stored field block, in bytes from the start of the block; empty
/// if the block has no such value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ValueSpan {
    start: u32,
    len: u32,
}

impl StoredMeta {
    /// Computes the facts from the fields that will be stored (without Age): those of a new
    /// response, or those that a 304 has just updated. In `block`, targeted fields for this cache
    /// alone come first.
    pub fn new(
        status: u16,
        block: &FieldBlock,
        arrival: &ResponseTiming,
        rules: &CacheRules<'_>,
    ) -> StoredMeta {
        let response = OriginResponse::new(status, block.fields(), rules.targets);
        let ResponseDirectives { no_cache, .. } = response.directives;
        let date = date_field(response.fields, FieldId::Date);
        let hidden_bytes = hidden_bytes(block, rules.targets);
        let lifetime = freshness_lifetime(&response, rules, arrival.response_time);
        StoredMeta {
            status,
            no_cache,
            forbids_stale: response.directives.forbids_stale(),
            permits_authorized: response.directives.permits_authorized(),
            sets_cookie: response.fields.contains(FieldId::SetCookie),
            answers_cookie: false,
            is_heuristic: lifetime.source == LifetimeSource::Heuristic,
            is_negotiated: false,
            is_compressed: false,
            is_decompressed: false,
            is_weakened: false,
            initial_age_s: initial_age(date, arrival),
            response_time: arrival.response_time,
            lifetime_s: lifetime.seconds,
            stale_while_revalidate_s: response.directives.stale_while_revalidate,
            stale_if_error_s: response.directives.stale_if_error,
            last_modified: date_field(response.fields, FieldId::LastModified),
            date: date.unwrap_or(arrival.response_time),
            body_bytes: None,
            hidden_bytes,
            etag: etag_span(block, hidden_bytes).unwrap_or_default(),
        }
    }

    /// Returns the value of ETag in the bytes of the stored block. It can be sent in If-None-Match,
    /// but it may be malformed.
    pub fn etag_value<'a>(&self, block: &'a [u8]) -> Option<&'a [u8]> {
        let start = self.etag.start as usize;
        let end = start.checked_add(self.etag.len as usize)?;
        block.get(start..end).filter(|value| !value.is_empty())
    }

    /// Returns the origin's value of ETag, with which the origin validates the response. It differs
    /// from the stored value if this server made the tag weak.
    pub fn origin_etag_value<'a>(&self, block: &'a [u8]) -> Option<&'a [u8]> {
        let value = self.etag_value(block)?;
        if self.is_weakened { value.strip_prefix(WEAK) } else { Some(value) }
    }

    /// Returns the form of the body. `coding` is the value of Content-Encoding.
    pub fn form<'a>(&self, coding: &'a [u8]) -> BodyForm<'a> {
        match (self.is_compressed, self.is_decompressed) {
            (true, _) => BodyForm::Compressed(coding),
            (false, true) => BodyForm::Decompressed,
            (false, false) => BodyForm::Original,
        }
    }

    /// Whether the bytes of the body are the origin's.
    pub fn has_original_body(&self) -> bool {
        self.form(b"") == BodyForm::Original
    }

    /// Returns the stored entity tag, parsed; `None` if it is malformed.
    pub fn etag<'a>(&self, block: &'a [u8]) -> Option<EntityTag<'a>> {
        EntityTag::parse(self.etag_value(block)?)
    }

    /// The time in Unix seconds from which the response is stale (RFC 9111 §4.2): at that time its
    /// age equals its lifetime.
    pub fn stale_from(&self) -> u64 {
        let left_s = self.lifetime_s.saturating_sub(self.initial_age_s);
        self.response_time.saturating_add(u64::from(left_s))
    }

    /// RFC 9111 §4.3.1: whether a request with the response's validators can confirm the response.
    pub fn can_validate(&self) -> bool {
        is_renewable(self.status) && self.has_validator()
    }

    /// Whether the response has a validator.
    pub(crate) fn has_validator(&self) -> bool {
        self.etag.len > 0 || self.last_modified.is_some()
    }

    /// The `detail` of Cache-Status for a response that the cache uses: `heuristic` if its
    /// freshness lifetime is a heuristic.
    pub fn detail(&self) -> Option<Detail> {
        if self.is_heuristic { Some(Reason::Heuristic.into()) } else { None }
    }

    /// Appends the encoded facts: 64 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
        let flags = LAYOUT
            | flag(self.no_cache, NO_CACHE)
            | flag(self.forbids_stale, FORBIDS_STALE)
            | flag(self.permits_authorized, PERMITS_AUTHORIZED)
            | flag(self.is_heuristic, IS_HEURISTIC)
            | flag(self.sets_cookie, SETS_COOKIE)
            | flag(self.answers_cookie, ANSWERS_COOKIE)
            | flag(self.is_negotiated, IS_NEGOTIATED)
            | flag(self.is_compressed, IS_COMPRESSED)
            | flag(self.is_weakened, IS_WEAKENED)
            | flag(self.is_decompressed, IS_DECOMPRESSED);
        let start = out.len();
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.initial_age_s.to_le_bytes());
        for limit in [self.stale_while_revalidate_s, self.stale_if_error_s] {
            out.extend_from_slice(&limit.unwrap_or(NO_LIMIT).to_le_bytes());
        }
        out.extend_from_slice(&self.response_time.to_le_bytes());
        out.extend_from_slice(&self.lifetime_s.to_le_bytes());
        out.extend_from_slice(&self.etag.start.to_le_bytes());
        out.extend_from_slice(&self.etag.len.to_le_bytes());
        out.extend_from_slice(&self.hidden_bytes.to_le_bytes());
        out.extend_from_slice(&self.last_modified.unwrap_or(NONE).to_le_bytes());
        out.extend_from_slice(&self.body_bytes.unwrap_or(NONE).to_le_bytes());
        out.extend_from_slice(&self.date.to_le_bytes());
        debug_assert_eq!(out.len() - start, STORED_META_BYTES);
    }

    /// Decodes the bytes that [`StoredMeta::encode`] wrote; `None` for any other bytes.
    pub fn decode(bytes: &[u8]) -> Option<StoredMeta> {
        let mut rest = bytes;
        let status = u16::from_le_bytes(take(&mut rest)?);
        let flags = u16::from_le_bytes(take(&mut rest)?);
        let initial_age_s = u32::from_le_bytes(take(&mut rest)?);
        let stale_while_revalidate_s = u32::from_le_bytes(take(&mut rest)?);
        let stale_if_error_s = u32::from_le_bytes(take(&mut rest)?);
        let response_time = u64::from_le_bytes(take(&mut rest)?);
        let lifetime_s = u32::from_le_bytes(take(&mut rest)?);
        let etag = ValueSpan {
            start: u32::from_le_bytes(take(&mut rest)?),
            len: u32::from_le_bytes(take(&mut rest)?),
        };
        let hidden_bytes = u32::from_le_bytes(take(&mut rest)?);
        let last_modified = u64::from_le_bytes(take(&mut rest)?);
        let body_bytes = u64::from_le_bytes(take(&mut rest)?);
        let date = u64::from_le_bytes(take(&mut rest)?);
        if !rest.is_empty() || flags & !FLAGS_ALL != 0 || flags & LAYOUT == 0 {
            return None;
        }
        Some(StoredMeta {
            status,
            no_cache: flags & NO_CACHE != 0,
            forbids_stale: flags & FORBIDS_STALE != 0,
            permits_authorized: flags & PERMITS_AUTHORIZED != 0,
            sets_cookie: flags & SETS_COOKIE != 0,
            answers_cookie: flags & ANSWERS_COOKIE != 0,
            is_heuristic: flags & IS_HEURISTIC != 0,
            is_negotiated: flags & IS_NEGOTIATED != 0,
            is_compressed: flags & IS_COMPRESSED != 0,
            is_decompressed: flags & IS_DECOMPRESSED != 0,
            is_weakened: flags & IS_WEAKENED != 0,
            initial_age_s,
            response_time,
            lifetime_s,
            stale_while_revalidate_s: limit(stale_while_revalidate_s),
            stale_if_error_s: limit(stale_if_error_s),
            last_modified: (last_modified != NONE).then_some(last_modified),
            date,
            body_bytes: (body_bytes != NONE).then_some(body_bytes),
            hidden_bytes,
            etag,
        })
    }
}

fn limit(encoded: u32) -> Option<u32> {
    (encoded != NO_LIMIT).then_some(encoded)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*bytes)
}

/// Returns the length of the lines at the start of a block that are for this cache alone.
fn hidden_bytes(block: &FieldBlock, targets: &TargetList) -> u32 {
    let hidden = block.fields().iter().take_while(|field| targets.is_own(field.name));
    let bytes: usize = hidden.map(|field| field.name.len() + field.value.len() + LINE_BYTES).sum();
    bytes as u32
}

/// Number of bytes of a line `name: value CRLF` other than those of the name and the value.
const LINE_BYTES: usize = ": \r\n".len();

/// Returns the position of the ETag of a block, if the ETag is unique and can be sent in
/// If-None-Match. The position counts from the end of the hidden lines.
fn etag_span(block: &FieldBlock, hidden_bytes: u32) -> Option<ValueSpan> {
    block.fields().only(FieldId::Etag).filter(|value| can_validate(value))?;
    let mut offset = 0;
    for field in block.fields().iter() {
        let value_start = offset + field.name.len() + ": ".len();
        if field.id == FieldId::Etag {
            return Some(ValueSpan {
                start: u32::try_from(value_start).ok()?.checked_sub(hidden_bytes)?,
                len: u32::try_from(field.value.len()).ok()?,
            });
        }
        offset = value_start + field.value.len() + "\r\n".len();
    }
    None
}
