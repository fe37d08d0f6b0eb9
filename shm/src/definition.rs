//! What a counter is called and what it counts.

/// What a number means over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CounterKind {
    /// Only grows while the process lives.
    Counter = 0,
    /// Goes up and down.
    Gauge = 1,
}

impl CounterKind {
    pub(crate) fn decode(byte: u8) -> Option<CounterKind> {
        match byte {
            0 => Some(CounterKind::Counter),
            1 => Some(CounterKind::Gauge),
            _ => None,
        }
    }
}

/// One counter: what it is called and what it counts. A reader gets it with owned text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterDef<S = &'static str> {
    /// Lower-case letters, digits and `_`; at most [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX).
    pub name: S,
    /// What the number means over time.
    pub kind: CounterKind,
    /// One line of text; at most [`HELP_BYTES_MAX`](crate::HELP_BYTES_MAX).
    pub help: S,
}
