//! The field lines of a message head, which are parsed once and then referred to by position.
//!
//! A head stays where it was received or stored. A [`FieldLine`] holds the positions of a name and
//! its value in the head's bytes, and the field's [`FieldId`]. [`Fields`] borrows the bytes and the
//! lines. Parsing allocates nothing per request, because the caller reuses the `Vec<FieldLine>`. A
//! [`FieldBlock`] owns its bytes; it is for heads that are built or stored.

pub use crate::field_id::{FieldId, FieldSet, is_respelled};

/// The position of one field line in the bytes of its head, in byte offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldLine {
    /// The well-known field, or [`FieldId::Other`].
    pub id: FieldId,
    /// First byte of the name.
    pub name_start: u32,
    /// Length of the name; never 0.
    pub name_len: u16,
    /// First byte of the value, after optional white space.
    pub value_start: u32,
    /// Length of the value; may be 0.
    pub value_len: u32,
    /// Whether rules have written the line, rather than the peer.
    pub is_ruled: bool,
}

/// The field lines of one head, borrowed: the bytes, the positions, and the set of fields.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    lines: &'a [FieldLine],
    seen: FieldSet,
}

/// One field line, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The well-known field, or [`FieldId::Other`].
    pub id: FieldId,
    /// The name as received, in any case.
    pub name: &'a [u8],
    /// The value without surrounding white space.
    pub value: &'a [u8],
    /// Whether rules have written the line, rather than the peer.
    pub is_ruled: bool,
}

impl<'a> Field<'a> {
    /// Creates a line that rules have not written.
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Field<'a> {
        Field { id: FieldId::of(name), name, value, is_ruled: false }
    }
}

impl<'a> Fields<'a> {
    /// Borrows `lines` of `bytes`; `seen` is the set of well-known fields among them.
    pub fn new(bytes: &'a [u8], lines: &'a [FieldLine], seen: FieldSet) -> Fields<'a> {
        Fields { bytes, lines, seen }
    }

    /// The set of well-known fields that occur.
    pub fn seen(self) -> FieldSet {
        self.seen
    }

    /// Whether this well-known field occurs.
    pub fn contains(self, id: FieldId) -> bool {
        self.seen.contains(id)
    }

    /// Number of field lines.
    pub fn count(self) -> usize {
        self.lines.len()
    }

    /// Iterates over all lines in the order received.
    pub fn iter(self) -> impl Iterator<Item = Field<'a>> + Clone {
        self.lines.iter().map(move |line| self.field(line))
    }

    /// Returns the line with this index, in the order received.
    pub fn get(self, index: usize) -> Option<Field<'a>> {
        self.lines.get(index).map(|line| self.field(line))
    }

    /// Iterates over the values of all lines of one well-known field, in order.
    pub fn all(self, id: FieldId) -> impl DoubleEndedIterator<Item = &'a [u8]> + Clone {
        // An absent field costs one bit test instead of a scan.
        let lines = if self.contains(id) { self.lines } else { &[] };
        lines.iter().filter(move |line| line.id == id).map(move |line| self.field(line).value)
    }

    /// Returns the value of the first line of one well-known field.
    pub fn first(self, id: FieldId) -> Option<&'a [u8]> {
        self.all(id).next()
    }

    /// Returns the value of the only line of one well-known field; `None` if there are none or
    /// several.
    pub fn only(self, id: FieldId) -> Option<&'a [u8]> {
        let mut values = self.all(id);
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }

    fn field(self, line: &FieldLine) -> Field<'a> {
        let part = |start: u32, len: usize| {
            let start = start as usize;
            self.bytes.get(start..start + len).unwrap_or_default()
        };
        Field {
            id: line.id,
            name: part(line.name_start, usize::from(line.name_len)),
            value: part(line.value_start, line.value_len as usize),
            is_ruled: line.is_ruled,
        }
    }
}

/// Field lines that own their bytes, in wire form: each line is `name: value CRLF`.
///
/// A block is built from an origin's response or from trailers. It is stored in a record, and sent
/// by copying `bytes`.
#[derive(Clone, Debug, Default)]
pub struct FieldBlock {
    bytes: Vec<u8>,
    lines: Vec<FieldLine>,
    seen: FieldSet,
}

impl FieldBlock {
    /// Creates an empty block.
    pub fn new() -> FieldBlock {
        FieldBlock::default()
    }

