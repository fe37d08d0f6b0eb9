//! The setting `zone` of the server and of its origins.

use std::fmt;

use super::setting::{RawValue, Readable, Setting, ValueProblem};

/// The name of a zone, such as a data centre; or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone(Option<Box<str>>);

const ZONE_BYTES_MAX: usize = 64;

impl Zone {
    /// Whether an origin in `origin_zone` comes after those in this zone, which is the server's. If
    /// the server has no zone, no origin comes first.
    pub(crate) fn is_left_by(&self, origin_zone: &Zone) -> bool {
        self.0.is_some() && self != origin_zone
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("off"))
    }
}

impl Readable for Zone {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        if text == "off" {
            return Ok(Zone(None));
        }
        let is_name = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || text.len() > ZONE_BYTES_MAX || !is_name {
            return Err(setting.problem(format_args!("cannot be {text:?}")));
        }
        Ok(Zone(Some(text.into())))
    }
}
