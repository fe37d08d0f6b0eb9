//! Bars and highlighted text on standard output.

use std::io::{self, IsTerminal};

/// Block characters that fill 1/8, 2/8 … of a cell.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// How bars and highlights are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarStyle {
    /// Bars are block characters, and text has colours.
    Blocks,
    /// Bars are ASCII characters, and text has no colours.
    Plain,
}

/// The role of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Highlight {
    Bar,
    Changed,
}

impl BarStyle {
    /// Returns the style for standard output. Only a terminal gets colours, and none if `NO_COLOR`
    /// is set; see <https://no-color.org>.
    pub(crate) fn of_output() -> BarStyle {
        let is_without = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if io::stdout().is_terminal() && !is_without { BarStyle::Blocks } else { BarStyle::Plain }
    }

    /// Returns a bar whose length is in proportion to the share. The bar of the whole has `cells`
    /// cells. A share above 0 is always visible.
    pub(crate) fn bar(self, share: u64, whole: u64, cells: u64) -> String {
        let share = share.min(whole);
        let filled = |steps: u64| {
            let steps = u128::from(share) * u128::from(steps) / u128::from(whole.max(1));
            usize::from(share > 0).max(steps as usize)
        };
        match self {
            BarStyle::Plain => "#".repeat(filled(cells)),
            BarStyle::Blocks => {
                let eighths = filled(cells * 8);
                let mut text = EIGHTHS[7].to_string().repeat(eighths / 8);
                text.extend((eighths % 8).checked_sub(1).map(|rest| EIGHTHS[rest]));
                text
            }
        }
    }

    /// Returns the text in the colour of its role.
    pub(crate) fn paint(self, paint: Highlight, text: &str) -> String {
        let colour = match paint {
            Highlight::Bar => "36",
            Highlight::Changed => "1;32",
        };
        match self {
            BarStyle::Blocks if !text.is_empty() => format!("\x1b[{colour}m{text}\x1b[0m"),
            BarStyle::Blocks | BarStyle::Plain => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        const WHOLE_PLAIN: &str = "########################################";
        const WHOLE_BLOCKS: &str = "████████████████████████████████████████";
        let cases = [
            (0, 100, "", ""),
            (1, 100_000, "#", "▏"),
            (100, 100, WHOLE_PLAIN, WHOLE_BLOCKS),
            (200, 100, WHOLE_PLAIN, WHOLE_BLOCKS),
            (10, 100, "####", "████"),
            (11, 100, "####", "████▍"),
            (u64::MAX / 10, u64::MAX, "###", "███▉"),
            (0, 0, "", ""),
        ];
        for (share, whole, plain, blocks) in cases {
            assert_eq!(BarStyle::Plain.bar(share, whole, 40), plain, "{share} of {whole}");
            assert_eq!(BarStyle::Blocks.bar(share, whole, 40), blocks, "{share} of {whole}");
        }
    }

    #[test]
    fn only_text_in_the_block_style_has_colour() {
        assert_eq!(BarStyle::Plain.paint(Highlight::Bar, "##"), "##");
        assert_eq!(BarStyle::Blocks.paint(Highlight::Bar, "██"), "\x1b[36m██\x1b[0m");
        assert_eq!(BarStyle::Blocks.paint(Highlight::Bar, ""), "", "an empty text stays empty");
    }
}
