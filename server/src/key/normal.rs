//! The normal form of a request, which the settings of its route define.
//!
//! The normal form replaces the request before its key is written. So the key, the comparison of
//! variants and the request to the origin use the same form, and a stored response belongs to the
//! request that the origin received.

use forebay_http::fields::{FieldBlock, FieldId, FieldSet, Fields};
use forebay_http::policy::accept_encoding::{
    IDENTITY, write_accepted_codings, write_preferred_codings,
};
use forebay_http::policy::accept_language::preferred_language;
use forebay_http::policy::compression::forbids_transforming;
use forebay_http::policy::cookies::write_kept_cookies;

use crate::config::{ContentCoding, RouteSettings};
use crate::parse::Request;

/// Memory for the parts of a request that are normalised.
#[derive(Default)]
pub(crate) struct NormalText {
    path_query: Vec<u8>,
    fields: FieldBlock,
    value: Vec<u8>,
}

impl NormalText {
    /// Returns the normal form of a request; `None` if the request is already in it.
    pub(crate) fn normalise<'a>(
        &'a mut self,
        request: &Request<'a>,
        settings: &RouteSettings,
    ) -> Option<Request<'a>> {
        let NormalText { path_query, fields, value } = self;
        path_query.clear();
        settings.write_path_query(request.target.path_query, path_query);
        let has_other_fields = write_fields(request.head.fields(), settings, fields, value);
        if !has_other_fields && path_query == request.target.path_query {
            return None;
        }
        let mut normal = *request;
        normal.target.path_query = path_query;
        if has_other_fields {
            normal.head = request.head.with_fields(fields.fields());
        }
        Some(normal)
    }

    /// Clears the text, and frees memory beyond `bytes_kept_max`.
    pub(crate) fn reset(&mut self, bytes_kept_max: usize) {
        for text in [&mut self.path_query, &mut self.value] {
            text.clear();
            text.shrink_to(bytes_kept_max);
        }
        self.fields.clear();
        self.fields.shrink_to(bytes_kept_max);
    }
}

/// Writes the normal form of `fields` to `out`. Returns false if `fields` has this form already;
/// then the content of `out` is undefined.
fn write_fields(
    fields: Fields<'_>,
    settings: &RouteSettings,
    out: &mut FieldBlock,
    value: &mut Vec<u8>,
) -> bool {
    let mut normalised = FieldSet::EMPTY;
    if !settings.languages.tags().is_empty() {
        normalised.insert(FieldId::AcceptLanguage);
    }
    if !settings.keep_cookies.is_all() {
        normalised.insert(FieldId::Cookie);
    }
    if !settings.compress.is_empty() || settings.decompress {
        normalised.insert(FieldId::AcceptEncoding);
    }
    if !fields.seen().intersects(normalised) {
        return false;
    }
    out.clear();
    let (mut written, mut is_other) = (FieldSet::EMPTY, false);
    for mut field in fields.iter() {
        if normalised.contains(field.id) {
            value.clear();
            if !written.contains(field.id) {
                write_value(fields, field.id, settings, value);
            }
            written.insert(field.id);
            is_other |= value.is_empty() || field.value != value.as_slice();
            if value.is_empty() {
                continue;
            }
            field.value = value;
            field.is_ruled &= fields.all(field.id).nth(1).is_none();
        }
        out.push_field(field);
    }
    is_other
}

/// Writes the normal value that replaces all lines of a field; writes nothing if the field is
/// removed.
fn write_value(fields: Fields<'_>, id: FieldId, settings: &RouteSettings, value: &mut Vec<u8>) {
    if id == FieldId::Cookie {
        let is_kept = |name: &[u8]| {
            settings.keep_cookies.contains(name) || settings.key_cookies.may_have(name)
        };
        return write_kept_cookies(fields, is_kept, value);
    }
    if id == FieldId::AcceptEncoding {
        let known = ContentCoding::ALL.map(|coding| coding.name().as_bytes());
        return if settings.compress.is_empty() {
            write_accepted_codings(fields, known.into_iter(), value);
        } else if forbids_transforming(fields) {
            value.extend_from_slice(IDENTITY);
        } else {
            // The origin may have a coding that this server does not make.
            let is_other = |name: &&[u8]| settings.compress.named(name).is_none();
            let others = known.into_iter().filter(is_other).filter(|_| settings.decompress);
            write_preferred_codings(fields, settings.compress.names(), others, value);
        };
    }
    let language = preferred_language(fields, settings.languages.tags());
    value.extend_from_slice(language.unwrap_or_default().as_bytes());
}
