//! Heads of answers, written without an allocation.

use forebay_http::framing::BodyFraming;
use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::request::Version;
use forebay_http::write;

use crate::parse::ReplyForm;

/// What stands in the head of an answer beside the stored or received field lines.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) status: u16,
    /// Field lines as they go on the wire.
    pub(super) block: &'a [u8],
    pub(super) age: Option<u32>,
    /// How the body of this answer is framed; for HEAD, of the GET that it stands for.
    pub(super) framing: BodyFraming,
    pub(super) cache: &'a CacheStatus,
}

impl Head<'_> {
    /// Appends the whole head, and says whether the connection goes on.
    pub(super) fn write(&self, out: &mut Vec<u8>, form: ReplyForm) -> bool {
        self.write_with(out, form, |_| ())
    }

    /// The same, with further field lines that `more` appends.
    pub(super) fn write_with(
        &self,
        out: &mut Vec<u8>,
        form: ReplyForm,
        more: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        write::status_line(out, self.status);
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
        out.extend_from_slice(b"\r\n");
        keep_alive
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
