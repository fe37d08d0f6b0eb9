//! Compares two lists line by line.

/// A line of one list or of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiffLine<'a> {
    /// A blank if the line is in both lists, `-` if it is only in the first, `+` if it is only in
    /// the second.
    pub(super) mark: char,
    pub(super) text: &'a str,
}

/// Merges two lists into the shortest list that contains the lines of both lists in their order.
///
/// The function builds a table with one cell for each pair of lines, which is acceptable because
/// heads have at most about a thousand lines.
pub(super) fn diff<'a>(old: &'a [String], new: &'a [String]) -> Vec<DiffLine<'a>> {
    let width = new.len() + 1;
    // The cell at `i, j` is the length of the longest common subsequence of `old[i..]` and
    // `new[j..]`.
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        let is_same = i < old.len() && j < new.len() && old[i] == new[j];
        let drops = j == new.len()
            || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1];
        let (mark, text) = match (is_same, drops) {
            (true, _) => (' ', &new[j]),
            (false, true) => ('-', &old[i]),
            (false, false) => ('+', &new[j]),
        };
        i += usize::from(mark != '+');
        j += usize::from(mark != '-');
        lines.push(DiffLine { mark, text });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_lines_are_not_marked() {
        for (old, new, expected) in [
            ("a b c", "a b c", " a b c"),
            ("a b c", "a c", " a-b c"),
            ("a c", "a b c", " a+b c"),
            ("a b c", "a x c", " a-b+x c"),
            ("", "a", "+a"),
            ("a", "", "-a"),
            ("a b", "b a", "-a b+a"),
        ] {
            let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let (first, second) = (list(old), list(new));
            let lines = diff(&first, &second);
            let seen: String = lines.iter().map(|it| format!("{}{}", it.mark, it.text)).collect();
            assert_eq!(seen, expected, "{old} | {new}");
        }
    }
}
