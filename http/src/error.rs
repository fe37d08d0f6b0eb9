//! Reasons for refusing a message. Each cause has a variant, with a sentence for the sender.
//!
//! `reason` never quotes the message, which may be hostile.

use std::fmt;

macro_rules! reasons {
    ($(#[$about:meta])* $name:ident { $( $variant:ident => $reason:literal ),* $(,)? }) => {
        reasons!($(#[$about])* $name { $( $variant => $reason ),* ; });
    };
    ($(#[$about:meta])* $name:ident {
        $( $variant:ident => $reason:literal ),* ;
        $( $wrap:ident($inner:ident): $doc:literal ),* $(,)?
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $( #[doc = $doc] $wrap($inner), )*
            $( #[doc = concat!($reason, ".")] $variant, )*
        }

        impl $name {
            /// Returns the reason, a short sentence without a full stop.
            pub const fn reason(self) -> &'static str {
                match self {
                    $( $name::$wrap(inner) => inner.reason(), )*
                    $( $name::$variant => $reason, )*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.reason())
            }
        }

        impl std::error::Error for $name {}

        $( impl From<$inner> for $name {
            fn from(inner: $inner) -> $name { $name::$wrap(inner) }
        } )*
    };
}

reasons! {
    /// The way in which a line of a head or of trailers violates the grammar of RFC 9112 §2.2 and
    /// §5.
    LineError {
        BareCr => "a carriage return is not followed by a line feed",
        BareLf => "a line feed does not follow a carriage return",
        Control => "a line contains a control character",
        Folded => "a field line is folded or begins with white space",
        MissingColon => "a field line has no colon",
        EmptyName => "a field name is empty",
        SpaceAfterName => "a field name contains or is followed by white space",
        InvalidName => "a field name is not a token",
        NameTooLong => "a field name is too long",
    }
}

reasons! {
    /// The reason why the length of a body is ambiguous or its coding is refused (RFC 9112 §6).
    FramingError {
        LengthAndCoding => "Content-Length and Transfer-Encoding are both present",
        SeveralLengths => "Content-Length occurs more than once",
        InvalidLength => "Content-Length is not one decimal number",
        SeveralCodings => "Transfer-Encoding occurs more than once",
        InvalidCoding => "Transfer-Encoding is not a list of codings with chunked once, at its end",
        UnknownCoding => "Transfer-Encoding names a coding other than chunked",
        CodingInHttp10 => "Transfer-Encoding is present in an HTTP/1.0 message",
    }
}

reasons! {
    /// The reason why a request is answered with an error and not forwarded.
    RequestError {
        LeadingLines => "more than one empty line precedes the request line",
        InvalidRequestLine => "the request line is not a method, a target and a version",
        InvalidMethod => "the method is not a token",
        MethodTooLong => "the method is too long",
        MethodNotImplemented => "the method is not implemented",
        InvalidTarget => "the request target is malformed",
        TargetTooLong => "the request target is too long",
        InvalidVersion => "the HTTP version is malformed",
        UnsupportedVersion => "the HTTP version is not supported",
        HeadTooLarge => "the request head is too large",
        TooManyFields => "the request head has too many fields",
        MissingHost => "the Host field is missing",
        SeveralHosts => "the Host field occurs more than once",
        InvalidHost => "the Host field is not a single host with an optional port",
        HostConflict => "the Host field and the request target name different hosts",
        UnknownExpectation => "the expectation is not 100-continue",
        ConnectContent => "a CONNECT request cannot have content",
        TooManyOptions => "the Connection field names too many fields";
        Line(LineError): "A line of the head is malformed.",
        Framing(FramingError): "The length of the body is ambiguous.",
    }
}

impl RequestError {
    /// Returns the status code of the response (RFC 9110 §15.5, §15.6; RFC 6585 §5).
    pub const fn status(self) -> u16 {
        match self {
            RequestError::TargetTooLong => 414,
            RequestError::UnknownExpectation => 417,
            RequestError::HeadTooLarge | RequestError::TooManyFields => 431,
            RequestError::MethodTooLong
            | RequestError::MethodNotImplemented
            | RequestError::Framing(FramingError::UnknownCoding) => 501,
            RequestError::UnsupportedVersion => 505,
            _ => 400,
        }
    }
}

reasons! {
    /// The reason why a response of an origin is neither stored nor forwarded. The client gets a
    /// 502.
    OriginError {
        InvalidStatusLine => "the status line is not a version, a status code and a reason",
        UnsupportedVersion => "the origin's HTTP version is not supported",
        InvalidStatus => "the status code is not between 100 and 599",
        UnaskedUpgrade => "the origin switches protocols without a request to do so",
        ForbiddenBody => "the origin announces a body, but the status code allows none",
        HeadTooLarge => "the response head is too large",
        TooManyFields => "the response head has too many fields",
        TooManyOptions => "the Connection field names too many fields";
        Line(LineError): "A line of the head is malformed.",
        Framing(FramingError): "The length of the body is ambiguous.",
    }
}

reasons! {
    /// The reason why a chunked body cannot be decoded (RFC 9112 §7.1).
    ChunkedError {
        InvalidSize => "a chunk size is not a hexadecimal number",
        SizeTooLarge => "a chunk size is too large",
        InvalidExtension => "a chunk extension is malformed",
        ExtensionsTooLarge => "the chunk extensions are too large",
        MissingLineEnd => "a chunk does not end in CR LF",
        TrailersTooLarge => "the trailers are too large",
        TooManyTrailers => "there are too many trailers";
        Line(LineError): "A trailer line is malformed.",
    }
}
