//! Compresses the body of a response while it is being stored.
//!
//! A worker compresses at most [`COMPRESS_TURN_BYTES`] in one turn of its event loop, whatever the
//! number of bodies, so requests that are hits hardly wait.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{
    BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct,
};
use flate2::write::GzEncoder;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use crate::accept::ClientNetwork;
use crate::clock;
use crate::config::ContentCoding;
use crate::counters::Counter;
use crate::limits::COMPRESS_TURN_BYTES;
use crate::worker::Worker;

/// Level of gzip: higher levels need twice the time for about one percent.
const GZIP_LEVEL: u32 = 6;

/// Level of zstd, the library's default.
const ZSTD_LEVEL: i32 = 3;

/// Quality of br: higher qualities search with another method that is several times slower.
const BROTLI_QUALITY: u32 = 5;

/// Base-2 logarithm of the window of br in bytes: 512 KiB, longer than most pages. A longer window
/// needs more memory.
const BROTLI_WINDOW_BITS: u32 = 19;

/// The compression, or the decompression, of one worker.
#[derive(Debug)]
pub(crate) struct CompressionRoom {
    /// The owner of each body that is being compressed or decompressed.
    owners: RefCell<Vec<Rc<BodyOwner>>>,
    /// Held by the body that is compressed in this turn of the event loop.
    pub(super) turn: Semaphore,
}

impl Default for CompressionRoom {
    fn default() -> Self {
        CompressionRoom { owners: RefCell::default(), turn: Semaphore::new(1) }
    }
}

impl CompressionRoom {
    /// Takes a place for a body of `owner`. Returns false if the places that the owner may take are
    /// all taken.
    pub(super) fn enter(&self, owner: &Rc<BodyOwner>, places: &Places) -> bool {
        let mut owners = self.owners.borrow_mut();
        let taken =
            |is_alike: &dyn Fn(&BodyOwner) -> bool| owners.iter().filter(|o| is_alike(o)).count();
        let of_network = |other: &BodyOwner| other.network == owner.network;
        let has_place = owners.len() < places.all
            && taken(&|other| other.site == owner.site) < places.of_site()
            && (owner.network.is_none() || taken(&of_network) < places.of_network())
            && (owner.is_stored || taken(&|other| !other.is_stored) < places.of_streamed());
        if has_place {
            owners.push(Rc::clone(owner));
        }
        has_place
    }

    pub(super) fn leave(&self, owner: &Rc<BodyOwner>) {
        let mut owners = self.owners.borrow_mut();
        if let Some(at) = owners.iter().position(|other| Rc::ptr_eq(other, owner)) {
            owners.swap_remove(at);
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.owners.borrow().len() as u64
    }
}

/// The owner of a place: a body takes its place as long as a slow client of it needs.
#[derive(Debug)]
pub(super) struct BodyOwner {
    pub(super) site: Rc<str>,
    /// The network of the client that caused the work, if networks share the places.
    pub(super) network: Option<ClientNetwork>,
    /// Whether the body is stored, so that other clients need it too.
    pub(super) is_stored: bool,
}

/// The number of bodies that a worker may compress, or decompress, at the same time.
pub(super) struct Places {
    pub(super) all: usize,
    /// Whether other sites may need places.
    pub(super) are_shared: bool,
}

impl Places {
    /// The number of places that one site may take. If there are other sites, this is half of the
    /// places, so that the slow bodies of one site leave places to the others.
    fn of_site(&self) -> usize {
        if self.are_shared { (self.all / 2).max(1) } else { self.all }
    }

    /// The number of places that one client network may take.
    fn of_network(&self) -> usize {
        (self.all / 4).max(1)
    }

    /// The number of places for bodies that are not stored. The others are kept for bodies that
    /// are stored, which many clients may need.
    fn of_streamed(&self) -> usize {
        (self.all / 2).max(1)
    }
}

/// Compresses one body. Dropping the encoder frees its place.
pub(crate) struct BodyEncoder {
    worker: Rc<Worker>,
    owner: Rc<BodyOwner>,
    encoder: Encoder,
    /// The time at which the first byte since the last flush was compressed.
    behind_since_ms: Option<u64>,
}

impl BodyEncoder {
    /// Creates an encoder for a body of a site, and takes a place for it; `None` if no place is
    /// free. `length` is the length of the body, if it is known.
    ///
    /// # Errors
    /// The library cannot create an encoder.
    pub(super) fn open(
        worker: &Rc<Worker>,
        (coding, length): (ContentCoding, Option<u64>),
        site: &str,
        places: &Places,
    ) -> io::Result<Option<BodyEncoder>> {
        let encoder = Encoder::new(coding, length)?;
        let owner = Rc::new(BodyOwner { site: site.into(), network: None, is_stored: true });
        if !worker.compressions.enter(&owner, places) {
            return Ok(None);
        }
        worker.gauge(Counter::CompressionsOpen, worker.compressions.len());
        Ok(Some(BodyEncoder { worker: Rc::clone(worker), owner, encoder, behind_since_ms: None }))
    }

