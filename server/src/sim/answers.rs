//! The checks of each response: whether it answers its request, and whether the cache may serve it.

use forebay_testkit::Response;

use super::blame::FailedRequest;
use super::heads::check_heads;
use super::hints::check_interim;
use super::missed;
use super::paths::{HIT_WITHOUT_COOKIE, OWN_COOKIE, OWN_PAGE, SEVERAL_PARTS, STORED_ERROR};
use super::ranges::check_parts;
use super::run::Run;
use super::scenario::Ask;
use super::sending::SentRequest;
use super::world::{Content, ResponseUse, kind_of};

/// The start of the response to a slow client whose connection to the origin another request needs.
const GAVE_WAY: &[u8] = b"the client was slow while other requests waited";

/// The circumstances in which a response arrived.
pub(super) struct ArrivedResponse<'a> {
    pub(super) worker: usize,
    /// Whether the client broke off the request, or a request on the same connection.
    pub(super) is_broken_off: bool,
    /// Whether the client itself may be the reason for which the response is cut off.
    pub(super) may_be_cut: bool,
    /// The request, and those that suffer if its response breaks off.
    pub(super) sharing: &'a [Ask],
}

/// Judges a response: it must be right, unless a disturbance excuses its failure.
pub(super) fn judge(
    run: &Run,
    arrived: &ArrivedResponse<'_>,
    asked: &mut SentRequest,
    response: &Response,
) {
    let ArrivedResponse { worker, is_broken_off, may_be_cut, sharing } = *arrived;
    let Some(ask) = sharing.first() else { return };
    let is_error = matches!(response.status, 404 | 502..=504);
    if response.status == 404 && is_hit(response) {
        run.paths.count(STORED_ERROR);
        // If the clock was set back, the stored error stays fresh for longer.
        let stepped_ms = run.world.borrow().stepped_ms;
        asked.began_ms = asked.began_ms.saturating_sub(stepped_ms);
    }
    if !is_broken_off {
        missed::note(run, ask, asked, response);
    }
    if is_error && !is_broken_off {
        let why = format!("status {}", response.status);
        blame(run, worker, (&sharing[..1], asked), (false, &why));
    } else if !response.is_whole && !may_be_cut && !is_broken_off {
        blame(run, worker, (sharing, asked), (true, "the response is cut off"));
    }
    // A client that waits for 100 Continue is slow.
    let is_slow = may_be_cut && ask.post.is_some_and(|body| body.expects_continue);
    let gave_way = is_slow && response.status == 408 && response.body.starts_with(GAVE_WAY);
    let is_refused = gave_way || is_broken_off && matches!(response.status, 408 | 502..=504);
    if !is_error && !is_refused {
        check(run, ask, asked, response);
        run.answered();
    }
}

/// Looks for a disturbance that excuses a failed request. A disturbance of a later request on the
/// connection excuses it too, because the reset that ends a broken response may destroy earlier
/// responses that the client has not read yet.
pub(super) fn blame(
    run: &Run,
    worker: usize,
    (asks, asked): (&[Ask], &SentRequest),
    (has_begun, why): (bool, &str),
) {
    let failed = asks.iter().map(|ask| FailedRequest {
        url: ask.url,
        worker,
        is_unsafe: ask.post.is_some(),
        has_begun,
        began_ms: asked.began_ms,
    });
    run.blame(failed, why);
}

fn check(run: &Run, ask: &Ask, asked: &SentRequest, response: &Response) {
    let checked = match ask.post {
        Some(_) => check_post(run, ask, response),
        None => check_response(run, ask, asked, response),
    };
    let checked = checked
        .and_then(|()| check_interim(run, ask, asked, response))
        .and_then(|()| check_heads(run, ask, asked, response));
    if let Err(why) = checked {
        let head = &response.head;
        run.fail(format!("{why}; {ask:?}, sent at {} ms, got {head:?}", asked.began_ms));
    }
}

fn check_response(
    run: &Run,
    ask: &Ask,
    asked: &SentRequest,
    response: &Response,
) -> Result<(), String> {
    let usage = usage(run, ask, asked, response)?;
    match response.status {
        200 | 206 => {}
        304 => {
            let has = asked.has.as_ref().ok_or("a 304 answers a request without a condition")?;
            if response.field("etag") != Some(has.etag().as_str()) {
                return Err("the entity tag of the 304 is not that of the client's copy".into());
            }
            check_owner(run, ask, asked, response)?;
            return run.world.borrow().check(has, usage);
        }
        416 => return check_unsatisfiable(run, ask, asked, response),
        status => return Err(format!("status {status}")),
    }
    let content = content_of(ask, response)?;
    run.world.borrow().check(&content, usage)?;
    check_owner(run, ask, asked, response)?;
    let body = content.body();
    if ask.is_head {
        let length = response.field("content-length");
        return match length.is_none_or(|length| length == body.len().to_string()) {
            true => Ok(()),
            false => Err(format!("Content-Length is {length:?}, not {}", body.len())),
        };
    }
    if response.status == 206 {
        if check_parts(&ask.ranges, response, &body)? {
            run.paths.count(SEVERAL_PARTS);
        }
        return Ok(());
    }
    if response.is_whole && response.body.len() != body.len() {
        let (found, expected) = (response.body.len(), body.len());
        return Err(format!("a complete body has {found} bytes instead of {expected}"));
    }
    if !body.starts_with(&response.body) {
        let at = body.iter().zip(&response.body).take_while(|(left, right)| left == right).count();
        let text = String::from_utf8_lossy(&response.body[at..response.body.len().min(at + 40)]);
        return Err(format!("the body is wrong from byte {at} on: {text:?}"));
    }
    Ok(())
}

