//! The response on a stream's pipe, which is read as HTTP/1.1 and offered as HTTP/2.

use forebay_http::chunked::{ChunkedDecoder, ChunkedEvent, ChunkedLimits};
use forebay_http::framing::BodyFraming;
use forebay_http2::StreamKey;
use forebay_http2::connection::ServerConnection;
use forebay_http2::hpack::encode_field;

use super::byte_queue::ByteQueue;
use super::head::{EncodedHead, ResponseKind, encode_head};
use super::pipe::StreamPipe;

/// The limits of the trailers of our own responses; those of an origin are limited like its head.
const OWN_CHUNKED_LIMITS: ChunkedLimits = ChunkedLimits {
    extension_bytes_max: 0,
    trailer_bytes_max: u32::MAX,
    trailer_count_max: u16::MAX,
};

/// The progress of the response to one stream.
pub(super) struct StreamAnswer {
    stage: AnswerStage,
    kind: ResponseKind,
    /// Whether the response has opened a tunnel.
    is_tunnel: bool,
    /// The bytes of the body that the HTTP/2 connection knows of, but may not send yet.
    body: ByteQueue,
    trailers: Option<Vec<u8>>,
}

enum AnswerStage {
    Head,
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    /// The body ends with the pipe.
    UntilClose,
    /// The whole response was read.
    Read,
}

/// The error for a response that cannot continue.
pub(super) struct BrokenAnswer;

impl StreamAnswer {
    pub(super) fn new(kind: ResponseKind) -> StreamAnswer {
        StreamAnswer {
            stage: AnswerStage::Head,
            is_tunnel: false,
            kind,
            body: ByteQueue::default(),
            trailers: None,
        }
    }

    /// Whether the response has opened a tunnel, in which the client may send after the end of the
    /// response.
    pub(super) fn is_tunnel(&self) -> bool {
        self.is_tunnel
    }

    /// Reads the response as far as it has arrived.
    pub(super) fn advance(
        &mut self,
        pipe: &StreamPipe,
        connection: &mut ServerConnection,
        stream: StreamKey,
        out: &mut Vec<u8>,
    ) -> Result<(), BrokenAnswer> {
        loop {
            let (mut count, mut result) = (0, Ok(false));
            let body_bytes = self.body.len();
            pipe.take_response(|text| {
                result = self.step(text, connection, stream, out, &mut count);
                count
            });
            // Bytes that moved to `self.body` stay counted, because they still take memory.
            pipe.free(count - (self.body.len() - body_bytes));
            let is_stuck = !result?;
            if is_stuck {
                break;
            }
        }
        pipe.note_head(matches!(self.stage, AnswerStage::Head));
        self.send_trailers(connection, stream, out);
        if !pipe.is_response_over() || matches!(self.stage, AnswerStage::Read) {
            return Ok(());
        }
        // The pipe has ended, but some of its bytes may still wait for room.
        let mut is_empty = true;
        pipe.take_response(|text| {
            is_empty = text.is_empty();
            0
        });
        match self.stage {
            _ if !is_empty => Ok(()),
            AnswerStage::UntilClose if !pipe.is_cut() => {
                self.stage = AnswerStage::Read;
                connection.offer_data(stream, 0, true, out).map_err(|_| BrokenAnswer)
            }
            _ => Err(BrokenAnswer),
        }
    }

