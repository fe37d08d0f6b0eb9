//! Parses files of test vectors: named blocks of lines, each beginning with a mark.
//!
//! ```text
//! # a comment
//! [what the vector shows]
//! > bytes, in the notation of `escape`
//! = expectation
//! ```
//! The test that reads a file decides which marks it uses and how their text is interpreted.

/// One named block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The sentence in brackets.
    pub name: String,
    /// Line number of the name, counted from 1.
    pub line: usize,
    /// Each mark with the text after it, in order.
    pub items: Vec<(char, String)>,
}

impl Vector {
    /// Returns the texts of all lines with this mark.
    pub fn all(&self, mark: char) -> impl Iterator<Item = &str> {
        self.items.iter().filter(move |item| item.0 == mark).map(|item| item.1.as_str())
    }

    /// Returns the name and its line, for messages.
    pub fn title(&self) -> String {
        format!("line {} [{}]", self.line, self.name)
    }
}

/// Parses a file whose lines begin with one of `marks`. Errors name the line.
pub fn parse(text: &str, marks: &str) -> Result<Vec<Vector>, String> {
    let mut vectors: Vec<Vector> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if vectors.iter().any(|vector| vector.name == name) {
                return Err(format!("line {number}: {name:?} is defined twice"));
            }
            vectors.push(Vector { name: name.into(), line: number, items: Vec::new() });
            continue;
        }
        let mark = line.chars().next().filter(|mark| marks.contains(*mark));
        let (Some(mark), Some(vector)) = (mark, vectors.last_mut()) else {
            return Err(format!("line {number}: no block or unknown mark: {line:?}"));
        };
        let text = &line[1..];
        vector.items.push((mark, text.strip_prefix(' ').unwrap_or(text).into()));
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_lines_in_order() {
        let vectors = parse("# x\n[one]\n> a\\r\\n\n>\n= 200\n\n[two]\n> b\n", ">=").expect("good");
        assert_eq!(vectors.len(), 2);
        assert_eq!(vectors[0].title(), "line 2 [one]");
        assert_eq!(vectors[0].all('>').collect::<Vec<_>>(), ["a\\r\\n", ""]);
        assert_eq!(vectors[0].all('=').collect::<Vec<_>>(), ["200"]);
        for bad in ["> a", "[one]\n? a", "[one]\n[one]"] {
            assert!(parse(bad, ">=").is_err(), "{bad:?}");
        }
    }
}
