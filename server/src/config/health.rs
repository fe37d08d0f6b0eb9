//! The setting for active health checks of a site's origins.

use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::table::SiteSettings;

/// A health check: a request that each worker periodically sends to every origin of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path and query of the request.
    pub path: String,
    /// The status with which a working origin answers the request.
    pub status: u16,
    /// Time between the starts of two checks of an origin.
    pub interval_ms: u64,
    /// The time limit of one check.
    pub timeout_ms: u64,
}

/// The value of the setting `health_path`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthPath(Option<String>);

impl HealthCheck {
    /// Returns the check of a site with these settings; `None` if it has none.
    pub(super) fn of(settings: &SiteSettings) -> Option<HealthCheck> {
        let interval_ms = u64::from(settings.health_interval_ms);
        Some(HealthCheck {
            path: settings.health_path.0.clone()?,
            status: settings.health_status,
            interval_ms,
            // A check ends before the next one begins.
            timeout_ms: u64::from(settings.health_ms_max).min(interval_ms),
        })
    }
}

impl Readable for HealthPath {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        if text == "off" {
            return Ok(HealthPath(None));
        }
        let refused = setting.problem(format_args!("cannot be {text:?}"));
        if !text.starts_with('/') {
            let path = text
                .split_once("://")
                .map(|(_, rest)| rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"));
            return Err(refused.hint(match path {
                Some(path) => format!("write only the path, {path:?}: each origin is asked for it"),
                None => format!("write \"/{text}\""),
            }));
        }
        let is_target = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains('#');
        if !is_target || text.parse::<http::Uri>().is_err() {
            return Err(refused.hint("write the path percent-encoded, as it appears in a request"));
        }
        Ok(HealthPath(Some(text.to_owned())))
    }
}
