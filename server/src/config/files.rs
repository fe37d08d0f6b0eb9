//! Settings of routes whose responses are files: the directory, and the types of files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use super::origins::OriginGroup;
use super::route::{Route, RoutePaths};
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::site::{HostPattern, Site};
use super::table::RouteSettings;
use super::value::ContentType;
use crate::limits::{FILES_INDEX_MAX, FILES_TYPES_MAX};

/// The directory with the files of a route, if the route serves files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesDirectory(Option<Arc<Path>>);

/// Names of the files that answer for their directory, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexNames(Arc<[Box<str>]>);

/// The path of the file that answers requests for which no file exists, below the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FallbackFile(Option<Arc<str>>);

/// Media types by file name extension, before those of [`TYPES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTypes(Arc<[(Box<str>, ContentType)]>);

impl FilesDirectory {
    /// Returns the directory.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Arc<Path>> {
        self.0.as_ref()
    }
}

impl Site {
    /// Creates a site that serves every host from the directory of `files`. Its name is the URL of
    /// the directory.
    pub(crate) fn of_files(directory: &Path, settings: RouteSettings) -> Site {
        let mut name = String::from("file://");
        for byte in directory.as_os_str().as_bytes() {
            match byte {
                b'/' | b'-' | b'.' | b'_' | b'~' => name.push(char::from(*byte)),
                byte if byte.is_ascii_alphanumeric() => name.push(char::from(*byte)),
                byte => name.extend(format!("%{byte:02X}").chars()),
            }
        }
        let fallback = Route::new(RoutePaths::below("/"), settings, Vec::new());
        let (names, origins) = (vec![HostPattern::Any], OriginGroup::default());
        Site::new(name, names, origins, Vec::new(), fallback)
    }
}

impl IndexNames {
    /// Returns the names.
    pub(crate) fn names(&self) -> Arc<[Box<str>]> {
        Arc::clone(&self.0)
    }
}

impl FallbackFile {
    /// Returns the path without its first slash.
    pub(crate) fn get(&self) -> Option<Arc<str>> {
        self.0.clone()
    }
}

impl FileTypes {
    /// Returns the media type of a file with this name.
    pub(crate) fn of(&self, name: &[u8]) -> &str {
        let extension = Path::new(OsStr::from_bytes(name)).extension();
        let extension = extension.map(OsStr::as_bytes).unwrap_or_default();
        let is_own = |known: &str| extension.eq_ignore_ascii_case(known.as_bytes());
        let own = self.0.iter().find(|(known, _)| is_own(known));
        let known = || TYPES.iter().find(|(known, _)| known.split(' ').any(is_own));
        match own {
            Some((_, ContentType(own))) => own,
            None => known().map_or(UNKNOWN_TYPE, |(_, known)| known),
        }
    }
}

/// The type of a file with an unknown extension. Browsers store such a file and do not show it.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Extensions and their media types (those of the IANA's registry). Text without a charset would be
/// read as Windows-1252, and nearly all text today is UTF-8.
const TYPES: &[(&str, &str)] = &[
    ("html htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js mjs", "text/javascript; charset=utf-8"),
    ("txt log", "text/plain; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("ics", "text/calendar; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("xml", "text/xml; charset=utf-8"),
    ("json map", "application/json"),
    ("jsonld", "application/ld+json"),
    ("webmanifest", "application/manifest+json"),
    ("geojson", "application/geo+json"),
    ("atom", "application/atom+xml"),
    ("rss", "application/rss+xml"),
    ("xhtml", "application/xhtml+xml"),
    ("wasm", "application/wasm"),
    ("pdf", "application/pdf"),
    ("rtf", "application/rtf"),
    ("epub", "application/epub+zip"),
    ("zip", "application/zip"),
    ("gz tgz", "application/gzip"),
    ("zst", "application/zstd"),
    ("7z", "application/x-7z-compressed"),
    ("tar", "application/x-tar"),
    ("bz2", "application/x-bzip2"),
    ("xz", "application/x-xz"),
    ("jar", "application/java-archive"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("mpd", "application/dash+xml"),
    ("png", "image/png"),
    ("jpg jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("svg", "image/svg+xml"),
    ("ico", "image/vnd.microsoft.icon"),
    ("bmp", "image/bmp"),
    ("tif tiff", "image/tiff"),
    ("jxl", "image/jxl"),
    ("heic", "image/heic"),
    ("mp3", "audio/mpeg"),
    ("m4a", "audio/mp4"),
    ("aac", "audio/aac"),
    ("ogg oga opus", "audio/ogg"),
    ("flac", "audio/flac"),
    ("wav", "audio/wav"),
    ("mp4 m4v", "video/mp4"),
    ("m4s", "video/iso.segment"),
    ("ts", "video/mp2t"),
    ("webm", "video/webm"),
    ("ogv", "video/ogg"),
    ("mov", "video/quicktime"),
    ("mpg mpeg", "video/mpeg"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("eot", "application/vnd.ms-fontobject"),
];

impl Readable for FilesDirectory {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        if text == "off" {
            return Ok(FilesDirectory(None));
        }
        let refused = |hint: String| setting.problem(format_args!("cannot be {text:?}")).hint(hint);
        let path = match raw {
            // The path of a flag is relative to the current directory.
            RawValue::Flag(_) => {
                std::path::absolute(text).map_err(|error| refused(error.to_string()))?
            }
            _ => PathBuf::from(text),
        };
        if !path.is_absolute() {
            return Err(refused("write the absolute path of the directory".to_owned()));
        }
        check_directory(&path).map_err(|(why, hint)| {
            setting.problem(format_args!("cannot be {text:?}: {why}")).hint(hint)
        })?;
        Ok(FilesDirectory(Some(path.into())))
    }
}

/// Checks that files below a directory can be opened.
///
/// # Errors
/// The reason and a hint.
fn check_directory(path: &Path) -> Result<(), (String, &'static str)> {
    let readable = "let the user of the server open the directory";
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT => (
            "there is no such directory".to_owned(),
            "correct the path, mount its file system, or create it",
        ),
        Errno::NOTDIR => (
            "it is not a directory".to_owned(),
            "write the path of the directory that has the file",
        ),
        error => (format!("it cannot be opened: {error}"), readable),
    })?;
    match openat2(root, c".", flags, Mode::empty(), ResolveFlags::BENEATH) {
        Ok(_) => Ok(()),
        Err(Errno::NOSYS | Errno::PERM) => Err((
            "this system has no openat2, without which a path could lead out of the directory"
                .to_owned(),
            "use Linux 5.6 or later, or permit openat2 in the sandbox",
        )),
        Err(error) => Err((format!("its files cannot be opened: {error}"), readable)),
    }
}

impl Readable for IndexNames {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > FILES_INDEX_MAX {
            return Err(setting.problem(format_args!("has more than {FILES_INDEX_MAX} names")));
        }
        for text in &texts {
            if text.is_empty() || text.starts_with('.') || text.contains(['/', '\\', '\0']) {
                let problem = setting.problem(format_args!("cannot contain {text:?}"));
                return Err(problem.hint("write the name of a file, without a directory"));
            }
        }
        Ok(IndexNames(texts.into_iter().map(Box::from).collect()))
    }
}

