//! A client of a site with signed URLs, and with pages for the clients of a single network. It
//! checks that neither the origin nor the cache answers a request without a right.

use std::net::SocketAddr;

use aws_lc_rs::hmac;
use forebay_testkit::Response;

use super::guarded::{
    FORBIDDEN, GuardedClient, INNER, INNER_NETWORK, SIGNED, SIGNED_HOST, URL_KEY,
};
use super::paths::{
    ADDRESS_REFUSED, INNER_HIT, SIGNATURE_REFUSED, SIGNATURE_REFUSED_STORED, SIGNED_HIT,
};
use super::rng::Rng;
use super::run::Run;
use crate::clock;

/// A key that the server does not accept.
const OTHER_KEY: &str = "ffffffffffffffffffffffffffffffff";

/// The kinds of requests, most of which have no right to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageRight {
    /// The URL is signed.
    Signed,
    Unsigned,
    OtherKey,
    /// The signature is that of another page.
    OtherPage,
    /// The expiry time is later than the signed one.
    LaterExpiry,
    /// The signature has expired.
    Expired,
    /// The signature lacks its last digit.
    CutOff,
    /// Another parameter follows the signature.
    ParameterBehind,
    /// The method is POST.
    OtherMethod,
    /// The path has no signature, and an origin may read it as the path of a signed page.
    Spelled,
    /// A client of [`INNER_NETWORK`] requests a page below [`INNER`].
    Inside,
    /// Another client requests a page below [`INNER`].
    Outside,
}

const RIGHTS: &[PageRight] = &[
    PageRight::Signed,
    PageRight::Signed,
    PageRight::Signed,
    PageRight::Unsigned,
    PageRight::OtherKey,
    PageRight::OtherPage,
    PageRight::LaterExpiry,
    PageRight::Expired,
    PageRight::CutOff,
    PageRight::ParameterBehind,
    PageRight::OtherMethod,
    PageRight::Spelled,
    PageRight::Inside,
    PageRight::Inside,
    PageRight::Inside,
    PageRight::Outside,
];

/// Fields of requests to which the cache may respond with a part of a page or with a 304.
const EXTRA_FIELDS: &[&str] = &[
    "",
    "",
    "If-None-Match: \"page\"\r\n",
    "If-None-Match: *\r\n",
    "Range: bytes=0-3\r\n",
    "Cache-Control: only-if-cached\r\n",
    "Cache-Control: max-stale\r\n",
];

/// Spellings of the prefix of signed pages.
const SPELLINGS: &[&str] =
    &["//signed/", "/%73igned/", "/x/..%2fsigned/", "/signed;x/", "/x/../signed/"];

/// Sends requests for a few pages one after the other.
pub(super) async fn play(run: &Run, act: u64, worker: usize, mut rng: Rng) {
    let is_inside = rng.percent(40);
    let [first, second, third] = INNER_NETWORK;
    let third = if is_inside { third } else { third + 1 };
    let from = SocketAddr::from(([first, second, third, 1], 40_000));
    let mut connection = GuardedClient::open(run, worker, from, (act, 0));
    for _ in 0..rng.between(4, 14) {
        let right = match rng.pick(RIGHTS) {
            PageRight::Inside | PageRight::Outside if is_inside => PageRight::Inside,
            PageRight::Inside | PageRight::Outside => PageRight::Outside,
            right => right,
        };
        let request = SignedRequest::of(&mut rng, right);
        let sent_s = clock::unix_seconds();
        let stepped_ms = run.world.borrow().stepped_ms;
        let Some(response) = connection.exchange(request.method, &request.text).await else {
            return;
        };
        let time = RequestTimes {
            sent_s,
            answered_s: clock::unix_seconds(),
            is_stepped: run.world.borrow().stepped_ms != stepped_ms,
        };
        if let Err(why) = check(run, &request, &response, time) {
            run.fail(format!("{why}: {} got {:?}", request.text, response.head));
        }
        if response.says_close() {
            return;
        }
    }
}

struct SignedRequest {
    right: PageRight,
    method: &'static str,
    page: String,
    text: String,
    expires_s: u64,
}

/// The times of day at which a request was sent and answered.
#[derive(Clone, Copy)]
struct RequestTimes {
    sent_s: u64,
    answered_s: u64,
    /// Whether the run set the clock between these times.
    is_stepped: bool,
}

