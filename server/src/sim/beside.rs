//! Hostile clients that try to delay another client, or to push its page out of the cache. In each
//! of these attacks some clients are well-behaved, and check that they are served as if they were
//! alone.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::attack::{
    BUSY_HOST, DRIPPED, FAILING, LATE_MS, OWN, POSTED, QUIET, QUIET_HOST, UNSTORABLE, VARIED,
    read_head, read_to_end, write,
};
use super::paths::{
    ANSWERED_BESIDE, HIT_BESIDE_VARIANTS, SIDE_BY_SIDE, STORED_BESIDE_DRIPS, STORED_BESIDE_PURGES,
};
use super::run::Run;
use super::scenario::{Act, ActKind};
use super::wire::WireEnd;

/// The time after which most hostile clients begin. The well-behaved client begins before them.
const BEGIN_MS: u64 = 500;

/// The time within which a client without Authorization must get a page that the origin sends to
/// such clients without delay. It is shorter than the time after which the origin answers the other
/// clients.
const OWN_MS_MAX: u64 = 1_000;

/// The number of requests that each client sends for a page that cannot be stored.
const UNSTORABLE_REQUESTS: u32 = 4;

/// The time between the requests with Authorization and the start of the other clients.
const OWN_PAUSE_MS: u64 = 50;

/// The time between two uses of a variant, in milliseconds, and the number of uses.
const USES: (u64, u64) = (400, 25);

/// The time between the requests of two hostile clients, each of which requests its own variant.
const VARIANT_PAUSE_MS: u64 = 20;

/// The time that a purge may take.
const PURGE_MS: u64 = 2_000;

/// Plays the client with this number. Client 0 fetches a page of one site, while each of the others
/// invalidates a page of another site.
pub(super) async fn purges(run: &Run, end: &WireEnd, number: u64) -> Option<()> {
    if number == 0 {
        return fetch_quiet(run, end, STORED_BESIDE_PURGES).await;
    }
    sleep(Duration::from_millis(BEGIN_MS)).await;
    let head = format!(
        "POST {POSTED}/{number} HTTP/1.1\r\nHost: {BUSY_HOST}\r\nContent-Length: 0\r\n\r\n"
    );
    write(end, head.as_bytes()).await?;
    read_to_end(run, end).await
}

/// Plays the client with this number. Client 0 fetches a page of one site, while each of the others
/// requests a long page of another site, which the origin sends slowly.
pub(super) async fn drips(run: &Run, end: &WireEnd, number: u64) -> Option<()> {
    if number == 0 {
        return fetch_quiet(run, end, STORED_BESIDE_DRIPS).await;
    }
    sleep(Duration::from_millis(BEGIN_MS)).await;
    write(end, get(BUSY_HOST, &format!("{DRIPPED}/{number}"), "").as_bytes()).await?;
    read_to_end(run, end).await
}

/// Checks that a page of the quiet site is stored, although its response arrives late.
async fn fetch_quiet(run: &Run, end: &WireEnd, path: &'static str) -> Option<()> {
    let (request, began_ms) = (get(QUIET_HOST, QUIET, ""), run.now_ms());
    write(end, request.as_bytes()).await?;
    let first = read_head(run, end).await?;
    let before = run.ledger();
    write(end, request.as_bytes()).await?;
    let second = read_head(run, end).await?;
    // A small cache may have evicted the page, or a part of it, since it was stored.
    let after = run.ledger();
    let is_evicted = second.contains("; fwd=partial")
        || (before.evicted, before.reclaimed) != (after.evicted, after.reclaimed);
    if second.contains("; hit") {
        run.paths.count(path);
    } else if first.contains(" 200 ") && !is_evicted && !is_purged_since(run, began_ms) {
        run.fail(format!("a page of {QUIET_HOST} was not stored: {first}{second}"));
    }
    Some(())
}

