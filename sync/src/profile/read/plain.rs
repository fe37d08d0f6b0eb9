//! Text from other programs, made safe for terminals and pages.

/// Replaces control characters, characters that change the direction of text, and characters that
/// XML forbids.
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
