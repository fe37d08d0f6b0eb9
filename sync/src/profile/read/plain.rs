//! Makes text from other programs safe for terminals and pages.

/// Replaces each control character, each character that changes the direction of text, and each
/// character that XML forbids by U+FFFD.
#[must_use]
pub fn plain_text(text: &str) -> String {
    let is_plain = |c: char| {
        !c.is_control()
            && !matches!(
                c,
                '\u{61c}'
                    | '\u{200e}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}'
                    | '\u{2066}'..='\u{2069}'
                    | '\u{fffe}'..='\u{ffff}'
            )
    };
    text.chars().map(|c| if is_plain(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}
