//! URLs, their versions and contents, and which version may still be served.

use std::collections::BTreeMap;

use super::scenario::Ask;

/// The tolerance of times. Times may be rounded to seconds both when they are recorded and when
/// they are used.
pub(super) const ROUNDING_MS: u64 = 2_000;

/// The properties of a URL, which do not change during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UrlKind {
    /// The freshness lifetime of responses in seconds; `None` if they must not be stored.
    pub(super) fresh_s: Option<u64>,
    pub(super) has_etag: bool,
    pub(super) varies: bool,
    pub(super) is_chunked: bool,
    /// The approximate length of bodies.
    pub(super) body_bytes: usize,
    /// The times in seconds for which a response may be used stale: the first while it is
    /// validated, the second when the origin fails.
    pub(super) stale_s: Option<(u64, u64)>,
    /// Whether the origin sends the cookie of a request back in Set-Cookie, as with a session.
    pub(super) sets_cookie: bool,
    /// Whether the origin sends no lifetime, but a `Last-Modified` from which the lifetime follows
    /// by [`HEURISTIC_PERCENT`], and a different page for each cookie.
    pub(super) is_heuristic: bool,
    /// Whether different versions vary by different fields: see [`varies_by`].
    pub(super) vary_changes: bool,
}

/// The request field by which the responses of a version vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VariesBy {
    Nothing,
    Language,
    Theme,
}

impl VariesBy {
    /// Returns the field line with Vary; an empty text for no Vary.
    pub(super) fn line(self) -> &'static str {
        match self {
            VariesBy::Nothing => "",
            VariesBy::Language => "Vary: Accept-Language\r\n",
            VariesBy::Theme => "Vary: X-Theme\r\n",
        }
    }

    /// Returns the variant that a request for this language and theme selects.
    fn variant(self, language: &'static str, theme: &'static str) -> &'static str {
        match self {
            VariesBy::Nothing => "",
            VariesBy::Language => language,
            VariesBy::Theme => theme,
        }
    }
}

/// Returns the variant of a version for the language and the theme of a request. Some URLs have one
/// page for several languages. Which languages these are depends on the version, so the tag in a
/// 304 shows which stored variant answers a request.
pub(super) fn variant_of(
    url: usize,
    version: usize,
    (language, theme): (&'static str, &'static str),
) -> &'static str {
    let varies_by = varies_by(url, version);
    let shares = varies_by == VariesBy::Language && (url / KINDS.len()).is_multiple_of(2);
    match (language, version % 2) {
        ("fr", 0) | ("", 1) if shares => "de",
        ("fr", _) | ("", _) if shares => "en",
        _ => varies_by.variant(language, theme),
    }
}

/// Returns the field by which a version of a URL varies.
pub(super) fn varies_by(url: usize, version: usize) -> VariesBy {
    match (kind_of(url), version % 3) {
        (UrlKind { vary_changes: true, .. }, 1) => VariesBy::Nothing,
        (UrlKind { vary_changes: true, .. }, 2) => VariesBy::Theme,
        (UrlKind { varies: true, .. }, _) => VariesBy::Language,
        _ => VariesBy::Nothing,
    }
}

/// The time in seconds for which a response may be used stale if the origin cannot be reached and
/// the response does not set another time.
pub(super) const STALE_IF_UNREACHABLE_S: u64 = 8;

/// The longest lifetime in seconds that an error response gets by the heuristic.
pub(super) const ERROR_S: u64 = 4;

/// The freshness lifetime of a response without an explicit lifetime, as a percentage of the time
/// since its `Last-Modified`.
pub(super) const HEURISTIC_PERCENT: u64 = 10;

/// Number of URLs of the site: `/u0`, `/u1` and so on. Together, their responses do not fit into a
/// small cache.
pub(super) const URL_COUNT: usize = 8 * KINDS.len();

/// Returns the properties of a URL.
pub(super) fn kind_of(url: usize) -> &'static UrlKind {
    &KINDS[url % KINDS.len()]
}

