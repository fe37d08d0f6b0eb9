//! The reasons why a stream brings no response.

use h2::Reason;

use crate::fault::Fault;
use crate::fetch::upload::OutboundBody;

/// The reason why a stream brought no response.
pub(in crate::fetch) enum StreamFailure {
    /// The origin has done nothing with the request, and the request can be sent again as a whole.
    Refused(OutboundBody),
    /// The stream or its connection ended. The origin may have acted on the request.
    Dead {
        cause: String,
        /// Whether the connection ended, and with it all its streams.
        is_connection: bool,
        /// Whether the end of the connection has failed another exchange before.
        is_known: bool,
    },
    Fault(Fault),
}

/// The reason in the log for requests that the origin has not processed.
pub(in crate::fetch) const REFUSED: &str =
    "the origin refused the request without processing it (REFUSED_STREAM or GOAWAY)";

/// Whether the error proves that the origin has done nothing with the request (RFC 9113 §8.7). The
/// crate reports a GOAWAY of the origin only for streams above the last one that the frame names.
pub(super) fn is_refusal(error: &h2::Error) -> bool {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (is_refused || error.is_go_away())
}

/// Returns the fault for an error that no other request can avoid; `None` if the stream or its
/// connection just ended.
pub(super) fn lasting_fault(error: &h2::Error) -> Option<Fault> {
    let why = match error.reason() {
        Some(Reason::HTTP_1_1_REQUIRED) if error.is_remote() => {
            "the origin demands HTTP/1.1 for this request (HTTP_1_1_REQUIRED)"
        }
        Some(Reason::PROTOCOL_ERROR) if error.is_remote() && error.is_reset() => {
            "the origin reset the stream: it takes the request for malformed (PROTOCOL_ERROR)"
        }
        // The crate does not say which of the two it found.
        Some(_) if error.is_library() && error.is_reset() => {
            "the origin's answer is malformed, or its head is too large"
        }
        None if !error.is_io() => return Some(Fault::Internal),
        _ => return None,
    };
    Some(Fault::OriginAnswer(why))
}

/// Returns the fault for an error in the middle of a body. A body that the crate itself refuses has
/// another length than its head announced, or violates the protocol.
pub(super) fn body_fault(error: &h2::Error) -> Fault {
    match error.is_library() && error.is_reset() {
        true => Fault::OriginAnswer("the origin's body is malformed"),
        false => Fault::OriginBroke,
    }
}
