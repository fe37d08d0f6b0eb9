//! Decides whether this server compresses a response that it stores, and makes the fields of the
//! stored response.
//!
//! The origin's response has no content coding; this server stores it with one, as the variant of
//! the clients that accept the coding. The decision does not depend on the client's
//! Accept-Encoding, so all variants of a response have Accept-Encoding in Vary, also the variant
//! without a coding.

use crate::fields::{Field, FieldBlock, FieldId, Fields};
use crate::policy::accept_encoding::IDENTITY;
use crate::policy::etag::{EntityTag, WEAK};
use crate::policy::meta::StoredMeta;
use crate::policy::vary::{Vary, vary_names};

/// The reason why a response is stored as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCompressed {
    /// The status is not 200, or the response is a part of a whole response.
    Status,
    /// The settings do not list the media type, or the response has no media type or several.
    Type,
    /// The body is shorter than [`CompressionRules::bytes_min`].
    Small,
    /// The response already has a content coding.
    Encoded,
    /// The response says `no-transform`.
    NoTransform,
    /// The origin chooses the coding: Vary has Accept-Encoding, or cannot be read.
    OriginVaries,
    /// The response varies by a cookie or by credentials, or is otherwise meant for one client, so
    /// it may contain a secret.
    Personal,
    /// The response has a digest or a signature of its bytes, or a malformed entity tag.
    Digest,
}

/// The settings that decide whether a response is compressed.
#[derive(Clone, Copy, Debug)]
pub struct CompressionRules<F> {
    /// Whether a media type, in lower case and without parameters, is compressed.
    pub has_type: F,
    /// The smallest length in bytes of a body that is compressed. A body of unknown length is
    /// compressed.
    pub bytes_min: u64,
}

/// Fields with digests or signatures of the origin's bytes, which do not fit a compressed body.
const DIGESTS: [&[u8]; 7] = [
    b"content-digest",
    b"content-md5",
    b"digest",
    b"repr-digest",
    b"signature",
    b"signature-input",
    b"x-goog-hash",
];

fn is_digest(field: &Field<'_>) -> bool {
    const AMAZON: &[u8] = b"x-amz-checksum-";
    let start = field.name.get(..AMAZON.len());
    DIGESTS.iter().any(|name| field.name.eq_ignore_ascii_case(name))
        || start.is_some_and(|start| start.eq_ignore_ascii_case(AMAZON))
}

/// RFC 9110 §7.7: decides whether a whole response to a GET without Range may be compressed.
/// `names` are the names of the request fields by which the response is stored.
///
/// # Errors
/// Returns the reason why the response must not be compressed, or why compressing it would gain
/// nothing.
pub fn compressible<F: Fn(&[u8]) -> bool>(
    (status, length): (u16, Option<u64>),
    fields: Fields<'_>,
    names: &[u8],
    rules: &CompressionRules<F>,
) -> Result<(), NotCompressed> {
    if status != 200 || fields.contains(FieldId::ContentRange) {
        return Err(NotCompressed::Status);
    }
    if fields.contains(FieldId::ContentEncoding) {
        return Err(NotCompressed::Encoded);
    }
    let media_type = fields.only(FieldId::ContentType).map(media_type);
    // A client has to get each event of a stream without delay.
    let is_compressed =
        |media_type: Vec<u8>| media_type != b"text/event-stream" && (rules.has_type)(&media_type);
    if !media_type.is_some_and(is_compressed) {
        return Err(NotCompressed::Type);
    }
    if length.is_some_and(|length| length < rules.bytes_min.max(1)) {
        return Err(NotCompressed::Small);
    }
    if forbids_transforming(fields) {
        return Err(NotCompressed::NoTransform);
    }
    let origin_varies = match vary_names(fields) {
        Vary::None => false,
        Vary::Names(vary) => has_name(&vary, FieldId::AcceptEncoding.name()),
        Vary::Any => true,
    };
    if origin_varies {
        return Err(NotCompressed::OriginVaries);
    }
    let is_personal = |name: &[u8]| {
        name.starts_with(b"cookie") || name == FieldId::Authorization.name().as_bytes()
    };
    if names.split(|byte| *byte == b',').any(is_personal) {
        return Err(NotCompressed::Personal);
    }
    let has_other_tag = fields.contains(FieldId::Etag)
        && fields.only(FieldId::Etag).and_then(EntityTag::parse).is_none();
    if has_other_tag || fields.iter().any(|field| is_digest(&field)) {
        return Err(NotCompressed::Digest);
    }
    Ok(())
}

/// RFC 9111 §5.2.1.6 and §5.2.2.6: whether a message forbids this server to change its content,
/// or the content of the response. A word that only contains `no-transform` counts too, and so
/// does the directive in any field that directs caches.
// RFC: 9111-5.2.2.6-1
pub fn forbids_transforming(fields: Fields<'_>) -> bool {
    const DIRECTIVE: &[u8] = b"no-transform";
    let directs_caches = |name: &[u8]| {
        let end = name.len().saturating_sub(b"control".len());
        name.get(end..).is_some_and(|end| end.eq_ignore_ascii_case(b"control"))
    };
    let has_directive = |value: &[u8]| {
        value.windows(DIRECTIVE.len()).any(|word| word.eq_ignore_ascii_case(DIRECTIVE))
    };
    fields.iter().any(|field| directs_caches(field.name) && has_directive(field.value))
}

