//! The setting `origin_http2`.

use std::fmt;

use super::origin_address::OriginAddress;
use super::setting::{RawValue, Readable, Setting, ValueProblem};

/// Whether requests go to an origin over HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OriginHttp2 {
    /// Requests use HTTP/1.1.
    #[default]
    Never,
    /// An `https` origin chooses the version in the TLS handshake; others get HTTP/1.1.
    Auto,
    /// Requests use HTTP/2; an origin without TLS is known to speak it.
    Always,
}

/// The words of `origin_http2`, in the order of [`OriginHttp2`].
pub(crate) const ORIGIN_HTTP2_WORDS: &[&str] = &["never", "auto", "always"];

impl OriginAddress {
    /// Whether requests to the origin may use HTTP/2.
    pub(crate) fn may_use_http2(&self) -> bool {
        match self.http2 {
            OriginHttp2::Never => false,
            OriginHttp2::Auto => self.tls.is_some(),
            OriginHttp2::Always => true,
        }
    }
}

impl fmt::Display for OriginHttp2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OriginHttp2::Never => "never",
            OriginHttp2::Auto => "auto",
            OriginHttp2::Always => "always",
        })
    }
}

impl Readable for OriginHttp2 {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => OriginHttp2::Never,
            1 => OriginHttp2::Auto,
            _ => OriginHttp2::Always,
        })
    }
}
