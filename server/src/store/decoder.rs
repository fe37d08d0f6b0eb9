//! Takes the content coding off the body of a response, while the body arrives.
//!
//! A short body may decode into a very long one, so the decoder gives its output in pieces, and
//! refuses a body that becomes much longer than it was. A worker makes at most one piece in one
//! turn of its event loop, whatever the number of bodies.

use std::io;
use std::rc::Rc;

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use tokio::task::yield_now;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use super::encoder::{BodyOwner, Places};
use crate::accept::ClientNetwork;
use crate::config::{Config, ContentCoding};
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::{
    COMPRESS_TURN_BYTES, DECOMPRESS_BYTES_FREE, DECOMPRESS_PIECE_BYTES, DECOMPRESS_RATIO_MAX,
};
use crate::worker::Worker;

/// Base-2 logarithm of the longest window of gzip in bytes.
const GZIP_WINDOW_BITS: u8 = 15;

/// Base-2 logarithm of the longest window of zstd that decoders of HTTP need to support (RFC 9659).
const ZSTD_WINDOW_BITS_MAX: u32 = 23;

/// Takes the coding off one body. Dropping the decoder frees its place.
pub(crate) struct BodyDecoder {
    worker: Rc<Worker>,
    owner: Rc<BodyOwner>,
    decoder: StreamDecoder,
    /// The bytes that are not decoded yet.
    input: Bytes,
    in_bytes: u64,
    out_bytes: u64,
}

impl BodyDecoder {
    /// Creates a decoder for a body of a site, and takes a place for it on behalf of a client
    /// network.
    ///
    /// # Errors
    /// No place is free for this network, or the library cannot create a decoder. Returns the
    /// counter of this reason.
    pub(crate) fn open(
        worker: &Rc<Worker>,
        (config, coding): (&Config, ContentCoding),
        (site, network): (&str, ClientNetwork),
        is_stored: bool,
    ) -> Result<BodyDecoder, Counter> {
        let decoder = StreamDecoder::new(coding).map_err(|_| Counter::DecompressFailed)?;
        let places = Places {
            all: config.server.decompressions_max as usize,
            are_shared: config.sites.iter().len() > 1,
        };
        let owner = Rc::new(BodyOwner { site: site.into(), network: Some(network), is_stored });
        if !worker.decompressions.enter(&owner, &places) {
            return Err(Counter::DecompressBusy);
        }
        worker.gauge(Counter::DecompressionsOpen, worker.decompressions.len());
        let worker = Rc::clone(worker);
        let input = Bytes::new();
        Ok(BodyDecoder { worker, owner, decoder, input, in_bytes: 0, out_bytes: 0 })
    }

    /// Gives the decoder a piece of the body, after [`next`](BodyDecoder::next) has returned
    /// `None`.
    pub(crate) fn feed(&mut self, piece: Bytes) {
        debug_assert!(self.input.is_empty());
        self.input = piece;
    }

    /// Returns the next piece, which is never empty, or `None` if the decoder needs more input.
    /// Waits for its turn. If the future is dropped, no byte is lost.
    ///
    /// The future holds the turn while it is suspended, and other bodies of the worker wait for the
    /// turn. So a caller that waits for anything else, such as a client, drops the future first.
    ///
    /// # Errors
    /// The body is malformed, or becomes too long.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let worker = Rc::clone(&self.worker);
        while !self.input.is_empty() || self.decoder.has_more {
            // The semaphore is never closed.
            let _turn = worker.decompressions.turn.acquire().await;
            // The turn begins only after the event loop has looked for other work. After the work
            // there is no wait, so a future that is dropped has decoded nothing.
            yield_now().await;
            let piece = self.step().inspect_err(|_| worker.count(Counter::DecompressFailed))?;
            if piece.is_some() {
                return Ok(piece);
            }
        }
        Ok(None)
    }

    fn step(&mut self) -> Result<Option<Bytes>, Fault> {
        let mut piece = vec![0; DECOMPRESS_PIECE_BYTES];
        let input = self.input.get(..COMPRESS_TURN_BYTES).unwrap_or(&self.input);
        let DecodeStep { taken, made } =
            self.decoder.step(input, &mut piece).map_err(|_| MALFORMED)?;
        let _ = self.input.split_to(taken);
        self.in_bytes += taken as u64;
        self.out_bytes += made as u64;
        self.worker.count_many(Counter::DecompressBytesIn, taken as u64);
        self.worker.count_many(Counter::DecompressBytesOut, made as u64);
        if self.out_bytes > DECOMPRESS_BYTES_FREE
            && self.out_bytes / self.in_bytes.max(1) > DECOMPRESS_RATIO_MAX
        {
            return Err(Fault::OriginCoding(
                "the origin's compressed body becomes many times as long as it was",
            ));
        }
        piece.truncate(made);
        // A short piece must not hold the memory of a long one.
        piece.shrink_to_fit();
        Ok((made > 0).then(|| piece.into()))
    }

    /// Ends the body, once the last piece has been decoded. Counts the response as decompressed.
    ///
    /// # Errors
    /// The compressed body is not whole.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        if !self.decoder.is_whole {
            self.worker.count(Counter::DecompressFailed);
            return Err(Fault::OriginCoding("the origin's compressed body is not whole"));
        }
        self.worker.count(Counter::ResponsesDecompressed);
        Ok(())
    }
}

