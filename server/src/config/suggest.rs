//! Suggestions for misspelt words.

/// Returns the nearest of `known`, if at most a third of its letters are wrong.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Far longer than any known word, so none can be near.
    if word.len() > 64 {
        return None;
    }
    let distances = known.into_iter().map(|candidate| (edit_distance(word, candidate), candidate));
    let (distance, candidate) = distances.min()?;
    (distance <= (candidate.len() / 3).max(1)).then_some(candidate)
}

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut distance = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                distance = distance.min(before_last[j - 2] + 1);
            }
            row.push(distance);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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
        assert_eq!(edit_distance("ab", "ba"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
    }
}
