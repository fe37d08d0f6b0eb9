//! Tables that are printed repeatedly: the size of the terminal, and the loop that prints them.

use std::io;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clap::ArgMatches;
use forebay_server::clock::monotonic_ms;
use terminal_size::{Height, Width, terminal_size_of};

use crate::stdout::outln;

const INTERVAL_MS_DEFAULT: u64 = 1000;

/// The shortest accepted interval. A shorter interval would load the server more than the values
/// are worth.
const INTERVAL_MS_MIN: u64 = 100;

const INTERVAL_MS_MAX: u64 = 3_600_000;

/// Clears the screen for the next table.
pub(crate) const CLEAR: &str = "\x1b[H\x1b[2J";

/// Parses an interval: `2s`, `500ms`, or plain seconds.
pub(crate) fn interval(text: &str) -> Result<u64, String> {
    let (number, unit_ms) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1.0),
        (None, Some(number)) => (number, 1000.0),
        (None, None) => (text, 1000.0),
    };
    let ms = number.parse::<f64>().ok().map(|number| (number * unit_ms) as u64);
    ms.filter(|ms| (INTERVAL_MS_MIN..=INTERVAL_MS_MAX).contains(ms))
        .ok_or_else(|| "expected a time from 100ms to 3600s, such as 2s".to_owned())
}

/// Returns the interval that `--interval` sets, or the default, in milliseconds.
pub(crate) fn interval_of(args: &ArgMatches) -> u64 {
    args.get_one("interval").copied().unwrap_or(INTERVAL_MS_DEFAULT)
}

/// Size of a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl Screen {
    /// Returns the size of the terminal at standard output, or 80 by 24 if it is unknown.
    pub(crate) fn of_output() -> Screen {
        let size = terminal_size_of(io::stdout());
        let (width, height) =
            size.map_or((80, 24), |(Width(width), Height(height))| (width, height));
        Screen { height: usize::from(height), width: usize::from(width).max(1) }
    }

    /// Returns the number of these rows that fit on the screen in addition to other lines; at least
    /// one.
    pub(crate) fn room_for(self, rows: &[String], others: &str) -> usize {
        let room = self.lines_beside(others);
        let mut taken = 0;
        let fits = |row: &&String| {
            taken += self.lines_of(row);
            taken <= room
        };
        rows.iter().take_while(fits).count().max(1).min(rows.len())
    }

    /// Returns the number of lines that remain besides these rows and the line of the cursor, which
    /// is below the last row.
    pub(crate) fn lines_beside(self, rows: &str) -> usize {
        let taken: usize = rows.lines().map(|row| self.lines_of(row)).sum();
        self.height.saturating_sub(taken + 1)
    }

    /// Returns the number of lines that a row takes; a long row wraps.
    pub(crate) fn lines_of(self, row: &str) -> usize {
        row.trim_end().chars().count().div_ceil(self.width).max(1)
    }
}

/// A source that is read repeatedly.
pub(crate) trait WatchTarget {
    type Snapshot;

    /// The text that is printed, after the reason, while the source cannot be read.
    const AWAY: &'static str;

    /// Reads the source once.
    ///
    /// # Errors
    /// The text is a message for the user; the next read may succeed.
    fn read(&mut self) -> Result<Self::Snapshot, String>;

    /// Shows a snapshot. `before` is the previous snapshot, if there is one, and the seconds
    /// between the two. Returns false to end the loop, for instance because the reader of the
    /// output has exited.
    fn show(&self, now: &Self::Snapshot, before: Option<(&Self::Snapshot, f64)>) -> bool;
}

/// The interval, number and form of the snapshots that are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchLoop {
    pub(crate) interval_ms: u64,
    /// Number of tables; `None` for no limit.
    pub(crate) tables: Option<u64>,
    /// Whether each table clears the screen.
    pub(crate) is_live: bool,
}

impl WatchLoop {
    /// Shows a table after each interval. While the source cannot be read, shows a notice instead.
    ///
    /// # Errors
    /// The source could not be read at the last attempt.
    pub(crate) fn watch<W: WatchTarget>(
        self,
        target: &mut W,
        first: W::Snapshot,
    ) -> Result<ExitCode, String> {
        let mut before = Some((first, monotonic_ms()));
        let mut away = None;
        let mut turn = 0;
        while self.tables.is_none_or(|tables| turn < tables) {
            pause(self.interval_ms);
            turn += 1;
            let (now, now_ms) = match target.read() {
                Ok(reading) => (reading, monotonic_ms()),
                Err(why) => {
                    self.say_away(&why, W::AWAY, away.is_none());
                    (before, away) = (None, Some(why));
                    continue;
                }
            };
            away = None;
            let seconds = |then_ms: u64| now_ms.saturating_sub(then_ms).max(1) as f64 / 1000.0;
            let then = before.as_ref().map(|(reading, then_ms)| (reading, seconds(*then_ms)));
            // The target ends the loop, for instance because the reader of the output (`| head`)
            // has exited.
            if !target.show(&now, then) {
                break;
            }
            before = Some((now, now_ms));
        }
        away.map_or(Ok(ExitCode::SUCCESS), Err)
    }

    fn say_away(self, why: &str, what: &str, is_first: bool) {
        if self.is_live {
            outln!("{CLEAR}{why}\n{what}, until Ctrl-C.");
        } else if is_first {
            eprintln!("forebay: {why}; {what}");
        }
    }
}

/// Waits for this time: nothing is ever sent on the channel, so the timeout always elapses.
fn pause(ms: u64) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(Duration::from_millis(ms));
}

#[cfg(test)]
mod tests {
    use super::interval;

    #[test]
    fn an_interval_has_a_unit_and_bounds() {
        for (text, expected) in [
            ("1s", Some(1000)),
            ("0.5s", Some(500)),
            ("250ms", Some(250)),
            ("2", Some(2000)),
            ("50ms", None),
            ("2h", None),
            ("-1s", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(interval(text).ok(), expected, "{text}");
        }
    }
}
