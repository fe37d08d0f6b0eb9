//! Links of a response that a client can use before the response arrives (RFC 8297, RFC 8288).

use crate::bytes::trim_space;
use crate::fields::{FieldBlock, FieldId, Fields};
use crate::policy::conditional::block_lines;
use crate::policy::lists;

/// The largest number of links in one 103. Browsers act on the first few.
const LINKS_MAX: usize = 16;

/// The largest total size in bytes of the links in one 103. Some clients that get a 103 do not use
/// it.
const LINK_BYTES_MAX: usize = 4096;

/// Whether a request may come from a browser that loads a page: other clients do nothing with a
/// 103, and some take it for the response (RFC 8297 §3). `navigate` is the mode that the Fetch
/// standard gives to such requests, and a client that has a copy of the page needs no hints.
pub fn takes_hints(request: Fields<'_>) -> bool {
    let is_mode = |name: &[u8]| name.eq_ignore_ascii_case(b"sec-fetch-mode");
    let mut modes = request.iter().filter(|field| is_mode(field.name));
    let is_page = modes.next().is_some_and(|field| field.value == b"navigate");
    is_page && modes.next().is_none() && !request.contains(FieldId::IfNoneMatch)
}

/// Returns the Link fields for a 103 from a stored field block: those that ask a browser to load
/// something (`preload`, `modulepreload`) or to connect (`preconnect`). Empty if there are none.
pub fn hints(block: &[u8]) -> FieldBlock {
    let mut hints = FieldBlock::new();
    let (mut count, mut bytes) = (0, 0);
    for (name, line) in block_lines(block) {
        if !name.eq_ignore_ascii_case(b"link") {
            continue;
        }
        let value = line.get(name.len() + 1..).unwrap_or_default().trim_ascii();
        for link in links(value).filter(|link| is_hint(link)) {
            bytes += link.len();
            count += 1;
            if count > LINKS_MAX || bytes > LINK_BYTES_MAX {
                return hints;
            }
            hints.push(b"link", link);
        }
    }
    hints
}

/// RFC 8288 §3: iterates over the links of a line. A comma within `<>` or a quoted string does not
/// separate links. The rest of a line that is malformed is left out.
fn links(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    std::iter::from_fn(move || {
        while let Some(after) = trim_space(rest).strip_prefix(b",") {
            rest = after;
        }
        rest = trim_space(rest);
        let target_end = memchr::memchr(b'>', rest).filter(|_| rest.starts_with(b"<"))?;
        let parameters = rest.get(target_end..)?;
        let end = target_end + lists::first_len(parameters);
        let (link, after) = rest.split_at_checked(end)?;
        rest = after;
        Some(trim_space(link))
    })
}

/// Whether one of the relations of a link is a hint. Only the first `rel` counts (RFC 8288 §3.3).
fn is_hint(link: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'>', link) else { return false };
    let parameters = link.get(end + 1..).unwrap_or_default();
    let mut parameters = parameters.split(|byte| *byte == b';').map(trim_space);
    let rel = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_at_checked(memchr::memchr(b'=', parameter)?)?;
        trim_space(name).eq_ignore_ascii_case(b"rel").then_some(trim_space(value.get(1..)?))
    });
    let Some(rel) = rel else { return false };
    let rel = rel.strip_prefix(b"\"").and_then(|rel| rel.strip_suffix(b"\"")).unwrap_or(rel);
    let is_one = |word: &[u8]| {
        [&b"preload"[..], b"modulepreload", b"preconnect"]
            .iter()
            .any(|hint| word.eq_ignore_ascii_case(hint))
    };
    rel.split(|byte| *byte == b' ').any(is_one)
}
