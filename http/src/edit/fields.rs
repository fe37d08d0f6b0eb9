//! Edits the field lines at the end of a buffer.

use std::ops::Range;

use super::{
    EditError, EditLimits, EditTable, FieldHandle,
    block::{ConflictingLines, ConstantLine, ConstantLines},
    name::{FieldName, FieldValue, HashSeed},
    table::{EditLine, LineSlot, NONE},
};
use crate::bytes::{find_colon, trim_space};

/// An edit of the field lines at the end of a buffer, in wire form.
///
/// When an edit is dropped or finished, the buffer holds exactly the resulting lines.
#[derive(Debug)]
pub struct FieldEdit<'b> {
    pub(super) text: &'b mut Vec<u8>,
    pub(super) table: &'b mut EditTable,
    limits: EditLimits,
    /// First byte of the first line.
    pub(super) start: usize,
    /// All lines before this offset are in the table.
    pub(super) scanned: usize,
    /// The number of lines from `scanned` on; `None` until they are counted.
    pub(super) unscanned_count: Option<usize>,
    /// Number of lines in the table that have not been removed.
    live_count: usize,
    /// Total length of the holes in bytes.
    pub(super) hole_bytes: usize,
    pub(super) is_changed: bool,
    /// The end of the received lines, if the edit tracks the lines that rules write.
    pub(super) received_end: Option<usize>,
}

