//! The setting `concurrency_limit`.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::rate_limits::{LimitScope, parse_number, parse_scope};
use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::limits::CONCURRENCY_LIMITS_MAX;

/// The limits on the requests of a route that are in progress. A request has to keep to all of
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConcurrencyLimits(Vec<ConcurrencyLimit>);

/// A limit on the number of requests in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConcurrencyLimit {
    pub(crate) count_max: u16,
    pub(crate) scope: LimitScope,
}

impl ConcurrencyLimits {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the limits in the order of the configuration.
    pub(crate) fn all(&self) -> &[ConcurrencyLimit] {
        &self.0
    }

    /// Returns a number for each limit that identifies its counts. `paths` is empty for a
    /// route that inherits the limits of its site: all these routes have the same counts. After a
    /// reload that changes only the number of a limit, the requests in progress still count.
    pub(crate) fn identities(&self, site: &str, paths: &str) -> Box<[u64]> {
        let identity = |limit: &ConcurrencyLimit| {
            let mut hasher = DefaultHasher::new();
            ("in progress", site, paths, &limit.scope).hash(&mut hasher);
            hasher.finish()
        };
        self.0.iter().map(identity).collect()
    }
}

impl Readable for ConcurrencyLimits {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > CONCURRENCY_LIMITS_MAX {
            let problem = format_args!("has more than {CONCURRENCY_LIMITS_MAX} elements");
            return Err(setting.problem(problem));
        }
        let mut limits: Vec<ConcurrencyLimit> = Vec::new();
        for text in texts {
            let refused = |why| setting.problem(format_args!("cannot contain {text:?}")).hint(why);
            let limit = parse(text).map_err(refused)?;
            if limits.iter().any(|earlier| earlier.scope == limit.scope) {
                let why = "an earlier limit counts the same requests, so leave one of them out";
                return Err(refused(why.to_owned()));
            }
            limits.push(limit);
        }
        Ok(ConcurrencyLimits(limits))
    }
}

/// Reads `20`, `20 by=address` or `500 by=route`.
fn parse(text: &str) -> Result<ConcurrencyLimit, String> {
    let mut words = text.split_whitespace();
    let count = words.next().unwrap_or_default();
    let count_max = match parse_number(count) {
        Some(0) => {
            return Err(
                "for no limit, leave it out; to refuse every request, use `respond`".to_owned()
            );
        }
        Some(count) => u16::try_from(count)
            .map_err(|_| format!("a limit permits at most {} requests", u16::MAX))?,
        None if count.contains('/') => {
            return Err("write a number of requests, such as \"20\"; for a rate, such as \
                        \"100/1s\", use `rate_limit`"
                .to_owned());
        }
        None => return Err("write a number of requests, such as \"20\"".to_owned()),
    };
    let mut scope = None;
    for word in words {
        let Some(("by", text)) = word.split_once('=') else {
            return Err("after the number, write by=address, by=route or by=field:NAME".to_owned());
        };
        if scope.replace(parse_scope(text)?).is_some() {
            return Err(format!("leave {word:?} out: a limit has only one by="));
        }
    }
    Ok(ConcurrencyLimit { count_max, scope: scope.unwrap_or(LimitScope::Network) })
}
