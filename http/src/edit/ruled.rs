//! The lines of a request that rules have written.

use super::FieldEdit;

/// The lines of a buffer that rules have written, by the offsets of their first bytes; all other
/// lines were received.
///
/// A line counts as written by rules if rules have added it, or have set it as a whole. A received
/// line does not count if rules have only changed its value, because a part of the value may still
/// come from the client.
#[derive(Clone, Debug, Default)]
pub struct RuledLines {
    /// Offsets of single lines, in order.
    starts: Vec<u32>,
    /// Rules have written all lines from this offset on; `None` if there is no such offset.
    from: Option<u32>,
}

impl RuledLines {
    /// Removes all lines.
    pub fn clear(&mut self) {
        self.starts.clear();
        self.from = None;
    }

    /// Adds the line at this offset, which is after the other lines.
    pub fn push(&mut self, start: usize) {
        self.starts.push(start as u32);
    }

    /// Whether rules have written the line at this offset.
    pub fn contains(&self, start: usize) -> bool {
        let start = start as u32;
        self.from.is_some_and(|from| start >= from) || self.starts.binary_search(&start).is_ok()
    }
}

impl FieldEdit<'_> {
    /// Replaces the recorded offsets by those of the edited buffer after its holes are closed.
    pub(super) fn note_ruled_lines(&mut self) {
        let Some(received_end) = self.received_end else { return };
        let table = &mut *self.table;
        if self.scanned < received_end {
            // Lines were only appended, so the buffer has no holes.
            let from = table.ruled.from.unwrap_or(u32::MAX);
            table.ruled.from = Some(from.min(received_end as u32));
            return;
        }
        let ruled = table.lines.iter().filter(|line| line.is_live() && line.is_ruled);
        table.ruled.starts.clear();
        table.ruled.starts.extend(ruled.map(|line| line.start));
        table.ruled.starts.sort_unstable();
        table.holes.sort_unstable();
        let (mut holes, mut hole_bytes) = (table.holes.iter().peekable(), 0);
        for start in &mut table.ruled.starts {
            while let Some((hole_start, hole_end)) = holes.next_if(|(_, end)| end <= start) {
                hole_bytes += hole_end - hole_start;
            }
            *start -= hole_bytes;
        }
        // All lines from `scanned` on were appended, and the holes are before them.
        table.ruled.from = Some((self.scanned - self.hole_bytes) as u32);
    }
}
