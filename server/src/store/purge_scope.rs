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
use forebay_http::fields::{FieldId, FieldSet};
use forebay_http::policy::tags::{SURROGATE_FIELDS, TAG_FIELDS, tags};
use forebay_http::request::Method;

use crate::fault::Fault;
use crate::key::RouteMatch;
use crate::limits::PURGE_TAGS_MAX;
use crate::parse::Request;

/// The responses that a purge removes.
pub(super) enum PurgeScope<'a> {
    /// All variants of the request's URL.
    Url,
    /// The responses of the request's host whose path and query begin with these bytes.
    Prefix(&'a [u8]),
    /// The responses of the site that have a tag for which one of the expressions is true.
    Tags(Vec<TagExpr>),
    /// All responses of the site.
    Site,
}

/// The end of a path that stands for any text.
const ANY: &[u8] = b".*";

/// The texts around a tag in a pattern of Magento.
const BEFORE_TAG: &[u8] = b"((^|,)";
const AFTER_TAG: &[u8] = b"(,|$))";

/// The fields with which bans of other caches compare a host, a URL or a type.
const EXPRESSION_FIELDS: [&[u8]; 3] = [b"x-host", b"x-url", b"x-content-type"];

impl<'a> PurgeScope<'a> {
    /// Returns what the request names.
    ///
    /// # Errors
    /// - [`Fault::PurgeTags`], [`Fault::PurgeNoTags`]: a tag is invalid, the tag fields contain no
    ///   tag, or the route does not read one of the tag fields. In these cases it would be wrong to
    ///   purge only the URL, because the responses that the client means would stay in the cache.
    /// - [`Fault::PurgePattern`]: a pattern is neither a prefix nor a list of tags.
    pub(super) fn of(route: RouteMatch<'_>, request: &Request<'a>) -> Result<Self, Fault> {
        let read = route.route.settings.tag_fields.set().intersection(SURROGATE_FIELDS);
        let fields = request.head.fields();
        let brought = fields.seen().intersection(FieldSet::of(&TAG_FIELDS));
        match only(request, b"x-magento-tags-pattern")? {
            Some(_) if brought != FieldSet::EMPTY => Err(Fault::PurgePattern),
            Some(b".*") => Ok(PurgeScope::Site),
            Some(_) if !read.contains(FieldId::XMagentoTags) => Err(Fault::PurgeNoTags),
            Some(pattern) => any_of(&magento_tags(pattern)?).map(PurgeScope::Tags),
            None if brought == FieldSet::EMPTY => path_scope(request),
            None if brought.intersection(read) != brought => Err(Fault::PurgeNoTags),
            None => {
                let drupal = FieldSet::of(&[FieldId::CacheTags, FieldId::PurgeCacheTags]);
                if !tags(fields, drupal).iter().all(|tag| is_literal(tag)) {
                    return Err(Fault::PurgePattern);
                }
                any_of(&tags(fields, read)).map(PurgeScope::Tags)
            }
        }
    }
}

/// Returns the scope of a request without tags.
fn path_scope<'a>(request: &Request<'a>) -> Result<PurgeScope<'a>, Fault> {
    let is_ban = matches!(request.head.method(), Method::Other(b"BAN"));
    let mut fields = request.head.fields().iter();
    if is_ban
        && fields
            .any(|field| EXPRESSION_FIELDS.iter().any(|of| field.name.eq_ignore_ascii_case(of)))
    {
        return Err(Fault::PurgePattern);
    }
    let path_query = request.target.path_query;
    let is_regex = match only(request, b"x-purge-method")? {
        Some(b"exact") if !is_ban => return Ok(PurgeScope::Url),
        Some(b"regex") => true,
        Some(b"default") | None => is_ban,
        Some(_) => return Err(Fault::PurgePattern),
    };
    // A path with an asterisk is rarely that of a page, and often a pattern of another cache.
    let path = path_query.split(|byte| *byte == b'?').next().unwrap_or_default();
    let is_pattern = path.contains(&b'*') || path.ends_with(b".+");
    match path_query.strip_suffix(ANY) {
        Some(prefix) if is_literal(prefix) => Ok(PurgeScope::Prefix(prefix)),
        Some(_) => Err(Fault::PurgePattern),
        None if is_regex || is_pattern => Err(Fault::PurgePattern),
        None => Ok(PurgeScope::Url),
    }
}

/// Whether a text means the same as an expression and as a plain text. A dot is taken literally.
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

/// Returns expressions one of which is true for a response that has one of the tags.
///
/// # Errors
/// [`Fault::PurgeNoTags`]: there are no tags. [`Fault::PurgeTags`]: there are too many tags, or a
/// tag is too long.
fn any_of(tags: &[impl AsRef<[u8]>]) -> Result<Vec<TagExpr>, Fault> {
    match tags.len() {
        0 => return Err(Fault::PurgeNoTags),
        count if count > PURGE_TAGS_MAX => return Err(Fault::PurgeTags),
        _ => {}
    }
    let parts = tags.chunks(TagExpr::TAGS_MAX);
    parts
        .map(|part| TagExpr::any_of(part.iter().map(AsRef::as_ref)).map_err(|_| Fault::PurgeTags))
        .collect()
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
