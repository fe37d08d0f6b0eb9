//! Prints the parts of an amount: a line with a bar for each part.

use crate::bars::{BarStyle, Highlight};
use crate::stdout::outln;

/// Length of the bar of the whole amount.
const BAR_CELLS: u64 = 40;

/// Prints each part with its percentage, then the sum of the parts and whether it equals the whole.
pub(super) fn print(whole_name: &str, whole: u64, shares: &[(&str, u64)]) {
    let style = BarStyle::of_output();
    for (name, share) in shares {
        let bar = style.paint(Highlight::Bar, &style.bar(*share, whole, BAR_CELLS));
        let line = format!("{}  {bar}", line(name, *share, whole));
        outln!("{}", line.trim_end());
    }
    let sum: u64 = shares.iter().map(|(_, share)| share).sum();
    let verdict = match sum == whole {
        true => format!("= {whole_name}"),
        // The sum may differ, because the parts are read one after another while the server is
        // working.
        false => format!("{whole_name} is {whole}: the sum differs by {}", sum.abs_diff(whole)),
    };
    outln!("{}  {verdict}", line("sum", sum, whole));
}

fn line(name: &str, share: u64, whole: u64) -> String {
    let percent = 100.0 * share as f64 / whole.max(1) as f64;
    format!("{name:<9} {share:>15} {percent:>6.1}%")
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_has_the_share_and_its_part() {
        assert_eq!(line("live", 50, 200), "live                   50   25.0%");
    }
}