impl SignedRequest {
    fn of(rng: &mut Rng, right: PageRight) -> SignedRequest {
        let number = rng.below(2);
        let prefix = match right {
            PageRight::Inside | PageRight::Outside => INNER,
            PageRight::Spelled => rng.pick(SPELLINGS),
            _ => SIGNED,
        };
        let (page, other) = (format!("{prefix}{number}"), format!("{prefix}{}", number + 1));
        let now_s = clock::unix_seconds();
        let lifetime_s = rng.pick(&[1, 5, 600]);
        let expires_s = match right {
            PageRight::Expired => now_s - rng.pick(&[0, 1, 1_000]),
            _ => now_s + lifetime_s,
        };
        let signed = |page: &str, expires_s: u64, key: &str| {
            let text = format!("{page}?expires={expires_s}");
            format!("&signature={}", signature(&text, key))
        };
        let parameters = format!("?expires={expires_s}");
        let own = parameters.clone() + &signed(&page, expires_s, URL_KEY);
        let query = match right {
            PageRight::Signed | PageRight::Expired | PageRight::OtherMethod => own,
            PageRight::OtherKey => parameters + &signed(&page, expires_s, OTHER_KEY),
            PageRight::OtherPage => parameters + &signed(&other, expires_s, URL_KEY),
            PageRight::LaterExpiry => parameters + &signed(&page, expires_s - 1, URL_KEY),
            PageRight::CutOff => own[..own.len() - 1].to_owned(),
            PageRight::ParameterBehind => own + "&a=1",
            PageRight::Unsigned => rng.pick(&["", "?", "?expires=9999999999", "?a=1"]).to_owned(),
            PageRight::Spelled | PageRight::Inside | PageRight::Outside => String::new(),
        };
        let method = match right {
            PageRight::OtherMethod => "POST",
            _ => rng.pick(&["GET", "GET", "GET", "HEAD"]),
        };
        // If the clock is set back, an expired signature is valid again.
        let has_right = matches!(right, PageRight::Signed | PageRight::Inside | PageRight::Expired);
        let mark = if has_right { String::new() } else { format!("{FORBIDDEN}: {right:?}\r\n") };
        let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
        let extra = rng.pick(EXTRA_FIELDS);
        let text = format!(
            "{method} {page}{query} HTTP/1.1\r\nHost: {SIGNED_HOST}\r\n{mark}{length}{extra}\r\n"
        );
        SignedRequest { right, method, page, text, expires_s }
    }
}

/// Returns the signature of a path and query as hexadecimal digits (RFC 2104).
fn signature(path_query: &str, key: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let signature = hmac::sign(&key, path_query.as_bytes());
    signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(
    run: &Run,
    request: &SignedRequest,
    response: &Response,
    time: RequestTimes,
) -> Result<(), String> {
    let has_content = matches!(response.status, 200..400) || response.field("x-page").is_some();
    let is_hit = response.field("cache-status").is_some_and(|status| status.contains("; hit"));
    match request.right {
        PageRight::Signed => {
            let is_valid = request.expires_s > time.answered_s && !time.is_stepped;
            let is_over = request.expires_s <= time.sent_s.min(time.answered_s) && !time.is_stepped;
            if is_over && has_content {
                return Err("the signature had expired".into());
            }
            if is_valid && matches!(response.status, 400 | 403) {
                return Err("a signed request was refused".into());
            }
            if has_content && is_hit {
                run.paths.count(SIGNED_HIT);
            }
        }
        PageRight::Inside if response.status == 403 => {
            return Err("a client of the network was refused".into());
        }
        PageRight::Inside if is_hit => run.paths.count(INNER_HIT),
        PageRight::Inside => {}
        // The clock may have been set back since the request was made.
        PageRight::Expired if time.is_stepped => {}
        right => {
            if !matches!(response.status, 400 | 403) || has_content {
                return Err(format!("a request without a right ({right:?}) was not refused"));
            }
            let is_stored = run.guarded.stored.borrow().contains(&request.page);
            run.paths.count(match right {
                PageRight::Outside => ADDRESS_REFUSED,
                _ if is_stored => SIGNATURE_REFUSED_STORED,
                _ => SIGNATURE_REFUSED,
            });
        }
    }
    if response.status == 200 && has_content {
        if response.field("x-page") != Some(request.page.as_str()) {
            return Err("the response is another page".into());
        }
        run.guarded.stored.borrow_mut().insert(request.page.clone());
    }
    Ok(())
}
