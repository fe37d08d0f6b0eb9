//! Properties of HTTP/2 that hold for any bytes, in one function per fuzz target. The fuzzer runs
//! these functions, and a plain test runs them over the checked-in corpora and their mutations.

use forebay_http2::frame::PREFACE;
use forebay_http2::hpack::{Decoder, HpackError, encode_field};
use forebay_http2::limits::{ConnectionLimits, OUTPUT_BYTES_MAX};
use forebay_http2::{FieldList, ListLimits};

#[path = "../http2/tests/support/mod.rs"]
mod support;

use support::Responder;

/// Checks a connection: events, answers and errors do not depend on how the input is cut, a request
/// is one head for the parser of HTTP/1.1, and the output is bounded. The input follows the
/// preface.
pub(crate) fn http2_connection(bytes: &[u8]) {
    let input = [PREFACE, bytes].concat();
    let whole = run(&input, input.len());
    let sum: usize = bytes.iter().map(|byte| usize::from(*byte)).sum();
    let cut = run(&input, sum % 40 + 1);
    // Once reading stops, the two connections have taken different parts of the input.
    if whole.out.len() < OUTPUT_BYTES_MAX && cut.out.len() < OUTPUT_BYTES_MAX {
        assert!(whole.out == cut.out && whole.result == cut.result, "the cut at {}", sum % 40 + 1);
        assert_eq!(whole.streams, cut.streams);
    }
}

struct Outcome {
    result: Result<(), forebay_http2::error::ConnectionError>,
    out: Vec<u8>,
    streams: usize,
}

fn run(input: &[u8], piece: usize) -> Outcome {
    let limits = ConnectionLimits {
        streams_max: 5,
        list: ListLimits { list_bytes_max: 2_000, line_count_max: 20 },
        glitches_max: 600,
        extended_connect: true,
        ..ConnectionLimits::default()
    };
    let mut responder = Responder::new(limits);
    let mut kept = Vec::new();
    let mut result = Ok(());
    for piece in input.chunks(piece) {
        kept.extend_from_slice(piece);
        match responder.feed(&kept, 0) {
            Ok(consumed) => drop(kept.drain(..consumed)),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
        // Apart from the answer to one frame, the output stays below its limit.
        assert!(responder.out.len() < OUTPUT_BYTES_MAX + 20_000);
    }
    if result.is_ok() {
        result = responder.pump();
    }
    let streams = responder.connection.streams_in_use();
    assert!(streams <= 5);
    Outcome { result, out: responder.out, streams }
}

/// Checks HPACK: a list keeps its limits, and its lines are the same after they are encoded and
/// decoded again.
pub(crate) fn hpack(bytes: &[u8]) {
    let limits = ListLimits { list_bytes_max: 4_000, line_count_max: 50 };
    let mut list = FieldList::new(limits);
    let result = Decoder::new().decode(bytes, &mut list);
    let size: usize = list.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
    assert!(size <= 4_000 && list.count() <= 50);
    if result.is_err() || list.is_too_large() {
        assert!(result != Err(HpackError::ListTooLarge) || list.is_too_large());
        return;
    }
    let mut block = Vec::new();
    for (name, value) in list.iter() {
        encode_field(&mut block, &name.to_ascii_lowercase(), value);
    }
    let mut again = FieldList::new(limits);
    assert_eq!(Decoder::new().decode(&block, &mut again), Ok(()));
    assert_eq!(again.count(), list.count());
    for (one, other) in again.iter().zip(list.iter()) {
        assert_eq!(one, (&other.0.to_ascii_lowercase()[..], other.1));
    }
}