    /// Returns the time since which the encoder may hold back bytes that a flush would release.
    pub(crate) fn behind_since_ms(&self) -> Option<u64> {
        self.behind_since_ms
    }

    /// Compresses a piece of at most [`COMPRESS_TURN_BYTES`]; returns the bytes that the encoder
    /// releases. Waits for its turn.
    ///
    /// # Errors
    /// The encoder failed.
    pub(crate) async fn encode(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        debug_assert!(piece.len() <= COMPRESS_TURN_BYTES);
        self.worker.count_many(Counter::CompressBytesIn, piece.len() as u64);
        self.behind_since_ms.get_or_insert_with(clock::monotonic_ms);
        self.in_turn(|encoder| encoder.write(piece)).await
    }

    /// Returns the bytes that the encoder has held back.
    ///
    /// # Errors
    /// The encoder failed.
    pub(crate) async fn flush(&mut self) -> io::Result<Vec<u8>> {
        self.behind_since_ms = None;
        self.in_turn(Encoder::flush).await
    }

    /// Ends the body; returns its last bytes. Counts the response as compressed.
    ///
    /// # Errors
    /// The encoder failed.
    pub(crate) async fn finish(mut self) -> io::Result<Vec<u8>> {
        let rest = self.in_turn(Encoder::finish).await?;
        self.worker.count(Counter::ResponsesCompressed);
        Ok(rest)
    }

    async fn in_turn(
        &mut self,
        work: impl FnOnce(&mut Encoder) -> io::Result<Vec<u8>>,
    ) -> io::Result<Vec<u8>> {
        let worker = Rc::clone(&self.worker);
        // The semaphore is never closed.
        let turn = worker.compressions.turn.acquire().await;
        let encoded = work(&mut self.encoder);
        // The turn ends only after the event loop has looked for other work.
        yield_now().await;
        drop(turn);
        match &encoded {
            Ok(bytes) => worker.count_many(Counter::CompressBytesOut, bytes.len() as u64),
            Err(_) => worker.count(Counter::CompressFailed),
        }
        encoded
    }
}

impl Drop for BodyEncoder {
    fn drop(&mut self) {
        self.worker.compressions.leave(&self.owner);
        self.worker.gauge(Counter::CompressionsOpen, self.worker.compressions.len());
    }
}

/// An encoder that collects its output in memory, from which each call takes it.
enum Encoder {
    /// `None` once the body has ended.
    Gzip(Option<GzEncoder<Vec<u8>>>),
    /// `None` once the body has ended.
    Zstd(Option<zstd::stream::write::Encoder<'static, Vec<u8>>>),
    Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>),
}

impl Encoder {
    /// Creates an encoder. If the `length` of the body is known, the encoder takes less memory for
    /// a short body.
    fn new(coding: ContentCoding, length: Option<u64>) -> io::Result<Encoder> {
        Ok(match coding {
            ContentCoding::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Encoder::Gzip(Some(GzEncoder::new(Vec::new(), level)))
            }
            ContentCoding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.set_pledged_src_size(length)?;
                Encoder::Zstd(Some(encoder))
            }
            ContentCoding::Brotli => {
                let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
                state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, BROTLI_QUALITY);
                state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, BROTLI_WINDOW_BITS);
                let hint = length.and_then(|length| u32::try_from(length).ok()).unwrap_or(0);
                state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT, hint);
                Encoder::Brotli(Box::new(state))
            }
        })
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Gzip(encoder) => {
                let encoder = encoder.as_mut().ok_or_else(ended)?;
                encoder.write_all(piece)?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Encoder::Zstd(encoder) => {
                let encoder = encoder.as_mut().ok_or_else(ended)?;
                encoder.write_all(piece)?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Encoder::Brotli(state) => {
                brotli(state, piece, BrotliEncoderOperation::BROTLI_OPERATION_PROCESS)
            }
        }
    }

    fn flush(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Gzip(encoder) => {
                let encoder = encoder.as_mut().ok_or_else(ended)?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Encoder::Zstd(encoder) => {
                let encoder = encoder.as_mut().ok_or_else(ended)?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Encoder::Brotli(state) => {
                brotli(state, b"", BrotliEncoderOperation::BROTLI_OPERATION_FLUSH)
            }
        }
    }

    fn finish(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Gzip(encoder) => encoder.take().ok_or_else(ended)?.finish(),
            Encoder::Zstd(encoder) => encoder.take().ok_or_else(ended)?.finish(),
            Encoder::Brotli(state) => {
                let rest = brotli(state, b"", BrotliEncoderOperation::BROTLI_OPERATION_FINISH)?;
                if state.is_finished() { Ok(rest) } else { Err(io::Error::other("br: no end")) }
            }
        }
    }
}

fn ended() -> io::Error {
    io::Error::other("the compressed body has ended")
}

