//! The streams of a connection whose work has not ended.

use std::rc::Rc;

use forebay_http2::StreamKey;
use forebay_http2::request::CheckedRequest;

use super::answer::StreamAnswer;
use super::head::ResponseKind;
use super::pipe::StreamPipe;
use super::shared::SharedState;
use crate::accept::Client;
use crate::limits::HTTP2_QUEUES_KEPT_MAX;
use crate::send_queue::SendQueue;

/// Bytes of the framing of a chunk, and of the last chunk.
const CHUNK_BYTES: usize = 16;

/// The streams in use; the index is the slot.
#[derive(Default)]
pub(super) struct OpenStreams {
    slots: Vec<Option<OpenStream>>,
    /// Empty queues, whose memory is used again.
    spare_queues: Vec<SendQueue>,
}

/// A stream whose work has not ended yet.
pub(super) struct OpenStream {
    pub(super) key: StreamKey,
    pub(super) work: StreamWork,
    pub(super) is_gone: bool,
}

/// The work on a stream.
pub(super) enum StreamWork {
    /// The rest of the response waits for the client's windows. `held` is the number of its bytes
    /// and of its lent pieces that the connection counts.
    Queued { queue: SendQueue, held: (usize, usize) },
    /// A task of its own works on the stream; request and response pass through the pipe.
    Piped { pipe: Rc<StreamPipe>, answer: StreamAnswer, is_chunked: bool },
}

/// The properties of a request that decide about the form of bodies.
#[derive(Clone, Copy)]
pub(super) struct RequestForm {
    pub(super) kind: ResponseKind,
    /// Whether the head announced the request's body as chunked.
    pub(super) is_chunked: bool,
}

impl RequestForm {
    pub(super) fn of(request: CheckedRequest<'_>) -> RequestForm {
        let is_tunnel = request.protocol().is_some();
        RequestForm {
            kind: match request.method() {
                _ if is_tunnel => ResponseKind::Tunnel(None),
                b"HEAD" => ResponseKind::HeadOnly,
                _ => ResponseKind::Content,
            },
            is_chunked: !is_tunnel && request.has_body() && request.content_length().is_none(),
        }
    }
}

/// Whether the worker may work on one more stream of this client. The streams of all HTTP/2
/// connections together that have to wait have the limits that connections have, because such a
/// stream takes as much memory as a connection of HTTP/1.1 while the worker works on a request.
pub(super) fn has_room(client: &Client) -> bool {
    let config = client.worker.config();
    let settings = &config.server;
    let registry = &client.worker.registry;
    let count = registry.stream_count();
    count < settings.connections_per_worker_max as usize
        && (count < settings.connections_per_address_max as usize
            || registry.stream_count_of(client.network()) < settings.connections_per_address_max)
}

impl OpenStreams {
    pub(super) fn put(&mut self, stream: OpenStream) {
        let slot = usize::from(stream.key.slot());
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(stream);
        }
    }

    pub(super) fn at(&mut self, slot: u16) -> Option<&mut OpenStream> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    pub(super) fn find(&mut self, key: StreamKey) -> Option<&mut OpenStream> {
        self.at(key.slot()).filter(|stream| stream.key == key)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OpenStream> {
        self.slots.iter_mut().flatten()
    }

    /// Takes the rest of a response, which leaves `queue` empty.
    pub(super) fn keep(&mut self, queue: &mut SendQueue, shared: &SharedState) -> StreamWork {
        let spare = self.spare_queues.pop().unwrap_or_default();
        let queue = std::mem::replace(queue, spare);
        StreamWork::Queued { held: shared.hold(&queue), queue }
    }

    pub(super) fn remove(&mut self, slot: u16, shared: &SharedState) {
        let removed = self.slots.get_mut(usize::from(slot)).and_then(Option::take);
        if let Some(StreamWork::Queued { mut queue, held }) = removed.map(|stream| stream.work) {
            shared.unhold(held);
            if self.spare_queues.len() < HTTP2_QUEUES_KEPT_MAX {
                queue.reset();
                self.spare_queues.push(queue);
            }
        }
    }

    /// Frees the memory that an idle connection does not need.
    pub(super) fn shrink(&mut self) {
        *self = OpenStreams::default();
    }
}

impl OpenStream {
    /// Passes a piece of the request's body to the stream, in the framing that its head announced.
    pub(super) fn push_data(&self, data: &[u8], is_last: bool) {
        let StreamWork::Piped { pipe, is_chunked, .. } = &self.work else {
            return;
        };
        pipe.push_request(data.len() + CHUNK_BYTES, |text| {
            if *is_chunked && !data.is_empty() {
                text.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
            }
            text.extend_from_slice(data);
            if *is_chunked && !data.is_empty() {
                text.extend_from_slice(b"\r\n");
            }
            if *is_chunked && is_last {
                text.extend_from_slice(b"0\r\n\r\n");
            }
        });
        if is_last {
            pipe.end_request();
        }
    }

    /// Passes the end of the request to the stream. Trailers are sent only with a chunked body.
    pub(super) fn push_trailers<'t>(&self, fields: impl Iterator<Item = (&'t [u8], &'t [u8])>) {
        let StreamWork::Piped { pipe, is_chunked, .. } = &self.work else {
            return;
        };
        if *is_chunked {
            pipe.push_request(CHUNK_BYTES, |text| {
                text.extend_from_slice(b"0\r\n");
                for (name, value) in fields {
                    forebay_http::write::field(text, name, value);
                }
                text.extend_from_slice(b"\r\n");
            });
        }
        pipe.end_request();
    }

    /// Ends the work on the stream.
    pub(super) fn reset(&self) {
        if let StreamWork::Piped { pipe, .. } = &self.work {
            pipe.reset();
        }
    }
}
