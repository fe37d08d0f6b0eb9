//! Composite keys: parts joined by NUL sort by the first part, then by the second, with one
//! comparison.
//!
//! Only the last part of a complete key may contain NUL: in an earlier part, NUL would change the
//! order.

/// The parts, joined by NUL. `None` if a part other than the last contains a NUL.
#[must_use]
pub fn join(parts: &[&[u8]]) -> Option<Vec<u8>> {
    let before_last = parts.split_last().map_or(&[][..], |(_, before)| before);
    if before_last.iter().any(|part| part.contains(&0)) {
        return None;
    }
    Some(parts.join(&0))
}

/// The common prefix of all keys that begin with these parts and have more parts. `None` if a part
/// contains a NUL.
#[must_use]
pub fn join_prefix(parts: &[&[u8]]) -> Option<Vec<u8>> {
    if parts.iter().any(|part| part.contains(&0)) {
        return None;
    }
    Some(parts.iter().flat_map(|part| part.iter().copied().chain([0])).collect())
}

/// Splits a key that was joined from this many parts into these parts.
pub fn split(key: &[u8], parts: usize) -> impl Iterator<Item = &[u8]> {
    key.splitn(parts, |byte| *byte == 0)
}

/// The lowest key above all keys with this prefix; `None` if there is no such key.
#[must_use]
pub fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::{end_of_prefix, join, join_prefix, split};

    type Case<'a> = (&'a [&'a [u8]], Option<&'a [u8]>);

    #[test]
    fn parts_are_joined_and_split() {
        let cases: &[Case<'_>] = &[
            (&[], Some(b"")),
            (&[b"tag"], Some(b"tag")),
            (&[b"tag", b"key"], Some(b"tag\0key")),
            (&[b"", b"", b""], Some(b"\0\0")),
            (&[b"tag", b"k\0y"], Some(b"tag\0k\0y")),
            (&[b"t\0g", b"key"], None),
        ];
        for (parts, expected) in cases {
            let joined = join(parts);
            assert_eq!(joined.as_deref(), *expected, "{parts:?}");
            if let Some(key) = joined.filter(|_| !parts.is_empty()) {
                assert_eq!(split(&key, parts.len()).collect::<Vec<_>>(), *parts);
            }
        }
        assert_eq!(join_prefix(&[b"tag"]).as_deref(), Some(&b"tag\0"[..]));
        assert_eq!(join_prefix(&[b"a\0"]), None);
    }

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        let cases: &[(&[u8], Option<&[u8]>)] = &[
            (b"", None),
            (b"a", Some(b"b")),
            (b"a\xff", Some(b"b")),
            (b"\xff\xff", None),
            (b"a\0", Some(b"a\x01")),
        ];
        for (prefix, expected) in cases {
            assert_eq!(end_of_prefix(prefix).as_deref(), *expected, "{prefix:?}");
        }
    }
}
