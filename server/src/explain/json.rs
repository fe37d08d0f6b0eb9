//! An explanation as JSON.

use serde_json::{Value, json};

use super::facts::{
    AnswerKind, Explanation, ResponseFacts, StaleUse, StoredFacts, VaryFacts, Verdict,
};
use crate::purger::PurgeKind;

impl Explanation {
    /// Returns the explanation as a JSON object. Steps that the request does not reach are null.
    pub(crate) fn to_json(&self) -> Value {
        let (rules, steps) = (&self.steps.rules, &self.steps);
        let stored = steps.stored.as_ref();
        json!({
            "request": { "method": self.request.method, "url": self.request.url },
            "listener": steps.listener.map(|address| address.to_string()),
            "site": steps.site.as_ref().map(|site| json!({
                "name": site.site,
                "origin": site.origin,
                "file": site.file,
                "sent": site.sent,
                "zone": site.zone,
                "origin_http2": site.http2.to_string(),
                "proxy_protocol": site.proxy_protocol.to_string(),
                "origin_is_down": site.origin_is_down,
                "origin_failure": site.origin_failure,
                "path_prefix": site.path_prefix,
                "route_reasons": site.route_reasons,
                "client_checks": site.client_checks,
            })),
            "other_sites": steps.other_sites,
            "rules": {
                "ran": rules.ran,
                "url": rules.url,
                "changes_fields": rules.changes_fields,
            },
            "key": steps.key.as_ref().map(|key| json!({
                "site": key.key.site,
                "url": key.key.url,
                "changes": key.changes,
            })),
            "vary": stored.map(|stored| stored.vary.iter().map(vary).collect::<Vec<_>>()),
            "stored": stored.and_then(|stored| stored.selected.as_ref()).map(response),
            "purge": stored.and_then(purge),
            "stale_uses": steps.stale_uses.iter().map(stale_use).collect::<Vec<_>>(),
            "verdict": verdict(&self.verdict),
        })
    }
}

fn vary(vary: &VaryFacts) -> Value {
    let variants = vary.variants.iter().map(|variant| {
        let differing = vary.differing(variant);
        json!({
            "values": variant.values,
            "differs_in": differing,
            "selected": variant.is_selected,
        })
    });
    json!({
        "names": vary.names,
        "request": vary.request,
        "variants": variants.collect::<Vec<_>>(),
    })
}

fn response(selected: &ResponseFacts) -> Value {
    let (meta, lifetime) = (&selected.meta, &selected.lifetime);
    json!({
        "status": meta.status,
        "bytes": selected.body_bytes,
        "etag": selected.etag,
        "tags": selected.tags,
        "soft": selected.is_soft,
        "lifetime_s": meta.lifetime_s,
        "lifetime_source": lifetime.is_present.then_some(&lifetime.sum),
        "lifetime_section": lifetime.is_present.then_some(lifetime.present.source.section()),
        "initial_age_s": meta.initial_age_s,
        "age_s": selected.age_s,
        "ttl_s": selected.fresh_s(),
        "can_validate": meta.can_validate(),
        "is_compressed": meta.is_compressed,
        "is_decompressed": meta.is_decompressed,
        "validation": selected.validation.map(|cause| cause.to_string()),
    })
}

fn purge(stored: &StoredFacts) -> Option<Value> {
    let purge = stored.purge.as_ref()?;
    let kind = purge.kind.map(PurgeKind::word);
    Some(json!({ "kind": kind, "covered": purge.covered, "later": purge.later }))
}

fn stale_use(one: &StaleUse) -> Value {
    json!({
        "cause": one.cause.reason().word(),
        "limit_s": one.limit.ok(),
        "refusal": one.limit.err().map(|refusal| refusal.to_string()),
        "permitted": one.is_permitted,
    })
}

fn verdict(verdict: &Verdict) -> Value {
    let kind = verdict.kind;
    let mut value = json!({
        "outcome": kind.word(),
        "text": kind.to_string(),
        "cache_status": verdict.cache_status,
    });
    match kind {
        AnswerKind::Refused { status, .. } | AnswerKind::Hit { status } => {
            value["status"] = json!(status);
        }
        AnswerKind::Declined { left_ms } => value["left_ms"] = json!(left_ms),
        _ => {}
    }
    value
}
