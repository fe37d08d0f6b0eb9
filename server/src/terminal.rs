//! Text from outside, made safe for a terminal.

/// Whether a terminal would obey this character instead of showing it: control characters, C1
/// included, line separators of Unicode, and characters that change the direction of text.
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

/// Escapes the characters that steer a terminal in JSON, where they occur only inside strings.
pub(crate) fn escaped_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if steers_terminal(character) {
            // Each of these characters is one UTF-16 unit.
            escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
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
    fn escaped_json_reads_back_the_same_and_steers_no_terminal() {
        let text = "a\"\\é\u{1b}[2J\u{7f}\u{9b}2J\u{85}\u{202e}b\u{2066}\u{200f}\u{2028}€😀";
        let escaped = escaped_json(&serde_json::json!([text]).to_string());
        assert!(!escaped.chars().any(steers_terminal), "{escaped:?}");
        assert!(escaped.contains("\\u009b2J") && escaped.contains("é"), "{escaped:?}");
        let read = serde_json::from_str::<Vec<String>>(&escaped);
        assert_eq!(read.expect("it is JSON"), [text]);
    }
}
