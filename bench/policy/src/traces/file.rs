//! Reads a trace from a file with a line for each request: `KEY BYTES` or `KEY`. A blank or a comma
//! separates the two.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::Trace;

/// The length of an object whose request states no length.
const BYTES: u32 = 1024;

/// Reads a trace. The first request of a key determines its length. Budgets are shares of the sum
/// over all keys.
pub(crate) fn read(path: &Path) -> Result<Trace, String> {
    let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| problem(&error))?;
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let (mut requests, mut bytes) = (Vec::new(), Vec::new());
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| problem(&error))?;
        let Some((key, size)) = request(&line) else {
            return Err(problem(&format!("line {} must be KEY or KEY BYTES", index + 1)));
        };
        let number = match numbers.get(key) {
            Some(number) => *number,
            None => {
                let number = bytes.len() as u32;
                bytes.push(size);
                numbers.insert(key.into(), number);
                number
            }
        };
        requests.push(number);
    }
    if requests.is_empty() {
        return Err(problem(&"the trace has no requests"));
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let footprint_bytes = bytes.iter().map(|bytes| u64::from(*bytes)).sum();
    Ok(Trace { name, requests, bytes, lifetimes: Vec::new(), footprint_bytes })
}

fn request(line: &str) -> Option<(&str, u32)> {
    let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
    let key = words.next()?;
    let bytes = words.next().map_or(Some(BYTES), |word| word.parse().ok())?;
    (words.next().is_none() && bytes > 0).then_some((key, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_key_and_perhaps_its_bytes() {
        let cases = [
            ("a", Some(("a", 1024))),
            ("/index.html 17", Some(("/index.html", 17))),
            ("7,4096", Some(("7", 4096))),
            ("a\t5 ", Some(("a", 5))),
            ("", None),
            ("a 0", None),
            ("a -1", None),
            ("a 1 2", None),
        ];
        for (line, expected) in cases {
            assert_eq!(request(line), expected, "{line:?}");
        }
    }
}
