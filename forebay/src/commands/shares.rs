//! How something is shared out: a line with a bar for each share.

use std::io::{self, IsTerminal};

use crate::say::say;

/// A whole bar.
const BAR_CELLS: u64 = 40;

/// A cell that is filled to 1/8, 2/8 and so on.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// How bars are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// With block characters and colour.
    Blocks,
    /// In ASCII.
    Plain,
}

impl Style {
    /// Of standard output. See <https://no-color.org>.
    fn of_output() -> Style {
        let is_without = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if io::stdout().is_terminal() && !is_without { Style::Blocks } else { Style::Plain }
    }
}

/// Prints each share with its part of the whole, then the sum, and whether it is the whole.
pub(super) fn print(whole_name: &str, whole: u64, shares: &[(&str, u64)]) {
    let style = Style::of_output();
    for (name, share) in shares {
        let line = format!("{}  {}", line(name, *share, whole), bar(*share, whole, style));
        say!("{}", line.trim_end());
    }
    let sum: u64 = shares.iter().map(|(_, share)| share).sum();
    let verdict = match sum == whole {
        true => format!("= {whole_name}"),
        // Shares are looked at one after another, while others work.
        false => format!("{whole_name} is {whole}: off by {}", sum.abs_diff(whole)),
    };
    say!("{}  {verdict}", line("sum", sum, whole));
}

fn line(name: &str, share: u64, whole: u64) -> String {
    let percent = 100.0 * share as f64 / whole.max(1) as f64;
    format!("{name:<9} {share:>15} {percent:>6.1}%")
}

/// What is there at all is seen.
fn bar(share: u64, whole: u64, style: Style) -> String {
    let share = share.min(whole);
    let filled = |steps: u64| {
        let steps = u128::from(share) * u128::from(steps) / u128::from(whole.max(1));
        usize::from(share > 0).max(steps as usize)
    };
    match style {
        _ if share == 0 => String::new(),
        Style::Plain => "#".repeat(filled(BAR_CELLS)),
        Style::Blocks => {
            let eighths = filled(BAR_CELLS * 8);
            let mut text = EIGHTHS[7].to_string().repeat(eighths / 8);
            text.extend((eighths % 8).checked_sub(1).map(|rest| EIGHTHS[rest]));
            format!("\x1b[36m{text}\x1b[0m")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        let cases = [
            (0, 100, "", ""),
            (1, 100_000, "#", "▏"),
            (
                100,
                100,
                "########################################",
                "████████████████████████████████████████",
            ),
            (
                200,
                100,
                "########################################",
                "████████████████████████████████████████",
            ),
            (10, 100, "####", "████"),
            (11, 100, "####", "████▍"),
            (u64::MAX / 10, u64::MAX, "###", "███▉"),
            (0, 0, "", ""),
        ];
        for (share, whole, plain, blocks) in cases {
            assert_eq!(bar(share, whole, Style::Plain), plain, "{share} of {whole}");
            let drawn = bar(share, whole, Style::Blocks);
            let uncoloured = drawn.replace("\x1b[36m", "").replace("\x1b[0m", "");
            assert_eq!(uncoloured, blocks, "{share} of {whole}");
        }
        assert_eq!(line("live", 50, 200), "live                   50   25.0%");
    }
}