/// Returns the URLs with long responses that are fresh for some seconds.
pub(super) fn long_urls() -> impl Iterator<Item = usize> {
    lent_urls().filter(|url| kind_of(*url).body_bytes >= 60_000)
}

/// Returns the URLs with responses that are fresh for a few seconds, and whose bodies are so long
/// that the server sends them from the memory of the store.
pub(super) fn lent_urls() -> impl Iterator<Item = usize> {
    let is_lent = |url: &usize| {
        let kind = kind_of(*url);
        kind.body_bytes >= 10_000 && kind.fresh_s.is_some_and(|fresh_s| fresh_s >= 3)
    };
    (0..URL_COUNT).filter(is_lent)
}

const KINDS: &[UrlKind] = &[
    kind(Some(20), true, false, false, 900).sets_cookie(),
    kind(Some(4), true, false, false, 40).stale(5, 0).sets_cookie(),
    kind(Some(20), true, true, false, 3_000).stale(3, 9),
    kind(Some(3), true, true, true, 12_000),
    kind(None, false, false, false, 500),
    kind(Some(0), true, false, false, 2_000),
    kind(Some(10), false, false, true, 30_000),
    kind(Some(30), true, false, false, 90_000),
    kind(Some(6), true, false, true, 140_000).stale(2, 12),
    kind(Some(60), false, false, false, 0),
    kind(Some(60), true, true, false, 70_000),
    kind(Some(15), true, false, false, 260_000),
    kind(Some(20), false, false, false, 700).heuristic(),
    kind(Some(12), true, true, false, 1_500).vary_changes(),
];

const fn kind(
    fresh_s: Option<u64>,
    has_etag: bool,
    varies: bool,
    is_chunked: bool,
    body_bytes: usize,
) -> UrlKind {
    UrlKind {
        fresh_s,
        has_etag,
        varies,
        is_chunked,
        body_bytes,
        stale_s: None,
        sets_cookie: false,
        is_heuristic: false,
        vary_changes: false,
    }
}

impl UrlKind {
    const fn stale(self, revalidate_s: u64, error_s: u64) -> UrlKind {
        UrlKind { stale_s: Some((revalidate_s, error_s)), ..self }
    }

    const fn sets_cookie(self) -> UrlKind {
        UrlKind { sets_cookie: true, ..self }
    }

    const fn heuristic(self) -> UrlKind {
        UrlKind { is_heuristic: true, ..self }
    }

    const fn vary_changes(self) -> UrlKind {
        UrlKind { vary_changes: true, ..self }
    }

    /// Returns the time in milliseconds for which a response may be used stale, if `detail` (of
    /// Cache-Status) names a permission to use it stale; `None` for other details.
    fn stale_ms(&self, detail: &str) -> Option<u64> {
        let seconds = match detail {
            "stale-while-revalidate" => self.stale_s.map_or(0, |(revalidate_s, _)| revalidate_s),
            "stale-if-error" => self.stale_s.map_or(0, |(_, error_s)| error_s),
            "stale-if-unreachable" => {
                self.stale_s.map_or(STALE_IF_UNREACHABLE_S, |(_, error_s)| error_s)
            }
            _ => return None,
        };
        Some(seconds * 1000)
    }
}

/// A response to a request, with the facts by which the oracle judges it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseUse<'a> {
    /// Whether the request asked for validation.
    pub(super) must_validate: bool,
    /// The number of the event with which the request began.
    pub(super) event: u64,
    pub(super) began_ms: u64,
    pub(super) ended_ms: u64,
    /// The `detail` in the response's Cache-Status; empty if it has none.
    pub(super) detail: &'a str,
}

/// Returns the tag of a URL. Other URLs have the same tag.
pub(super) fn tag_of(url: usize) -> String {
    format!("tag{}", url % 3)
}