/// Whether the response came from the cache, without a request to the origin.
pub(super) fn is_hit(response: &Response) -> bool {
    response.field("cache-status").is_some_and(|status| status.contains("; hit"))
}

/// Checks that no part of the response is meant for another client: the response contains neither a
/// cookie of another client, nor a page that the origin made for such a cookie.
fn check_owner(
    run: &Run,
    ask: &Ask,
    asked: &SentRequest,
    response: &Response,
) -> Result<(), String> {
    for (field, path) in [("set-cookie", OWN_COOKIE), ("x-page-of", OWN_PAGE)] {
        for owner in response.head.all(field) {
            if asked.cookie.as_deref() != Some(owner) {
                return Err(format!("{field} is for another client: {owner}"));
            }
            run.paths.count(path);
        }
    }
    if kind_of(ask.url).sets_cookie && is_hit(response) {
        run.paths.count(HIT_WITHOUT_COOKIE);
    }
    Ok(())
}

/// Returns the facts by which the oracle judges a response.
///
/// # Errors
/// The server says that it sent a stale response because the origin failed, but the origin cannot
/// have failed.
fn usage<'a>(
    run: &Run,
    ask: &Ask,
    asked: &SentRequest,
    response: &'a Response,
) -> Result<ResponseUse<'a>, String> {
    let status = response.field("cache-status").unwrap_or_default();
    let detail = status.rsplit_once("; detail=").map_or("", |(_, detail)| detail);
    let is_excused = match detail {
        "stale-if-error" => run.may_have_failed(ask.url, asked.began_ms),
        "stale-if-unreachable" => run.blame.was_unreachable(asked.began_ms) || run.has_ejections(),
        _ => true,
    };
    match is_excused {
        true => Ok(ResponseUse {
            must_validate: ask.no_cache,
            event: asked.event,
            began_ms: asked.began_ms,
            ended_ms: run.now_ms(),
            detail,
        }),
        false => Err(format!("a stale response was served although nothing failed: {status}")),
    }
}

/// Checks a 416 (RFC 9110 §15.5.17): the range must be outside the content, and a version of that
/// length must be permitted.
fn check_unsatisfiable(
    run: &Run,
    ask: &Ask,
    asked: &SentRequest,
    response: &Response,
) -> Result<(), String> {
    let first = ask
        .ranges
        .iter()
        .map(|(first, _)| *first)
        .min()
        .ok_or("a 416 answers a request without a range")?;
    let length = response.field("content-range").and_then(|range| range.strip_prefix("bytes */"));
    let length: usize =
        length.and_then(|length| length.parse().ok()).ok_or("a 416 states no length")?;
    if first < length {
        return Err(format!("a 416 answers a request for a range within the {length} bytes"));
    }
    let usage = usage(run, ask, asked, response)?;
    let world = run.world.borrow();
    let has_version = (0..=world.version(ask.url)).any(|version| {
        let content = Content::of(ask.url, version, ask);
        content.body().len() == length && world.check(&content, usage).is_ok()
    });
    match has_version {
        true => Ok(()),
        false => Err(format!("no version that may be served has {length} bytes")),
    }
}

fn check_post(run: &Run, ask: &Ask, response: &Response) -> Result<(), String> {
    if response.status != 200 {
        return Err(format!("status {}", response.status));
    }
    let version = response.field("x-version").and_then(|text| text.parse().ok());
    let version = version.ok_or("the response to a POST names no version")?;
    run.promise_all([(ask.url, version)], false);
    Ok(())
}

/// Returns the content that the head of a response announces, if the head answers the request.
fn content_of(ask: &Ask, response: &Response) -> Result<Content, String> {
    let version = response.field("x-version").and_then(|text| text.parse().ok());
    let version = version.ok_or("the response names no version")?;
    let content = Content::of(ask.url, version, ask);
    let variant = response.field("x-variant").unwrap_or_default();
    if variant != content.variant {
        return Err(format!(
            "the response has variant {variant:?} instead of {:?}",
            content.variant
        ));
    }
    let has_etag = kind_of(ask.url).has_etag;
    if has_etag && response.field("etag") != Some(content.etag().as_str()) {
        return Err("the entity tag belongs to another version".into());
    }
    if has_etag && response.field("link") != Some(content.links().as_str()) {
        return Err("the links belong to another version".into());
    }
    Ok(content)
}
