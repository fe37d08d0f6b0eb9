//! The settings `compress` and `compress_types`.

use forebay_http::policy::compression::CompressionRules;

use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::config::suggest::nearest;
use crate::config::table::RouteSettings;
use crate::limits::MEDIA_TYPES_MAX;

/// A content coding that this server can produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentCoding {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

impl ContentCoding {
    pub(crate) const ALL: [ContentCoding; 3] =
        [ContentCoding::Zstd, ContentCoding::Brotli, ContentCoding::Gzip];

    /// Returns the name in Content-Encoding.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            ContentCoding::Zstd => "zstd",
            ContentCoding::Brotli => "br",
            ContentCoding::Gzip => "gzip",
        }
    }

    /// Returns the coding with this name in any case (RFC 9110 §8.4.1); `x-gzip` is an old name.
    pub(crate) fn of_name(name: &[u8]) -> Option<ContentCoding> {
        let is_named = |coding: &ContentCoding| name.eq_ignore_ascii_case(coding.name().as_bytes());
        let known = ContentCoding::ALL.into_iter().find(is_named);
        known.or_else(|| name.eq_ignore_ascii_case(b"x-gzip").then_some(ContentCoding::Gzip))
    }
}

/// The content codings of a route, the most preferred first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressCodings(Vec<ContentCoding>);

impl CompressCodings {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the names of the codings.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static [u8]> + Clone {
        self.0.iter().map(|coding| coding.name().as_bytes())
    }

    /// Returns the coding of this name, if it is in the list.
    pub(crate) fn named(&self, name: &[u8]) -> Option<ContentCoding> {
        self.0.iter().copied().find(|coding| coding.name().as_bytes() == name)
    }
}

impl Readable for CompressCodings {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let mut codings = Vec::new();
        for text in setting.texts(raw)? {
            let problem = setting.problem(format_args!("cannot contain {text:?}"));
            let named = ContentCoding::ALL.into_iter().find(|coding| coding.name() == text);
            let Some(coding) = named else {
                let known = ContentCoding::ALL.map(ContentCoding::name);
                return Err(match (text, nearest(text, known)) {
                    ("brotli", _) => problem.hint("did you mean \"br\"?"),
                    (_, Some(near)) => problem.hint(format!("did you mean {near:?}?")),
                    (_, None) => problem,
                });
            };
            if codings.contains(&coding) {
                return Err(problem.hint("the coding is already in the list"));
            }
            codings.push(coding);
        }
        Ok(CompressCodings(codings))
    }
}

/// Media types without parameters, in lower case. A type that ends in `/*` stands for all its
/// subtypes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaTypes(Vec<Box<str>>);

impl MediaTypes {
    /// Whether the list has the type, which is in lower case and without parameters.
    pub(crate) fn contains(&self, media_type: &[u8]) -> bool {
        self.0.iter().any(|listed| match listed.strip_suffix('*') {
            Some(start) => media_type.starts_with(start.as_bytes()),
            None => media_type == listed.as_bytes(),
        })
    }
}

impl Readable for MediaTypes {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > MEDIA_TYPES_MAX {
            return Err(setting.problem(format_args!("has more than {MEDIA_TYPES_MAX} elements")));
        }
        let is_token = |part: &str| {
            let is_allowed =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
            !part.is_empty() && part.bytes().all(is_allowed)
        };
        let media_type = |text: &str| {
            let problem = setting.problem(format_args!("cannot contain {text:?}"));
            if text.contains(';') {
                return Err(problem.hint("write the type without parameters"));
            }
            match text.split_once('/') {
                Some((kind, subtype))
                    if is_token(kind) && (subtype == "*" || is_token(subtype)) =>
                {
                    Ok(text.to_ascii_lowercase().into())
                }
                _ => Err(problem.hint("write a media type, such as \"text/html\" or \"text/*\"")),
            }
        };
        Ok(MediaTypes(texts.into_iter().map(media_type).collect::<Result<_, _>>()?))
    }
}

impl RouteSettings {
    /// Returns the settings that decide whether a response is compressed.
    pub(crate) fn compression_rules(&self) -> CompressionRules<impl Fn(&[u8]) -> bool> {
        CompressionRules {
            has_type: |media_type: &[u8]| self.compress_types.contains(media_type),
            bytes_min: self.compress_bytes_min,
        }
    }
}