    /// Creates an empty block with capacity for this many bytes and lines.
    pub fn with_capacity(bytes: usize, line_count: usize) -> FieldBlock {
        FieldBlock {
            bytes: Vec::with_capacity(bytes),
            lines: Vec::with_capacity(line_count),
            seen: FieldSet::EMPTY,
        }
    }

    /// Appends one line. The caller has validated name and value by RFC 9110 §5.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_field(Field::new(name, value));
    }

    /// Appends one line like [`push`](FieldBlock::push), for a field whose id is known.
    pub fn push_field(&mut self, field: Field<'_>) {
        let Field { id, name, value, is_ruled } = field;
        let name_start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        let value_start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        self.seen.insert(id);
        self.lines.push(FieldLine {
            id,
            name_start: name_start as u32,
            name_len: name.len() as u16,
            value_start: value_start as u32,
            value_len: value.len() as u32,
            is_ruled,
        });
    }

    /// Parses a block that [`FieldBlock::push`] wrote; `None` for anything else.
    pub fn parse(bytes: &[u8]) -> Option<FieldBlock> {
        let mut block = FieldBlock::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = memchr::memmem::find(rest, b"\r\n")?;
            let (line, tail) = (rest.get(..end)?, rest.get(end + 2..)?);
            let colon = memchr::memmem::find(line, b": ")?;
            if colon == 0 {
                return None;
            }
            block.push(line.get(..colon)?, line.get(colon + 2..)?);
            rest = tail;
        }
        Some(block)
    }

    /// Removes the lines that `is_removed` selects.
    pub fn remove(&mut self, is_removed: impl Fn(&Field<'_>) -> bool) {
        if !self.fields().iter().any(|field| is_removed(&field)) {
            return;
        }
        let mut kept = FieldBlock::with_capacity(self.bytes.len(), self.lines.len());
        self.fields().iter().filter(|field| !is_removed(field)).for_each(|f| kept.push_field(f));
        *self = kept;
    }

    /// Borrows the lines.
    pub fn fields(&self) -> Fields<'_> {
        Fields::new(&self.bytes, &self.lines, self.seen)
    }

    /// The lines in wire form, without the empty line that ends a head.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the lines in wire form. The caller may change them and parse them again with
    /// [`FieldBlock::parse`].
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Removes all lines, but keeps their memory for new lines.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        self.seen = FieldSet::EMPTY;
    }

    /// Frees unused memory of the block beyond `bytes_max`.
    pub fn shrink_to(&mut self, bytes_max: usize) {
        self.bytes.shrink_to(bytes_max);
        self.lines.shrink_to(bytes_max / size_of::<FieldLine>());
    }

    /// Whether the block has no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_keeps_the_other_fields_in_order() {
        let mut block = FieldBlock::new();
        for (name, value) in [("X", "1"), ("xkey", "a"), ("Vary", "b"), ("Xkey", "c"), ("y", "")] {
            block.push(name.as_bytes(), value.as_bytes());
        }
        let before = block.bytes().to_vec();
        block.remove(|field| field.id == FieldId::Age);
        assert_eq!(block.bytes(), before);
        block.remove(|field| matches!(field.id, FieldId::Age | FieldId::Xkey));
        assert_eq!(block.bytes(), b"X: 1\r\nVary: b\r\ny: \r\n");
        assert!(!block.fields().contains(FieldId::Xkey) && block.fields().contains(FieldId::Vary));
        assert_eq!(block.fields().all(FieldId::Vary).collect::<Vec<_>>(), [b"b"]);
    }

    #[test]
    fn a_block_reads_back_as_it_was_written() {
        let mut block = FieldBlock::new();
        block.push(b"Vary", b"accept");
        block.push(b"X-Empty", b"");
        block.push(b"vary", b"cookie: x");
        let read = FieldBlock::parse(block.bytes()).expect("it was just written");
        assert_eq!(read.bytes(), block.bytes());
        let vary: Vec<_> = read.fields().all(FieldId::Vary).collect();
        assert_eq!(vary, [&b"accept"[..], b"cookie: x"]);
        assert_eq!(read.fields().only(FieldId::Vary), None);
        assert!(read.fields().contains(FieldId::Vary) && !read.fields().contains(FieldId::Age));
        for broken in ["x", ": y\r\n", "name\r\n", "a: b\r"] {
            assert!(FieldBlock::parse(broken.as_bytes()).is_none(), "{broken:?}");
        }
    }
}
