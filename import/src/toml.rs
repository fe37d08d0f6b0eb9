//! Writing TOML.

use std::fmt::Write;

/// A section's settings, in the order in which they were set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct TomlTable {
    lines: Vec<(String, String)>,
    comments: Vec<String>,
}

impl TomlTable {
    pub(crate) fn comment(&mut self, text: impl Into<String>) {
        self.comments.push(text.into());
    }

    /// Sets a value that is valid TOML; a second one replaces the first.
    pub(crate) fn raw(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        match self.lines.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.lines.push((name.to_owned(), value)),
        }
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.raw(name, quote(value));
    }

    /// Sets a text without escapes, if it can be written so.
    pub(crate) fn verbatim(&mut self, name: &str, value: &str) {
        let is_plain = value.chars().all(|c| c != '\'' && !c.is_control());
        self.raw(name, if is_plain { format!("'{value}'") } else { quote(value) });
    }

    pub(crate) fn texts<T: AsRef<str>>(&mut self, name: &str, values: &[T]) {
        self.raw(name, list(values));
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.lines.iter().any(|(known, _)| known == name)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let line = self.lines.iter().find(|(known, _)| known == name);
        line.map(|(_, value)| value.as_str())
    }

    /// Writes this setting before all others.
    pub(crate) fn move_to_front(&mut self, name: &str) {
        self.lines.sort_by_key(|(known, _)| known != name);
    }

    /// The names and values, in their order.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Adds the comments and settings of another section.
    pub(crate) fn extend(&mut self, other: TomlTable) {
        self.comments.extend(other.comments);
        other.lines.into_iter().for_each(|(name, value)| self.raw(&name, value));
    }

    pub(crate) fn drop_comment(&mut self, text: &str) {
        self.comments.retain(|comment| comment != text);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.lines.retain(|(known, _)| known != name);
    }

    pub(crate) fn write(&self, out: &mut String, heading: &str) {
        for comment in &self.comments {
            let _ = writeln!(out, "# {}", comment.replace(|c: char| c.is_control(), " "));
        }
        if !heading.is_empty() {
            let _ = writeln!(out, "{heading}");
        }
        for (name, value) in &self.lines {
            let _ = writeln!(out, "{name} = {value}");
        }
    }
}

/// A basic string.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// An array of strings.
pub(crate) fn list<T: AsRef<str>>(values: &[T]) -> String {
    let quoted: Vec<_> = values.iter().map(|value| quote(value.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}
