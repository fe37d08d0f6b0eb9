//! The chunked transfer coding (RFC 9112 §7.1): a strict decoder, and chunk heads for sending.
//!
//! The decoder takes a body in pieces of any size, consumes every piece completely and copies no
//! data. Invariants: the result does not depend on how the body is split; after an error every call
//! returns that error. Nothing is allocated before the trailer section, which every body has: it
//! may consist of the final empty line alone.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::ops::Range;

use crate::{
    bytes::{is_control, is_space, is_token_byte},
    error::{ChunkedError, LineError},
    fields::{Field, FieldBlock, FieldId, FieldSet, Fields},
    lines::{LineScan, parse_field_line},
};

/// Largest number of hexadecimal digits in a chunk size: as many as a 64-bit number has.
const SIZE_DIGITS_MAX: u8 = 16;

/// Largest chunk size that is accepted. No real body is longer, and a recipient that reads a larger
/// size as a signed number would see the chunk end at another place.
const SIZE_MAX: u64 = i64::MAX as u64;

/// Limits of a chunked body, apart from its data.
#[derive(Clone, Copy, Debug)]
pub struct ChunkedLimits {
    /// Largest total size of all chunk extensions in bytes. Forebay does not use extensions, so
    /// they only cost time.
    pub extension_bytes_max: u32,
    /// Largest size of the trailer section in bytes.
    pub trailer_bytes_max: u32,
    /// Largest number of trailer lines, including dropped lines.
    pub trailer_count_max: u16,
}

/// The result of [`ChunkedDecoder::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkedEvent {
    /// All input was consumed; the body continues.
    NeedMore,
    /// This range of the input is data; never empty.
    Data(Range<usize>),
    /// The body is complete; the bytes after the consumed ones do not belong to it.
    End,
}

/// Decodes one chunked body.
#[derive(Debug)]
pub struct ChunkedDecoder {
    state: DecoderState,
    limits: ChunkedLimits,
    /// Number of data bytes of this chunk that have not arrived yet. While the chunk size is being
    /// read, this is the value of the digits that have arrived.
    size: u64,
    size_digits: u8,
    extension_bytes: u32,
    trailer_bytes: u32,
    trailer_count: u16,
    /// The part of the current trailer line that has arrived.
    line: Vec<u8>,
    trailers: FieldBlock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderState {
    Size,
    Extension(ExtensionState),
    /// Before the LF after a size or an extension.
    SizeLf,
    Data,
    /// Before the CR after the data.
    DataCr,
    DataLf,
    Trailers,
    End,
    Failed(ChunkedError),
}

/// A position in `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`. White space is
/// accepted only where the grammar has `BWS`, so never before the line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExtensionState {
    /// After white space that only a semicolon may follow.
    Semicolon,
    NameStart,
    Name,
    /// After a name and white space.
    NameEnd,
    ValueStart,
    Token,
    Quoted,
    /// After a backslash.
    Escaped,
    QuotedEnd,
}

impl ChunkedDecoder {
    /// Creates a decoder for the beginning of a body.
    pub fn new(limits: ChunkedLimits) -> ChunkedDecoder {
        ChunkedDecoder {
            state: DecoderState::Size,
            limits,
            size: 0,
            size_digits: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
            trailer_count: 0,
            line: Vec::new(),
            trailers: FieldBlock::new(),
        }
    }

