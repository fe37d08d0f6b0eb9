//! URLs, their versions and contents, and which version may still be served.

use std::collections::BTreeMap;

/// Tolerance of times: they may be rounded to a second both when they are taken and when they are
/// used.
const ROUNDING_MS: u64 = 2_000;

/// The properties of a URL, which do not change during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UrlKind {
    /// Freshness lifetime of responses in seconds; `None` if they must not be stored.
    pub(super) fresh_s: Option<u64>,
    pub(super) has_etag: bool,
    pub(super) varies: bool,
    pub(super) is_chunked: bool,
    /// Approximate length of bodies.
    pub(super) body_bytes: usize,
}

/// Number of URLs of the site: `/u0`, `/u1` and so on. Together, their responses are larger than a
/// small cache.
pub(super) const URL_COUNT: usize = 8 * KINDS.len();

/// Returns the properties of a URL.
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

/// Returns the tag of a URL, which it shares with other URLs.
pub(super) fn tag_of(url: usize) -> String {
    format!("tag{}", url % 3)
}

/// Languages that a client may request; the empty text stands for a request without a language.
pub(super) const LANGUAGES: &[&str] = &["de", "en", "fr", ""];

/// The content of one version and variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) url: usize,
    pub(super) version: usize,
    pub(super) language: &'static str,
}

impl Content {
    /// Returns the body, each part of which names URL, version and language.
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

/// Returns the body of an act's POST. The body looks like numbered requests that no client sends,
/// so that a server which takes bytes of a body for a request is noticed at once.
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
    /// For each URL, the times at which its versions from 1 on began, in ascending order. Version 0
    /// exists from the start.
    began_ms: BTreeMap<usize, Vec<u64>>,
    /// For each URL, pairs of an event and a version. Requests that begin after the event get at
    /// least that version. Events are numbered, because many happen in one millisecond.
    floors: BTreeMap<usize, Vec<(u64, usize)>>,
    event_count: u64,
    /// The sum of all clock steps, by which the server's idea of freshness may be wrong.
    pub(super) stepped_ms: u64,
}

impl SiteHistory {
    pub(super) fn version(&self, url: usize) -> usize {
        self.began_ms.get(&url).map_or(0, Vec::len)
    }

    /// Gives the origin a new version of the URL, and returns the version.
    pub(super) fn change(&mut self, url: usize, now_ms: u64) -> usize {
        self.began_ms.entry(url).or_default().push(now_ms);
        self.version(url)
    }

    /// Returns the number of an event that happens now.
    pub(super) fn event(&mut self) -> u64 {
        self.event_count += 1;
        self.event_count
    }

    /// Promises that requests that begin from now on get this version or a later one.
    pub(super) fn promise(&mut self, url: usize, version: usize) {
        let event = self.event();
        self.floors.entry(url).or_default().push((event, version));
    }

    /// Checks that a request may get this content. `event` is the number of the request's
    /// beginning; the times are those of its beginning and its end.
    ///
    /// # Errors
    /// The reason that the request may not get this content.
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
