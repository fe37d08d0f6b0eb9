//! Error codes (RFC 9113 §7), and the errors that end a connection.

use std::fmt;

macro_rules! error_codes {
    ($( $variant:ident = $code:literal, $doc:literal; )*) => {
        /// An error code of RFC 9113 §7.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorCode {
            $( #[doc = $doc] $variant, )*
            /// A code that RFC 9113 does not define. It is treated like `InternalError`.
            Unknown(u32),
        }

        impl ErrorCode {
            /// Returns the code that this number names.
            pub fn of(number: u32) -> ErrorCode {
                match number {
                    $( $code => ErrorCode::$variant, )*
                    other => ErrorCode::Unknown(other),
                }
            }

            /// Returns the number of the code.
            pub fn number(self) -> u32 {
                match self {
                    $( ErrorCode::$variant => $code, )*
                    ErrorCode::Unknown(number) => number,
                }
            }
        }
    };
}

error_codes! {
    NoError = 0x0, "The stream or the connection ends without an error.";
    ProtocolError = 0x1, "The peer breaks a rule that no other code names.";
    InternalError = 0x2, "The sender of the code has failed.";
    FlowControlError = 0x3, "The peer sends more than its window permits.";
    SettingsTimeout = 0x4, "The peer does not acknowledge settings in time.";
    StreamClosed = 0x5, "A frame arrives on a stream that is closed for it.";
    FrameSizeError = 0x6, "A frame has an invalid size.";
    RefusedStream = 0x7, "The request was not processed, and may be sent again.";
    Cancel = 0x8, "The stream is no longer needed.";
    CompressionError = 0x9, "The state of header compression is lost.";
    ConnectError = 0xa, "The connection of a CONNECT request has failed.";
    EnhanceYourCalm = 0xb, "The peer causes too much work.";
    InadequateSecurity = 0xc, "The transport is not secure enough.";
    Http11Required = 0xd, "The request must use HTTP/1.1.";
}

/// The reason why a connection ends. The client gets a GOAWAY with the code; `reason` is for logs
/// and never quotes the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code of the GOAWAY.
    pub code: ErrorCode,
    /// A short sentence without a full stop.
    pub reason: &'static str,
}

impl ConnectionError {
    /// Creates an error with this code and reason.
    pub const fn new(code: ErrorCode, reason: &'static str) -> ConnectionError {
        ConnectionError { code, reason }
    }

    pub(crate) const fn protocol(reason: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::ProtocolError, reason)
    }

    pub(crate) const fn frame_size(reason: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::FrameSizeError, reason)
    }

    pub(crate) const fn calm(reason: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::EnhanceYourCalm, reason)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.reason)
    }
}

impl std::error::Error for ConnectionError {}
