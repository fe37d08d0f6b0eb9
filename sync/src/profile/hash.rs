//! Keys: hashes of 64 bits that stand for a call site, a call stack or a row of a table.

/// Mixes a word: each bit of the result depends on all bits of `word`.
#[inline]
#[must_use]
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Hashes these words, in this order, to a key, which is never 0.
#[inline]
#[must_use]
pub fn hash_words(words: &[u64]) -> u64 {
    let hash = words.iter().fold(words.len() as u64, |hash, word| {
        mix(hash.rotate_left(23) ^ word.wrapping_add(0x9e37_79b9_7f4a_7c15))
    });
    hash.max(1)
}
