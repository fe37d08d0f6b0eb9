//! A client of a site whose routes have conditions. It checks that each response comes from the
//! origin of the request's route, and that responses of routes with conditions are not stored.

use std::net::SocketAddr;

use forebay_testkit::Response;

use super::guarded::{GuardedClient, ROUTED_HOST, SECOND_LISTENER, SECOND_LISTENER_PORT, STORING};
use super::paths::{AT_SECOND_LISTENER, CONDITION_MET, CONDITION_UNMET_HIT};
use super::rng::Rng;
use super::run::Run;

/// The conditions of the routes, in their order.
pub(super) const CONDITIONS: [&str; STORING as usize] = [
    "methods = [\"POST\", \"PUT\"]",
    "with_fields = [\"X-Api=2\"]",
    "with_query = [\"v=2\"]",
    "with_cookies = [\"beta=1\"]",
];

/// The part of a request that meets a condition or that only resembles one: its text, and whether
/// it meets the condition.
type ConditionPart = (&'static str, bool);

const METHODS: &[ConditionPart] = &[("GET", false), ("HEAD", false), ("POST", true), ("PUT", true)];

const FIELDS: &[ConditionPart] = &[
    ("", false),
    ("X-Api: 3\r\n", false),
    ("X-Api: 2, 3\r\n", false),
    ("X-Api-2: 2\r\n", false),
    ("X-Api: 2\r\n", true),
    ("x-aPI:   2\r\n", true),
    ("X-Api: 3\r\nX-Api: 2\r\n", true),
];

const QUERIES: &[ConditionPart] = &[
    ("", false),
    ("?v", false),
    ("?v=22", false),
    ("?V=2", false),
    ("?%76=2", false),
    ("?utm_a=1", false),
    ("?v=2", true),
    ("?a=1&v=2", true),
    ("?v=3&v=2", true),
];

const COOKIES: &[ConditionPart] = &[
    ("", false),
    ("Cookie: beta=0\r\n", false),
    ("Cookie: beta\r\n", false),
    ("Cookie: alphabeta=1\r\n", false),
    ("Cookie: beta=1\r\n", true),
    ("Cookie: visit=2; be%74a=1\r\n", true),
    ("Cookie: beta=0; Beta=1\r\n", true),
];

/// A path whose rest an origin may take for a query that meets a condition.
const HIDDEN_QUERY: &str = "%3fv=2";

/// Sends requests for a few pages one after the other.
pub(super) async fn play(run: &Run, act: u64, worker: usize, mut rng: Rng) {
    let is_second = rng.percent(15);
    let port = if is_second { SECOND_LISTENER_PORT } else { 40_000 };
    let from = SocketAddr::from(([10, 8, 1, 1], port));
    let mut connection = GuardedClient::open(run, worker, from, (act, 0));
    for _ in 0..rng.between(3, 12) {
        let request = RoutedRequest::of(&mut rng, is_second);
        let page = request.path.clone();
        let floor = run.guarded.versions.borrow().get(&page).map_or(0, |page| page.floor);
        let Some(response) = connection.exchange(request.method, &request.text).await else {
            return;
        };
        if let Err(why) = check(run, &request, &response, floor) {
            run.fail(format!("{why}: {} got {:?}", request.text, response.head));
        }
        if response.says_close() {
            return;
        }
    }
}

/// A request, and the route that it must have.
struct RoutedRequest {
    method: &'static str,
    path: String,
    text: String,
    origin: u64,
    /// Whether the server must refuse the request.
    is_ambiguous: bool,
}

impl RoutedRequest {
    fn of(rng: &mut Rng, is_second: bool) -> RoutedRequest {
        // Most requests have few parts, because each part may meet a condition.
        let mut pick = |parts: &[ConditionPart]| match rng.percent(50) {
            true => parts[0],
            false => rng.pick(parts),
        };
        let (method, has_method) = pick(METHODS);
        let (field, has_field) = pick(FIELDS);
        let (query, has_query) = pick(QUERIES);
        let (cookie, has_cookie) = pick(COOKIES);
        let is_ambiguous = !is_second && rng.percent(4);
        let hidden = if is_ambiguous { HIDDEN_QUERY } else { "" };
        let path = format!("/page{}", rng.below(2));
        let length = if has_method { "Content-Length: 0\r\n" } else { "" };
        let text = format!(
            "{method} {path}{hidden}{query} HTTP/1.1\r\nHost: {ROUTED_HOST}\r\n\
             {field}{cookie}{length}\r\n"
        );
        let met = [has_method, has_field, has_query, has_cookie];
        let of_listener = met.iter().position(|is_met| *is_met).map_or(STORING, |at| at as u64);
        let origin = if is_second { SECOND_LISTENER } else { of_listener };
        RoutedRequest { method, path, text, origin, is_ambiguous }
    }

    /// Whether responses to the request may be stored and used again.
    fn may_hit(&self) -> bool {
        matches!(self.origin, STORING | SECOND_LISTENER) && matches!(self.method, "GET" | "HEAD")
    }
}

fn check(
    run: &Run,
    request: &RoutedRequest,
    response: &Response,
    floor: u64,
) -> Result<(), String> {
    if request.is_ambiguous {
        return match response.status {
            400 => Ok(()),
            _ => Err("a path that may hide a query was not refused".into()),
        };
    }
    // The origin failed, or no answer arrived in time.
    if matches!(response.status, 502..=504) {
        return Ok(());
    }
    let status = response.field("cache-status").unwrap_or_default();
    let is_hit = status.contains("; hit");
    if response.status != 200 {
        return Err(format!("status {}", response.status));
    }
    let origin = response.field("x-origin").and_then(|text| text.parse().ok());
    if origin != Some(request.origin) {
        return Err(format!("the response is from {origin:?} instead of {}", request.origin));
    }
    if response.field("x-page") != Some(request.path.as_str()) {
        return Err("the response is another page".into());
    }
    if (is_hit || status.contains("; stored")) && !request.may_hit() {
        return Err("a response of a route with conditions was stored".into());
    }
    let version = response.field("x-version").and_then(|text| text.parse().ok());
    let version: u64 = version.ok_or("the response names no version")?;
    // The versions are counted for the URLs without a query at the first listener.
    if request.origin != SECOND_LISTENER && !request.text.contains('?') {
        if matches!(request.method, "POST" | "PUT") {
            let mut versions = run.guarded.versions.borrow_mut();
            let page = versions.entry(request.path.clone()).or_default();
            page.floor = page.floor.max(version);
        } else if version < floor {
            return Err(format!("version {version} was invalidated; {floor} is the oldest one"));
        }
    }
    match request.origin {
        SECOND_LISTENER => run.paths.count(AT_SECOND_LISTENER),
        STORING if is_hit => run.paths.count(CONDITION_UNMET_HIT),
        STORING => {}
        _ => run.paths.count(CONDITION_MET),
    }
    Ok(())
}
