//! The faults of the simulated origin's responses.

use super::rng::Rng;

/// The fault of one response of the origin. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginFault {
    None,
    /// The response begins late.
    Late(u64),
    /// The connection ends before the head.
    NoHead {
        is_reset: bool,
    },
    Error,
    /// The response is a 503 of one of several origins, so that another origin gets the request.
    Busy,
    /// The response is a 404 without a lifetime, whose `Last-Modified` is so long ago that a
    /// heuristic could keep the response fresh for a long time.
    Missing,
    /// The connection ends after this many bytes of the body.
    Short {
        is_reset: bool,
        bytes: usize,
    },
    /// The body pauses once, after this many bytes.
    Stall {
        bytes: usize,
        ms: u64,
    },
    /// The body is sent in small pieces, with a pause before each.
    Drip {
        ms: u64,
    },
    /// The bytes are not a response.
    Garbage,
    /// A second, unrequested response follows.
    Unasked,
    /// Bytes that are not a response follow the body.
    TooLong,
    /// An interim response precedes the final response.
    Interim,
    /// A chunk of a chunked body has no valid size.
    BadChunk,
    /// The response is a 304, although the request has no condition.
    UnaskedNotModified,
    /// The response is a 206, although the request has no range.
    UnaskedPart,
    /// The connection is reset some time after the response.
    IdleReset(u64),
    /// The response to a POST is sent before the request's body has ended.
    EarlyAnswer,
    /// The connection ends in the middle of the body of a POST.
    EarlyClose,
    /// The end of the connection marks the end of the body. If `cut` is set, a reset cuts off the
    /// body after this many bytes.
    Unframed {
        cut: Option<usize>,
    },
}

impl OriginFault {
    pub(super) fn of(rng: &mut Rng, percent: u64) -> OriginFault {
        if !rng.percent(percent) {
            return OriginFault::None;
        }
        match rng.below(20) {
            0 => OriginFault::Late(rng.between(1, 5_000)),
            1 => OriginFault::NoHead { is_reset: rng.percent(50) },
            2 => OriginFault::Error,
            3 | 4 => {
                let bytes = rng.between(0, 150_000) as usize;
                OriginFault::Short { is_reset: rng.percent(50), bytes }
            }
            5 => OriginFault::Stall {
                bytes: rng.between(0, 100_000) as usize,
                ms: rng.between(1, 5_000),
            },
            6 => OriginFault::Drip { ms: rng.between(1, 300) },
            7 => OriginFault::Garbage,
            8 => OriginFault::Unasked,
            9 => OriginFault::TooLong,
            10 => OriginFault::Interim,
            11 => OriginFault::BadChunk,
            12 => OriginFault::UnaskedNotModified,
            13 => OriginFault::UnaskedPart,
            14 | 15 => OriginFault::IdleReset(rng.between(0, 1_000)),
            16 => OriginFault::EarlyAnswer,
            17 => OriginFault::Missing,
            18 => {
                let bytes = rng.between(0, 50_000) as usize;
                OriginFault::Unframed { cut: rng.percent(70).then_some(bytes) }
            }
            _ => OriginFault::EarlyClose,
        }
    }

    /// Returns a fault that breaks off the body of a response.
    pub(super) fn broken_body(rng: &mut Rng) -> OriginFault {
        let bytes = rng.between(0, 400) as usize;
        match rng.below(3) {
            0 => OriginFault::BadChunk,
            1 => OriginFault::Unframed { cut: Some(bytes) },
            _ => OriginFault::Short { is_reset: rng.percent(30), bytes },
        }
    }

    /// Whether the fault may make a request fail.
    pub(super) fn is_harmful(self) -> bool {
        use OriginFault::{Busy, EarlyAnswer, Interim, None, Unframed};
        // A reset after the response is harmful too: it destroys the bytes that have not been read
        // yet.
        !matches!(self, None | Busy | Interim | EarlyAnswer | Unframed { cut: Option::None })
    }
}
