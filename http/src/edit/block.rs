//! Constant lines that are set or appended together.

use std::collections::HashSet;
use std::ops::Range;

use super::{
    FieldEdit,
    fields::line_at,
    name::{FieldName, FieldValue},
};

/// A field line with a constant value, which is set or appended.
#[derive(Clone, Debug)]
pub struct ConstantLine {
    name: FieldName,
    /// The line in wire form.
    wire: Box<[u8]>,
    /// Whether the line replaces all lines of its name; otherwise it is appended.
    is_set: bool,
}

impl ConstantLine {
    /// Creates a line that replaces all lines of this name.
    pub fn set(name: FieldName, value: FieldValue<'_>) -> ConstantLine {
        ConstantLine::new(name, value, true)
    }

    /// Creates a line that is appended after the other lines of its name.
    pub fn append(name: FieldName, value: FieldValue<'_>) -> ConstantLine {
        ConstantLine::new(name, value, false)
    }

    fn new(name: FieldName, value: FieldValue<'_>, is_set: bool) -> ConstantLine {
        let mut wire = Vec::new();
        crate::write::field(&mut wire, name.as_bytes(), value.as_bytes());
        ConstantLine { name, wire: wire.into(), is_set }
    }

    /// The name of the line.
    pub fn name(&self) -> &FieldName {
        &self.name
    }

    /// The value of the line.
    pub fn value(&self) -> FieldValue<'_> {
        let value = self.name.as_bytes().len() + 2..self.wire.len() - 2;
        FieldValue::checked(self.wire.get(value).unwrap_or_default())
    }

    pub(super) fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// Whether the line replaces all lines of its name.
    pub fn is_set(&self) -> bool {
        self.is_set
    }
}

/// Constant lines that are set or appended together, prepared for copying.
#[derive(Clone, Debug)]
pub struct ConstantLines {
    lines: Vec<ConstantLine>,
    /// All lines in wire form, concatenated.
    wire: Box<[u8]>,
    /// The end of each line in `wire`.
    ends: Box<[u32]>,
    /// Hash table of the names that lines set. A slot holds the index of a line, or [`EMPTY`].
    slots: Box<[u32]>,
    /// Whether the lines can be copied unchanged: no line sets a name that an earlier line also
    /// has.
    is_plain: bool,
}

const EMPTY: u32 = u32::MAX;

/// Sorted indexes of the lines of a [`ConstantLines`] that set a name which the head already has.
#[derive(Debug, Default)]
pub struct ConflictingLines(Vec<u32>);

impl ConflictingLines {
    fn has_any(&self, of: &Range<usize>) -> bool {
        // The list is empty for most heads, so the search costs little.
        let first = self.0.partition_point(|line| (*line as usize) < of.start);
        self.0.get(first).is_some_and(|line| (*line as usize) < of.end)
    }
}

impl Default for ConstantLines {
    fn default() -> ConstantLines {
        ConstantLines::new(Vec::new())
    }
}

impl ConstantLines {
    /// Prepares these lines for copying, in this order.
    pub fn new(lines: Vec<ConstantLine>) -> ConstantLines {
        let (mut wire, mut ends) = (Vec::new(), Vec::new());
        let slot_count = (lines.len() * 4).next_power_of_two().max(8);
        let mut block = ConstantLines {
            lines: Vec::with_capacity(lines.len()),
            wire: Box::default(),
            ends: Box::default(),
            slots: vec![EMPTY; slot_count].into(),
            is_plain: true,
        };
        let mut appended: HashSet<Box<[u8]>> = HashSet::new();
        for line in lines {
            wire.extend_from_slice(&line.wire);
            ends.push(wire.len() as u32);
            let name = line.name.as_bytes();
            if line.is_set {
                let repeats = block.line_that_sets(line.name.hash(), name).is_some()
                    || appended.contains(&*name.to_ascii_lowercase());
                block.is_plain &= !repeats;
                block.insert(line.name.hash());
            } else {
                appended.insert(name.to_ascii_lowercase().into());
            }
            block.lines.push(line);
        }
        block.wire = wire.into();
        block.ends = ends.into();
        block
    }

    /// Returns the lines, in order.
    pub fn lines(&self) -> &[ConstantLine] {
        &self.lines
    }

    /// Enters into the hash table, under the hash of its name, the line that the caller pushes
    /// next.
    fn insert(&mut self, hash: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots.get(at).is_some_and(|slot| *slot != EMPTY) {
            at = (at + 1) & mask;
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = self.lines.len() as u32;
        }
    }

    /// Returns the index of the first line that sets this name.
    fn line_that_sets(&self, hash: u32, name: &[u8]) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let number = *self.slots.get(at)?;
            let line = self.lines.get(number as usize)?;
            if line.name.hash() == hash && line.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Returns the lines with these indexes in wire form.
    fn wire_of(&self, range: &Range<usize>) -> &[u8] {
        let end_of = |line: usize| self.ends.get(line).map_or(0, |end| *end as usize);
        let start = range.start.checked_sub(1).map_or(0, end_of);
        let end = range.end.checked_sub(1).map_or(0, end_of);
        self.wire.get(start..end).unwrap_or_default()
    }

    /// See [`FieldEdit::find_conflicts`].
    pub(super) fn find_conflicts(
        &self,
        edit: &mut FieldEdit<'_>,
        conflicts: &mut ConflictingLines,
    ) {
        conflicts.0.clear();
        let known = edit.table.lines.iter().filter(|line| line.is_live());
        conflicts.0.extend(known.filter_map(|line| {
            let name = edit.text.get(line.name()).unwrap_or_default();
            self.line_that_sets(line.hash, name)
        }));
        let (mut at, mut count) = (edit.scanned, 0);
        while let Some((line, end)) = line_at(edit.table.seed, edit.text, at) {
            edit.table.count_probe();
            let name = edit.text.get(line.name()).unwrap_or_default();
            conflicts.0.extend(self.line_that_sets(line.hash, name));
            at = end;
            count += 1;
        }
        debug_assert_eq!(at, edit.text.len(), "the text from byte {at} on is not a field line");
        edit.unscanned_count = Some(count);
        conflicts.0.sort_unstable();
    }

    /// See [`FieldEdit::apply_range`].
    pub(super) fn apply_range(
        &self,
        range: Range<usize>,
        conflicts: &ConflictingLines,
        edit: &mut FieldEdit<'_>,
    ) -> u32 {
        let wire = self.wire_of(&range);
        let is_free = self.is_plain && !conflicts.has_any(&range);
        if is_free && edit.check_room(wire.len(), range.len()).is_ok() {
            edit.append_unscanned(wire, range.len());
            return 0;
        }
        let lines = self.lines.get(range).unwrap_or_default();
        lines.iter().map(|line| u32::from(edit.apply_line(line).is_err())).sum()
    }
}
