//! The paths of a route: one path, the paths that a regular expression matches, or a prefix.

use forebay_http::path::decode_prefix;
use forebay_rules::limits::{REGEX_BYTES_MAX, REGEXES_BYTES_MAX};
use forebay_rules::pattern::{PatternCompiler, PatternError, UnsupportedPart};
use regex::bytes::Regex;

use super::super::setting::{RawValue, Setting, ValueProblem};
use super::super::table::{PATH, PATH_PREFIX, PATH_REGEX};
use super::super::units::format_bytes;

/// The paths of a route.
#[derive(Clone, Debug)]
pub(crate) enum RoutePaths {
    /// One path.
    Exact(WrittenPath),
    /// The paths, without their queries, that a regular expression matches.
    ///
    /// Each worker has a clone of its own, so that workers do not share the caches of the regex.
    Matching(Regex),
    /// A prefix, and the paths below it.
    Below(WrittenPath),
}

/// A path in the configuration. It begins with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenPath {
    text: String,
    /// The path without percent-encoding.
    decoded: Vec<u8>,
}

impl PartialEq for RoutePaths {
    fn eq(&self, other: &RoutePaths) -> bool {
        (self.setting().name, self.text()) == (other.setting().name, other.text())
    }
}

impl WrittenPath {
    /// # Panics
    /// Origins read the path in several ways; [`read_prefix`] refuses such paths.
    fn new(text: &str) -> WrittenPath {
        let decoded = decode_prefix(text.as_bytes());
        let decoded = decoded.expect("the reader refuses ambiguous prefixes");
        WrittenPath { text: text.to_owned(), decoded }
    }

    fn as_bytes(&self, is_decoded: bool) -> &[u8] {
        if is_decoded { &self.decoded } else { self.text.as_bytes() }
    }
}

impl RoutePaths {
    /// Returns a prefix and the paths below it. The prefix is one that the reader accepts.
    pub(in crate::config) fn below(prefix: &str) -> RoutePaths {
        RoutePaths::Below(WrittenPath::new(prefix))
    }

    /// Returns one path, which the reader accepts.
    pub(in crate::config) fn exact(path: &str) -> RoutePaths {
        RoutePaths::Exact(WrittenPath::new(path))
    }

    /// Returns the setting that has these paths.
    pub(in crate::config) fn setting(&self) -> &'static Setting {
        match self {
            RoutePaths::Exact(_) => &PATH,
            RoutePaths::Matching(_) => &PATH_REGEX,
            RoutePaths::Below(_) => &PATH_PREFIX,
        }
    }

    /// Returns the path, the regular expression or the prefix as it was written.
    pub(crate) fn text(&self) -> &str {
        match self {
            RoutePaths::Exact(path) | RoutePaths::Below(path) => &path.text,
            RoutePaths::Matching(regex) => regex.as_str(),
        }
    }

    /// Returns the path or the prefix without percent-encoding; `None` for a regular expression.
    pub(crate) fn decoded_prefix(&self) -> Option<&[u8]> {
        match self {
            RoutePaths::Exact(path) | RoutePaths::Below(path) => Some(&path.decoded),
            RoutePaths::Matching(_) => None,
        }
    }

    /// Whether these are all paths of a site.
    pub(in crate::config) fn are_all(&self) -> bool {
        matches!(self, RoutePaths::Below(prefix) if prefix.text == "/")
    }

    /// Whether a regular expression has these paths.
    pub(crate) fn are_matching(&self) -> bool {
        matches!(self, RoutePaths::Matching(_))
    }

    /// Returns a rank by which routes are sorted: regular expressions first, then paths and
    /// prefixes, the longest first, and a path before an equal prefix.
    pub(in crate::config) fn rank(&self) -> impl Ord + use<> {
        let (len, is_exact) = match self {
            RoutePaths::Exact(path) => (path.text.len(), true),
            RoutePaths::Matching(_) => (usize::MAX, true),
            RoutePaths::Below(prefix) => (prefix.text.len(), false),
        };
        std::cmp::Reverse((len, is_exact))
    }

    /// Whether a path is one of these paths. Unless the path is decoded, it may include a query.
    pub(in crate::config) fn have(&self, path: &[u8], is_decoded: bool) -> bool {
        match self {
            RoutePaths::Exact(own) => {
                let rest = path.strip_prefix(own.as_bytes(is_decoded));
                rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'?')))
            }
            // In a decoded path, a `?` belongs to a name. Another reading of the path ends there.
            RoutePaths::Matching(regex) if is_decoded => is_match(regex, path),
            RoutePaths::Matching(regex) => {
                let query_at = path.iter().position(|byte| *byte == b'?');
                is_match(regex, path.get(..query_at.unwrap_or(path.len())).unwrap_or_default())
            }
            RoutePaths::Below(own) => is_below(path, own.as_bytes(is_decoded)),
        }
    }
}