impl Drop for BodyDecoder {
    fn drop(&mut self) {
        self.worker.decompressions.leave(&self.owner);
        self.worker.gauge(Counter::DecompressionsOpen, self.worker.decompressions.len());
    }
}

const MALFORMED: Fault = Fault::OriginCoding("the origin's compressed body is malformed");

/// The bytes that one step of a decoder has taken from its input and written to its output.
struct DecodeStep {
    taken: usize,
    made: usize,
}

/// A decoder of one body, which may consist of several members (gzip) or frames (zstd).
struct StreamDecoder {
    library: Library,
    has_begun: bool,
    /// Whether the body may end here: at its beginning, or after a member or a frame.
    is_whole: bool,
    /// Whether the decoder may have output for which the last step had no room.
    has_more: bool,
}

enum Library {
    Gzip(Decompress),
    Zstd(ZstdDecoder<'static>),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
}

impl StreamDecoder {
    fn new(coding: ContentCoding) -> io::Result<StreamDecoder> {
        let library = match coding {
            ContentCoding::Gzip => Library::Gzip(Decompress::new_gzip(GZIP_WINDOW_BITS)),
            ContentCoding::Zstd => {
                let mut decoder = ZstdDecoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_BITS_MAX))?;
                Library::Zstd(decoder)
            }
            ContentCoding::Brotli => {
                let memory = StandardAlloc::default;
                // Large windows are no part of RFC 7932.
                Library::Brotli(Box::new(BrotliState::new_strict(memory(), memory(), memory())))
            }
        };
        Ok(StreamDecoder { library, has_begun: false, is_whole: true, has_more: false })
    }

    /// Decodes some of `input` into `output`. Takes all of the input unless the output is full, or
    /// a member or a frame ends.
    ///
    /// # Errors
    /// The input is malformed.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<DecodeStep> {
        let has_ended = self.has_begun && self.is_whole;
        self.has_begun = true;
        let (step, is_end) = match &mut self.library {
            Library::Gzip(inflate) => {
                if has_ended {
                    *inflate = Decompress::new_gzip(GZIP_WINDOW_BITS);
                }
                let before = (inflate.total_in(), inflate.total_out());
                let status = inflate.decompress(input, output, FlushDecompress::None);
                let taken = (inflate.total_in() - before.0) as usize;
                let made = (inflate.total_out() - before.1) as usize;
                (DecodeStep { taken, made }, status? == Status::StreamEnd)
            }
            Library::Zstd(decoder) => {
                let status = decoder.run_on_buffers(input, output)?;
                let step = DecodeStep { taken: status.bytes_read, made: status.bytes_written };
                (step, status.remaining == 0)
            }
            // A body has only one stream of br.
            Library::Brotli(_) if has_ended => return Err(malformed()),
            Library::Brotli(state) => brotli(state, input, output)?,
        };
        self.has_more = !is_end && step.made == output.len();
        self.is_whole = is_end;
        match step.taken == 0 && step.made == 0 && !input.is_empty() {
            true => Err(malformed()),
            false => Ok(step),
        }
    }
}

fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// Runs one step of br; returns whether the stream has ended, too.
fn brotli(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    input: &[u8],
    output: &mut [u8],
) -> io::Result<(DecodeStep, bool)> {
    let (mut left, mut taken, mut room, mut made) = (input.len(), 0, output.len(), 0);
    let result = BrotliDecompressStream(
        &mut left, &mut taken, input, &mut room, &mut made, output, &mut 0, state,
    );
    match result {
        BrotliResult::ResultFailure => Err(malformed()),
        result => {
            let is_end = matches!(result, BrotliResult::ResultSuccess);
            Ok((DecodeStep { taken, made }, is_end))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn encoded(coding: ContentCoding, body: &[u8]) -> Vec<u8> {
        match coding {
            ContentCoding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
                encoder.write_all(body).expect("memory");
                encoder.finish().expect("memory")
            }
            ContentCoding::Zstd => zstd::encode_all(body, 3).expect("memory"),
            ContentCoding::Brotli => {
                let mut encoded = Vec::new();
                brotli::CompressorReader::new(body, 4096, 5, 20)
                    .read_to_end(&mut encoded)
                    .expect("memory");
                encoded
            }
        }
    }

    /// Decodes a body that arrives in pieces of `piece` bytes, with room for `room` bytes.
    fn decoded(
        coding: ContentCoding,
        body: &[u8],
        piece: usize,
        room: usize,
    ) -> io::Result<Vec<u8>> {
        let (mut decoder, mut out) = (StreamDecoder::new(coding)?, Vec::new());
        for mut input in body.chunks(piece) {
            while !input.is_empty() || decoder.has_more {
                let mut output = vec![0; room];
                let DecodeStep { taken, made } = decoder.step(input, &mut output)?;
                input = &input[taken..];
                out.extend_from_slice(&output[..made]);
            }
        }
        if decoder.is_whole { Ok(out) } else { Err(malformed()) }
    }

    fn body(len: usize) -> Vec<u8> {
        (0..len).map(|at| b"abcdefgh"[(at * at / 7 + at / 1000) % 8]).collect()
    }

    #[test]
    fn every_coding_gives_the_body_back_whatever_its_pieces_and_the_room() {
        for coding in ContentCoding::ALL {
            for len in [0, 1, 100, 16 << 10, 300_000] {
                let body = body(len);
                let encoded = encoded(coding, &body);
                for (piece, room) in [(1, 1 << 14), (7, 100), (4096, 1 << 14), (1 << 20, 4096)] {
                    let result = decoded(coding, &encoded, piece, room).expect("a whole body");
                    assert!(result == body, "{coding:?}: {len} bytes by {piece} into {room}");
                }
            }
        }
    }

    #[test]
    fn members_and_frames_are_parts_of_one_body_but_br_has_one_stream() {
        for coding in ContentCoding::ALL {
            let (one, two) = (body(1000), body(3000));
            let both = [encoded(coding, &one), encoded(coding, &two)].concat();
            for piece in [1, 100, 1 << 20] {
                let result = decoded(coding, &both, piece, 512).ok();
                let expected = (coding != ContentCoding::Brotli).then(|| [&*one, &*two].concat());
                assert!(result == expected, "{coding:?} by {piece}");
            }
        }
    }

    #[test]
    fn a_body_that_is_cut_changed_or_extended_is_refused() {
        for coding in ContentCoding::ALL {
            let whole = encoded(coding, &body(5000));
            let is_refused = |bytes: &[u8]| decoded(coding, bytes, 64, 1 << 14).is_err();
            for len in 1..whole.len() {
                assert!(is_refused(&whole[..len]), "{coding:?}: the first {len} bytes");
            }
            assert!(is_refused(&[&*whole, b"garbage"].concat()), "{coding:?}");
            assert!(is_refused(b"<p>no coding at all"), "{coding:?}");
            assert!(decoded(coding, b"", 64, 64).is_ok_and(|body| body.is_empty()), "{coding:?}");
        }
        // gzip has a checksum of the content.
        let mut changed = encoded(ContentCoding::Gzip, &body(5000));
        let at = changed.len() - 8;
        changed[at] ^= 1;
        assert!(decoded(ContentCoding::Gzip, &changed, 64, 1 << 14).is_err());
    }

    #[test]
    fn a_window_that_no_decoder_of_http_needs_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("memory");
        encoder.window_log(ZSTD_WINDOW_BITS_MAX + 1).expect("a window");
        encoder.write_all(&body(1 << 20)).expect("memory");
        let long = encoder.finish().expect("memory");
        assert!(decoded(ContentCoding::Zstd, &long, 4096, 1 << 14).is_err());
    }
}
