//! A request body as it comes from the client, without its framing.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use forebay_http::chunked::{ChunkedDecoder, ChunkedEvent};
use forebay_http::fields::FieldBlock;
use forebay_http::framing::BodyFraming;

use crate::accept::{Client, Pace};
use crate::buffers::Input;
use crate::fault::Fault;
use crate::limits::{CHUNKED_LIMITS, INPUT_BYTES};

/// What is left of a request body.
pub(crate) struct RequestBody {
    left: Left,
    taken_bytes: u64,
    bytes_max: u64,
    pace: Pace,
    /// The client rightly waits for the origin's word; its time has not begun.
    awaits_continue: bool,
}

enum Left {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    Nothing,
}

/// A piece of a request body.
pub(crate) enum BodyPart {
    Data(Bytes),
    /// The body is whole; with its trailers, if it had any.
    End(Option<FieldBlock>),
}

impl RequestBody {
    /// A body of this framing and at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Content-Length announces more than that.
    pub(crate) fn new(
        framing: BodyFraming,
        awaits_continue: bool,
        bytes_max: u64,
    ) -> Result<RequestBody, Fault> {
        let left = match framing {
            BodyFraming::Length(length) if length > bytes_max => {
                return Err(Fault::RequestBodyTooLarge);
            }
            BodyFraming::Length(length) => Left::Length(length),
            BodyFraming::Chunked => Left::Chunked(Box::new(ChunkedDecoder::new(CHUNKED_LIMITS))),
            // A request without framing has no body (RFC 9112 §6.3).
            BodyFraming::None | BodyFraming::UntilClose => Left::Nothing,
        };
        Ok(RequestBody { left, taken_bytes: 0, bytes_max, pace: Pace::default(), awaits_continue })
    }

    /// Was all of it taken?
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.left, Left::Nothing)
    }

    /// The next piece, read from the client if the input holds none.
    ///
    /// # Errors
    /// Malformed chunks, too many bytes, a client that is gone or too slow.
    pub(crate) async fn next(
        &mut self,
        client: &Client,
        input: &mut Input,
    ) -> Result<BodyPart, Fault> {
        loop {
            if let Some(part) = self.decode(input)? {
                return Ok(part);
            }
            let (pace, rate) = (&mut self.pace, client.least_rate());
            let awaits_continue = self.awaits_continue;
            let read = poll_fn(|cx| match client.poll_read(cx, input, INPUT_BYTES) {
                Poll::Ready(read) => Poll::Ready(read),
                Poll::Pending if awaits_continue => Poll::Pending,
                Poll::Pending => pace.wait(client.ticket(), rate),
            });
            let count = read.await?;
            self.awaits_continue = false;
            self.pace.moved(count as u64, rate);
            client.ticket().disarm();
            if count == 0 {
                return Err(Fault::ClientGone);
            }
        }
    }

    fn decode(&mut self, input: &mut Input) -> Result<Option<BodyPart>, Fault> {
        match &mut self.left {
            Left::Nothing | Left::Length(0) => {
                self.left = Left::Nothing;
                Ok(Some(BodyPart::End(None)))
            }
            Left::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.bytes().len());
                if count == 0 {
                    return Ok(None);
                }
                *left -= count as u64;
                let data = Bytes::copy_from_slice(input.bytes().get(..count).unwrap_or_default());
                input.consume(count);
                Ok(Some(BodyPart::Data(data)))
            }
            Left::Chunked(_) => self.decode_chunked(input),
        }
    }

    fn decode_chunked(&mut self, input: &mut Input) -> Result<Option<BodyPart>, Fault> {
        let Left::Chunked(decoder) = &mut self.left else {
            return Ok(None);
        };
        let step = decoder.step(input.bytes()).map_err(|_| Fault::RequestBody)?;
        let (consumed, event) = step;
        match event {
            ChunkedEvent::NeedMore => {
                input.consume(consumed);
                Ok(None)
            }
            ChunkedEvent::Data(range) => {
                let data = Bytes::copy_from_slice(input.bytes().get(range).unwrap_or_default());
                input.consume(consumed);
                self.taken_bytes += data.len() as u64;
                if self.taken_bytes > self.bytes_max {
                    return Err(Fault::RequestBodyTooLarge);
                }
                Ok(Some(BodyPart::Data(data)))
            }
            ChunkedEvent::End => {
                input.consume(consumed);
                let trailers = match std::mem::replace(&mut self.left, Left::Nothing) {
                    Left::Chunked(decoder) => decoder.into_trailers(),
                    Left::Length(_) | Left::Nothing => FieldBlock::new(),
                };
                Ok(Some(BodyPart::End((!trailers.is_empty()).then_some(trailers))))
            }
        }
    }
}