/// Languages that a client may request. The empty text stands for a request without a language.
pub(super) const LANGUAGES: &[&str] = &["de", "en", "fr", ""];

/// Themes that a client may request, in a field by which only some versions vary. The empty text
/// stands for a request without a theme.
pub(super) const THEMES: &[&str] = &["dark", "light", ""];

/// Equivalent forms of a request, which all have the same normal form. They differ in the query, in
/// the language ranges around the wanted language, and in a cookie that is not kept.
pub(super) const SPELLINGS: &[Spelling] = &[
    Spelling { query: "", ranges: ("", ""), cookie: "" },
    Spelling { query: "", ranges: ("", ""), cookie: "" },
    Spelling { query: "?", ranges: ("x-a, ", "-CH"), cookie: "" },
    Spelling { query: "?utm_a=1", ranges: ("", ";q=0.3"), cookie: "visit=1" },
    Spelling { query: "?&utm_b&", ranges: ("it;q=0.9, ", ";q=0.2"), cookie: "visit=2; seen" },
];

/// A form of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spelling {
    pub(super) query: &'static str,
    /// The texts before and after the wanted language in Accept-Language.
    pub(super) ranges: (&'static str, &'static str),
    pub(super) cookie: &'static str,
}

impl Spelling {
    /// Returns the field lines for a language.
    pub(super) fn lines(&self, language: &str) -> String {
        let (before, after) = self.ranges;
        let mut lines = match language {
            "" if before.is_empty() => String::new(),
            "" => format!("Accept-Language: {before}*\r\n"),
            _ => format!("Accept-Language: {before}{language}{after}\r\n"),
        };
        if !self.cookie.is_empty() {
            lines += &format!("Cookie: {}\r\n", self.cookie);
        }
        lines
    }
}

/// The content of one version and variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) url: usize,
    pub(super) version: usize,
    /// The language or the theme, if the version varies by one of them.
    pub(super) variant: &'static str,
}

impl Content {
    /// Returns the content of a version for the language and the theme of a request.
    pub(super) fn of(url: usize, version: usize, ask: &Ask) -> Content {
        let variant = variant_of(url, version, (ask.language, ask.theme));
        Content { url, version, variant }
    }

    /// Returns the body, each part of which contains the URL, the version and the variant.
    pub(super) fn body(&self) -> Vec<u8> {
        let mean = kind_of(self.url).body_bytes;
        if mean == 0 {
            return Vec::new();
        }
        let length = mean + (self.version * 37 + self.variant.len() * 11) % (mean / 4 + 3);
        let unit = format!("[u{} v{} {}]", self.url, self.version, self.variant);
        let unit_bytes = unit.len();
        let mut body = unit.into_bytes().repeat(length.div_ceil(unit_bytes));
        body.truncate(length);
        body
    }

    pub(super) fn etag(&self) -> String {
        format!("\"u{}-v{}-{}\"", self.url, self.version, self.variant)
    }

    /// Returns the value of Link, with two links: a style that a browser loads early, and a page
    /// that it does not load early.
    pub(super) fn links(&self) -> String {
        format!("{}, </next>; rel=next", self.hint())
    }

    /// Returns the link to the style of this content.
    pub(super) fn hint(&self) -> String {
        let Content { url, version, variant } = self;
        format!("</u{url}-v{version}-{variant}.css>; rel=preload; as=style")
    }
}

/// Returns the body of an act's POST. It looks like numbered requests that no client sends, so that
/// the run notices immediately if a server parses bytes of a body as a request.
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

/// A promise: requests that begin after the event get at least this version. The event is a number
/// and not a time, because many events happen within one millisecond.
#[derive(Clone, Copy, Debug)]
struct VersionFloor {
    event: u64,
    version: usize,
    /// Whether the promise comes from a soft purge. If so, older versions may still be used, but
    /// only as stale responses.
    is_soft: bool,
}

