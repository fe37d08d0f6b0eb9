//! Suggests the word that was probably meant.

use std::mem;

/// Length of the longest word that gets a suggestion. No word of the language is longer.
const WORD_BYTES_MAX: usize = 48;

/// Returns the candidate nearest to a word, if any candidate is near enough.
pub(crate) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    if word.is_empty() || word.len() > WORD_BYTES_MAX {
        return None;
    }
    let word = word.to_ascii_uppercase();
    // If one of fewer than three letters is wrong, the rest is too short to compare.
    let distance_max = if word.len() < 3 { 0 } else { 1 + word.len() / 4 };
    candidates
        .iter()
        .map(|candidate| (distance(word.as_bytes(), &candidate.to_ascii_uppercase()), *candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the hint "did you mean X?", or a list of all candidates if none is near.
pub(crate) fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    match nearest(word, candidates) {
        Some(candidate) => format!("did you mean {candidate}?"),
        None => format!("write one of {}", candidates.join(", ")),
    }
}

/// Returns the edit distance: the number of letters that are changed, inserted or removed. A swap
/// of two adjacent letters counts as one change.
fn distance(one: &[u8], other: &str) -> usize {
    let other = other.as_bytes();
    let mut before_last: Vec<usize> = vec![0; other.len() + 1];
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut now = vec![row + 1];
        for (column, against) in other.iter().enumerate() {
            let changed = last[column] + usize::from(letter != against);
            let mut least = changed.min(last[column + 1] + 1).min(now[column] + 1);
            let swapped = row > 0 && column > 0 && *letter == other[column - 1];
            if swapped && one[row - 1] == *against {
                least = least.min(before_last[column - 1] + 1);
            }
            now.push(least);
        }
        before_last = mem::replace(&mut last, now);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_is_near_the_word() {
        for (word, expected) in [
            ("HEDAER", Some("HEADER")),
            ("header", Some("HEADER")),
            ("CLIENT_HEADER", Some("CLIENT-HEADER")),
            ("METOD", Some("METHOD")),
            ("FOOBAR", None),
            ("", None),
        ] {
            let candidates = ["HEADER", "CLIENT-HEADER", "METHOD", "URL"];
            assert_eq!(nearest(word, &candidates), expected, "{word}");
        }
    }
}
