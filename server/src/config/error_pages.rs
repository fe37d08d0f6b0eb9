//! Pages that replace the bodies of error responses, either this server's own or an origin's.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::certificate_files::FileStamp;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::watched::WatchedFile;
use crate::limits::{ERROR_PAGE_BYTES_MAX, ERROR_PAGES_MAX};

/// The error pages of a route, one for each status. They are read with the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPages(Vec<ErrorPage>);

/// An error page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorPage {
    status: u16,
    file: WatchedFile,
    /// The field lines of the response, each with its line end.
    pub(crate) lines: &'static [u8],
    pub(crate) body: Arc<[u8]>,
}

/// The field lines for each file name extension. They say that an error response must not be
/// stored.
const TYPES: [(&str, &[u8]); 3] = [
    ("html", b"content-type: text/html; charset=utf-8\r\ncache-control: no-store\r\n"),
    ("json", b"content-type: application/json\r\ncache-control: no-store\r\n"),
    ("txt", b"content-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n"),
];

impl ErrorPages {
    /// Returns the page for a status.
    pub(crate) fn of(&self, status: u16) -> Option<&ErrorPage> {
        self.0.iter().find(|page| page.status == status)
    }
}

impl ErrorPages {
    /// Returns the files of the pages.
    pub(super) fn files(&self) -> impl Iterator<Item = &WatchedFile> {
        self.0.iter().map(|page| &page.file)
    }
}

impl Readable for ErrorPages {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > ERROR_PAGES_MAX {
            let many = format_args!("has more than {ERROR_PAGES_MAX} pages");
            return Err(setting.problem(many));
        }
        let mut pages: Vec<ErrorPage> = Vec::new();
        for text in texts {
            let page = read_page(text, setting)?;
            if pages.iter().any(|earlier| earlier.status == page.status) {
                let twice = setting.problem(format_args!("cannot contain {text:?}"));
                return Err(twice.hint("the status is already in the list"));
            }
            pages.push(page);
        }
        Ok(ErrorPages(pages))
    }
}

/// Reads the page that a text like `502=/etc/forebay/502.html` names.
fn read_page(text: &str, setting: &Setting) -> Result<ErrorPage, ValueProblem> {
    let refused = |hint| setting.problem(format_args!("cannot contain {text:?}")).hint(hint);
    let form = "write a status and the absolute path of a file";
    let (status, path) = text.split_once('=').ok_or_else(|| refused(form))?;
    let Ok(status @ 400..=599) = status.parse() else {
        return Err(refused("the status of an error is a number from 400 to 599"));
    };
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err(refused(form));
    }
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let lines = TYPES.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known));
    let ending = "the name of the file must end in .html, .json or .txt";
    let (_, lines) = lines.ok_or_else(|| refused(ending))?;
    let unusable = |why: &dyn std::fmt::Display| {
        let problem = setting.problem(format_args!("cannot use {}: {why}", path.display()));
        problem.hint("write the path of a file that the user of the server can read")
    };
    let failed = |error: io::Error| unusable(&format_args!("it cannot be read: {error}"));
    // Opening a pipe would block until the pipe has a writer.
    let metadata = path.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(unusable(&"it is not a regular file"));
    }
    let file = WatchedFile::new(path, FileStamp::of(&metadata));
    let mut body = Vec::new();
    let limit = ERROR_PAGE_BYTES_MAX as u64 + 1;
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut body));
    read.map_err(failed)?;
    match body.len() > ERROR_PAGE_BYTES_MAX {
        true => Err(unusable(&format_args!("it is larger than {ERROR_PAGE_BYTES_MAX} bytes"))),
        false => Ok(ErrorPage { status, file, lines, body: body.into() }),
    }
}