/// The versions of all URLs, and the promises about them.
#[derive(Debug, Default)]
pub(super) struct SiteHistory {
    /// For each URL, the times at which its versions began, in ascending order. The first entry
    /// belongs to version 1, because version 0 exists from the start.
    began_ms: BTreeMap<usize, Vec<u64>>,
    /// For each URL, promises about its versions.
    floors: BTreeMap<usize, Vec<VersionFloor>>,
    event_count: u64,
    /// The sum of all clock steps. The server's judgement of freshness may be wrong by this amount.
    pub(super) stepped_ms: u64,
}

impl SiteHistory {
    pub(super) fn version(&self, url: usize) -> usize {
        self.began_ms.get(&url).map_or(0, Vec::len)
    }

    /// Gives the URL a new version at the origin, and returns the number of the version.
    pub(super) fn change(&mut self, url: usize, now_ms: u64) -> usize {
        self.began_ms.entry(url).or_default().push(now_ms);
        self.version(url)
    }

    /// Returns the number of an event that happens now.
    pub(super) fn event(&mut self) -> u64 {
        self.event_count += 1;
        self.event_count
    }

    /// Promises that requests which begin from now on get this version or a later one. After a soft
    /// purge, they may also get an older version as a stale response.
    pub(super) fn promise(&mut self, url: usize, version: usize, is_soft: bool) {
        let event = self.event();
        self.floors.entry(url).or_default().push(VersionFloor { event, version, is_soft });
    }

    /// Checks that a request may get a hint from this content. The content may be stale.
    ///
    /// # Errors
    /// This content never existed, or was purged before the request.
    pub(super) fn check_hint(&self, content: &Content, event: u64) -> Result<(), String> {
        let Content { url, version, .. } = *content;
        if version > self.version(url) {
            return Err(format!("version {version} of u{url} did not exist yet"));
        }
        let floors = self.floors.get(&url).into_iter().flatten();
        let mut purged = floors.filter(|floor| !floor.is_soft && floor.event < event);
        match purged.find(|floor| version < floor.version) {
            Some(floor) => Err(format!(
                "the hint is of version {version}, but {} is the oldest allowed",
                floor.version
            )),
            None => Ok(()),
        }
    }

    /// Checks that a request may get this content.
    ///
    /// # Errors
    /// Returns the reason why the request must not get it.
    pub(super) fn check(&self, content: &Content, usage: ResponseUse<'_>) -> Result<(), String> {
        let ResponseUse { must_validate, event, began_ms, ended_ms, detail } = usage;
        let Content { url, version, .. } = *content;
        let began = self.began_ms.get(&url).map_or(&[][..], Vec::as_slice);
        if version > began.len() || version > 0 && began[version - 1] > ended_ms {
            return Err(format!("version {version} of u{url} did not exist yet"));
        }
        let floors = self.floors.get(&url).into_iter().flatten();
        let stale_ms = kind_of(url).stale_ms(detail);
        let floors = floors.filter(|floor| floor.event < event);
        let floors = floors.filter(|floor| !floor.is_soft || stale_ms.is_none());
        let floor = floors.map(|floor| floor.version);
        if let Some(least) = floor.max().filter(|least| version < *least) {
            return Err(format!(
                "version {version} of u{url} was purged; {least} is the oldest allowed"
            ));
        }
        let fresh_ms = match kind_of(url).fresh_s {
            _ if must_validate => 0,
            None => 0,
            Some(0) if stale_ms.is_none() => 0,
            Some(seconds) => seconds * 1000 + ROUNDING_MS + self.stepped_ms,
        };
        let fresh_ms = fresh_ms + stale_ms.filter(|_| !must_validate).unwrap_or(0);
        let replaced_ms = began.get(version).copied().unwrap_or(u64::MAX);
        if replaced_ms.saturating_add(fresh_ms) < began_ms {
            return Err(format!(
                "version {version} of u{url} was replaced at {replaced_ms} ms and is too old"
            ));
        }
        Ok(())
    }
}
