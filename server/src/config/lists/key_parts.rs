//! Settings that put request fields and cookies into the key.
//!
//! These fields and cookies are part of the secondary key, beside the fields that a response lists
//! in Vary. So responses that differ in them are variants of one URL, and a purge of the URL
//! reaches all of them.

use forebay_http::fields::FieldId;
use forebay_http::hop::HOP_BY_HOP;
use forebay_http::policy::cookies::may_be_named;
use forebay_http::policy::vary::{COOKIE_PREFIX, FieldNames};
use http::HeaderName;

use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::config::table::RouteSettings;
use crate::forwarding::{CONDITIONS, REWRITTEN};
use crate::limits::KEY_PARTS_MAX;

/// The names of the request fields that are in the key, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFields(Vec<Box<[u8]>>);

/// The names of the cookies that are in the key, in lower case, each with [`COOKIE_PREFIX`] before
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyCookies(Vec<Box<[u8]>>);

impl KeyFields {
    /// Whether a field is in the key, ignoring case.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.0.iter().any(|listed| listed.eq_ignore_ascii_case(name))
    }
}

impl KeyCookies {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an origin may take a cookie of this name for a cookie that is in the key.
    pub fn may_have(&self, name: &[u8]) -> bool {
        let mut listed = self.0.iter().filter_map(|listed| listed.strip_prefix(COOKIE_PREFIX));
        listed.any(|listed| may_be_named(name, listed, false))
    }
}

impl RouteSettings {
    /// Returns the names that the settings add to the names in Vary.
    pub(crate) fn key_names(&self) -> impl Iterator<Item = &[u8]> {
        self.key_fields.0.iter().chain(&self.key_cookies.0).map(|name| &**name)
    }

    /// Whether a response may answer requests if its secondary key was made with these names: they
    /// must include every name that the settings add.
    #[inline]
    pub(crate) fn keys_by(&self, names: &[u8]) -> bool {
        if self.key_fields.0.is_empty() && self.key_cookies.0.is_empty() {
            return true;
        }
        let is_stored = |name| {
            FieldNames::decode(names).is_some_and(|names| names.iter().any(|stored| stored == name))
        };
        self.key_names().all(is_stored)
    }
}

impl Readable for KeyFields {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let check = |name: &str| {
            let id = FieldId::of(name.as_bytes());
            match HeaderName::try_from(name) {
                Err(_) => Err("write the name of a field"),
                Ok(_) if id == FieldId::Host => Err("leave Host out; every key contains the host"),
                Ok(_) if [CONDITIONS, REWRITTEN, HOP_BY_HOP].iter().any(|set| set.contains(id)) => {
                    Err("the origin does not get this field as the client sends it")
                }
                Ok(_) => Ok(()),
            }
        };
        read_names(raw, setting, b"", check).map(KeyFields)
    }
}

impl Readable for KeyCookies {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let check = |name: &str| match HeaderName::try_from(name).is_ok() && !name.contains('*') {
            true => Ok(()),
            false => Err("write the name of a cookie"),
        };
        read_names(raw, setting, COOKIE_PREFIX, check).map(KeyCookies)
    }
}

fn read_names(
    raw: RawValue<'_>,
    setting: &Setting,
    prefix: &[u8],
    check: impl Fn(&str) -> Result<(), &'static str>,
) -> Result<Vec<Box<[u8]>>, ValueProblem> {
    let texts = setting.texts(raw)?;
    if texts.len() > KEY_PARTS_MAX {
        return Err(setting.problem(format_args!("has more than {KEY_PARTS_MAX} elements")));
    }
    let mut names: Vec<Box<[u8]>> = Vec::new();
    for text in texts {
        let refused = |hint| setting.problem(format_args!("cannot contain {text:?}")).hint(hint);
        check(text).map_err(refused)?;
        let name = [prefix, &text.to_ascii_lowercase().into_bytes()].concat().into();
        if names.contains(&name) {
            return Err(refused("the name is already in the list"));
        }
        names.push(name);
    }
    Ok(names)
}
