//! Heads of answers from files.

use std::rc::Rc;

use bytes::Bytes;
use forebay_http::date::write_date;
use forebay_http::fields::Fields;
use forebay_http::policy::etag::EntityTag;
use forebay_http::policy::range::{RangeDecision, write_content_range};
use forebay_http::policy::representation::{Representation, RepresentationAnswer, answer_of};

use super::FilePath;
use super::body::FileBody;
use super::open::{FileVersion, OpenFile};
use crate::clock;
use crate::config::RouteSettings;
use crate::fetch::answer::BodySource;
use crate::fetch::choose::hash_of;
use crate::fetch::origins::OriginPool;
use crate::worker::Worker;

/// The answer to a request for a file, before it is checked and ruled like an origin's answer.
pub(super) struct FileAnswer {
    pub(super) status: u16,
    pub(super) lines: FieldLines,
    pub(super) source: BodySource,
    /// Whether the page of `files_fallback` answers.
    pub(super) is_fallback: bool,
    /// The file, for the log.
    pub(super) shown: Rc<str>,
}

/// Names and values of fields.
type FieldLines = Vec<(&'static [u8], Vec<u8>)>;

/// Returns the answer for an open file: the file or a part of it, 304, 412 or 416.
pub(super) fn answer_file(
    worker: &Rc<Worker>,
    pool: &Rc<OriginPool>,
    open: OpenFile,
    (settings, asked, is_get): (&RouteSettings, Fields<'_>, bool),
) -> FileAnswer {
    let now = clock::unix_seconds();
    let (body_bytes, is_fallback) = (open.version.bytes, open.is_fallback);
    let tag = tag_of(&open.version);
    // A time in the future would be no validator (RFC 9110 §8.8.2.1). The time of a fallback says
    // nothing about the file that is missing, which may be added with an earlier time.
    let modified = u64::try_from(open.version.modified.0).ok();
    let modified = modified.filter(|modified| *modified <= now && !is_fallback);
    let etag = EntityTag::parse(&tag);
    let decision = answer_of(asked, is_get, Representation { etag, modified, body_bytes }, now);
    let (status, range) = match decision {
        RepresentationAnswer::NotModified => (304, None),
        RepresentationAnswer::Failed => (412, None),
        RepresentationAnswer::Body(range @ RangeDecision::Part { .. }) => (206, Some(range)),
        RepresentationAnswer::Body(RangeDecision::Unsatisfiable) => {
            (416, Some(RangeDecision::Unsatisfiable))
        }
        RepresentationAnswer::Body(_) => (200, Some(RangeDecision::Whole)),
    };
    let shown = format!("{}: {}", pool.authority, open.path.escape_ascii()).into();
    if status == 412 {
        return refused(412, &shown);
    }
    let mut lines = dated(now);
    if is_fallback {
        // The file that is missing may be added at any time.
        lines.push((b"cache-control", b"no-cache".to_vec()));
    }
    lines.push((b"etag", tag));
    if let Some(modified) = modified {
        lines.push((b"last-modified", write_date(modified).to_vec()));
    }
    if settings.files_precompressed {
        lines.push((b"vary", b"accept-encoding".to_vec()));
    }
    let part = match range {
        None => {
            let source = BodySource::Memory(Bytes::new());
            return FileAnswer { status, lines, source, is_fallback, shown };
        }
        Some(RangeDecision::Part { first, last }) => first..last + 1,
        Some(RangeDecision::Unsatisfiable) => 0..0,
        Some(_) => 0..body_bytes,
    };
    if let Some(range @ (RangeDecision::Part { .. } | RangeDecision::Unsatisfiable)) = range {
        let mut value = Vec::new();
        write_content_range(range, body_bytes, &mut value);
        lines.push((b"content-range", value));
    }
    if status != 416 {
        lines.push((b"content-type", settings.files_types.of(&open.path).into()));
        lines.push((b"accept-ranges", b"bytes".to_vec()));
        if let Some(coding) = open.coding {
            lines.push((b"content-encoding", coding.name().into()));
        }
    }
    lines.push((b"content-length", (part.end - part.start).to_string().into()));
    let source = match is_get {
        true => BodySource::File(FileBody::new(worker, pool, open, part)),
        false => BodySource::Memory(Bytes::new()),
    };
    FileAnswer { status, lines, source, is_fallback, shown }
}

/// Returns the entity tag of a file. The tag is strong: any change of the content gives the file
/// another time of modification, and any change of that time gives it another time of change. It
/// is a hash, because inode numbers concern no client.
fn tag_of(version: &FileVersion) -> Vec<u8> {
    let identity = version.identity();
    let hash = hash_of(identity.iter().map(|number| &number[..]));
    format!("\"{:x}-{hash:016x}\"", version.bytes).into()
}

/// Returns the redirect from a directory to its URL with a slash at the end.
pub(super) fn moved(path: &FilePath, path_query: &[u8], shown: &Rc<str>) -> FileAnswer {
    let mut url = path.with_slash();
    let query_at = path_query.iter().position(|byte| *byte == b'?');
    url.extend_from_slice(query_at.and_then(|at| path_query.get(at..)).unwrap_or_default());
    let mut answer = plain(301, "the directory is at the URL in the field location\n", shown);
    answer.lines.push((b"location", url));
    answer
}

/// Returns an answer without a file.
pub(super) fn refused(status: u16, shown: &Rc<str>) -> FileAnswer {
    let text = match status {
        403 => "access to this path is not allowed\n",
        404 => "there is no file for this path\n",
        405 => "the methods GET and HEAD are allowed here\n",
        _ => "a precondition of the request failed\n",
    };
    let mut answer = plain(status, text, shown);
    if status == 405 {
        answer.lines.push((b"allow", b"GET, HEAD".to_vec()));
    }
    answer
}

fn plain(status: u16, text: &'static str, shown: &Rc<str>) -> FileAnswer {
    let mut lines = dated(clock::unix_seconds());
    lines.push((b"content-type", b"text/plain; charset=utf-8".to_vec()));
    lines.push((b"content-length", text.len().to_string().into()));
    let source = BodySource::Memory(Bytes::from_static(text.as_bytes()));
    FileAnswer { status, lines, source, is_fallback: false, shown: Rc::clone(shown) }
}

fn dated(now: u64) -> FieldLines {
    vec![(b"date", write_date(now).to_vec())]
}