/// Runs one operation of br until it has taken `piece` and released all that it can.
fn brotli(
    state: &mut BrotliEncoderStateStruct<StandardAlloc>,
    piece: &[u8],
    operation: BrotliEncoderOperation,
) -> io::Result<Vec<u8>> {
    const ROOM_BYTES: usize = 16 << 10;
    let mut out = Vec::new();
    let (mut left, mut taken) = (piece.len(), 0);
    loop {
        let start = out.len();
        out.resize(start + ROOM_BYTES, 0);
        let (mut room, mut end, left_before) = (ROOM_BYTES, start, left);
        let is_done = state.compress_stream(
            operation,
            &mut left,
            piece,
            &mut taken,
            &mut room,
            &mut out,
            &mut end,
            &mut None,
            &mut |_, _, _, _| (),
        );
        out.truncate(end);
        if !is_done {
            return Err(io::Error::other("br: the encoder failed"));
        }
        if left == 0 && !state.has_more_output() {
            return Ok(out);
        }
        if left == left_before && end == start {
            return Err(io::Error::other("br: the encoder makes no progress"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn decoded(coding: ContentCoding, encoded: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        match coding {
            ContentCoding::Gzip => {
                flate2::read::GzDecoder::new(encoded).read_to_end(&mut body).expect("gzip");
            }
            ContentCoding::Zstd => body = zstd::decode_all(encoded).expect("zstd"),
            ContentCoding::Brotli => {
                let mut decoder = brotli::Decompressor::new(encoded, 4096);
                decoder.read_to_end(&mut body).expect("br");
            }
        }
        body
    }

    fn body(len: usize) -> Vec<u8> {
        (0..len).map(|at| b"abcdefgh"[(at * at / 7 + at / 1000) % 8]).collect()
    }

    #[test]
    fn every_coding_gives_the_body_back_whatever_its_pieces_and_flushes() {
        for coding in ContentCoding::ALL {
            for len in [0, 1, 100, 16 << 10, 300_000, 1 << 20] {
                for (piece, flushes) in [(1 << 14, false), (1000, true), (1 << 14, true)] {
                    let (body, mut encoded) = (body(len), Vec::new());
                    let length = flushes.then_some(len as u64);
                    let mut encoder = Encoder::new(coding, length).expect("memory");
                    for (number, piece) in body.chunks(piece).enumerate() {
                        encoded.extend(encoder.write(piece).expect("an encoder"));
                        if flushes && number % 3 == 0 {
                            encoded.extend(encoder.flush().expect("an encoder"));
                        }
                    }
                    encoded.extend(encoder.finish().expect("an encoder"));
                    let case = format!("{coding:?}: {len} bytes by {piece}, {flushes}");
                    assert!(decoded(coding, &encoded) == body, "{case}");
                    assert!(flushes || len < 1000 || encoded.len() < len / 2, "{case}");
                }
            }
        }
    }

    fn owner(site: &str, network: Option<u8>, is_stored: bool) -> Rc<BodyOwner> {
        let network = network.map(|last| ClientNetwork::of([127, 0, 0, last].into(), 64));
        Rc::new(BodyOwner { site: site.into(), network, is_stored })
    }

    #[test]
    fn a_site_takes_at_most_half_of_the_places() {
        let (a, b) = (owner("a", None, true), owner("b", None, true));
        for (all, are_shared, expected) in
            [(4, true, (2, 2)), (1, true, (1, 0)), (4, false, (4, 0)), (0, true, (0, 0))]
        {
            let (room, places) = (CompressionRoom::default(), Places { all, are_shared });
            let take = |site| (0..5).filter(|_| room.enter(site, &places)).count();
            assert_eq!((take(&a), take(&b)), expected, "{all} {are_shared}");
            room.leave(&a);
            assert_eq!(room.enter(&a, &places), all > 0);
        }
    }

    #[test]
    fn networks_and_bodies_that_are_not_stored_leave_places_to_others() {
        let (room, places) = (CompressionRoom::default(), Places { all: 8, are_shared: false });
        let take = |network, is_stored| {
            let owner = owner("a", Some(network), is_stored);
            (0..9).filter(|_| room.enter(&owner, &places)).count()
        };
        let steps = [(1, false, 2), (1, true, 0), (2, false, 2), (3, false, 0), (3, true, 2)];
        for (network, is_stored, expected) in [&steps[..], &[(4, true, 2), (5, true, 0)]].concat() {
            assert_eq!(take(network, is_stored), expected, "{network} {is_stored}");
        }
    }

    #[test]
    fn a_flush_releases_every_byte() {
        for coding in ContentCoding::ALL {
            let (body, mut encoder) = (body(5000), Encoder::new(coding, None).expect("memory"));
            let mut encoded = encoder.write(&body).expect("an encoder");
            encoded.extend(encoder.flush().expect("an encoder"));
            let mut read = vec![0; body.len()];
            let result = match coding {
                ContentCoding::Gzip => {
                    flate2::read::GzDecoder::new(&*encoded).read_exact(&mut read)
                }
                ContentCoding::Zstd => zstd::stream::read::Decoder::new(&*encoded)
                    .and_then(|mut decoder| decoder.read_exact(&mut read)),
                ContentCoding::Brotli => {
                    brotli::Decompressor::new(&*encoded, 4096).read_exact(&mut read)
                }
            };
            assert!(result.is_ok() && read == body, "{coding:?}: {result:?}");
        }
    }
}
