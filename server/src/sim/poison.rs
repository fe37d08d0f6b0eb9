//! Hostile clients that try to have a response of their own making stored, or to have it taken for
//! the response to another request.

use std::time::Duration;

use tokio::time::sleep;

use super::attack::{CLOSED_SPELLINGS, UNREAD, read_head, read_to_end, write};
use super::paths::CONTENT_REFUSED;
use super::reply::REFLECTED;
use super::run::Run;
use super::wire::WireEnd;
use super::world::LANGUAGES;

/// The time between the requests of two clients that try to have their page stored. Many clients
/// try, because some of their requests do not lead to a fetch.
const FIELD_PAUSE_MS: u64 = 40;

/// Requests a spelling of a path that disguises the path's route. Checks that the response is
/// neither stored nor a hit.
pub(super) async fn paths(run: &Run, end: &WireEnd, number: u64) -> Option<()> {
    let spelling = CLOSED_SPELLINGS[number as usize % CLOSED_SPELLINGS.len()];
    let head = format!("GET {spelling}/{number} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    write(end, head.as_bytes()).await?;
    let head = read_head(run, end).await?;
    if head.contains("; stored") || head.contains("; hit") {
        run.fail(format!("a response to {spelling} was stored or served as a hit: {head}"));
    }
    Some(())
}

/// Requests a URL with a field that is not in the key, and that the origin copies into the body.
pub(super) async fn fields(run: &Run, end: &WireEnd, url: usize, number: u64) -> Option<()> {
    sleep(Duration::from_millis(number * FIELD_PAUSE_MS)).await;
    let name = REFLECTED[number as usize % REFLECTED.len()];
    let mut head = format!("GET /u{url} HTTP/1.1\r\nHost: a.test\r\n{name}: foe\r\n");
    let language = LANGUAGES[number as usize / REFLECTED.len() % LANGUAGES.len()];
    if !language.is_empty() {
        head += &format!("Accept-Language: {language}\r\n");
    }
    write(end, (head + "\r\n").as_bytes()).await?;
    read_head(run, end).await.map(drop)
}

/// Sends content with methods that give content no meaning. The content looks like the beginning of
/// a request, whose rest would be the next request on the connection to the origin.
pub(super) async fn contents(run: &Run, end: &WireEnd, number: u64) -> Option<()> {
    let content = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\nX-Rest: ";
    let (line, is_refused) = match number % 6 {
        0 => (format!("GET {UNREAD}"), false),
        1 => (format!("HEAD {UNREAD}"), false),
        2 => (format!("DELETE {UNREAD}"), false),
        3 => (format!("OPTIONS {UNREAD}"), false),
        4 => ("GET /u0".to_owned(), true),
        _ => ("HEAD /u0".to_owned(), true),
    };
    let length = content.len();
    let head = format!("{line} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n");
    write(end, (head + content).as_bytes()).await?;
    let head = read_head(run, end).await?;
    if is_refused {
        run.paths.count(CONTENT_REFUSED);
        if !head.starts_with("HTTP/1.1 400") {
            run.fail(format!("{line} with content was answered with {head}"));
        }
    }
    read_to_end(run, end).await
}
