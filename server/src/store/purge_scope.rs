//! Which responses a PURGE or BAN request names. The forms are those that the plugins of content
//! management systems send to other caches:
//!
//! - WordPress (Proxy Cache Purge): `PURGE /path`, and `PURGE /path.*` with `X-Purge-Method: regex`
//!   for all paths with a prefix;
//! - Drupal (Purge): `BAN` with tags in `Cache-Tags` or `Purge-Cache-Tags`;
//! - Magento: `PURGE` with `X-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))|((^|,)cat_p(,|$))`.
//!
//! A regular expression that is not one of these forms is refused.

use forebay_cache::TagExpr;
use forebay_http::fields::FieldSet;
use forebay_http::policy::tags::{SURROGATE_FIELDS, TAG_FIELDS, tags};
use forebay_http::request::Method;

use crate::fault::Fault;
use crate::key::RouteMatch;
use crate::parse::Request;

/// The responses that a purge removes.
pub(super) enum PurgeScope<'a> {
    /// All variants of the request's URL.
    Url,
    /// The responses of the request's host whose path and query begin with these bytes.
    Prefix(&'a [u8]),
    /// The responses of the site that have one of the tags.
    Tags(TagExpr),
    /// All responses of the site.
    Site,
}

/// The end of a path that stands for any text.
const ANY: &[u8] = b".*";

/// The texts around a tag in a pattern of Magento.
const BEFORE_TAG: &[u8] = b"((^|,)";
const AFTER_TAG: &[u8] = b"(,|$))";

impl<'a> PurgeScope<'a> {
    /// Returns what the request names.
    ///
    /// # Errors
    /// - [`Fault::PurgeTags`], [`Fault::PurgeNoTags`]: a tag is invalid, the tag fields contain no
    ///   tag, or the route does not read one of the tag fields. In these cases it would be wrong to
    ///   purge only the URL, because the responses that the client means would stay in the cache.
    /// - [`Fault::PurgePattern`]: a pattern is neither a prefix nor a list of tags.
    pub(super) fn of(route: RouteMatch<'_>, request: &Request<'a>) -> Result<Self, Fault> {
        let fields = request.head.fields();
        if let Some(pattern) = only(request, b"x-magento-tags-pattern")? {
            return match pattern {
                b".*" => Ok(PurgeScope::Site),
                pattern => Ok(PurgeScope::Tags(any_of(&magento_tags(pattern)?)?)),
            };
        }
        let brought = fields.seen().intersection(FieldSet::of(&TAG_FIELDS));
        if brought != FieldSet::EMPTY {
            let read = route.route.settings.tag_fields.set().intersection(SURROGATE_FIELDS);
            let tags = tags(fields, read);
            if tags.is_empty() || brought.intersection(read) != brought {
                return Err(Fault::PurgeNoTags);
            }
            return any_of(&tags).map(PurgeScope::Tags);
        }
        path_scope(request)
    }
}

/// Returns the scope of a request without tags.
fn path_scope<'a>(request: &Request<'a>) -> Result<PurgeScope<'a>, Fault> {
    let path_query = request.target.path_query;
    let prefix = path_query.strip_suffix(ANY);
    match only(request, b"x-purge-method")? {
        Some(b"exact" | b"default") => return Ok(PurgeScope::Url),
        None | Some(b"regex") => {}
        Some(_) => return Err(Fault::PurgePattern),
    }
    // Bans of other caches compare expressions with the host, the path or a field.
    let is_ban = matches!(request.head.method(), Method::Other(b"BAN"));
    let mut others = request.head.fields().iter().map(|field| field.name);
    let has_expression = |name: &[u8]| {
        [&b"x-host"[..], b"x-url", b"x-content-type"].iter().any(|of| name.eq_ignore_ascii_case(of))
    };
    match prefix {
        _ if is_ban && others.any(has_expression) => Err(Fault::PurgePattern),
        Some(prefix) if is_literal(prefix) => Ok(PurgeScope::Prefix(prefix)),
        Some(_) => Err(Fault::PurgePattern),
        None if is_ban || only(request, b"x-purge-method")?.is_some() => Err(Fault::PurgePattern),
        None => Ok(PurgeScope::Url),
    }
}

/// Whether a text is the same as an expression and as a prefix. A dot is taken literally.
fn is_literal(text: &[u8]) -> bool {
    !text.iter().any(|byte| b"*+?()[]{}|^$\\".contains(byte))
}

/// Returns the value of a field.
///
/// # Errors
/// [`Fault::PurgePattern`]: the request has the field several times.
fn only<'a>(request: &Request<'a>, name: &[u8]) -> Result<Option<&'a [u8]>, Fault> {
    let fields = request.head.fields().iter();
    let mut values = fields.filter(|field| field.name.eq_ignore_ascii_case(name));
    match (values.next(), values.next()) {
        (value, None) => Ok(value.map(|field| field.value)),
        (_, Some(_)) => Err(Fault::PurgePattern),
    }
}

/// Returns the tags in a pattern of Magento: alternatives of one tag each.
fn magento_tags(pattern: &[u8]) -> Result<Vec<&[u8]>, Fault> {
    let mut tags = Vec::new();
    let mut rest = pattern;
    loop {
        rest = rest.strip_prefix(BEFORE_TAG).ok_or(Fault::PurgePattern)?;
        let end = rest.iter().position(|byte| *byte == b'(').ok_or(Fault::PurgePattern)?;
        let (tag, after) = rest.split_at(end);
        if tag.is_empty() || tag.contains(&b',') || !is_literal(tag) {
            return Err(Fault::PurgePattern);
        }
        tags.push(tag);
        rest = after.strip_prefix(AFTER_TAG).ok_or(Fault::PurgePattern)?;
        if rest.is_empty() {
            return Ok(tags);
        }
        rest = rest.strip_prefix(b"|").ok_or(Fault::PurgePattern)?;
    }
}

/// # Errors
/// [`Fault::PurgeTags`]: there are too many tags, or a tag is too long.
fn any_of(tags: &[impl AsRef<[u8]>]) -> Result<TagExpr, Fault> {
    TagExpr::any_of(tags.iter().map(AsRef::as_ref)).map_err(|_| Fault::PurgeTags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_magento_are_lists_of_tags() {
        let one = b"((^|,)cat_p_1(,|$))";
        assert_eq!(magento_tags(one), Ok(vec![&b"cat_p_1"[..]]));
        let two = b"((^|,)cat_p_1(,|$))|((^|,)cms-b.2(,|$))";
        assert_eq!(magento_tags(two), Ok(vec![&b"cat_p_1"[..], b"cms-b.2"]));
        for other in [
            &b""[..],
            b"cat_p_1",
            b"((^|,)(,|$))",
            b"((^|,)a.*(,|$))",
            b"((^|,)a,b(,|$))",
            b"((^|,)a(,|$))|",
            b"((^|,)a(,|$))((^|,)b(,|$))",
            b"((^|,)a(,|$)",
            b"((^|,)a",
        ] {
            assert_eq!(magento_tags(other), Err(Fault::PurgePattern), "{}", other.escape_ascii());
        }
    }

    #[test]
    fn only_plain_text_is_a_prefix() {
        assert!(is_literal(b"/news/2026-11/a.html") && is_literal(b"/") && is_literal(b"/%2a"));
        for text in [&b"/a?b"[..], b"/(a|b)", b"/a*", b"/[ab]", b"^/a", b"/a$", b"/a\\.b", b"/a+"] {
            assert!(!is_literal(text), "{}", text.escape_ascii());
        }
    }
}
