//! The setting `rate_limit`.

use std::hash::{DefaultHasher, Hash, Hasher};

use forebay_sync::rates::CellRate;
use http::HeaderName;

use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::limits::{RATE_LIMITS_MAX, RATE_PERIOD_S_MAX};

/// The rate limits of a route. A request has to keep to all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimits(Vec<RateLimit>);

/// A limit on the rate of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateLimit {
    /// The number of requests in each period.
    pub(crate) count: u64,
    pub(crate) period_s: u64,
    pub(crate) rate: CellRate,
    pub(crate) scope: LimitScope,
    /// The name of the limit in the field RateLimit, unique among the limits of the route.
    pub(crate) name: Box<str>,
}

/// The requests that a limit counts together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LimitScope {
    /// Those of one client network.
    Network,
    /// All of the route.
    Route,
    /// Those with the same value of the field with this name, which is in lower case.
    Field(Box<str>),
}

impl RateLimits {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the limits in the order of the configuration.
    pub(crate) fn all(&self) -> &[RateLimit] {
        &self.0
    }

    /// Returns a number for each limit that identifies its counts. `paths` is empty for a
    /// route that inherits the limits of its site: all these routes have the same counts. A limit
    /// that a reload does not change keeps its number, and so its counts.
    pub(crate) fn identities(&self, site: &str, paths: &str) -> Box<[u64]> {
        let identity = |limit: &RateLimit| {
            let mut hasher = DefaultHasher::new();
            (site, paths, limit.definition()).hash(&mut hasher);
            hasher.finish()
        };
        self.0.iter().map(identity).collect()
    }
}

impl RateLimit {
    /// Returns everything that distinguishes the limit from other limits.
    fn definition(&self) -> (u64, u64, CellRate, &LimitScope) {
        (self.count, self.period_s, self.rate, &self.scope)
    }
}

impl Readable for RateLimits {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        if let RawValue::Text(text) = raw
            && let Err(hint) = parse(text)
        {
            return Err(setting.problem("is not an array").hint(format!("{hint}, in brackets")));
        }
        let texts = setting.texts(raw)?;
        if texts.len() > RATE_LIMITS_MAX {
            return Err(setting.problem(format_args!("has more than {RATE_LIMITS_MAX} elements")));
        }
        let mut limits: Vec<RateLimit> = Vec::new();
        for text in texts {
            let refused = |why| setting.problem(format_args!("cannot contain {text:?}")).hint(why);
            let mut limit = parse(text).map_err(refused)?;
            if limits.iter().any(|earlier| earlier.definition() == limit.definition()) {
                return Err(refused("the limit is already in the list".to_owned()));
            }
            let is_named = |name: &str| limits.iter().any(|earlier| *earlier.name == *name);
            if is_named(&limit.name) {
                limit.name = format!("{}-{}", limit.name, limits.len() + 1).into();
            }
            limits.push(limit);
        }
        Ok(RateLimits(limits))
    }
}

/// Reads `100/1s`, `600/1m burst=50` or `10/1s by=field:x-api-key`.
fn parse(text: &str) -> Result<RateLimit, String> {
    let mut words = text.split_whitespace();
    let (count, period_s) = parse_rate(words.next().unwrap_or_default())?;
    let (mut burst, mut scope) = (None, None);
    for word in words {
        let is_second = match word.split_once('=') {
            Some(("burst", number)) => burst.replace(parse_burst(number)?).is_some(),
            Some(("by", text)) => scope.replace(parse_scope(text)?).is_some(),
            _ => {
                return Err("after the rate, write burst=N, by=address, by=route or by=field:NAME"
                    .to_owned());
            }
        };
        if is_second {
            return Err(format!("leave {word:?} out: a limit has only one burst= and one by="));
        }
    }
    let burst = burst.unwrap_or(count);
    let scope = scope.unwrap_or(LimitScope::Network);
    let name = match &scope {
        LimitScope::Network => "address".into(),
        LimitScope::Route => "route".into(),
        LimitScope::Field(name) => name.clone(),
    };
    let Some(rate) = CellRate::new(count, period_s * 1_000_000, burst) else {
        return Err(match CellRate::new(count, period_s * 1_000_000, 1) {
            None => "a rate has at most 100000 requests a second".to_owned(),
            Some(_) => {
                "a burst has to be available again within a day: write a smaller burst".to_owned()
            }
        });
    };
    Ok(RateLimit { count, period_s, rate, scope, name })
}

/// Reads the number of requests and the seconds of `100/1s`.
fn parse_rate(text: &str) -> Result<(u64, u64), String> {
    let form = || "write a number of requests and a time, such as \"100/1s\"".to_owned();
    let (count, period) = text.split_once('/').ok_or_else(form)?;
    let count = match (parse_number(count), count.strip_suffix('r').and_then(parse_number)) {
        (Some(count), _) => count,
        // The form of nginx.
        (None, Some(count)) if matches!(period, "s" | "m") => {
            return Err(format!("write \"{count}/1{period}\""));
        }
        _ => return Err(form()),
    };
    if count == 0 {
        return Err("for no limit, leave it out; to refuse every request, use `respond`".to_owned());
    }
    let digit_count = period.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = period.split_at(digit_count);
    let unit_s = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("the unit of the time is s, m or h, as in \"100/1s\"".to_owned()),
    };
    if number.is_empty() {
        return Err(format!("write \"{count}/1{unit}\""));
    }
    let period_s = parse_number(number).and_then(|number| number.checked_mul(unit_s));
    match period_s {
        Some(period_s @ 1..=RATE_PERIOD_S_MAX) => Ok((count, period_s)),
        _ => Err("the time is from 1s to 24h".to_owned()),
    }
}

fn parse_burst(text: &str) -> Result<u64, String> {
    let burst = parse_number(text).filter(|burst| *burst > 0);
    burst.ok_or_else(|| "write a number of at least 1 after burst=".to_owned())
}

pub(super) fn parse_scope(text: &str) -> Result<LimitScope, String> {
    match text.split_once(':') {
        None if text == "address" => Ok(LimitScope::Network),
        None if text == "route" => Ok(LimitScope::Route),
        Some(("field", name)) if HeaderName::try_from(name).is_ok() => {
            Ok(LimitScope::Field(name.to_ascii_lowercase().into()))
        }
        _ => Err("write by=address, by=route or by=field:NAME with the name of a field".to_owned()),
    }
}

/// Reads a whole number without a sign.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}
