//! Settings that define the normal form of a request: names of parameters and cookies, and
//! languages.

use forebay_http::policy::query::{has_more_parameters, write_normal_query};

use super::NamePatterns;
use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::config::table::RouteSettings;
use crate::limits::{LANGUAGES_MAX, PARAMETERS_MAX};

/// Names of query parameters or cookies. A name that ends in `*` covers every name that begins with
/// the text before it; `*` alone covers all names. Names are compared byte by byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParameterNames {
    names: NamePatterns,
    /// Whether the list covers all names.
    is_all: bool,
}

impl ParameterNames {
    /// Whether the list covers the name.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.is_all || self.names.has(name)
    }

    /// Whether the list covers all names.
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    fn is_empty(&self) -> bool {
        !self.is_all && self.names.is_empty()
    }
}

impl Readable for ParameterNames {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        let is_name = |name: &str| {
            let ends_name = |byte: u8| matches!(byte, b'&' | b'=' | b';' | b'#' | b'?' | b'"');
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !ends_name(byte))
        };
        let is_all = texts.contains(&"*");
        let named: Vec<_> = texts.into_iter().filter(|text| *text != "*").collect();
        if is_all && !named.is_empty() {
            return Err(setting
                .problem("has other elements besides \"*\"")
                .hint("\"*\" covers all names; leave the others out"));
        }
        Ok(ParameterNames { names: NamePatterns::of(named, setting, is_name)?, is_all })
    }
}

/// The languages of a route, as language tags (RFC 5646).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanguageList(Vec<Box<str>>);

impl LanguageList {
    /// Returns the tags as they were configured.
    pub fn tags(&self) -> &[Box<str>] {
        &self.0
    }
}

impl Readable for LanguageList {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > LANGUAGES_MAX {
            return Err(setting.problem(format_args!("has more than {LANGUAGES_MAX} elements")));
        }
        let is_subtag = |subtag: &str| {
            matches!(subtag.len(), 1..=8) && subtag.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        for (index, text) in texts.iter().enumerate() {
            let problem = setting.problem(format_args!("cannot contain {text:?}"));
            if !text.split('-').all(is_subtag) {
                return Err(problem.hint("write a language tag, such as \"de\" or \"pt-BR\""));
            }
            if texts.iter().take(index).any(|earlier| earlier.eq_ignore_ascii_case(text)) {
                return Err(problem.hint("the language is already in the list"));
            }
        }
        Ok(LanguageList(texts.into_iter().map(Box::from).collect()))
    }
}

impl RouteSettings {
    /// Whether the settings can change a request to its normal form.
    pub(crate) fn normalises(&self) -> bool {
        self.normalises_query()
            || !self.keep_cookies.is_all
            || !self.languages.0.is_empty()
            || !self.compress.is_empty()
            || self.decompress
    }

    /// Whether the query has too many parameters to have its normal form computed.
    pub(crate) fn has_many_parameters(&self, path_query: &[u8]) -> bool {
        self.normalises_query() && has_more_parameters(path_query, PARAMETERS_MAX)
    }

    /// Appends path and query in their normal form.
    pub(crate) fn write_path_query(&self, path_query: &[u8], out: &mut Vec<u8>) {
        if !self.normalises_query() || self.has_many_parameters(path_query) {
            return out.extend_from_slice(path_query);
        }
        let keeps = |name: &[u8]| self.keep_query.contains(name) && !self.drop_query.contains(name);
        write_normal_query(path_query, self.sort_query, keeps, out);
    }

    fn normalises_query(&self) -> bool {
        self.sort_query || !self.keep_query.is_all || !self.drop_query.is_empty()
    }
}
