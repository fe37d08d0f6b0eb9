//! Step four: is there a stored response, and may it answer this request (RFC 9111 §4)?

mod bypass;
mod stored;

pub(crate) use stored::{StoredResponse, stored_block};

use forebay_cache::{Lookup, Store};
use forebay_http::fields::{FieldId, Fields};
use forebay_http::policy::reuse::{ForwardReason, Reuse, judge};
use forebay_http::policy::vary::{FieldNames, secondary_key};
use forebay_http::request::Method;

use bypass::bypass;

use crate::config::Route;
use crate::parse::Request;

/// What the cache says to a request.
pub(crate) enum Found {
    /// It has the answer.
    Hit(Hit),
    /// The origin has to be asked.
    Forward(Forward),
}

/// A stored response that may be served.
pub(crate) struct Hit {
    pub(crate) stored: StoredResponse,
    pub(crate) age: u32,
    pub(crate) ttl: i64,
}

/// Why and how the origin is asked.
pub(crate) struct Forward {
    pub(crate) reason: ForwardReason,
    /// May the answer be stored and shared with others who wait for it? Otherwise the exchange is
    /// the client's own.
    pub(crate) fills: bool,
    /// The resource is known to have variants.
    pub(crate) varies: bool,
    /// What is stored and has to be validated.
    pub(crate) stale: Option<StoredResponse>,
}

/// Where to look.
pub(crate) struct Wanted<'a> {
    pub(crate) store: &'a Store,
    pub(crate) route: &'a Route,
    pub(crate) key: &'a [u8],
    /// The time, in unix seconds.
    pub(crate) now: u64,
}

/// Looks up; `variant` receives the secondary key if the resource has variants.
pub(crate) fn lookup(wanted: &Wanted<'_>, request: &Request<'_>, variant: &mut Vec<u8>) -> Found {
    if let Some(reason) = bypass(request, wanted.route) {
        return Found::Forward(Forward { reason, fills: false, varies: false, stale: None });
    }
    variant.clear();
    let selected = select(wanted, request.head.fields(), variant);
    // A secondary key has bytes for each name, so it is empty only without variants.
    let varies = !variant.is_empty();
    match selected {
        Ok(stored) => match judge(&stored.meta, &request.directives, wanted.now) {
            Reuse::Serve { age, ttl } => Found::Hit(Hit { stored, age, ttl }),
            Reuse::Validate(reason) => forward(request, reason, varies, Some(stored)),
        },
        Err(reason) => forward(request, reason, varies, None),
    }
}

fn select(
    wanted: &Wanted<'_>,
    fields: Fields<'_>,
    variant: &mut Vec<u8>,
) -> Result<StoredResponse, ForwardReason> {
    let record = match wanted.store.lookup(wanted.key) {
        Lookup::Miss => return Err(ForwardReason::UriMiss),
        Lookup::Record(record) => record,
        Lookup::Base(names) => {
            let decoded = FieldNames::decode(&names).ok_or(ForwardReason::Miss)?;
            secondary_key(decoded, fields, variant);
            wanted
                .store
                .lookup_variant(wanted.key, &names, variant)
                .ok_or(ForwardReason::VaryMiss)?
        }
    };
    StoredResponse::new(record).ok_or(ForwardReason::Miss)
}

/// HEAD and ranges are answered from a stored response only: what the origin answers to them is
/// not the whole. A request that says no-store leaves nothing behind.
fn forward(
    request: &Request<'_>,
    reason: ForwardReason,
    varies: bool,
    stale: Option<StoredResponse>,
) -> Found {
    let fields = request.head.fields();
    let fills = request.head.method() == Method::Get
        && !fields.contains(FieldId::Range)
        && !request.directives.no_store;
    let stale = stale.filter(|_| fills);
    Found::Forward(Forward { reason, fills, varies, stale })
}
