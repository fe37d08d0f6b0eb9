//! Changing the fields of a head: the way in which rules and native filters do it.

use crate::fields::FieldId;

/// A field name that was checked once, with what finding it needs.
#[derive(Clone, Debug)]
pub struct FieldName {
    bytes: Box<[u8]>,
    id: FieldId,
}

impl FieldName {
    /// `None` if it is no token (RFC 9110 §5.1), or longer than a line can say.
    pub fn parse(name: &[u8]) -> Option<FieldName> {
        let fits = name.len() <= usize::from(u16::MAX) && crate::bytes::is_token(name);
        fits.then(|| FieldName { bytes: name.into(), id: FieldId::of(name) })
    }

    /// As it was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Which well-known field it is.
    pub fn id(&self) -> FieldId {
        self.id
    }
}

impl PartialEq for FieldName {
    fn eq(&self, other: &FieldName) -> bool {
        self.bytes.eq_ignore_ascii_case(&other.bytes)
    }
}

impl Eq for FieldName {}

/// The field lines at the end of a buffer, as they go on the wire, being changed.
#[derive(Debug)]
pub struct FieldEdit<'b> {
    _text: &'b mut Vec<u8>,
}
