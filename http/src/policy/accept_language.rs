//! The normal form of Accept-Language (RFC 9110 §12.5.4) for an origin whose languages are known:
//! the one language that suits the client best.

use crate::fields::{FieldId, Fields};
use crate::policy::lists;
use crate::policy::weight::split_weight;

/// Most language ranges of a request that count. Browsers send fewer than ten.
const RANGES_MAX: usize = 32;

/// Longest language range that counts. RFC 5646 §4.4.1 asks for at least 35 bytes.
const RANGE_BYTES_MAX: usize = 64;

/// Returns the language that suits a request best, by the lookup of RFC 4647 §3.4. `None` if the
/// request accepts none of the languages; the origin then chooses one as for a request without the
/// field.
///
/// Of ranges with the same weight the first one counts. A `*` selects no language, and neither does
/// a malformed member, or one with the weight 0.
pub fn preferred_language<'l>(request: Fields<'_>, languages: &'l [Box<str>]) -> Option<&'l str> {
    let members = request.all(FieldId::AcceptLanguage).flat_map(lists::members);
    let ranges = members.filter_map(split_weight).take(RANGES_MAX);
    let mut best: Option<(u16, &str)> = None;
    for (range, weight) in ranges {
        if weight > best.map_or(0, |(weight, _)| weight)
            && let Some(language) = look_up(range, languages)
        {
            best = Some((weight, language));
        }
    }
    best.map(|(_, language)| language)
}

/// RFC 4647 §3.4: shortens the range from its end until it equals a language.
fn look_up<'l>(range: &[u8], languages: &'l [Box<str>]) -> Option<&'l str> {
    let mut range = Some(range).filter(|range| range.len() <= RANGE_BYTES_MAX);
    while let Some(tag) = range {
        let mut languages = languages.iter().map(AsRef::<str>::as_ref);
        let found = languages.find(|language| language.as_bytes().eq_ignore_ascii_case(tag));
        if found.is_some() {
            return found;
        }
        range = shorten(tag);
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
