//! The setting `origin_proxy_protocol`.

use std::fmt;

use super::setting::{RawValue, Readable, Setting, ValueProblem};

/// The version of the PROXY protocol in which an origin gets the addresses of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProxyProtocol {
    /// Connections have no header.
    #[default]
    Off,
    /// Version 1: a line of text.
    V1,
    /// Version 2: binary.
    V2,
}

/// The words of `origin_proxy_protocol`, in the order of [`ProxyProtocol`].
pub(crate) const PROXY_PROTOCOL_WORDS: &[&str] = &["off", "v1", "v2"];

impl fmt::Display for ProxyProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProxyProtocol::Off => "off",
            ProxyProtocol::V1 => "v1",
            ProxyProtocol::V2 => "v2",
        })
    }
}

impl Readable for ProxyProtocol {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => ProxyProtocol::Off,
            1 => ProxyProtocol::V1,
            _ => ProxyProtocol::V2,
        })
    }
}
