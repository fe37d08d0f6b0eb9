//! Writes a request head and its parts at the same time, for a request that was received in another
//! form than HTTP/1.1.

use super::{HeadLimits, HeadStage, METHOD_BYTES_MAX, RequestParts};
use crate::error::{LineError, RequestError};
use crate::fields::{FieldId, FieldLine};
use crate::start_line::Version;

/// Writes a request head to an empty text, and its parts. The result is that of parsing the text,
/// as builds with debug assertions check.
#[derive(Debug)]
#[must_use = "a head is complete only after its end"]
pub struct RequestHeadWriter<'h> {
    text: &'h mut Vec<u8>,
    parts: &'h mut RequestParts,
    /// Length of the longest field name.
    name_bytes: usize,
}

impl<'h> RequestHeadWriter<'h> {
    /// Writes the request line. The caller has validated the method and the target (RFC 9112 §3).
    pub fn begin(
        (text, parts): (&'h mut Vec<u8>, &'h mut RequestParts),
        method: &[u8],
        target: &[u8],
    ) -> RequestHeadWriter<'h> {
        text.clear();
        parts.clear();
        text.extend_from_slice(method);
        text.push(b' ');
        text.extend_from_slice(target);
        text.extend_from_slice(b" HTTP/1.1\r\n");
        parts.method = 0..method.len();
        parts.target = method.len() + 1..method.len() + 1 + target.len();
        parts.version = Version::Http11;
        RequestHeadWriter { text, parts, name_bytes: 0 }
    }

    /// Writes a field line. The caller has validated name and value (RFC 9110 §5); `id` is that of
    /// the name.
    pub fn field(&mut self, id: FieldId, name: &[u8], value: &[u8]) {
        self.field_with(id, name, |text| text.extend_from_slice(value));
    }

    /// Writes a field line, in the same way as [`RequestHeadWriter::field`]; `write_value` appends
    /// the value.
    pub fn field_with(&mut self, id: FieldId, name: &[u8], write_value: impl FnOnce(&mut Vec<u8>)) {
        self.name_bytes = self.name_bytes.max(name.len());
        let name_start = self.text.len();
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(b": ");
        let value_start = self.text.len();
        write_value(self.text);
        let value_len = self.text.len() - value_start;
        self.text.extend_from_slice(b"\r\n");
        self.parts.seen.insert(id);
        self.parts.lines.push(FieldLine {
            id,
            name_start: name_start as u32,
            name_len: name.len() as u16,
            value_start: value_start as u32,
            value_len: value_len as u32,
            is_ruled: false,
        });
    }

    /// Writes the empty line at the end of the head. Returns the length of the head.
    ///
    /// # Errors
    /// The head exceeds the limits.
    pub fn end(self, limits: &HeadLimits) -> Result<usize, RequestError> {
        let RequestHeadWriter { text, parts, name_bytes } = self;
        text.extend_from_slice(b"\r\n");
        parts.stage = HeadStage::Done;
        if parts.method.len() > METHOD_BYTES_MAX {
            return Err(RequestError::MethodTooLong);
        }
        if parts.target.len() > limits.target_bytes_max as usize {
            return Err(RequestError::TargetTooLong);
        }
        if name_bytes > usize::from(u16::MAX) {
            return Err(LineError::NameTooLong.into());
        }
        if parts.lines.len() > usize::from(limits.field_count_max) {
            return Err(RequestError::TooManyFields);
        }
        if text.len() > limits.head_bytes_max as usize {
            return Err(RequestError::HeadTooLarge);
        }
        #[cfg(debug_assertions)]
        parts.compare_with(text, limits);
        Ok(text.len())
    }
}

#[cfg(debug_assertions)]
impl RequestParts {
    /// Asserts that parsing `text` has these parts as its result. Allocates nothing.
    fn compare_with(&mut self, text: &[u8], limits: &HeadLimits) {
        let written = self.digest();
        assert_eq!(super::parse_request(text, limits, self), Ok(Some(text.len())));
        assert_eq!(self.digest(), written, "the parts of {:?}", String::from_utf8_lossy(text));
    }

    fn digest(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (&self.method, &self.target, self.version == Version::Http11).hash(&mut hasher);
        (&self.lines, self.seen).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::parse_request;

    /// Returns the result of writing a head with one field, and that of parsing it.
    fn results(
        (method, target, name): (&str, &str, &str),
        limits: &HeadLimits,
    ) -> (Result<usize, RequestError>, Result<Option<usize>, RequestError>) {
        let (mut text, mut parts) = (Vec::new(), RequestParts::default());
        let out = (&mut text, &mut parts);
        let mut head = RequestHeadWriter::begin(out, method.as_bytes(), target.as_bytes());
        head.field(FieldId::Host, b"host", b"a");
        head.field(FieldId::of(name.as_bytes()), name.as_bytes(), b"b");
        let written = head.end(limits);
        (written, parse_request(&text, limits, &mut RequestParts::default()))
    }

    #[test]
    fn limits_are_those_of_the_parser() {
        let wide =
            HeadLimits { head_bytes_max: 1 << 20, field_count_max: 9, target_bytes_max: 1 << 10 };
        let (method, target) = ("M".repeat(METHOD_BYTES_MAX), format!("/{}", "t".repeat(99)));
        let name = "n".repeat(usize::from(u16::MAX));
        let (longer_method, longer_name) = (format!("{method}M"), format!("{name}n"));
        let head_bytes = "GET / HTTP/1.1\r\nhost: a\r\nx: b\r\n\r\n".len() as u32;
        let target_bytes_max = target.len() as u32;
        for (parts, limits, expected) in [
            ((&*method, "/", "x"), wide, None),
            ((&*longer_method, "/", "x"), wide, Some(RequestError::MethodTooLong)),
            (("GET", "/", &*name), wide, None),
            (("GET", "/", &*longer_name), wide, Some(LineError::NameTooLong.into())),
            (("GET", &*target, "x"), HeadLimits { target_bytes_max, ..wide }, None),
            (
                ("GET", &*target, "x"),
                HeadLimits { target_bytes_max: target_bytes_max - 1, ..wide },
                Some(RequestError::TargetTooLong),
            ),
            (("GET", "/", "x"), HeadLimits { field_count_max: 2, ..wide }, None),
            (
                ("GET", "/", "x"),
                HeadLimits { field_count_max: 1, ..wide },
                Some(RequestError::TooManyFields),
            ),
            (("GET", "/", "x"), HeadLimits { head_bytes_max: head_bytes, ..wide }, None),
            (
                ("GET", "/", "x"),
                HeadLimits { head_bytes_max: head_bytes - 1, ..wide },
                Some(RequestError::HeadTooLarge),
            ),
        ] {
            let (written, parsed) = results(parts, &limits);
            assert_eq!(written.err(), expected);
            assert_eq!(parsed.err(), expected, "the parser agrees");
        }
    }
}