    /// Decodes `input` up to the next event. Returns the number of consumed bytes of `input` and
    /// the event.
    pub fn step(&mut self, input: &[u8]) -> Result<(usize, ChunkedEvent), ChunkedError> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            match self.state {
                DecoderState::End => return Ok((at, ChunkedEvent::End)),
                DecoderState::Failed(error) => return Err(error),
                _ if rest.is_empty() => return Ok((at, ChunkedEvent::NeedMore)),
                DecoderState::Data => {
                    let len = self.take_data(rest.len());
                    return Ok((at + len, ChunkedEvent::Data(at..at + len)));
                }
                DecoderState::Trailers => {
                    at += self.take_trailer_bytes(rest).map_err(|e| self.fail(e))?
                }
                _ => {
                    let byte = rest.first().copied().unwrap_or_default();
                    self.state = self.after(byte).map_err(|e| self.fail(e))?;
                    at += 1;
                }
            }
        }
    }

    /// Returns the number of data bytes of the current chunk that have not been decoded yet; 0
    /// between two chunks, and while not all digits of a size have arrived.
    pub fn announced_bytes(&self) -> u64 {
        if self.state == DecoderState::Size { 0 } else { self.size }
    }

    /// Returns the trailers, without those that must not be merged into a head. They are complete
    /// after [`ChunkedEvent::End`].
    pub fn into_trailers(self) -> FieldBlock {
        self.trailers
    }

    fn fail(&mut self, error: ChunkedError) -> ChunkedError {
        self.state = DecoderState::Failed(error);
        error
    }

    fn take_data(&mut self, available: usize) -> usize {
        let len = usize::try_from(self.size).map_or(available, |size| size.min(available));
        self.size -= len as u64;
        if self.size == 0 {
            self.state = DecoderState::DataCr;
        }
        len
    }

    /// Returns the state after a byte that belongs to neither data nor trailers.
    fn after(&mut self, byte: u8) -> Result<DecoderState, ChunkedError> {
        match (self.state, byte) {
            (DecoderState::Size, _) => self.after_size(byte),
            (DecoderState::Extension(place), _) => self.after_extension(place, byte),
            (DecoderState::SizeLf, b'\n') if self.size == 0 => Ok(DecoderState::Trailers),
            (DecoderState::SizeLf, b'\n') => Ok(DecoderState::Data),
            (DecoderState::DataCr, b'\r') => Ok(DecoderState::DataLf),
            (DecoderState::DataLf, b'\n') => {
                self.size_digits = 0;
                Ok(DecoderState::Size)
            }
            _ => Err(ChunkedError::MissingLineEnd),
        }
    }

    fn after_size(&mut self, byte: u8) -> Result<DecoderState, ChunkedError> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            self.size_digits += 1;
            if self.size_digits > SIZE_DIGITS_MAX || self.size > SIZE_MAX >> 4 {
                return Err(ChunkedError::SizeTooLarge);
            }
            self.size = self.size << 4 | u64::from(digit);
            return Ok(DecoderState::Size);
        }
        match byte {
            _ if self.size_digits == 0 => Err(ChunkedError::InvalidSize),
            b'\r' => Ok(DecoderState::SizeLf),
            b';' => self.count_extension(ExtensionState::NameStart),
            b' ' | b'\t' => self.count_extension(ExtensionState::Semicolon),
            _ => Err(ChunkedError::InvalidSize),
        }
    }

    /// Returns the state after a byte of an extension (RFC 9112 §7.1.1).
    fn after_extension(
        &mut self,
        place: ExtensionState,
        byte: u8,
    ) -> Result<DecoderState, ChunkedError> {
        use ExtensionState::*;
        let next = match (place, byte) {
            (Name | Token | QuotedEnd, b'\r') => return Ok(DecoderState::SizeLf),
            (Semicolon | Name | NameEnd | Token | QuotedEnd, b';') => NameStart,
            (Name | NameEnd, b'=') => ValueStart,
            (ValueStart, b'"') => Quoted,
            (Quoted, b'"') => QuotedEnd,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, _) if !is_control(byte) => Quoted,
            (Semicolon | NameStart | NameEnd | ValueStart, _) if is_space(byte) => place,
            (Name, _) if is_space(byte) => NameEnd,
            (Token | QuotedEnd, _) if is_space(byte) => Semicolon,
            (NameStart | Name, _) if is_token_byte(byte) => Name,
            (ValueStart | Token, _) if is_token_byte(byte) => Token,
            _ => return Err(ChunkedError::InvalidExtension),
        };
        self.count_extension(next)
    }

    fn count_extension(&mut self, next: ExtensionState) -> Result<DecoderState, ChunkedError> {
        self.extension_bytes += 1;
        if self.extension_bytes > self.limits.extension_bytes_max {
            return Err(ChunkedError::ExtensionsTooLarge);
        }
        Ok(DecoderState::Extension(next))
    }

    /// RFC 9112 §7.1.2: takes the rest of a trailer line, or as much of it as has arrived, and
    /// parses the line once it is complete. Returns the number of bytes taken.
    fn take_trailer_bytes(&mut self, input: &[u8]) -> Result<usize, ChunkedError> {
        let line_end = memchr::memchr(b'\n', input);
        let len = line_end.map_or(input.len(), |at| at + 1);
        let left = self.limits.trailer_bytes_max.saturating_sub(self.trailer_bytes);
        if len > left as usize {
            return Err(ChunkedError::TrailersTooLarge);
        }
        self.trailer_bytes += len as u32;
        self.line.extend_from_slice(input.get(..len).unwrap_or_default());
        if line_end.is_some() {
            self.end_trailer_line()?;
            self.line.clear();
        }
        Ok(len)
    }

    /// Parses a complete trailer line by the rules for field lines of a head. Adds it to the
    /// trailers if it is allowed there; an empty line ends the body.
    fn end_trailer_line(&mut self) -> Result<(), ChunkedError> {
        let line = LineScan::default().next(&self.line)?.ok_or(LineError::BareLf)?;
        if line.is_empty() {
            self.state = DecoderState::End;
            return Ok(());
        }
        self.trailer_count += 1;
        if self.trailer_count > self.limits.trailer_count_max {
            return Err(ChunkedError::TooManyTrailers);
        }
        let parsed = [parse_field_line(&self.line, line)?];
        let fields = Fields::new(&self.line, &parsed, FieldSet::EMPTY);
        for field in fields.iter().filter(|field| is_allowed_trailer(*field)) {
            self.trailers.push(field.name, field.value);
        }
        Ok(())
    }
}

