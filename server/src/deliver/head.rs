//! Heads of answers, written without an allocation.

use forebay_http::framing::BodyFraming;
use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::request::Version;
use forebay_http::write;
use forebay_rules::apply::{AnswerHead, body_of};

use super::Answered;
use crate::parse::ResponseForm;
use crate::rules::HookContext;

/// What stands in the head of an answer beside the stored or received field lines.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) status: u16,
    /// Another reason than the usual.
    pub(super) reason: Option<&'a [u8]>,
    /// Field lines as they go on the wire.
    pub(super) block: &'a [u8],
    pub(super) age: Option<u32>,
    /// How the body of this answer is framed; for HEAD, of the GET that it stands for.
    pub(super) framing: BodyFraming,
    pub(super) cache: &'a CacheStatus,
    /// What has the last word.
    pub(super) rules: Option<&'a HookContext<'a>>,
}

/// An answer of our own: its head, and its body, which rules may exchange.
pub(super) struct OwnHead<'a> {
    pub(super) head: Head<'a>,
    pub(super) body: &'a [u8],
}

/// A head that has been written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// The status that rules have left.
    pub(super) status: u16,
    /// Does the connection go on?
    pub(super) keep_alive: bool,
}

impl Head<'_> {
    /// Appends the whole head.
    pub(super) fn write(&self, out: &mut Vec<u8>, form: ResponseForm) -> Written {
        self.write_with(out, form, |_| ())
    }

    /// The same, with further field lines that `more` appends.
    pub(super) fn write_with(
        &self,
        out: &mut Vec<u8>,
        form: ResponseForm,
        more: impl FnOnce(&mut Vec<u8>),
    ) -> Written {
        let head_start = out.len();
        write::status_line_with(out, self.status, self.reason);
        let fields_start = out.len();
        out.extend_from_slice(self.block);
        more(out);
        if let Some(age) = self.age {
            out.extend_from_slice(b"age: ");
            write::decimal(out, u64::from(age));
            out.extend_from_slice(b"\r\n");
        }
        let keep_alive = self.write_framing(out, form);
        let at = AnswerHead { status: self.status, head_start, fields_start, is_own: false };
        let (status, _) = self.end(out, form, keep_alive, at);
        out.extend_from_slice(b"\r\n");
        Written { status, keep_alive }
    }

    /// What stands last, and what rules make of it all: status, and the body of an answer of our
    /// own.
    fn end(
        &self,
        out: &mut Vec<u8>,
        form: ResponseForm,
        keep_alive: bool,
        at: AnswerHead,
    ) -> (u16, Option<Box<[u8]>>) {
        out.extend_from_slice(b"cache-status: ");
        self.cache.write(out);
        out.extend_from_slice(b"\r\n");
        write_connection(out, form.version, keep_alive);
        self.rules.map_or((self.status, None), |rules| rules.respond(out, at))
    }

    /// Writes the fields that frame the body; false if only the end of the connection can.
    fn write_framing(&self, out: &mut Vec<u8>, form: ResponseForm) -> bool {
        match self.framing {
            BodyFraming::None => form.keep_alive,
            BodyFraming::Length(length) => {
                out.extend_from_slice(b"content-length: ");
                write::decimal(out, length);
                out.extend_from_slice(b"\r\n");
                form.keep_alive
            }
            BodyFraming::Chunked | BodyFraming::UntilClose if can_chunk(form) => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\n");
                form.keep_alive
            }
            BodyFraming::Chunked | BodyFraming::UntilClose => form.keep_alive && form.head_only,
        }
    }
}

impl OwnHead<'_> {
    /// Appends head and body; `more` appends further field lines.
    pub(super) fn write_with(
        &self,
        out: &mut Vec<u8>,
        form: ResponseForm,
        more: impl FnOnce(&mut Vec<u8>),
    ) -> Answered {
        let (head, keep_alive) = (&self.head, form.keep_alive);
        let head_start = out.len();
        write::status_line_with(out, head.status, head.reason);
        let fields_start = out.len();
        out.extend_from_slice(head.block);
        more(out);
        let at = AnswerHead { status: head.status, head_start, fields_start, is_own: true };
        let (status, body) = head.end(out, form, keep_alive, at);
        let body = body_of(head.status, self.body, body.as_deref());
        if !matches!(head.status, 204 | 304) {
            write::number_field(out, b"content-length", body.len() as u64);
        }
        out.extend_from_slice(b"\r\n");
        if form.head_only {
            return Answered { status, body_bytes: 0, keep_alive };
        }
        out.extend_from_slice(body);
        Answered { status, body_bytes: body.len() as u64, keep_alive }
    }
}

/// HTTP/1.0 has no chunks (RFC 9112 §6.1).
pub(super) fn can_chunk(form: ResponseForm) -> bool {
    form.version == Version::Http11
}

/// RFC 9112 §9.3: persistence is the default in HTTP/1.1 and has to be said in HTTP/1.0.
fn write_connection(out: &mut Vec<u8>, version: Version, keep_alive: bool) {
    match (version, keep_alive) {
        (Version::Http11, true) | (Version::Http10, false) => {}
        (Version::Http11, false) => out.extend_from_slice(b"connection: close\r\n"),
        (Version::Http10, true) => out.extend_from_slice(b"connection: keep-alive\r\n"),
    }
}
