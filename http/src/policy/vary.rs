//! Vary (RFC 9110 §12.5.5), and the secondary key of the fields that it names (RFC 9111 §4.1).
//!
//! Names are encoded as bytes: lower case, sorted, unique, separated by commas. A base record
//! stores them in this form, and a hit reads them in place. The responses of one resource may have
//! different Vary fields, so a resource may have several sets of names; the set of a response
//! without Vary is empty. For each set, a request has a selector: the names in the set, and the
//! request's secondary key for these names. So the selectors for different sets differ.

use std::collections::BTreeSet;

use crate::bytes::is_token;
use crate::fields::{FieldId, Fields};
use crate::policy::accept_encoding::write_accept_encoding;
use crate::policy::cookies::write_cookies_named;
use crate::policy::lists;

/// Largest number of names in Vary. A response that varies by more fields is not stored: it would
/// hardly ever match, and each name costs a search on every lookup.
pub const VARY_NAMES_MAX: usize = 32;

/// The request fields by which a response varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// The response does not vary by any field.
    None,
    /// Something that a key cannot express: `*`, a malformed name, too many names.
    Any,
    /// These fields, encoded for [`FieldNames::decode`].
    Names(Vec<u8>),
}

/// RFC 9110 §12.5.5: collects the names of all lines; a `*` anywhere means [`Vary::Any`].
// RFC: 9111-4.1-1
pub fn vary_names(response: Fields<'_>) -> Vary {
    let mut names = BTreeSet::new();
    for member in response.all(FieldId::Vary).flat_map(lists::members) {
        if member == b"*" || !is_token(member) {
            return Vary::Any;
        }
        names.insert(member.to_ascii_lowercase());
        if names.len() > VARY_NAMES_MAX {
            return Vary::Any;
        }
    }
    if names.is_empty() {
        return Vary::None;
    }
    let names: Vec<_> = names.into_iter().collect();
    Vary::Names(names.join(&b','))
}

/// The prefix of cookie names in a list of field names. Such names come from the setting
/// `key_cookies`. The prefix is unambiguous, because no field name contains a colon.
pub const COOKIE_PREFIX: &[u8] = b"cookie:";

/// Returns the union of Vary's names and of `others`, which are in lower case and may begin with
/// [`COOKIE_PREFIX`]; `None` if there are too many, or if Vary is [`Vary::Any`].
pub fn names_with<'a>(vary: &'a Vary, others: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let own = match vary {
        Vary::Any => return None,
        Vary::None => None,
        Vary::Names(names) => Some(FieldNames::decode(names)?),
    };
    let names: BTreeSet<_> = own.iter().flat_map(|names| names.iter()).chain(others).collect();
    let names: Vec<_> = names.into_iter().collect();
    (names.len() <= VARY_NAMES_MAX).then(|| names.join(&b','))
}

/// Validated names of fields and cookies, encoded as [`vary_names`] and [`names_with`] encode them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldNames<'a>(&'a [u8]);

impl<'a> FieldNames<'a> {
    /// Accepts only the encoding of [`vary_names`] and [`names_with`].
    pub fn decode(bytes: &'a [u8]) -> Option<FieldNames<'a>> {
        let names = FieldNames(bytes);
        let is_lower_token = |name: &[u8]| {
            let name = name.strip_prefix(COOKIE_PREFIX).unwrap_or(name);
            is_token(name) && !name.iter().any(u8::is_ascii_uppercase)
        };
        let is_valid = names.iter().all(is_lower_token)
            && names.iter().is_sorted_by(|left, right| left < right)
            && names.iter().count() <= VARY_NAMES_MAX;
        is_valid.then_some(names)
    }

    /// Returns the encoded names: in order, separated by commas.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Iterates over the names, in order.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.0.split(|byte| *byte == b',')
    }
}

/// The fields besides Accept-Encoding that RFC 9110 §12.5 defines as lists.
const LISTS: [&[u8]; 3] = [b"accept", b"accept-charset", b"accept-language"];

/// The byte between two lines of a field that is not a list. No value contains it.
const LINE_END: &[u8] = b"\n";

/// Size in bytes of the length before each value in a secondary key. The length is little-endian.
const LEN_BYTES: usize = 4;
/// The length that stands for an absent field, so that an absent field differs from an empty field.
const ABSENT: u32 = u32::MAX;