/// Returns the media type of a value of Content-Type: in lower case, without parameters.
fn media_type(value: &[u8]) -> Vec<u8> {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    value.get(..end).unwrap_or_default().trim_ascii().to_ascii_lowercase()
}

fn has_name(names: &[u8], name: &str) -> bool {
    names.split(|byte| *byte == b',').any(|listed| listed == name.as_bytes())
}

/// The form of a body, compared with the one that the origin sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm<'a> {
    /// The origin's bytes.
    Original,
    /// This server has compressed the body with this coding.
    Compressed(&'a [u8]),
    /// This server has taken the coding off the body.
    Decompressed,
}

/// Returns the fields to store for a response whose coding this server chooses, with
/// Accept-Encoding in Vary. If the body is not in its original form, the entity tag is weak,
/// because the bytes are not those that the origin's tag names (RFC 9110 §8.8.1), and fields that
/// describe the origin's bytes are left out. So is a tag that has no weak form.
pub fn negotiated_fields(fields: Fields<'_>, form: BodyForm<'_>) -> FieldBlock {
    let is_changed = form != BodyForm::Original;
    let has_tag = fields.only(FieldId::Etag).and_then(EntityTag::parse).is_some();
    let mut block = FieldBlock::new();
    for mut field in fields.iter() {
        let is_left_out = match field.id {
            FieldId::AcceptRanges | FieldId::ContentEncoding => true,
            FieldId::Etag => !has_tag,
            _ => is_digest(&field),
        };
        if is_changed && is_left_out {
            continue;
        }
        let mut weak = WEAK.to_vec();
        if is_changed && field.id == FieldId::Etag && !field.value.starts_with(WEAK) {
            weak.extend_from_slice(field.value);
            field.value = &weak;
        }
        block.push_field(field);
    }
    if let BodyForm::Compressed(coding) = form {
        block.push(FieldId::ContentEncoding.name().as_bytes(), coding);
    }
    if is_changed {
        // A client that takes Last-Modified for a strong validator must not continue this body with
        // bytes of another form.
        block.push(FieldId::AcceptRanges.name().as_bytes(), b"none");
    }
    if !varies_by_coding(fields) {
        block.push(b"vary", FieldId::AcceptEncoding.name().as_bytes());
    }
    block
}

/// Whether Vary has Accept-Encoding.
pub fn varies_by_coding(fields: Fields<'_>) -> bool {
    match vary_names(fields) {
        Vary::Names(names) => has_name(&names, FieldId::AcceptEncoding.name()),
        Vary::None | Vary::Any => false,
    }
}

/// Returns the fields that a 304 has merged into those of a stored response whose coding this
/// server chose, in the form in which they are stored. Returns `None` if the stored body must not
/// be used with these fields: this server has changed the body, and the 304 forbids that.
// RFC: 9111-3.2-2
pub fn renewed_fields(meta: &StoredMeta, merged: Fields<'_>) -> Option<FieldBlock> {
    // A 304 never changes Content-Encoding.
    let coding = merged.only(FieldId::ContentEncoding).unwrap_or_default();
    let form = meta.form(coding);
    let is_usable = match form {
        BodyForm::Original => true,
        BodyForm::Compressed(coding) => !coding.is_empty() && !forbids_transforming(merged),
        BodyForm::Decompressed => !forbids_transforming(merged),
    };
    is_usable.then(|| negotiated_fields(merged, form))
}

/// Records in `meta` that this server chose the coding of the response. `origin` has the fields as
/// the origin sent them.
pub fn note_coding(meta: &mut StoredMeta, origin: Fields<'_>, form: BodyForm<'_>) {
    meta.is_negotiated = true;
    meta.is_compressed = matches!(form, BodyForm::Compressed(_));
    meta.is_decompressed = form == BodyForm::Decompressed;
    let tag = origin.only(FieldId::Etag).and_then(EntityTag::parse);
    meta.is_weakened = form != BodyForm::Original && tag.is_some_and(|tag| !tag.is_weak);
}

/// Returns the coding that this server gives the response to a request; `None` for no coding. The
/// value of Accept-Encoding must be the one that [`write_preferred_codings`] writes.
///
/// [`write_preferred_codings`]: crate::policy::accept_encoding::write_preferred_codings
pub fn first_coding(request: Fields<'_>) -> Option<&[u8]> {
    let value = request.only(FieldId::AcceptEncoding)?;
    let first = value.split(|byte| *byte == b',').next()?.trim_ascii();
    (!first.is_empty() && first != IDENTITY).then_some(first)
}
