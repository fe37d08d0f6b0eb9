//! Suggestions for misspelt words.

use strsim::osa_distance;

/// Returns the word of `known` that is nearest to `word`, if they differ in at most a third of the
/// known word's letters, or in a single letter.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A word of this length is far longer than every known word, so none is near.
    if word.len() > 64 {
        return None;
    }
    // Two neighbouring letters that are swapped count as one wrong letter.
    let distance = |candidate| (osa_distance(word, candidate), candidate);
    let (distance, candidate) = known.into_iter().map(distance).min()?;
    (distance <= (candidate.len() / 3).max(1)).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_words_find_their_neighbour_and_strange_ones_none() {
        let known = ["listen", "workers", "cache_size", "idle_ms_max", "head_ms_max"];
        let cases = [
            ("listne", Some("listen")),
            ("worker", Some("workers")),
            ("cache_sise", Some("cache_size")),
            ("idle_max", Some("idle_ms_max")),
            ("haed_ms_max", Some("head_ms_max")),
            ("colour", None),
            ("", None),
        ];
        for (word, expected) in cases {
            assert_eq!(nearest(word, known), expected, "{word:?}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }
}
