//! Heads of answers, written without an allocation.

use forebay_http::framing::BodyFraming;
use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::request::Version;
use forebay_http::write;

use crate::parse::ReplyForm;
use crate::rules::{NewStatus, Ruling};

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
    pub(super) rules: Option<&'a Ruling<'a>>,
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
    pub(super) fn write(&self, out: &mut Vec<u8>, form: ReplyForm) -> Written {
        self.write_with(out, form, |_| ())
    }

    /// The same, with further field lines that `more` appends.
    pub(super) fn write_with(
        &self,
        out: &mut Vec<u8>,
        form: ReplyForm,
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
        out.extend_from_slice(b"cache-status: ");
        self.cache.write(out);
        out.extend_from_slice(b"\r\n");
        write_connection(out, form.version, keep_alive);
        let status = self.status;
        let head = NewStatus { status, head_start, fields_start };
        let status = self.rules.map_or(status, |rules| rules.respond(out, head));
        out.extend_from_slice(b"\r\n");
        Written { status, keep_alive }
    }

    /// Writes the fields that frame the body; false if only the end of the connection can.
    fn write_framing(&self, out: &mut Vec<u8>, form: ReplyForm) -> bool {
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

/// HTTP/1.0 has no chunks (RFC 9112 §6.1).
pub(super) fn can_chunk(form: ReplyForm) -> bool {
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