/// Appends the secondary key of a request: for each name, the length and the normalised value of
/// that field.
///
/// RFC 9111 §4.1 allows changing white space where the syntax of a field permits it, and changes
/// that keep the meaning by the definition of the field. Accept-Encoding has a normal form (see
/// [`accept_encoding`](super::accept_encoding)). Other fields of negotiation are lists, so their
/// lines are combined, and white space around commas is normalised. All other fields are compared
/// byte by byte and line by line: a comma or a second line may have any meaning to the origin, as
/// in Cookie.
// RFC: 9111-4-3, 9111-4.1-1
pub fn secondary_key(names: FieldNames<'_>, request: Fields<'_>, out: &mut Vec<u8>) {
    for name in names.iter() {
        let len_at = out.len();
        out.extend_from_slice(&ABSENT.to_le_bytes());
        if let Some(cookie) = name.strip_prefix(COOKIE_PREFIX) {
            if write_cookies_named(request, cookie, out) {
                write_len(len_at, out);
            }
            continue;
        }
        let id = FieldId::of(name);
        if id == FieldId::AcceptEncoding && write_accept_encoding(request, out) {
            write_len(len_at, out);
            continue;
        }
        let is_list = id == FieldId::AcceptEncoding || LISTS.contains(&name);
        let mut is_present = false;
        for field in request.iter() {
            let is_other =
                field.id != id || id == FieldId::Other && !field.name.eq_ignore_ascii_case(name);
            if is_other {
                continue;
            }
            if is_present {
                out.extend_from_slice(if is_list { b", " } else { LINE_END });
            }
            is_present = true;
            match is_list {
                true => write_normalised(field.value, out),
                false => out.extend_from_slice(field.value),
            }
        }
        if is_present {
            write_len(len_at, out);
        }
    }
}

/// The byte between the names and the secondary key in a selector. No name contains it.
const NAMES_END: u8 = 0;

/// Appends the selector of a request for a set of names. The selector for the empty set is empty.
/// Returns `None` if the names are invalid.
pub fn write_selector(names: &[u8], request: Fields<'_>, out: &mut Vec<u8>) -> Option<()> {
    if names.is_empty() {
        return Some(());
    }
    let decoded = FieldNames::decode(names)?;
    out.extend_from_slice(names);
    out.push(NAMES_END);
    secondary_key(decoded, request, out);
    Some(())
}

/// Splits a selector into its names and the secondary key; `None` for the empty selector.
pub fn split_selector(selector: &[u8]) -> Option<(FieldNames<'_>, &[u8])> {
    let end = selector.iter().position(|byte| *byte == NAMES_END)?;
    let (names, key) = selector.split_at_checked(end)?;
    Some((FieldNames::decode(names)?, key.get(1..)?))
}

/// How a matching response ranks among several that match: the one with the highest rank is used.
///
/// RFC 9111 §4.1: a response without Vary matches each request, but if other responses match too,
/// one of these is used. RFC 9111 §4: of several matching responses, the most recent by Date is
/// used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchRank {
    /// Whether the response varies.
    pub varies: bool,
    /// The Date of the response, in seconds since 1970.
    pub date: u64,
}

/// Iterates over the values in a secondary key of these names; `None` stands for an absent field.
pub fn key_values<'a>(
    names: FieldNames<'a>,
    key: &'a [u8],
) -> impl Iterator<Item = Option<&'a [u8]>> {
    let mut rest = key;
    names.iter().map(move |_| {
        let (len, after) = rest.split_first_chunk::<LEN_BYTES>()?;
        rest = after;
        let len = u32::from_le_bytes(*len);
        if len == ABSENT {
            return None;
        }
        let (value, after) = rest.split_at_checked(len as usize)?;
        rest = after;
        Some(value)
    })
}

/// Writes the value with one space after each comma and none before it; quoted strings are
/// unchanged.
fn write_normalised(value: &[u8], out: &mut Vec<u8>) {
    for (index, member) in lists::split(value).enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(member);
    }
}

fn write_len(len_at: usize, out: &mut [u8]) {
    let len = out.len() - len_at - LEN_BYTES;
    // Heads are far smaller than 4 GiB; the clamp only ensures that no length equals ABSENT.
    let len = u32::try_from(len).map_or(ABSENT - 1, |len| len.min(ABSENT - 1));
    if let Some(place) = out.get_mut(len_at..len_at + LEN_BYTES) {
        place.copy_from_slice(&len.to_le_bytes());
    }
}
