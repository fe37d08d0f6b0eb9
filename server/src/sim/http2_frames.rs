//! The frames of simulated HTTP/2 clients (RFC 9113 §4, §6). They are written and parsed without
//! the server's code, which shares only the decoder of header blocks.

use forebay_http2::hpack::Decoder;
use forebay_http2::{FieldList, ListLimits};
use forebay_testkit::message::Head;

/// The bytes that a client sends first (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// END_STREAM; in SETTINGS and PING, this flag means ACK.
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;

/// SETTINGS_INITIAL_WINDOW_SIZE (§6.5.2).
pub(super) const INITIAL_WINDOW: u16 = 4;

/// CANCEL and REFUSED_STREAM (§7).
pub(super) const CANCEL: u32 = 8;
pub(super) const REFUSED: u32 = 7;

/// The largest payload that an endpoint takes by default (§4.2).
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// Takes the first frame of `input`; returns `None` if it has not arrived completely.
    pub(super) fn take(input: &mut Vec<u8>) -> Option<Frame> {
        let [high, middle, low, kind, flags, stream @ ..] = *input.first_chunk::<9>()?;
        let length = number_of([0, high, middle, low]) as usize;
        let payload = input.get(9..9 + length)?.to_vec();
        input.drain(..9 + length);
        Some(Frame { kind, flags, stream: number_of(stream) & !(1 << 31), payload })
    }

    /// Returns a description for traces.
    pub(super) fn name(&self) -> String {
        let Frame { kind, flags, stream, .. } = self;
        format!("client got frame {kind} {flags:#x} of stream {stream}")
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the number at the end of a payload of at least four bytes.
    pub(super) fn number(&self) -> Option<u32> {
        self.payload.last_chunk::<4>().map(|bytes| number_of(*bytes))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let length = word(self.payload.len() as u32);
        let head = [&length[1..], &[self.kind, self.flags], &word(self.stream)].concat();
        [head, self.payload.clone()].concat()
    }
}

/// Returns a number as the four bytes that frames have, the highest byte first.
pub(super) fn word(number: u32) -> [u8; 4] {
    [24, 16, 8, 0].map(|shift| (number >> shift) as u8)
}

/// Returns the number that [`word`] writes in this form.
pub(super) fn number_of(word: [u8; 4]) -> u32 {
    word.into_iter().fold(0, |number, byte| number << 8 | u32::from(byte))
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    Frame { kind, flags, stream, payload: payload.to_vec() }.to_bytes()
}

/// Returns a DATA frame with so many bytes of padding; without padding, it has no PADDED flag.
pub(super) fn padded_data(flags: u8, stream: u32, data: &[u8], padding: u8) -> Vec<u8> {
    if padding == 0 {
        return frame(DATA, flags, stream, data);
    }
    let payload = [&[padding][..], data, &vec![0; padding.into()]].concat();
    frame(DATA, flags | PADDED, stream, &payload)
}

/// Returns a SETTINGS frame with one setting.
pub(super) fn settings(identifier: u16, value: u32) -> Vec<u8> {
    let payload = [&word(identifier.into())[2..], &word(value)].concat();
    frame(SETTINGS, 0, 0, &payload)
}

/// Returns the header block of these field lines, as literals without indexing (RFC 7541 §6.2.2).
pub(super) fn header_block(lines: &[(String, String)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in lines {
        block.push(0);
        for text in [name, value] {
            push_length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// RFC 7541 §5.1, §5.2: appends the length of a text without a Huffman code.
fn push_length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        block.push(length as u8);
        return;
    }
    let mut rest = length - 127;
    block.push(127);
    while rest >= 128 {
        block.push(rest as u8 | 128);
        rest >>= 7;
    }
    block.push(rest as u8);
}

/// Decodes the header block of a response. The start line of the head is like that of HTTP/1.1, and
/// empty for trailers.
///
/// # Errors
/// The block breaks a rule of RFC 9113 §8.
pub(super) fn response_head(decoder: &mut Decoder, block: &[u8]) -> Result<Head, String> {
    let limits = ListLimits { list_bytes_max: 1 << 20, line_count_max: 1_000 };
    let mut list = FieldList::new(limits);
    decoder.decode(block, &mut list).map_err(|error| format!("a header block: {error:?}"))?;
    let mut head = Head::default();
    for (name, value) in list.iter() {
        let name = String::from_utf8_lossy(name).into_owned();
        let value = String::from_utf8_lossy(value).into_owned();
        if name == ":status" && head.start.is_empty() && head.fields.is_empty() {
            head.start = format!("HTTP/2 {value}");
            continue;
        }
        let of_connection = ["connection", "transfer-encoding", "keep-alive", "upgrade"];
        let is_token = !name.starts_with(':') && name == name.to_lowercase();
        if !is_token || of_connection.contains(&name.as_str()) {
            return Err(format!("a response has the field {name}: {value}"));
        }
        head.fields.push((name, value));
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let written = frame(PING, END_STREAM, 7, b"12345678");
        let mut input = [&written[..], b"rest"].concat();
        let read = Frame::take(&mut input).expect("a frame");
        assert_eq!((read.to_bytes(), &input[..]), (written, &b"rest"[..]));
        assert_eq!(Frame::take(&mut input), None);
    }

    #[test]
    fn a_block_is_decoded_as_it_was_encoded() {
        for length in [0, 1, 126, 127, 128, 254, 255, 300, 20_000] {
            let lines = [(":status".into(), "200".into()), ("a".into(), "x".repeat(length))];
            let head = response_head(&mut Decoder::new(), &header_block(&lines)).expect("a head");
            assert_eq!((head.start.as_str(), &head.fields[..]), ("HTTP/2 200", &lines[1..]));
        }
    }
}
