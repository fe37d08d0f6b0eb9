//! Appends pieces of a body to the send queue, each as a chunk if the body is chunked (RFC 9112
//! §7.1).

use bytes::Bytes;
use forebay_cache::BodyHandle;
use forebay_http::chunked::{CHUNK_END, CHUNK_HEAD_BYTES_MAX, LAST_CHUNK, write_chunk_head};
use forebay_http::fields::FieldBlock;

use crate::send_queue::{Lender, SendQueue};

/// Appends a piece of a body.
pub(super) fn append_piece(queue: &mut SendQueue, piece: Bytes, is_chunked: bool, lender: Lender) {
    if piece.is_empty() {
        return;
    }
    begin_chunk(queue, piece.len(), is_chunked);
    queue.push_body(piece, lender);
    end_chunk(queue, is_chunked);
}

/// Appends a part of a stored body.
pub(super) fn append_lent(queue: &mut SendQueue, lent: BodyHandle, is_chunked: bool) {
    // An empty chunk would end the body.
    let is_chunked = is_chunked && !lent.is_empty();
    begin_chunk(queue, lent.len(), is_chunked);
    queue.push_lent(lent);
    end_chunk(queue, is_chunked);
}

fn begin_chunk(queue: &mut SendQueue, bytes: usize, is_chunked: bool) {
    if is_chunked {
        let mut space = [0; CHUNK_HEAD_BYTES_MAX];
        queue.text().extend_from_slice(write_chunk_head(bytes as u64, &mut space));
    }
}

fn end_chunk(queue: &mut SendQueue, is_chunked: bool) {
    if is_chunked {
        queue.text().extend_from_slice(CHUNK_END);
    }
}

/// Appends the last chunk and the trailers (RFC 9112 §7.1.2).
pub(super) fn end_chunks(queue: &mut SendQueue, trailers: Option<FieldBlock>) {
    let text = queue.text();
    text.extend_from_slice(LAST_CHUNK);
    if let Some(trailers) = trailers {
        text.extend_from_slice(trailers.bytes());
    }
    text.extend_from_slice(CHUNK_END);
}
