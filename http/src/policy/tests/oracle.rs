//! Compares decisions about random exchanges with those of another implementation of RFC 9111.
//!
//! Where that implementation departs from the RFC, or Forebay is stricter on purpose, the exchange
//! is not generated or not compared:
//! - It accepts a staleness below N for `max-stale=N` (RFC 9111 §5.2.1.2: no more than N), lets
//!   `max-stale` override `no-cache` and `s-maxage`, and treats a response with `proxy-revalidate`
//!   as stale.
//! - It computes the age from Age and its own clock only, not from Date (§4.2.3), so the generated
//!   Date is never in the past.
//! - It obeys the last of contradicting directives, and ignores a directive that lacks its
//!   argument.
//! - It knows IMF-fixdate only, and gives 302 no heuristic even with a validator.
//! - It obeys Pragma beside Cache-Control (§5.4: only without Cache-Control).
//! - It lets `max-stale` override `min-fresh=0`; Forebay obeys both.
//! - Forebay treats `max-age=0` in a request as a demand to validate, even at age 0.
//! - Forebay does not store responses that could never be used, nor cookies in responses that are
//!   not declared public.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::http::{Request, Response};
use http_cache_semantics::{CacheOptions, CachePolicy};

use super::{NOW, RULES, block, date};
use crate::policy::directives::RequestDirectives;
use crate::policy::exchange::{CacheRules, ClientRequest, OriginResponse, ResponseTiming};
use crate::policy::meta::StoredMeta;
use crate::policy::reuse::{ReuseDecision, judge};
use crate::policy::storable::{NotStorable, storable};

const SEED: u64 = 0x0f0e_bab5_9111;
const EXCHANGE_COUNT: usize = 20_000;

/// The generator SplitMix64, which is small and gives the same sequence on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Picks one of three choices for the lines of a head.
    fn lines(&mut self, choices: &[&str]) -> String {
        let mut lines = Vec::new();
        for choice in choices {
            if self.below(3) == 0 {
                lines.push((*choice).to_owned());
            }
        }
        lines.join("\n")
    }
}

/// The oracle has one limit for all statuses.
const ORACLE_RULES: CacheRules<'_> =
    CacheRules { heuristic_error_s_max: RULES.heuristic_s_max, ..RULES };

struct Exchange {
    status: u16,
    request: String,
    response: String,
    asked: String,
    later_s: u64,
}

fn exchange(random: &mut Random) -> Exchange {
    Exchange {
        status: random.pick(&[200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]),
        request: random.lines(&["Authorization: x", "Accept: a"]),
        response: response_lines(random),
        asked: asked_lines(random),
        later_s: random.pick(&[0, 1, 29, 30, 59, 60, 61, 119, 120, 1000]),
    }
}

fn response_lines(random: &mut Random) -> String {
    let max_age = random.pick(&["0", "60", "\"60\"", "x", "7.0", "100000"]);
    let s_maxage = random.pick(&["0", "30", "-5"]);
    let age = random.pick(&["0", "10", "59", "x", "7.5", "-1"]);
    let expires = random.pick(&[&date(60), &date(0), &date(-60), "0"]).to_owned();
    let made = random.pick(&[0, 30]);
    let forbidding =
        random.pick(&["X: y", "X: y", "Cache-Control: no-store", "Cache-Control: private"]);
    random.lines(&[
        &format!("Cache-Control: max-age={max_age}"),
        &format!("Cache-Control: s-maxage={s_maxage}"),
        "Cache-Control: must-revalidate",
        "Cache-Control: public",
        "Cache-Control: x=y, max-aged=5",
        "Cache-Control: no-cache",
        forbidding,
        &format!("Age: {age}"),
        &format!("Expires: {expires}"),
        &format!("Date: {}", date(made)),
        &format!("Last-Modified: {}", date(-600)),
        "ETag: \"a\"",
    ])
}

