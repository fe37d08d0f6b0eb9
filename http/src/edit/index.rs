//! Finds lines of a read-only head by any name, not only by the names of well-known fields.

use super::{
    EditTable, FieldName,
    table::{EditLine, NONE},
};
use crate::fields::Fields;

/// An index by name of the lines of one head, reused from head to head.
#[derive(Clone, Debug, Default)]
pub struct FieldIndex {
    table: EditTable,
    /// Names of the lines, concatenated.
    names: Vec<u8>,
    is_made: bool,
}

impl FieldIndex {
    /// Drops the index of the current head.
    pub fn clear(&mut self) {
        self.is_made = false;
    }

    /// Returns the values of the lines of this name, in order. Until `clear` is called, every call
    /// must pass the same `fields`.
    pub fn all<'a>(
        &mut self,
        fields: Fields<'a>,
        name: &FieldName,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        if !self.is_made {
            self.make(fields);
        }
        let table = &self.table;
        let mut next = table.find(name.hash(), &self.names, name.as_bytes());
        std::iter::from_fn(move || {
            let index = next?;
            next = table.lines.get(index as usize).and_then(|line| table.live_from(line.next));
            fields.get(index as usize).map(|field| field.value)
        })
    }

    fn make(&mut self, fields: Fields<'_>) {
        self.table.clear();
        self.names.clear();
        for field in fields.iter() {
            let start = self.names.len() as u32;
            self.names.extend_from_slice(field.name);
            let line = EditLine {
                hash: self.table.seed.hash(field.name),
                start,
                value_start: start,
                value_len: 0,
                end: start,
                next: NONE,
                last: NONE,
                name_len: field.name.len() as u16,
                is_ruled: false,
            };
            self.table.push(line, &self.names);
        }
        self.is_made = true;
    }
}
