//! Glitches: actions of a client that cost the server work, and that honest clients seldom take.
//! All glitches of a connection share one budget.
//!
//! Each glitch has a cost. A request that completes refunds [`REQUEST_REFUND`], and time refunds
//! [`SECOND_REFUND`] for each second, up to the size of the budget. When the budget is spent, the
//! connection ends with ENHANCE_YOUR_CALM. With the default of 10,000, a client may cancel 200
//! streams in one burst and then two per second, and one more for each request that it lets
//! complete.

use crate::error::ConnectionError;

/// Refund for a request whose response was sent to its end.
pub const REQUEST_REFUND: u32 = 50;

/// Refund for each second.
pub const SECOND_REFUND: u32 = 100;

macro_rules! glitches {
    ($( $(#[$doc:meta])* $variant:ident: $name:literal, $cost:literal; )*) => {
        /// A kind of glitch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Glitch {
            $( $(#[$doc])* $variant, )*
        }

        /// Number of kinds.
        pub const GLITCH_KINDS: usize = [$( $cost ),*].len();

        impl Glitch {
            /// Every kind, in the order of the counts.
            pub const ALL: [Glitch; GLITCH_KINDS] = [$( Glitch::$variant ),*];

            /// Returns the name for counters.
            pub const fn name(self) -> &'static str {
                match self { $( Glitch::$variant => $name, )* }
            }

            /// Returns the cost of one glitch.
            pub const fn cost(self) -> u32 {
                match self { $( Glitch::$variant => $cost, )* }
            }
        }
    };
}

glitches! {
    /// The client resets a stream before its response is complete (rapid reset, CVE-2023-44487).
    Reset: "reset", 50;
    /// The client causes a reset of a stream by a malformed message (MadeYouReset, CVE-2025-8671).
    Malformed: "malformed", 50;
    /// A stream begins while as many are in use as the server permits.
    Refused: "refused", 50;
    /// The field lines of a request exceed a limit (HPACK bombs).
    TooLarge: "too-large", 50;
    /// A header block continues in another frame (CONTINUATION flood).
    Continuation: "continuation", 50;
    /// A SETTINGS frame follows the first one (CVE-2019-9515).
    Settings: "settings", 100;
    /// A PING wants an answer (CVE-2019-9512).
    Ping: "ping", 50;
    /// A PRIORITY or PRIORITY_UPDATE frame (CVE-2019-9513).
    Priority: "priority", 20;
    /// A DATA frame has no data and does not end its stream (CVE-2019-9518).
    EmptyData: "empty-data", 50;
    /// A DATA frame has fewer than 16 bytes and does not end its stream.
    TinyData: "tiny-data", 1;
    /// A window makes us send a frame of less than 256 bytes (data dribble, CVE-2019-9511).
    TinyWindow: "tiny-window", 10;
    /// A WINDOW_UPDATE adds less than 256 bytes.
    WindowUpdate: "window-update", 1;
    /// A frame of an unknown type.
    Unknown: "unknown", 10;
    /// A frame concerns a stream that has ended.
    Closed: "closed", 5;
}

/// The budget of one connection.
#[derive(Clone, Debug)]
pub struct GlitchBudget {
    left: u32,
    max: u32,
    /// The time of the last refund.
    refunded_ms: u64,
    counts: [u32; GLITCH_KINDS],
}

impl GlitchBudget {
    pub(crate) fn new(max: u32, now_ms: u64) -> GlitchBudget {
        GlitchBudget { left: max, max, refunded_ms: now_ms, counts: [0; GLITCH_KINDS] }
    }

    /// Charges one glitch.
    ///
    /// # Errors
    /// The budget is spent.
    pub(crate) fn charge(&mut self, glitch: Glitch) -> Result<(), ConnectionError> {
        if let Some(count) = self.counts.get_mut(glitch as usize) {
            *count = count.saturating_add(1);
        }
        match self.left.checked_sub(glitch.cost()) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(ConnectionError::calm("the client has caused too many glitches")),
        }
    }

    pub(crate) fn refund_request(&mut self) {
        self.refund(REQUEST_REFUND);
    }

    /// Refunds for the time since the last refund, in whole milliseconds.
    pub(crate) fn refund_time(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.refunded_ms);
        let amount = passed_ms.saturating_mul(u64::from(SECOND_REFUND)) / 1000;
        if amount > 0 {
            self.refunded_ms = now_ms;
            self.refund(u32::try_from(amount).unwrap_or(u32::MAX));
        }
    }

    fn refund(&mut self, amount: u32) {
        self.left = self.left.saturating_add(amount).min(self.max);
    }

    /// Returns the rest of the budget: the total cost of the glitches that are still permitted.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Returns how many glitches of a kind have occurred.
    pub fn count(&self, glitch: Glitch) -> u32 {
        self.counts.get(glitch as usize).copied().unwrap_or_default()
    }
}