fn asked_lines(random: &mut Random) -> String {
    let limit = random.pick(&[0, 1, 30, 90]);
    let stale = random.pick(&["", "=0", "=30", "=90"]);
    let no_cache = random.pick(&["Cache-Control: no-cache", "X: y", "X: z"]);
    random.lines(&[
        &format!("Cache-Control: max-age={limit}"),
        &format!("Cache-Control: min-fresh={limit}"),
        &format!("Cache-Control: max-stale{stale}"),
        no_cache,
    ])
}

impl Exchange {
    fn oracle(&self) -> CachePolicy {
        let mut response = Response::builder().status(self.status);
        for field in block(&self.response).fields().iter() {
            response = response.header(field.name, field.value);
        }
        let response = response.body(()).expect("valid fields");
        let options = CacheOptions::default();
        CachePolicy::new_options(&oracle_request(&self.request), &response, at(NOW), options)
    }

    fn storable(&self) -> Result<(), NotStorable> {
        let (request, response) = (block(&self.request), block(&self.response));
        let request = ClientRequest {
            is_get: true,
            has_body: false,
            fields: request.fields(),
            directives: RequestDirectives::parse(request.fields()),
        };
        let response = OriginResponse::new(self.status, response.fields(), RULES.targets);
        storable(&request, &response, &ORACLE_RULES, NOW)
    }

    fn meta(&self) -> StoredMeta {
        let block = block(&self.response);
        let arrival = ResponseTiming::new(block.fields(), NOW, NOW);
        StoredMeta::new(self.status, &block, &arrival, &ORACLE_RULES)
    }

    /// Whether the exchange shows one of the differences that the generator cannot avoid.
    fn is_known_difference(&self, asked: &RequestDirectives) -> bool {
        let meta = self.meta();
        let age = u64::from(meta.initial_age_s) + self.later_s;
        let is_at_limit = asked.max_stale.is_some_and(|limit| {
            age.checked_sub(u64::from(meta.lifetime_s)) == Some(u64::from(limit))
        });
        let limits = meta.no_cache || meta.forbids_stale || asked.min_fresh == Some(0);
        let overrides = asked.max_stale.is_some() && limits;
        is_at_limit || overrides || asked.max_age == Some(0)
    }
}

fn oracle_request(text: &str) -> Request<()> {
    let mut request = Request::builder().uri("http://a.example/");
    for field in block(text).fields().iter() {
        request = request.header(field.name, field.value);
    }
    request.body(()).expect("valid fields")
}

fn at(unix_s: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(unix_s)
}

// RFC: 9111-4-5, 9111-5.2.2-1
#[test]
fn another_implementation_makes_the_same_decisions() {
    let mut random = Random(SEED);
    let (mut stored_count, mut compared_count, mut served_count) = (0, 0, 0);
    for index in 0..EXCHANGE_COUNT {
        let exchange = exchange(&mut random);
        let case = format!(
            "seed {SEED:#x} exchange {index}: {} {:?} {:?}, later {} {:?}",
            exchange.status, exchange.request, exchange.response, exchange.later_s, exchange.asked
        );
        let (ours, oracle) = (exchange.storable(), exchange.oracle());
        if ours == Err(NotStorable::NoFreshness) {
            continue;
        }
        assert_eq!(ours.is_ok(), oracle.is_storable(), "{ours:?} {case}");
        stored_count += usize::from(ours.is_ok());
        let asked = RequestDirectives::parse(block(&exchange.asked).fields());
        if ours.is_err() || exchange.is_known_difference(&asked) {
            continue;
        }
        let now = NOW + exchange.later_s;
        let verdict = judge(&exchange.meta(), &asked, now);
        let is_served = matches!(verdict, ReuseDecision::Serve { .. });
        let theirs = oracle.before_request(&oracle_request(&exchange.asked), at(now));
        let theirs = theirs.satisfies_without_revalidation();
        assert_eq!(is_served, theirs, "{verdict:?} {case}");
        compared_count += 1;
        served_count += usize::from(is_served);
    }
    // The comparison is meaningful only if both results occur often.
    assert!(stored_count > EXCHANGE_COUNT / 10, "{stored_count} stored");
    assert!(served_count > compared_count / 10, "{served_count} of {compared_count} served");
    assert!(served_count < compared_count * 9 / 10, "{served_count} of {compared_count} served");
}
