//! A request body as it arrives from the client, with its framing removed.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use forebay_http::chunked::{ChunkedDecoder, ChunkedEvent};
use forebay_http::fields::FieldBlock;
use forebay_http::framing::BodyFraming;

use super::Request;
use crate::accept::Client;
use crate::buffers::BodyInput;
use crate::fault::Fault;
use crate::limits::CHUNKED_LIMITS;
use crate::pace::{LeastRate, Pace};

/// A request body that is being read.
pub(crate) struct RequestBody<'i> {
    input: BodyInput<'i>,
    left: RemainingBody,
    taken_bytes: u64,
    bytes_max: u64,
    pace: Pace,
    /// The longest pause, in place of the lowest permitted rate, if pauses are usual.
    pause_ms_max: Option<u32>,
    /// Whether the client may be waiting for a 100.
    awaits_continue: bool,
}

enum RemainingBody {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    None,
}

/// A piece of a request body.
pub(crate) enum BodyPart {
    Data(Bytes),
    /// The end of the body, with its trailers if it has any.
    End(Option<FieldBlock>),
}

impl<'i> RequestBody<'i> {
    /// Creates a body of at most `bytes_max` bytes, framed as `request` announces it.
    ///
    /// # Errors
    /// Content-Length announces more than `bytes_max`.
    pub(crate) fn new(
        request: &Request<'_>,
        bytes_max: u64,
        input: BodyInput<'i>,
    ) -> Result<RequestBody<'i>, Fault> {
        let left = match request.framing {
            BodyFraming::Length(length) if length > bytes_max => {
                return Err(Fault::RequestBodyTooLarge);
            }
            BodyFraming::Length(length) if length > 0 => RemainingBody::Length(length),
            BodyFraming::Chunked => {
                RemainingBody::Chunked(Box::new(ChunkedDecoder::new(CHUNKED_LIMITS)))
            }
            // A request without framing has no body (RFC 9112 §6.3).
            BodyFraming::None | BodyFraming::Length(_) | BodyFraming::UntilClose => {
                RemainingBody::None
            }
        };
        Ok(RequestBody {
            input,
            left,
            taken_bytes: 0,
            bytes_max,
            pace: Pace::default(),
            pause_ms_max: None,
            awaits_continue: request.expects_continue,
        })
    }

    /// Permits pauses of this length, whatever the rate of the body is then.
    pub(crate) fn permit_pauses(&mut self, pause_ms_max: u32) {
        self.pause_ms_max = Some(pause_ms_max);
    }

    /// Returns the length of the body that has not been read, if it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.left {
            RemainingBody::Length(length) => Some(length),
            RemainingBody::None | RemainingBody::Chunked(_) => None,
        }
    }

    /// Whether the end of the body has been read.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.left, RemainingBody::None)
    }

    /// Returns the input bytes that follow the body, and consumes them.
    pub(crate) fn into_unread(mut self) -> Vec<u8> {
        let unread = self.input.bytes().to_vec();
        self.input.consume(unread.len());
        unread
    }

    /// Whether the client waits for a 100, and no byte of its body has arrived.
    pub(crate) fn awaits_continue(&self) -> bool {
        self.awaits_continue && self.input.bytes().is_empty()
    }

    /// Waits until the client has got a 100, or sends its body without having got one. No time
    /// limit applies to the client during this wait.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn until_continued(&mut self, client: &Client) -> Result<(), Fault> {
        if !self.awaits_continue() {
            return Ok(());
        }
        let input = &mut self.input;
        let read = poll_fn(|cx| match client.poll_read(cx, input.space()) {
            Poll::Ready(read) => Poll::Ready(read.map(Some)),
            Poll::Pending if client.is_continued() => Poll::Ready(Ok(None)),
            Poll::Pending => Poll::Pending,
        });
        let read = read.await?;
        self.awaits_continue = false;
        match read {
            Some(0) => return Err(Fault::ClientGone),
            Some(count) => self.input.filled(count),
            None => {}
        }
        Ok(())
    }

    /// Returns the next piece of the body. Reads from the client if the input has no bytes. The
    /// caller may drop the future before it is complete, but must then call [`RequestBody::pause`].
    ///
    /// # Errors
    /// The chunks are malformed, the body is too long, or the client is gone or too slow.
    pub(crate) async fn next(&mut self, client: &Client) -> Result<BodyPart, Fault> {
        loop {
            if let Some(part) = self.decode()? {
                return Ok(part);
            }
            let rate = self.pause_ms_max.map_or_else(|| client.least_rate(), LeastRate::of_pauses);
            let (pace, input) = (&mut self.pace, &mut self.input);
            let read = poll_fn(|cx| match client.poll_read(cx, input.space()) {
                Poll::Ready(read) => Poll::Ready(read),
                Poll::Pending => client.poll_wait(pace, rate),
            });
            let count = read.await?;
            self.input.filled(count);
            self.pace.moved(count as u64, rate);
            client.ticket().disarm();
            if count == 0 {
                return Err(Fault::ClientGone);
            }
        }
    }

    /// Ends a wait for the client, after the future of that wait was dropped, so that the time
    /// until the next wait does not count against the client.
    pub(crate) fn pause(&mut self, client: &Client) {
        self.pace.stop_waiting();
        client.ticket().disarm();
    }

    fn decode(&mut self) -> Result<Option<BodyPart>, Fault> {
        let input = &mut self.input;
        match &mut self.left {
            RemainingBody::None | RemainingBody::Length(0) => {
                self.left = RemainingBody::None;
                Ok(Some(BodyPart::End(None)))
            }
            RemainingBody::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.bytes().len());
                if count == 0 {
                    return Ok(None);
                }
                *left -= count as u64;
                let data = Bytes::copy_from_slice(input.bytes().get(..count).unwrap_or_default());
                input.consume(count);
                Ok(Some(BodyPart::Data(data)))
            }
            RemainingBody::Chunked(_) => self.decode_chunked(),
        }
    }

    fn decode_chunked(&mut self) -> Result<Option<BodyPart>, Fault> {
        let RemainingBody::Chunked(decoder) = &mut self.left else {
            return Ok(None);
        };
        let input = &mut self.input;
        let step = decoder.step(input.bytes()).map_err(|_| Fault::RequestBody)?;
        let (consumed, event) = step;
        if let ChunkedEvent::Data(range) = &event {
            self.taken_bytes += range.len() as u64;
        }
        // A chunk that would exceed the limit is refused when its size line arrives.
        if self.taken_bytes.saturating_add(decoder.announced_bytes()) > self.bytes_max {
            return Err(Fault::RequestBodyTooLarge);
        }
        match event {
            ChunkedEvent::NeedMore => {
                input.consume(consumed);
                Ok(None)
            }
            ChunkedEvent::Data(range) => {
                let data = Bytes::copy_from_slice(input.bytes().get(range).unwrap_or_default());
                input.consume(consumed);
                Ok(Some(BodyPart::Data(data)))
            }
            ChunkedEvent::End => {
                input.consume(consumed);
                let trailers = match std::mem::replace(&mut self.left, RemainingBody::None) {
                    RemainingBody::Chunked(decoder) => decoder.into_trailers(),
                    RemainingBody::Length(_) | RemainingBody::None => FieldBlock::new(),
                };
                Ok(Some(BodyPart::End((!trailers.is_empty()).then_some(trailers))))
            }
        }
    }
}
