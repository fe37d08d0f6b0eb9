//! The sites that a purge concerns. If a ring has lost purges that a fill would have to check, the
//! number of the last purge of the fill's site tells whether one of them may match.
//!
//! A key begins with the name of its site and a zero byte. Sites with the same hash share a number,
//! so a purge of one of them counts for all of them.

use super::predicate::Predicate;

/// The count of words, each of which holds the number of the last purge of its sites. Models have
/// few such words.
pub(super) const SITE_WORDS: usize = if cfg!(loom) { 2 } else { 256 };

/// The index of the word of a key's site. All keys without a zero byte share one site.
pub(super) fn site_of(key: &[u8]) -> usize {
    let name = name_of(key).unwrap_or_default();
    // FNV-1a. Processes with different versions of a hasher would not agree on the words.
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ hash >> 32) as usize % SITE_WORDS
}

/// The index of the word of the site whose records a predicate may match; `None` if the predicate
/// may match records of several sites.
pub(super) fn site_of_matches(predicate: &Predicate<'_>) -> Option<usize> {
    match predicate {
        Predicate::Key(key) => Some(site_of(key)),
        Predicate::Prefix(prefix) | Predicate::Tags(prefix, _) => {
            name_of(prefix).map(|_| site_of(prefix))
        }
        Predicate::All => None,
    }
}

fn name_of(key: &[u8]) -> Option<&[u8]> {
    let end = key.iter().position(|byte| *byte == 0)?;
    key.get(..end)
}
