//! Reads the words of a profile piece by piece, since a file may be long and nearly empty.

use super::{ProfileBytes, ProfileError};

/// The number of words that one call reads.
const PIECE_WORDS: usize = 1 << 13;

/// Reads all words of a part of the profile. The caller uses this for a small part, or for one that
/// it decodes as a whole.
pub(super) fn words(
    bytes: &(impl ProfileBytes + ?Sized),
    start: usize,
    count: usize,
) -> Result<Vec<u64>, ProfileError> {
    let mut all = Vec::with_capacity(count);
    each_row(bytes, start, (1, count), |word| {
        all.extend_from_slice(word);
        Ok(())
    })?;
    Ok(all)
}

/// Calls `see` for each row of a table that begins at the word `start`, given the words per row and
/// the number of rows.
pub(super) fn each_row(
    bytes: &(impl ProfileBytes + ?Sized),
    start: usize,
    (row_words, count): (usize, usize),
    mut see: impl FnMut(&[u64]) -> Result<(), ProfileError>,
) -> Result<(), ProfileError> {
    let piece_rows = (PIECE_WORDS / row_words.max(1)).clamp(1, count.max(1));
    let mut read = vec![0; piece_rows * row_words * 8];
    let mut row = vec![0; row_words];
    for first in (0..count).step_by(piece_rows) {
        let rows = piece_rows.min(count - first);
        let piece = read.get_mut(..rows * row_words * 8).unwrap_or_default();
        bytes.read((start + first * row_words) as u64 * 8, piece)?;
        for from in piece.chunks_exact(row_words * 8) {
            for (to, from) in row.iter_mut().zip(from.chunks_exact(8)) {
                *to = from.try_into().map_or(0, u64::from_le_bytes);
            }
            see(&row)?;
        }
    }
    Ok(())
}
