//! The end of a connection that loses no request (RFC 9113 §6.8).
//!
//! A first GOAWAY names the largest identifier, so it refuses no request. A PING follows it. When
//! the answer to the PING arrives, every request that the client sent before it read the GOAWAY has
//! arrived too, and a second GOAWAY names the last of these requests.

use super::ServerConnection;
use crate::error::ErrorCode;
use crate::frame::write;

/// The data of the PING that follows the first GOAWAY.
const DRAIN_PING: [u8; 8] = *b"draining";

const LARGEST_STREAM: u32 = (1 << 31) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainStage {
    Open,
    /// The client was told that the connection will end.
    Announced,
    /// Streams after this one are ignored.
    Last(u32),
}

impl ServerConnection {
    /// Begins to end the connection: appends the first GOAWAY and the PING. Requests that are in
    /// progress are still served.
    pub fn begin_drain(&mut self, out: &mut Vec<u8>) {
        if self.drain == DrainStage::Open {
            self.drain = DrainStage::Announced;
            write::go_away(out, LARGEST_STREAM, ErrorCode::NoError);
            write::ping(out, DRAIN_PING, false);
        }
    }

    /// Appends the second GOAWAY, which names the last request that is served. The connection does
    /// this when the client answers the PING; the server calls it if the answer does not arrive in
    /// time.
    pub fn finish_drain(&mut self, out: &mut Vec<u8>) {
        if !matches!(self.drain, DrainStage::Last(_)) {
            self.drain = DrainStage::Last(self.last_stream);
            write::go_away(out, self.last_stream, ErrorCode::NoError);
        }
    }

    /// Whether the connection has ended: no work is left, and no request will be served.
    pub fn is_drained(&self) -> bool {
        let is_last = matches!(self.drain, DrainStage::Last(_)) || self.has_client_left;
        is_last && self.streams.in_use() == 0
    }

    pub(super) fn ping_answered(&mut self, data: [u8; 8], out: &mut Vec<u8>) {
        if data == DRAIN_PING && self.drain == DrainStage::Announced {
            self.finish_drain(out);
        }
    }

    /// The last stream that a GOAWAY may name: RFC 9113 §6.8 forbids raising it.
    pub(super) fn last_served(&self) -> u32 {
        match self.drain {
            DrainStage::Last(last) => last,
            _ => self.last_stream,
        }
    }

    /// Whether the second GOAWAY has refused this stream.
    pub(super) fn ignores(&self, stream: u32) -> bool {
        matches!(self.drain, DrainStage::Last(last) if stream > last)
    }
}
