//! The buffers of HTTP/2 connections.

use crate::buffers::Input;
use crate::limits::{BUFFER_BYTES_KEPT_MAX, HTTP2_INPUT_BYTES_MAX, HTTP2_OUTPUT_BYTES_KEPT_MAX};

/// Buffers that the HTTP/2 connections of a worker use in turn. A connection keeps a buffer only
/// while it waits with incomplete input, or with output that the client has not read.
#[derive(Default)]
pub(crate) struct TurnMemory {
    pub(super) input: Input,
    pub(super) out: Vec<u8>,
    /// Memory for header blocks.
    pub(super) block: Vec<u8>,
}

impl TurnMemory {
    /// Lends the buffers to a connection for its turn.
    pub(super) fn lend_to(&mut self, connection: &mut TurnMemory) {
        let waiting = std::mem::replace(&mut connection.input, std::mem::take(&mut self.input));
        connection.input.grow(HTTP2_INPUT_BYTES_MAX);
        connection.input.append(waiting.bytes());
        if connection.out.is_empty() {
            connection.out = std::mem::take(&mut self.out);
        }
        connection.block = std::mem::take(&mut self.block);
    }

    /// Takes back the buffers that the connection does not need until its next turn. Input that
    /// waits moves to a buffer of its own. If memory `is_scarce`, output that waits keeps no more
    /// memory than it needs; otherwise a connection that sends turn by turn keeps its buffer.
    pub(super) fn take_from(&mut self, connection: &mut TurnMemory, is_scarce: bool) {
        let mut waiting = Input::default();
        waiting.append(connection.input.bytes());
        connection.input.clear();
        self.input = std::mem::replace(&mut connection.input, waiting);
        if connection.out.is_empty() {
            self.out = std::mem::take(&mut connection.out);
            self.out.shrink_to(HTTP2_OUTPUT_BYTES_KEPT_MAX);
        } else if is_scarce || connection.out.capacity() > 2 * connection.out.len() {
            connection.out.shrink_to_fit();
        }
        self.block = std::mem::take(&mut connection.block);
        self.block.shrink_to(BUFFER_BYTES_KEPT_MAX);
    }
}