impl std::fmt::Display for RoutePaths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RoutePaths::Exact(path) => write!(f, "{} (only this path)", path.text),
            RoutePaths::Matching(regex) => write!(f, "{} (regular expression)", regex.as_str()),
            RoutePaths::Below(prefix) => f.write_str(&prefix.text),
        }
    }
}

/// Whether a regular expression matches a path. A target that is no path, such as the `*` of
/// OPTIONS, belongs to no route but that of `/`.
fn is_match(regex: &Regex, path: &[u8]) -> bool {
    path.starts_with(b"/") && regex.is_match(path)
}

/// Whether a prefix matches a path. A prefix matches whole segments of the path: after the prefix,
/// the path must end or continue with a query or a `/`.
fn is_below(path: &[u8], prefix: &[u8]) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| {
        matches!(rest.first(), None | Some(b'/' | b'?')) || prefix.ends_with(b"/")
    })
}

/// Reads the `path_prefix` or the `path` of a route.
pub(in crate::config) fn read_prefix(
    raw: RawValue<'_>,
    setting: &Setting,
) -> Result<String, ValueProblem> {
    let text = setting.text(raw)?;
    let refused = setting.problem(format_args!("cannot be {text:?}"));
    if !text.starts_with('/') {
        return Err(match text.starts_with(['^', '~', '=']) {
            true => refused.hint(
                "for a regular expression use `path_regex`, for one path `path`; a path begins \
                 with /",
            ),
            false => refused.hint(format!("write \"/{text}\"")),
        });
    }
    if let Some((path, query)) = text.split_once('?')
        && setting.name == PATH.name
        && !query.contains(['*', '^', '$'])
    {
        return Err(refused.hint(format!(
            "write path = {path:?}, and with_query = [{query:?}] below it; such a route stores no \
             responses"
        )));
    }
    if text.contains(['*', '?', '#']) {
        let written =
            if setting.name == PATH.name { "a whole path" } else { "the beginning of a path" };
        return Err(match text.strip_suffix('*') {
            Some(prefix) if setting.name == PATH_PREFIX.name && prefix.ends_with('/') => {
                refused.hint(format!("write {prefix:?}; it stands for all paths below it"))
            }
            _ => refused.hint(format!(
                "write {written}, without patterns or a query; for a regular expression use \
                 `path_regex`"
            )),
        });
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refused.hint("write the path percent-encoded, as it appears in a request"));
    }
    if decode_prefix(text.as_bytes()).is_none() {
        return Err(refused.hint(
            "write the path without //, /./, /../, \\ and ;, and percent-encode only a space and \
             bytes outside ASCII, with digits in upper case: origins read other spellings in \
             several ways",
        ));
    }
    Ok(text.to_owned())
}

/// Reads the `path_regex` of a route. Returns `None` if an earlier one has exceeded the limit for
/// all of them, which is reported only once.
pub(in crate::config) fn read_regex(
    raw: RawValue<'_>,
    compiler: &mut PatternCompiler,
) -> Result<Option<Regex>, ValueProblem> {
    let text = PATH_REGEX.text(raw)?;
    // Without escapes, because backslashes would be doubled.
    let shown = text.replace(char::is_control, " ");
    let refused = |why: &dyn std::fmt::Display| {
        PATH_REGEX.problem(format_args!("cannot be '{shown}': {why}"))
    };
    if text.contains(char::is_whitespace) {
        let hint = match text.starts_with('~') {
            true if text.starts_with("~*") => {
                format!("write '(?i){}'", text.trim_start_matches(['~', '*', ' ']))
            }
            true => format!("write '{}'", text.trim_start_matches(['~', ' '])),
            false => "a path has a space only as %20".to_owned(),
        };
        return Err(refused(&"it cannot have white space").hint(hint));
    }
    compiler.compile(text, false).map_err(|error| match error {
        PatternError::Unsupported(UnsupportedPart { part, message, hint }) => {
            let part = text.get(part).unwrap_or_default();
            let ahead = "paths that must not match can have a route of their own, with `path` or \
                         with an earlier `path_regex`";
            let part = part.replace(char::is_control, " ");
            refused(&format_args!("at '{part}', {message}")).hint(hint.unwrap_or(ahead))
        }
        PatternError::Malformed(why) => refused(&why),
        PatternError::TooLarge => {
            let limit = format_bytes(REGEX_BYTES_MAX as u64);
            refused(&format_args!("it takes more than {limit} when compiled"))
                .hint("use smaller repetition counts in {}, or several routes")
        }
        PatternError::TooMany => {
            let limit = format_bytes(REGEXES_BYTES_MAX as u64);
            refused(&format_args!(
                "with it, the regular expressions of all routes take more than {limit}"
            ))
            .hint("use smaller repetition counts in {}, or fewer regular expressions")
        }
    })
}
