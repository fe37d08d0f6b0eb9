//! The normal form of Accept-Language (RFC 9110 §12.5.4) for an origin whose languages are known:
//! the one language that suits the client best.

use crate::fields::{FieldId, Fields};
use crate::policy::lists;
use crate::policy::weight::split_weight;

/// Largest number of language ranges of a request that are considered. Browsers send fewer than
/// ten.
const RANGES_MAX: usize = 32;

/// Longest language range that is considered, in bytes. RFC 5646 §4.4.1 asks for at least 35 bytes.
const RANGE_BYTES_MAX: usize = 64;

/// Returns the language that suits a request best, by the lookup of RFC 4647 §3.4. Returns `None`
/// if the request accepts none of the languages; the origin then chooses one as for a request
/// without the field.
///
/// Of ranges with the same weight the first one counts. A `*` selects no language, and neither does
/// a malformed member, or one with the weight 0. A weight of 0 says that a language is not
/// acceptable (RFC 9110 §12.4.2), so longer ranges do not select it either.
pub fn preferred_language<'l>(request: Fields<'_>, languages: &'l [Box<str>]) -> Option<&'l str> {
    let members = request.all(FieldId::AcceptLanguage).flat_map(lists::members);
    let ranges = members.filter_map(split_weight).take(RANGES_MAX);
    let refused = ranges.clone().filter(|(_, weight)| *weight == 0).map(|(range, _)| range);
    let is_refused = |tag: &[u8]| refused.clone().any(|range| range.eq_ignore_ascii_case(tag));
    let mut best: Option<(u16, &str)> = None;
    for (range, weight) in ranges.clone() {
        if weight > best.map_or(0, |(weight, _)| weight)
            && let Some(language) = look_up(range, languages, is_refused)
        {
            best = Some((weight, language));
        }
    }
    best.map(|(_, language)| language)
}

/// RFC 4647 §3.4: shortens the range from its end until it equals a language that is not refused.
fn look_up<'l>(
    range: &[u8],
    languages: &'l [Box<str>],
    is_refused: impl Fn(&[u8]) -> bool,
) -> Option<&'l str> {
    let mut shortened = Some(range).filter(|range| range.len() <= RANGE_BYTES_MAX);
    while let Some(tag) = shortened {
        let mut languages = languages.iter().map(AsRef::<str>::as_ref);
        let found = languages.find(|language| language.as_bytes().eq_ignore_ascii_case(tag));
        if found.is_some() && (tag.len() == range.len() || !is_refused(tag)) {
            return found;
        }
        shortened = shorten(tag);
    }
    None
}

/// Removes the last subtag, and with it a single letter or digit before it.
fn shorten(tag: &[u8]) -> Option<&[u8]> {
    let last_hyphen = |tag: &[u8]| tag.iter().rposition(|byte| *byte == b'-');
    let rest = tag.get(..last_hyphen(tag)?)?;
    match last_hyphen(rest) {
        Some(hyphen) if hyphen + 2 == rest.len() => rest.get(..hyphen),
        _ => Some(rest),
    }
}