/// Requests a page that the origin sends late if the request has Authorization. Every fourth client
/// is well-behaved: it sends no Authorization, and checks that it gets the page in time.
pub(super) async fn own(run: &Run, end: &WireEnd, number: u64) -> Option<()> {
    if !number.is_multiple_of(4) {
        let field = format!("Authorization: {number}\r\n");
        write(end, get(QUIET_HOST, OWN, &field).as_bytes()).await?;
        return read_to_end(run, end).await;
    }
    sleep(Duration::from_millis(OWN_PAUSE_MS)).await;
    let began_ms = run.now_ms();
    write(end, get(QUIET_HOST, OWN, "").as_bytes()).await?;
    match timeout(Duration::from_millis(OWN_MS_MAX), read_head(run, end)).await {
        Ok(head) => head.map(|_| run.paths.count(ANSWERED_BESIDE)),
        Err(_) if is_disturbed(run, began_ms) => None,
        Err(_) => {
            run.fail(format!("a request for {OWN} waited for a fetch with Authorization"));
            None
        }
    }
}

/// Sends several requests for a page that cannot be stored. Checks that requests no longer wait for
/// one another once the client has got one response.
pub(super) async fn unstorable(run: &Run, end: &WireEnd) -> Option<()> {
    let request = get(QUIET_HOST, UNSTORABLE, "");
    for number in 0..UNSTORABLE_REQUESTS {
        let began_ms = run.now_ms();
        write(end, request.as_bytes()).await?;
        read_head(run, end).await?;
        if number == 0 {
            continue;
        }
        run.paths.count(SIDE_BY_SIDE);
        let waited_ms = run.now_ms() - began_ms;
        if waited_ms > LATE_MS + OWN_MS_MAX && !is_disturbed(run, began_ms) {
            run.fail(format!("a request for {UNSTORABLE} took {waited_ms} ms"));
        }
    }
    Some(())
}

/// Requests a page for which the origin closes the connection after a while. The origin counts
/// these requests.
pub(super) async fn failures(run: &Run, end: &WireEnd) -> Option<()> {
    write(end, get(QUIET_HOST, FAILING, "").as_bytes()).await?;
    read_to_end(run, end).await
}

/// Plays the client with this number, which requests its own variant of a page. Client 0 requests
/// its variant again and again, and checks that it stays stored; each of the others requests its
/// variant once.
pub(super) async fn variants(run: &Run, end: &WireEnd, number: u64) -> Option<()> {
    let request = get(QUIET_HOST, VARIED, &format!("X-Kind: {number}\r\n"));
    if number > 0 {
        sleep(Duration::from_millis(BEGIN_MS + number * VARIANT_PAUSE_MS)).await;
        write(end, request.as_bytes()).await?;
        return read_to_end(run, end).await;
    }
    let (began_ms, reclaimed, (pause_ms, use_count)) = (run.now_ms(), run.ledger().reclaimed, USES);
    // Until a variant has a hit, it has not been used more than the variants of other clients.
    let mut is_used = false;
    for _ in 0..use_count {
        write(end, request.as_bytes()).await?;
        let head = read_head(run, end).await?;
        let is_hit = head.contains("; hit");
        if is_hit {
            run.paths.count(HIT_BESIDE_VARIANTS);
        } else if is_used && reclaimed == run.ledger().reclaimed && !is_purged_since(run, began_ms)
        {
            run.fail(format!("a variant in use was replaced by another variant: {head}"));
        }
        is_used = is_hit;
        sleep(Duration::from_millis(pause_ms)).await;
    }
    Some(())
}

fn get(host: &str, target: &str, field: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{field}\r\n")
}

/// Whether an operator has purged all sites since `began_ms`, or shortly before that time.
fn is_purged_since(run: &Run, began_ms: u64) -> bool {
    let during = began_ms.saturating_sub(PURGE_MS)..=run.now_ms();
    let is_purge =
        |act: &Act| matches!(act.kind, ActKind::PurgeAll { .. }) && during.contains(&act.at_ms);
    run.scenario.acts.iter().any(is_purge)
}

/// Whether something may have disturbed a request that began at `began_ms` and has not ended: a
/// refused connection to the origin, or a worker that restarted or did not accept the connection.
fn is_disturbed(run: &Run, began_ms: u64) -> bool {
    let is_during = |act: &Act| {
        let ms = match act.kind {
            ActKind::Exhaust { ms, .. } => ms,
            ActKind::Restart { .. } => 0,
            _ => return false,
        };
        act.at_ms <= run.now_ms() && act.at_ms + ms >= began_ms
    };
    run.blame.was_unreachable(began_ms) || run.scenario.acts.iter().any(is_during)
}
