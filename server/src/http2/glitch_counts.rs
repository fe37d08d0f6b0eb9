//! The glitches of a connection, as the counter `http2_glitches_total` counts them.

use forebay_http2::glitch::{GLITCH_KINDS, Glitch, GlitchBudget};

use crate::counters::Counter;
use crate::worker::Worker;

/// The number of glitches of each kind that were counted.
#[derive(Default)]
pub(super) struct GlitchCounts([u32; GLITCH_KINDS]);

impl GlitchCounts {
    /// Counts the glitches since the last call.
    pub(super) fn count(&mut self, glitches: &GlitchBudget, worker: &Worker) {
        for (glitch, counted) in Glitch::ALL.into_iter().zip(&mut self.0) {
            let count = glitches.count(glitch);
            let more = count - std::mem::replace(counted, count);
            if more > 0 {
                worker.count_many(Counter::Http2Glitches, u64::from(more));
            }
        }
    }
}
