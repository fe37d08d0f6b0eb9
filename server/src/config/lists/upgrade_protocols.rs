//! The setting `upgrade_protocols`.

use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::limits::UPGRADE_PROTOCOLS_MAX;

/// The protocols to which clients of a route may switch, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpgradeProtocols(Vec<Box<str>>);

impl UpgradeProtocols {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the list has the protocol, ignoring case.
    pub fn permits(&self, protocol: &[u8]) -> bool {
        self.0.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(protocol))
    }
}

impl Readable for UpgradeProtocols {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > UPGRADE_PROTOCOLS_MAX {
            let problem = format_args!("has more than {UPGRADE_PROTOCOLS_MAX} elements");
            return Err(setting.problem(problem));
        }
        let mut protocols = Vec::<Box<str>>::new();
        for text in texts {
            let problem = || setting.problem(format_args!("cannot contain {text:?}"));
            let name = text.to_ascii_lowercase();
            let is_token = |part: &str| {
                let allowed =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
                !part.is_empty() && part.bytes().all(allowed)
            };
            let (protocol, version) = name.split_once('/').unwrap_or((&name, "1"));
            if matches!(protocol, "h2c" | "h2" | "http" | "tls") {
                return Err(problem().hint(
                    "requests inside such a connection would bypass routes, rules and the cache",
                ));
            }
            if matches!(protocol, "ws" | "wss") {
                return Err(problem().hint("write \"websocket\""));
            }
            if !is_token(protocol) || !is_token(version) {
                return Err(
                    problem().hint("write a protocol as in the field Upgrade, such as websocket")
                );
            }
            if protocols.iter().any(|earlier| **earlier == *name) {
                return Err(problem().hint("the protocol is already in the list"));
            }
            protocols.push(name.into());
        }
        Ok(UpgradeProtocols(protocols))
    }
}