/// Whether a field may be a trailer (RFC 9110 §6.5.1). A field for framing, routing,
/// authentication, request modifiers, response control or content description is not allowed there:
/// it would be merged into a head that other recipients have already processed. The decoder drops
/// such trailers.
///
/// No well-known field may be a trailer, because Forebay acts on these fields when the head
/// arrives. `_` counts as `-`, as for origins with CGI variables.
pub fn is_allowed_trailer(field: Field<'_>) -> bool {
    let hyphenated = |byte: &u8| if *byte == b'_' { b'-' } else { *byte };
    let name: Vec<u8> = field.name.iter().map(hyphenated).collect();
    const PREFIXES: [&[u8]; 5] =
        [b"content-", b"if-", b"proxy-", b"x-forwarded-", b"access-control-"];
    const NAMES: [&[u8]; 8] = [
        b"allow",
        b"authentication-info",
        b"cdn-cache-control",
        b"forwarded",
        b"retry-after",
        b"surrogate-control",
        b"www-authenticate",
        b"x-real-ip",
    ];
    let begins = |prefix: &&[u8]| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    FieldId::of(&name) == FieldId::Other
        && !PREFIXES.iter().any(begins)
        && !NAMES.iter().any(|one| one.eq_ignore_ascii_case(&name))
}

/// Length of the longest chunk head: the size and CRLF.
pub const CHUNK_HEAD_BYTES_MAX: usize = SIZE_DIGITS_MAX as usize + 2;

/// The line end after the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The last chunk, which precedes the trailers and the empty line.
pub const LAST_CHUNK: &[u8] = b"0\r\n";

/// Writes the head of a chunk with `size` bytes of data: the size and CRLF.
pub fn write_chunk_head(size: u64, buffer: &mut [u8; CHUNK_HEAD_BYTES_MAX]) -> &[u8] {
    let [digits @ .., cr, lf] = buffer;
    (*cr, *lf) = (b'\r', b'\n');
    let mut rest = size;
    let mut start = digits.len();
    for digit in digits.iter_mut().rev() {
        let nibble = (rest & 0xf) as u8;
        *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        start -= 1;
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    buffer.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests;