impl Readable for FallbackFile {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        if text == "off" {
            return Ok(FallbackFile(None));
        }
        let is_name = |part: &str| !part.is_empty() && !part.starts_with('.');
        let is_plain = |c: char| !c.is_control() && c != '\\';
        let path = text.strip_prefix('/').filter(|path| path.split('/').all(is_name));
        match path.filter(|path| path.chars().all(is_plain)) {
            Some(path) => Ok(FallbackFile(Some(path.into()))),
            None => {
                let hint = "write the path of a file below the directory, such as \"/index.html\"; \
                            no part of it begins with a dot";
                Err(setting.problem(format_args!("cannot be {text:?}")).hint(hint))
            }
        }
    }
}

impl Readable for FileTypes {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > FILES_TYPES_MAX {
            return Err(setting.problem(format_args!("has more than {FILES_TYPES_MAX} types")));
        }
        let mut types: Vec<(Box<str>, ContentType)> = Vec::new();
        for text in texts {
            let refused =
                |hint: &str| setting.problem(format_args!("cannot contain {text:?}")).hint(hint);
            let form = "write an extension without its dot and a media type, such as \
                        \"wasm=application/wasm\"";
            let (extension, kind) = text.split_once('=').ok_or_else(|| refused(form))?;
            let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"./\\".contains(&byte);
            if extension.is_empty() || !extension.bytes().all(is_plain) {
                return Err(refused(form));
            }
            let kind =
                ContentType::read(RawValue::Text(kind), setting).map_err(|_| refused(form))?;
            if types.iter().any(|(known, _)| known.eq_ignore_ascii_case(extension)) {
                return Err(refused("the extension is already in the list"));
            }
            types.push((extension.into(), kind));
        }
        Ok(FileTypes(types.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::{ROUTE, Settings};

    fn types(texts: &str) -> Result<FileTypes, ValueProblem> {
        let setting = ROUTE.iter().find(|one| one.name == "files_types").expect("a setting");
        let mut settings = RouteSettings::default();
        settings.set(setting, RawValue::Flag(texts))?;
        Ok(settings.files_types)
    }

    #[test]
    fn the_extension_decides_the_type_and_settings_come_first() {
        let types = types("html=text/x-own,foo=a/b").expect("valid");
        for (name, expected) in [
            ("a/index.HTML", "text/x-own"),
            ("x.htm", "text/html; charset=utf-8"),
            ("x.foo", "a/b"),
            ("x.tar.gz", "application/gzip"),
            ("x", UNKNOWN_TYPE),
            ("x.", UNKNOWN_TYPE),
            ("a.png/x", UNKNOWN_TYPE),
            ("x.unknown", UNKNOWN_TYPE),
            ("x.js mjs", UNKNOWN_TYPE),
        ] {
            assert_eq!(types.of(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn malformed_types_are_refused() {
        for text in ["html", "=a/b", ".html=a/b", "html=", "html=text", "a=b/c,A=b/d"] {
            assert!(types(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_built_in_type_is_a_valid_value() {
        for (extensions, kind) in TYPES {
            assert!(ContentType::read(RawValue::Text(kind), &ROUTE[0]).is_ok(), "{extensions}");
        }
    }
}