    /// Passes one piece of the response to the connection, and sets `count` to the number of bytes
    /// that it took from `text`. Returns whether there may be another piece.
    fn step(
        &mut self,
        text: &[u8],
        connection: &mut ServerConnection,
        stream: StreamKey,
        out: &mut Vec<u8>,
        count: &mut usize,
    ) -> Result<bool, BrokenAnswer> {
        if text.is_empty() {
            return Ok(false);
        }
        let (data, is_last) = match &mut self.stage {
            AnswerStage::Head => {
                let mut block = Vec::new();
                let encoded = encode_head(text, self.kind, &mut block);
                let Some(head) = encoded.map_err(|_| BrokenAnswer)? else {
                    return Ok(false);
                };
                *count = head.text_bytes;
                self.send_head(head, &block, connection, stream, out)?;
                return Ok(true);
            }
            AnswerStage::Length(left) => {
                let bytes = usize::try_from(*left).unwrap_or(usize::MAX).min(text.len());
                *left -= bytes as u64;
                *count = bytes;
                (text.get(..bytes).unwrap_or_default(), *left == 0)
            }
            AnswerStage::UntilClose => {
                *count = text.len();
                (text, false)
            }
            AnswerStage::Chunked(decoder) => {
                let (consumed, event) = decoder.step(text).map_err(|_| BrokenAnswer)?;
                *count = consumed;
                match event {
                    ChunkedEvent::NeedMore => return Ok(false),
                    ChunkedEvent::Data(range) => (text.get(range).unwrap_or_default(), false),
                    ChunkedEvent::End => return self.end_chunked(connection, stream, out),
                }
            }
            // A pipe carries only one response.
            AnswerStage::Read => return Err(BrokenAnswer),
        };
        self.body.end(data.len()).extend_from_slice(data);
        if is_last {
            self.stage = AnswerStage::Read;
        }
        connection.offer_data(stream, data.len() as u64, is_last, out).map_err(|_| BrokenAnswer)?;
        Ok(!is_last)
    }

    fn send_head(
        &mut self,
        head: EncodedHead,
        block: &[u8],
        connection: &mut ServerConnection,
        stream: StreamKey,
        out: &mut Vec<u8>,
    ) -> Result<(), BrokenAnswer> {
        if head.status < 200 {
            return connection.send_interim(stream, block, out).map_err(|_| BrokenAnswer);
        }
        self.stage = match head.framing {
            BodyFraming::None | BodyFraming::Length(0) => AnswerStage::Read,
            BodyFraming::Length(length) => AnswerStage::Length(length),
            BodyFraming::Chunked => {
                AnswerStage::Chunked(Box::new(ChunkedDecoder::new(OWN_CHUNKED_LIMITS)))
            }
            BodyFraming::UntilClose => AnswerStage::UntilClose,
        };
        let opens_tunnel = matches!(self.stage, AnswerStage::UntilClose);
        self.is_tunnel = opens_tunnel && matches!(self.kind, ResponseKind::Tunnel(_));
        let is_last = matches!(self.stage, AnswerStage::Read);
        connection.send_head(stream, block, is_last, out).map_err(|_| BrokenAnswer)
    }

    fn end_chunked(
        &mut self,
        connection: &mut ServerConnection,
        stream: StreamKey,
        out: &mut Vec<u8>,
    ) -> Result<bool, BrokenAnswer> {
        let AnswerStage::Chunked(decoder) = std::mem::replace(&mut self.stage, AnswerStage::Read)
        else {
            return Ok(false);
        };
        let trailers = decoder.into_trailers();
        if trailers.is_empty() {
            connection.offer_data(stream, 0, true, out).map_err(|_| BrokenAnswer)?;
        } else {
            let mut block = Vec::new();
            for field in trailers.fields().iter() {
                encode_field(&mut block, field.name, field.value);
            }
            self.trailers = Some(block);
        }
        Ok(false)
    }

    /// Sends the trailers if the connection has sent the whole body; otherwise does nothing.
    fn send_trailers(
        &mut self,
        connection: &mut ServerConnection,
        stream: StreamKey,
        out: &mut Vec<u8>,
    ) {
        if self.body.is_empty()
            && let Some(block) = self.trailers.take()
        {
            // An error means that the stream is gone, which another event reports.
            let _ = connection.send_trailers(stream, &block, out);
        }
    }

    /// Moves the first `bytes` bytes of the body to `out`. The windows and priorities of the
    /// connection permit this number of bytes.
    pub(super) fn take_body(&mut self, bytes: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(
            self.body
                .bytes()
                .get(..bytes)
                .expect("the connection grants only bytes that were offered"),
        );
        self.body.consume(bytes);
    }
}
