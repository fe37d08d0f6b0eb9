//! The stored responses of a key, as an explanation shows them.

use forebay_cache::{BaseRecord, CoveredKeys, Lookup};
use forebay_http::policy::reuse::validation_cause;
use forebay_http::policy::vary::{FieldNames, key_values, secondary_key};

use super::facts::{PurgeFacts, ResponseFacts, StoredFacts, VariantFacts, VaryFacts};
use super::freshness::lifetime_facts;
use crate::key::KeyText;
use crate::lookup::{LookupQuery, StoredResponse};
use crate::parse::Request;

/// Describes the stored responses of a key, and the one that the request selects.
pub(super) fn stored_facts(query: &LookupQuery<'_>, request: &Request<'_>) -> StoredFacts {
    let (vary, found) = match query.find() {
        Lookup::Miss => (None, None),
        Lookup::Record(found) => (None, Some(found)),
        Lookup::Base(base) => match FieldNames::decode(base.names()) {
            None => (None, None),
            Some(names) => {
                let mut values = Vec::new();
                secondary_key(names, request.head.fields(), &mut values);
                (Some(vary_facts(&base, names, &values)), base.variant(&values))
            }
        },
    };
    let selected = found.and_then(StoredResponse::new);
    let selected = selected.map(|stored| response_facts(query, request, &stored));
    // A purge is of no interest if the response was stored after it.
    let is_purged = selected.as_ref().is_none_or(|selected| selected.is_soft);
    let purge = if is_purged { purge_facts(query) } else { None };
    StoredFacts { vary, selected, purge }
}

fn vary_facts(base: &BaseRecord<'_>, names: FieldNames<'_>, request: &[u8]) -> VaryFacts {
    let texts = |key: &[u8]| key_values(names, key).map(|value| value.map(text)).collect();
    let mut variants = Vec::new();
    base.each_variant(&mut |values| variants.push(VariantFacts { values: texts(values) }));
    VaryFacts { names: names.iter().map(text).collect(), request: texts(request), variants }
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

fn purge_facts(query: &LookupQuery<'_>) -> Option<PurgeFacts> {
    let past = query.store.last_purge(query.key)?;
    let covered = match past.covered {
        CoveredKeys::Key => {
            "this URL, or an invalidation by an unsafe request (RFC 9111 §4.4)".to_owned()
        }
        CoveredKeys::Prefix(prefix) => within(&prefix),
        CoveredKeys::Tagged(prefix) if prefix.is_empty() => "certain tags".to_owned(),
        CoveredKeys::Tagged(prefix) => format!("certain tags, in {}", within(&prefix)),
        CoveredKeys::All => within(b""),
    };
    Some(PurgeFacts { covered, later: past.later })
}

/// Returns a key prefix as text: the beginning of URLs, or the name of a site.
fn within(prefix: &[u8]) -> String {
    let site = prefix.split(|byte| *byte == 0).next().unwrap_or_default();
    match KeyText::of(prefix) {
        Some(text) => format!("all URLs that begin with {}", text.url),
        None if site.is_empty() => "everything".to_owned(),
        None => format!("site {}, or some of its hosts", text(site)),
    }
}
