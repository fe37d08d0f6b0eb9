//! The freshness lifetime of a stored response: its source and its calculation.

use forebay_http::fields::FieldBlock;
use forebay_http::policy::exchange::{CacheRules, OriginResponse};
use forebay_http::policy::freshness::{
    FreshnessLifetime, LifetimeSource, freshness_lifetime, jitter_s_max,
};
use forebay_http::policy::meta::StoredMeta;

use super::facts::LifetimeFacts;
use crate::config::RouteSettings;
use crate::lookup::StoredResponse;

/// Recalculates the lifetime of a stored response with the current settings of its route.
pub(super) fn lifetime_facts(
    stored: &StoredResponse<'_>,
    settings: &RouteSettings,
) -> LifetimeFacts {
    let meta = &stored.meta;
    let block = FieldBlock::parse(stored.lines()).unwrap_or_default();
    let targets = &settings.targeted_cache_control;
    let response = OriginResponse::new(meta.status, block.fields(), targets);
    let rules = settings.cache_rules(meta.answers_cookie);
    let rules = if meta.sets_cookie { rules.for_cookie_setting() } else { rules };
    let present = freshness_lifetime(&response, &rules, meta.response_time);
    let field = targets.select(block.fields()).name;
    let field = field.map_or("Cache-Control".into(), String::from_utf8_lossy);
    let percent = settings.freshness_jitter_percent;
    let jitter_s_max = jitter_s_max(present.seconds, meta.initial_age_s, percent);
    let shorter_s = present.seconds.checked_sub(meta.lifetime_s);
    let sum = sum(present, meta, &rules, &field);
    LifetimeFacts {
        present,
        sum: match shorter_s {
            None | Some(0) => sum,
            Some(shorter_s) => {
                format!("{sum}, less {shorter_s} s because of freshness_jitter_percent")
            }
        },
        is_present: shorter_s.is_some_and(|shorter_s| shorter_s <= jitter_s_max),
    }
}

/// Returns the calculation of a lifetime as text.
fn sum(
    lifetime: FreshnessLifetime,
    meta: &StoredMeta,
    rules: &CacheRules<'_>,
    field: &str,
) -> String {
    let seconds = lifetime.seconds;
    match lifetime.source {
        LifetimeSource::SharedMaxAge => format!("s-maxage={seconds} in {field}"),
        LifetimeSource::MaxAge => format!("max-age={seconds} in {field}"),
        LifetimeSource::Expires if seconds == 0 => "Expires is invalid or not after Date".into(),
        LifetimeSource::Expires => format!("Expires is {seconds} s after Date"),
        LifetimeSource::Heuristic => {
            let unchanged_s = meta.date.saturating_sub(meta.last_modified.unwrap_or(meta.date));
            let percent = rules.heuristic_percent;
            let share = unchanged_s.saturating_mul(percent.into()) / 100;
            let limit = match share > seconds.into() {
                true => ", limited by heuristic_s_max or heuristic_error_s_max",
                false => "",
            };
            format!("{percent} % of the {unchanged_s} s from Last-Modified to Date{limit}")
        }
        LifetimeSource::Setting => match rules.status_freshness.of(meta.status) {
            Some(_) => format!("status_freshness of the route for {}", meta.status),
            None if seconds < rules.default_freshness_s => {
                "default_freshness_s of the route, limited by heuristic_error_s_max".into()
            }
            None => "default_freshness_s of the route".into(),
        },
        LifetimeSource::Override => "override_freshness_s of the route".into(),
        LifetimeSource::Nothing if meta.sets_cookie => {
            "the response sets a cookie, and gives no explicit lifetime".into()
        }
        LifetimeSource::Nothing => {
            "no explicit lifetime, and neither a setting nor the heuristic gives one".into()
        }
    }
}
