//! The stored responses of a key, as an explanation shows them.

use forebay_cache::{BaseRecord, CoveredKeys, Lookup, RecordVersion};
use forebay_http::policy::reuse::validation_cause;
use forebay_http::policy::vary::{key_values, split_selector, write_selector};

use super::facts::{PurgeFacts, ResponseFacts, StoredFacts, VariantFacts, VaryFacts};
use super::freshness::lifetime_facts;
use crate::key::KeyText;
use crate::lookup::{LookupQuery, StoredResponse, selected};
use crate::parse::Request;
use crate::purger::PurgeKinds;

/// Describes the stored responses of a key, and the response that the request selects.
pub(super) fn stored_facts(
    query: &LookupQuery<'_>,
    request: &Request<'_>,
    kinds: &PurgeKinds,
) -> StoredFacts {
    let selected = selected(query, request, &mut Vec::new());
    let chosen = selected.as_ref().map(|selected| selected.found.version());
    let vary = match query.find() {
        Lookup::Miss | Lookup::Record(_) => Vec::new(),
        Lookup::Base(base) => base
            .name_sets()
            .map(|names| vary_facts(&base, names, request, chosen))
            .filter(|facts| !facts.variants.is_empty())
            .collect(),
    };
    let selected = selected.map(|stored| response_facts(query, request, &stored));
    // A purge does not matter if the response was stored after it.
    let is_purged = selected.as_ref().is_none_or(|selected| selected.is_soft);
    let purge = if is_purged { purge_facts(query, kinds) } else { None };
    StoredFacts { vary, selected, purge }
}

/// Describes the stored variants that have exactly these field names in Vary.
fn vary_facts(
    base: &BaseRecord<'_>,
    names: &[u8],
    request: &Request<'_>,
    chosen: Option<RecordVersion>,
) -> VaryFacts {
    let mut own = Vec::new();
    let _ = write_selector(names, request.head.fields(), &mut own);
    let mut variants = Vec::new();
    base.each_variant(&mut |selector| {
        let has_names = match split_selector(selector) {
            Some((own, _)) => own.as_bytes() == names,
            None => names.is_empty(),
        };
        if has_names {
            let version = base.candidate(selector).map(|found| found.version());
            let is_selected = version.is_some() && version == chosen;
            variants.push(VariantFacts { values: texts(selector), is_selected });
        }
    });
    let names = split_selector(&own).map(|(names, _)| names.iter().map(text).collect());
    VaryFacts { names: names.unwrap_or_default(), request: texts(&own), variants }
}

/// Returns the values in a selector.
fn texts(selector: &[u8]) -> Vec<Option<String>> {
    let Some((names, key)) = split_selector(selector) else { return Vec::new() };
    key_values(names, key).map(|value| value.map(text)).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn response_facts(
    query: &LookupQuery<'_>,
    request: &Request<'_>,
    stored: &StoredResponse<'_>,
) -> ResponseFacts {
    let meta = stored.meta;
    let etag = meta.etag_value(stored.block()).map(text);
    ResponseFacts {
        meta,
        body_bytes: stored.found.body().bytes(),
        etag,
        tags: stored.found.tags().map(text).collect(),
        is_soft: stored.found.is_soft(),
        lifetime: lifetime_facts(stored, &query.route.settings),
        age_s: stored.age(query.now),
        validation: validation_cause(&meta, &request.directives, query.now),
    }
}

fn purge_facts(query: &LookupQuery<'_>, kinds: &PurgeKinds) -> Option<PurgeFacts> {
    let past = query.store.last_purge(query.key)?;
    let covered = match past.covered {
        CoveredKeys::Key => "this URL".to_owned(),
        CoveredKeys::Prefix(prefix) => within(&prefix),
        CoveredKeys::Tagged(prefix) if prefix.is_empty() => "certain tags".to_owned(),
        CoveredKeys::Tagged(prefix) => format!("certain tags, in {}", within(&prefix)),
        CoveredKeys::All => within(b""),
    };
    let kind = past.number.and_then(|number| kinds.of(number));
    Some(PurgeFacts { covered, kind, later: past.later })
}

/// Describes the URLs whose keys begin with `prefix`, such as all URLs of a site.
fn within(prefix: &[u8]) -> String {
    let site = prefix.split(|byte| *byte == 0).next().unwrap_or_default();
    match KeyText::of(prefix) {
        Some(text) => format!("all URLs that begin with {}", text.url),
        None if site.is_empty() => "everything".to_owned(),
        None => format!("site {}, or some of its hosts", text(site)),
    }
}