impl<'b> FieldEdit<'b> {
    /// Starts an edit of the lines from `start` to the end of `text`. These must be whole lines in
    /// wire form that a parser has accepted, without the empty line that ends a head.
    pub fn new(
        text: &'b mut Vec<u8>,
        start: usize,
        table: &'b mut EditTable,
        limits: EditLimits,
    ) -> FieldEdit<'b> {
        debug_assert!(start <= text.len());
        debug_assert!(text.get(start..).is_some_and(|rest| {
            rest.is_empty() || rest.ends_with(b"\r\n") && !rest.ends_with(b"\r\n\r\n")
        }));
        table.clear();
        FieldEdit {
            start,
            scanned: start,
            text,
            table,
            limits,
            unscanned_count: None,
            live_count: 0,
            hole_bytes: 0,
            is_changed: false,
            received_end: None,
        }
    }

    /// Starts an edit like [`new`](FieldEdit::new), for the lines of a request. The edit updates
    /// [`EditTable::ruled_lines`], which must describe the lines of this buffer.
    pub fn of_request(
        text: &'b mut Vec<u8>,
        start: usize,
        table: &'b mut EditTable,
        limits: EditLimits,
    ) -> FieldEdit<'b> {
        let received_end = text.len();
        let mut edit = FieldEdit::new(text, start, table, limits);
        edit.received_end = Some(received_end);
        edit
    }

    /// Returns the first line of this name.
    pub fn find(&mut self, name: &FieldName) -> Option<FieldHandle> {
        self.scan();
        self.table.find(name.hash(), self.text, name.as_bytes()).map(FieldHandle)
    }

    /// Returns the next line that has the same name as this line.
    pub fn next_duplicate(&self, at: FieldHandle) -> Option<FieldHandle> {
        self.table.live_from(self.line(at)?.next).map(FieldHandle)
    }

    /// Returns the name of a line as written; empty if the line was removed.
    pub fn name(&self, at: FieldHandle) -> &[u8] {
        let line = self.line(at).filter(|line| line.is_live());
        line.and_then(|line| self.text.get(line.name())).unwrap_or_default()
    }

    /// Returns the value of a line; empty if the line was removed.
    pub fn value(&self, at: FieldHandle) -> &[u8] {
        self.line(at).and_then(|line| self.text.get(line.value())).unwrap_or_default()
    }

    /// Iterates over all lines. Lines of the same name keep their order.
    pub fn iter(&mut self) -> impl Iterator<Item = (FieldHandle, &[u8], &[u8])> {
        self.scan();
        let live = self.table.lines.iter().enumerate().filter(|(_, line)| line.is_live());
        live.map(|(index, line)| {
            let part = |range| self.text.get(range).unwrap_or_default();
            (FieldHandle(index as u32), part(line.name()), part(line.value()))
        })
    }

    /// Whether any line was added, changed or removed.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns the number of lines.
    pub fn count(&mut self) -> usize {
        self.scan();
        self.live_count
    }

    /// Total length of all lines in wire form.
    pub fn wire_bytes(&self) -> usize {
        self.text.len() - self.start - self.hole_bytes
    }

    /// Length of the whole buffer, including removed text that is still in it. It grows with every
    /// added line and every longer value.
    pub fn buffer_bytes(&self) -> usize {
        self.text.len()
    }

    /// Appends a line after the other lines of its name.
    pub fn append(
        &mut self,
        name: &FieldName,
        value: FieldValue<'_>,
    ) -> Result<FieldHandle, EditError> {
        self.scan();
        let place = self.slot_for(name);
        self.push(place, name, value)
    }

    /// Replaces all lines of this name by one line with this value.
    pub fn set(
        &mut self,
        name: &FieldName,
        value: FieldValue<'_>,
    ) -> Result<FieldHandle, EditError> {
        self.scan();
        let place = self.slot_for(name);
        match self.table.live_at(place) {
            Some(at) => self.set_all(FieldHandle(at), value),
            None => self.push(place, name, value),
        }
    }

    /// Sets the value of the first line of a name and removes the others.
    fn set_all(
        &mut self,
        at: FieldHandle,
        value: FieldValue<'_>,
    ) -> Result<FieldHandle, EditError> {
        self.set_value(at, value)?;
        let mut next = self.next_duplicate(at);
        while let Some(duplicate) = next {
            next = self.next_duplicate(duplicate);
            self.remove(duplicate);
        }
        if let Some(line) = self.table.lines.get_mut(at.0 as usize) {
            line.is_ruled = true;
        }
        Ok(at)
    }

    /// Sets the value of one line.
    pub fn set_value(&mut self, at: FieldHandle, value: FieldValue<'_>) -> Result<(), EditError> {
        let value = value.as_bytes();
        let line = *self.line(at).filter(|line| line.is_live()).ok_or(EditError::Gone)?;
        self.check_room(value.len().saturating_sub(line.value_len as usize), 0)?;
        if value.len() <= line.value_len as usize {
            self.overwrite(at, line, value);
        } else {
            self.rewrite(at, line, value);
        }
        Ok(())
    }

    /// Removes a line; returns false if it was removed already.
    pub fn remove(&mut self, at: FieldHandle) -> bool {
        let bytes = self.line(at).map_or(0, |line| line.whole().len());
        let removed = self.table.remove(at.0);
        if removed {
            self.is_changed = true;
            self.live_count -= 1;
            self.hole_bytes += bytes;
        }
        removed
    }

    /// Removes all lines of this name; returns how many there were.
    pub fn remove_all(&mut self, name: &FieldName) -> usize {
        let (mut next, mut count) = (self.find(name), 0);
        while let Some(at) = next {
            next = self.next_duplicate(at);
            count += usize::from(self.remove(at));
        }
        count
    }

    /// Sets or appends a constant line. If a line that is set exceeds the limits, all lines of its
    /// name are removed, so that a line sent by another party does not remain in its place.
    pub fn apply_line(&mut self, line: &ConstantLine) -> Result<FieldHandle, EditError> {
        let applied = self.try_line(line);
        if applied.is_err() && line.is_set() {
            self.remove_all(line.name());
        }
        applied
    }

    fn try_line(&mut self, line: &ConstantLine) -> Result<FieldHandle, EditError> {
        self.scan();
        let place = self.slot_for(line.name());
        if line.is_set()
            && let Some(at) = self.table.live_at(place)
        {
            return self.set_all(FieldHandle(at), line.value());
        }
        self.check_room(line.wire().len(), 1)?;
        let start = self.text.len();
        self.text.extend_from_slice(line.wire());
        Ok(self.add_line(place, line.name(), start))
    }

    /// Stores in `conflicts` which lines of `lines` set a name that the head already has, for
    /// [`FieldEdit::apply_range`].
    pub fn find_conflicts(&mut self, lines: &ConstantLines, conflicts: &mut ConflictingLines) {
        lines.find_conflicts(self, conflicts);
    }

    /// Sets or appends a range of constant lines; returns how many of them exceeded the limits.
    ///
    /// If `conflicts` has none of these lines, the call costs only one copy. The result is right
    /// only if since `find_conflicts` no other call has added lines of names that `lines` set, and
    /// if each line is applied only once.
    pub fn apply_range(
        &mut self,
        lines: &ConstantLines,
        range: Range<usize>,
        conflicts: &ConflictingLines,
    ) -> u32 {
        lines.apply_range(range, conflicts, self)
    }

    /// Appends lines without entering them into the table; the next search for a name does that.
    /// The caller has checked the limits.
    pub(super) fn append_unscanned(&mut self, wire: &[u8], line_count: usize) {
        debug_assert!(self.unscanned_count.is_some() || self.scanned == self.text.len());
        self.text.extend_from_slice(wire);
        self.is_changed = true;
        self.unscanned_count = Some(self.unscanned_count.unwrap_or_default() + line_count);
    }

    /// Ends the edit and removes the holes from the buffer.
    pub fn finish(self) {
        // `drop` does the work, so that an abandoned edit never leaves removed lines in the head.
        drop(self);
    }

    fn line(&self, at: FieldHandle) -> Option<&EditLine> {
        self.table.lines.get(at.0 as usize)
    }

    /// Checks that this many more bytes and lines stay within the limits. All lines must have been
    /// counted.
    pub(super) fn check_room(&self, bytes: usize, line_count: usize) -> Result<(), EditError> {
        // Removed lines stay in the buffer until the edit ends, so the buffer needs a limit too.
        let buffer_bytes_max = (self.limits.bytes_max as usize).saturating_mul(4);
        if self.wire_bytes() + bytes > self.limits.bytes_max as usize
            || self.text.len() - self.start + bytes > buffer_bytes_max
        {
            return Err(EditError::TooManyBytes);
        }
        let count = self.live_count + self.unscanned_count.unwrap_or_default() + line_count;
        if line_count > 0 && count > self.limits.line_count_max as usize {
            return Err(EditError::TooManyFields);
        }
        Ok(())
    }

    /// Finds the slot of a name. All lines must be in the table.
    fn slot_for(&mut self, name: &FieldName) -> LineSlot {
        self.table.slot_for(name.hash(), self.text, name.as_bytes())
    }

    /// Appends a line, unless it exceeds the limits. All lines must be in the table.
    fn push(
        &mut self,
        place: LineSlot,
        name: &FieldName,
        value: FieldValue<'_>,
    ) -> Result<FieldHandle, EditError> {
        self.check_room(name.as_bytes().len() + value.as_bytes().len() + 4, 1)?;
        let start = self.text.len();
        crate::write::field(self.text, name.as_bytes(), value.as_bytes());
        Ok(self.add_line(place, name, start))
    }

    /// Enters the line that was just written at `start` into the table.
    fn add_line(&mut self, place: LineSlot, name: &FieldName, start: usize) -> FieldHandle {
        let name_len = name.as_bytes().len();
        let end = self.text.len();
        let line = EditLine {
            hash: name.hash(),
            start: start as u32,
            value_start: (start + name_len + 2) as u32,
            value_len: (end - 2 - (start + name_len + 2)) as u32,
            end: end as u32,
            next: NONE,
            last: NONE,
            name_len: name_len as u16,
            is_ruled: true,
        };
        self.scanned = end;
        self.live_count += 1;
        self.is_changed = true;
        FieldHandle(self.table.push_at(place, line))
    }

    /// Overwrites a value by one that is not longer.
    fn overwrite(&mut self, at: FieldHandle, line: EditLine, value: &[u8]) {
        let start = line.value_start as usize;
        let end = start + value.len();
        self.is_changed = true;
        let old_end = line.whole().end;
        if let Some(place) = self.text.get_mut(start..end) {
            place.copy_from_slice(value);
        }
        if old_end > end + 2 {
            if let Some(place) = self.text.get_mut(end..end + 2) {
                place.copy_from_slice(b"\r\n");
            }
            self.add_hole(end + 2, old_end);
        }
        if let Some(line) = self.table.lines.get_mut(at.0 as usize) {
            line.value_len = value.len() as u32;
            line.end = (end + 2) as u32;
        }
    }

    /// Sets a longer value. The line moves to the end of the buffer, and so do the later lines of
    /// its name, so that these lines keep their order.
    fn rewrite(&mut self, at: FieldHandle, line: EditLine, value: &[u8]) {
        self.move_to_end(at, line, Some(value));
        let mut next = self.next_duplicate(at);
        while let Some(duplicate) = next {
            if let Some(line) = self.line(duplicate).copied() {
                self.move_to_end(duplicate, line, None);
            }
            next = self.next_duplicate(duplicate);
        }
    }

    fn move_to_end(&mut self, at: FieldHandle, line: EditLine, value: Option<&[u8]>) {
        self.is_changed = true;
        let start = self.text.len();
        self.text.extend_from_within(line.name());
        self.text.extend_from_slice(b": ");
        let value_start = self.text.len();
        match value {
            Some(value) => self.text.extend_from_slice(value),
            None => self.text.extend_from_within(line.value()),
        }
        let value_len = self.text.len() - value_start;
        self.text.extend_from_slice(b"\r\n");
        let whole = line.whole();
        self.add_hole(whole.start, whole.end);
        let end = self.text.len();
        self.scanned = end;
        if let Some(line) = self.table.lines.get_mut(at.0 as usize) {
            line.start = start as u32;
            line.value_start = value_start as u32;
            line.value_len = value_len as u32;
            line.end = end as u32;
        }
    }

    fn add_hole(&mut self, start: usize, end: usize) {
        self.table.holes.push((start as u32, end as u32));
        self.hole_bytes += end - start;
    }

    /// Enters all remaining lines into the table.
    #[inline]
    pub(super) fn scan(&mut self) {
        if self.scanned < self.text.len() {
            self.scan_rest();
        }
    }

    fn scan_rest(&mut self) {
        while self.scanned < self.text.len() {
            let Some((mut line, end)) = line_at(self.table.seed, self.text, self.scanned) else {
                // Not a field line: the caller broke the contract. The text stays unchanged.
                debug_assert!(false, "the text from byte {} on is not a field line", self.scanned);
                break;
            };
            line.is_ruled = self.received_end.is_some_and(|received_end| {
                self.scanned >= received_end || self.table.ruled.contains(self.scanned)
            });
            self.table.push(line, self.text);
            self.live_count += 1;
            self.scanned = end;
        }
        self.scanned = self.text.len();
        self.unscanned_count = None;
    }

    /// Closes the holes by moving the remaining lines forward.
    fn squeeze(&mut self) {
        let holes = &mut self.table.holes;
        holes.sort_unstable();
        let mut kept_end = match holes.first() {
            Some((start, _)) => *start as usize,
            None => return,
        };
        for (index, (_, hole_end)) in holes.iter().enumerate() {
            let from = *hole_end as usize;
            let to = holes.get(index + 1).map_or(self.text.len(), |(start, _)| *start as usize);
            self.text.copy_within(from..to, kept_end);
            kept_end += to - from;
        }
        self.text.truncate(kept_end);
        holes.clear();
    }
}

impl Drop for FieldEdit<'_> {
    fn drop(&mut self) {
        self.note_ruled_lines();
        self.squeeze();
    }
}

/// Parses the line at this offset. Returns the line and the offset of the next line.
pub(super) fn line_at(seed: HashSeed, text: &[u8], start: usize) -> Option<(EditLine, usize)> {
    let rest = text.get(start..)?;
    let end = memchr::memchr(b'\n', rest)?;
    let line = rest.get(..end.checked_sub(1)?)?;
    let name_len = find_colon(line)?;
    let name = line.get(..name_len)?;
    let value = trim_space(line.get(name_len + 1..)?);
    let value_start = value.as_ptr() as usize - rest.as_ptr() as usize;
    let line = EditLine {
        hash: seed.hash(name),
        start: start as u32,
        value_start: (start + value_start) as u32,
        value_len: value.len() as u32,
        end: (start + end + 1) as u32,
        next: NONE,
        last: NONE,
        name_len: u16::try_from(name_len).ok()?,
        is_ruled: false,
    };
    Some((line, start + end + 1))
}
