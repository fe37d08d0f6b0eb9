//! Makes text from outside safe for a terminal.

use std::fmt::{self, Write as _};

/// Whether a terminal would obey this character instead of showing it: control characters
/// (including C1), the line separators of Unicode, and characters that change the direction of
/// text.
pub fn steers_terminal(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Shows a value. Characters in it that control a terminal are escaped, as in `\u{202e}`. Line
/// feeds are kept: Forebay's own messages may have several lines, and text from outside has no line
/// feeds here.
pub(crate) struct EscapedText<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for EscapedText<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

        impl fmt::Write for Escaping<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                for piece in text.split_inclusive(|c| c != '\n' && steers_terminal(c)) {
                    match piece.chars().next_back() {
                        Some(last) if last != '\n' && steers_terminal(last) => {
                            self.0.write_str(&piece[..piece.len() - last.len_utf8()])?;
                            write!(self.0, "{}", last.escape_unicode())?;
                        }
                        _ => self.0.write_str(piece)?,
                    }
                }
                Ok(())
            }
        }

        fmt::Write::write_fmt(&mut Escaping(out), format_args!("{}", self.0))
    }
}

/// Escapes the characters in `text` that control a terminal, except line feeds.
pub fn escaped_text(text: &str) -> String {
    EscapedText(text).to_string()
}

/// Escapes the characters in text from outside that control a terminal. Line feeds are escaped too,
/// as in `\u{a}`, so that the text stays on its line.
pub fn escaped_line(text: &str) -> String {
    escaped_text(text).replace('\n', r"\u{a}")
}

/// Escapes the characters in JSON that control a terminal. Such characters occur only inside
/// strings.
pub(crate) fn escaped_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if steers_terminal(character) {
            // Each of these characters is one UTF-16 unit. Writing to a string does not fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_shows_characters_that_steer_a_terminal() {
        for (text, expected) in [
            ("", ""),
            ("plain é €\n", "plain é €\n"),
            ("\u{9b}2J", r"\u{9b}2J"),
            ("a\u{202e}b\u{1b}", r"a\u{202e}b\u{1b}"),
            ("\u{85}\u{2028}\r\n", "\\u{85}\\u{2028}\\u{d}\n"),
        ] {
            assert_eq!(escaped_text(text), expected, "{text:?}");
        }
    }

    #[test]
    fn escaped_line_stays_on_its_line() {
        assert_eq!(escaped_line("a\n\u{2028}ERROR b\r\n"), r"a\u{a}\u{2028}ERROR b\u{d}\u{a}");
    }

    #[test]
    fn escaped_json_reads_back_the_same_and_steers_no_terminal() {
        let text = "a\"\\é\u{1b}[2J\u{7f}\u{9b}2J\u{85}\u{202e}b\u{2066}\u{200f}\u{2028}€😀";
        let escaped = escaped_json(&serde_json::json!([text]).to_string());
        assert!(!escaped.chars().any(steers_terminal), "{escaped:?}");
        assert!(escaped.contains("\\u009b2J") && escaped.contains("é"), "{escaped:?}");
        let read = serde_json::from_str::<Vec<String>>(&escaped);
        assert_eq!(read.expect("it is JSON"), [text]);
    }
}
