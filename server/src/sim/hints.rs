//! Checks of interim responses: those of the origin, and the early hints that the server makes from
//! a stored page (RFC 8297).

use forebay_testkit::Response;
use forebay_testkit::message::Head;

use super::answers::is_hit;
use super::paths::{HINT_FORWARDED, HINT_REPLAYED};
use super::run::Run;
use super::scenario::Ask;
use super::sending::SentRequest;
use super::world::Content;

/// The link in the interim responses of the origin.
pub(super) const ORIGIN_HINT: &str = "</origin.css>; rel=preload";

/// Checks the interim responses that a client got before its final response.
///
/// # Errors
/// One of the interim responses does not belong to this request.
pub(super) fn check_interim(
    run: &Run,
    ask: &Ask,
    asked: &SentRequest,
    response: &Response,
) -> Result<(), String> {
    for head in &response.interim {
        let status = head.start.split(' ').nth(1).unwrap_or_default();
        let takes_100 = ask.post.is_some_and(|body| body.expects_continue);
        if ask.is_http_10 || !(status == "103" || status == "100" && takes_100) {
            return Err(format!(
                "an interim response that the client cannot expect: {:?}",
                head.start
            ));
        }
        if status == "103" {
            check_hint(run, ask, asked, head)?;
            if is_hit(response) && !response.field("cache-status").is_some_and(is_stale_hit) {
                return Err(format!("a 103 came before a hit: {head:?}"));
            }
        }
    }
    Ok(())
}

fn is_stale_hit(cache_status: &str) -> bool {
    cache_status.contains("; detail=stale")
}

/// Checks a 103. Its links must be those that the origin sent during the request, or those of a
/// stored version of the page that the client is allowed to see.
fn check_hint(run: &Run, ask: &Ask, asked: &SentRequest, head: &Head) -> Result<(), String> {
    let links: Vec<&str> = head.all("link").collect();
    if links == [ORIGIN_HINT] {
        let is_own = |(url, ms): &(usize, u64)| *url == ask.url && *ms >= asked.began_ms;
        run.paths.count(HINT_FORWARDED);
        return match run.origin_hints.borrow().iter().any(is_own) {
            true => Ok(()),
            false => {
                Err("the client got a hint that the origin did not send for its request".into())
            }
        };
    }
    if !ask.is_navigation || asked.has.is_some() {
        return Err(format!("a client that has no use for hints got {head:?}"));
    }
    let world = run.world.borrow();
    let versions = (0..=world.version(ask.url)).rev();
    let mut contents = versions.map(|version| Content::of(ask.url, version, ask));
    let content = contents.find(|content| links == [content.hint()]);
    let content = content.ok_or_else(|| format!("no version has these hints: {links:?}"))?;
    run.paths.count(HINT_REPLAYED);
    world.check_hint(&content, asked.event)
}
