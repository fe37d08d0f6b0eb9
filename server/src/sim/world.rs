//! URLs, their versions and contents, and which version may still be served.

use std::collections::BTreeMap;

/// Time may be rounded to a second where it is taken and where it is used.
const ROUNDING_MS: u64 = 2_000;

/// How a URL behaves, for as long as a run lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UrlKind {
    /// Seconds that a response stays fresh; `None`: it must not be stored.
    pub(super) fresh_s: Option<u64>,
    pub(super) has_etag: bool,
    pub(super) varies: bool,
    pub(super) is_chunked: bool,
    /// About how long bodies are.
    pub(super) body_bytes: usize,
}

/// URLs of the site: `/u0` and so on. All of them together are more than a small cache holds.
pub(super) const URL_COUNT: usize = 8 * KINDS.len();

/// How a URL behaves.
pub(super) fn kind_of(url: usize) -> &'static UrlKind {
    &KINDS[url % KINDS.len()]
}

const KINDS: &[UrlKind] = &[
    kind(Some(20), true, false, false, 900),
    kind(Some(4), true, false, false, 40),
    kind(Some(20), true, true, false, 3_000),
    kind(Some(3), true, true, true, 12_000),
    kind(None, false, false, false, 500),
    kind(Some(0), true, false, false, 2_000),
    kind(Some(10), false, false, true, 30_000),
    kind(Some(30), true, false, false, 90_000),
    kind(Some(6), true, false, true, 140_000),
    kind(Some(60), false, false, false, 0),
    kind(Some(60), true, true, false, 70_000),
    kind(Some(15), true, false, false, 260_000),
];

const fn kind(
    fresh_s: Option<u64>,
    has_etag: bool,
    varies: bool,
    is_chunked: bool,
    body_bytes: usize,
) -> UrlKind {
    UrlKind { fresh_s, has_etag, varies, is_chunked, body_bytes }
}

/// The tag that a URL shares with others.
pub(super) fn tag_of(url: usize) -> String {
    format!("tag{}", url % 3)
}

/// Languages that a client may ask for.
pub(super) const LANGUAGES: &[&str] = &["de", "en", "fr", ""];

/// The content of one version and variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) url: usize,
    pub(super) version: usize,
    pub(super) language: &'static str,
}

impl Content {
    /// Each piece of it says which one it is.
    pub(super) fn body(&self) -> Vec<u8> {
        let mean = kind_of(self.url).body_bytes;
        if mean == 0 {
            return Vec::new();
        }
        let length = mean + (self.version * 37 + self.language.len() * 11) % (mean / 4 + 3);
        let unit = format!("[u{} v{} {}]", self.url, self.version, self.language);
        unit.bytes().cycle().take(length).collect()
    }

    pub(super) fn etag(&self) -> String {
        format!("\"u{}-v{}-{}\"", self.url, self.version, self.language)
    }
}

/// The body of a POST of an act. It looks like requests that no client sends, each with a number:
/// bytes that are taken for the next request show at once.
pub(super) fn post_body(act: u64, bytes: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < bytes {
        let at = body.len();
        let text = format!("GET /smuggled-{act}-{at} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        body.extend_from_slice(text.as_bytes());
    }
    body.truncate(bytes);
    body
}

/// The versions of all URLs, and the promises about them.
#[derive(Debug, Default)]
pub(super) struct SiteHistory {
    /// For each URL when its versions began, in ascending order; the first is there from 0 on.
    began_ms: BTreeMap<usize, Vec<u64>>,
    /// For each URL: requests that begin after an event get this version at least. Events are
    /// numbered, as many happen in one millisecond.
    floors: BTreeMap<usize, Vec<(u64, usize)>>,
    event_count: u64,
    /// The sum of all clock steps, by which measured freshness can be wrong.
    pub(super) stepped_ms: u64,
}

impl SiteHistory {
    pub(super) fn version(&self, url: usize) -> usize {
        self.began_ms.get(&url).map_or(0, Vec::len)
    }

    /// The origin has another version from now on.
    pub(super) fn change(&mut self, url: usize, now_ms: u64) -> usize {
        self.began_ms.entry(url).or_default().push(now_ms);
        self.version(url)
    }

    /// Numbers something that happens now.
    pub(super) fn event(&mut self) -> u64 {
        self.event_count += 1;
        self.event_count
    }

    /// Requests that begin from now on get this version or a later one.
    pub(super) fn promise(&mut self, url: usize, version: usize) {
        let event = self.event();
        self.floors.entry(url).or_default().push((event, version));
    }

    /// Whether a request may get this version. It began with an event; times say when it began and
    /// ended.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(
        &self,
        content: &Content,
        must_validate: bool,
        event: u64,
        (began_ms, ended_ms): (u64, u64),
    ) -> Result<(), String> {
        let Content { url, version, .. } = *content;
        let began = self.began_ms.get(&url).map_or(&[][..], Vec::as_slice);
        if version > began.len() || version > 0 && began[version - 1] > ended_ms {
            return Err(format!("version {version} of u{url} did not exist yet"));
        }
        let floors = self.floors.get(&url).into_iter().flatten();
        let floor = floors.filter(|(promised, _)| *promised < event).map(|(_, least)| *least);
        if let Some(least) = floor.max().filter(|least| version < *least) {
            return Err(format!("version {version} of u{url} was purged: {least} is the least"));
        }
        let fresh_ms = match kind_of(url).fresh_s {
            _ if must_validate => 0,
            None | Some(0) => 0,
            Some(seconds) => seconds * 1000 + ROUNDING_MS + self.stepped_ms,
        };
        let replaced_ms = began.get(version).copied().unwrap_or(u64::MAX);
        if replaced_ms.saturating_add(fresh_ms) < began_ms {
            return Err(format!(
                "version {version} of u{url} was replaced at {replaced_ms} ms and is too old"
            ));
        }
        Ok(())
    }
}
