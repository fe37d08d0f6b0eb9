//! Targeted cache control (RFC 9213): response fields whose directives are for some caches only,
//! and that these caches obey in place of Cache-Control and Expires.

use crate::fields::{FieldId, Fields};
use crate::policy::directives::{DELTA_S_MAX, ResponseDirectives};
use crate::policy::structured::{BareItem, MemberValue, dictionary};

/// The names of the targeted fields that this cache obeys, the most preferred first (RFC 9213
/// §2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetList {
    names: Vec<Box<[u8]>>,
}

/// The directives that the targeted fields of a response give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetedControl<'a> {
    /// The name of the field that gives the directives.
    pub name: Option<&'a [u8]>,
    /// The directives of the first valid field; `None` if there is none.
    pub directives: Option<ResponseDirectives>,
    /// Whether a field that takes precedence over `name` was ignored, because it is invalid.
    pub has_invalid: bool,
}

impl TargetList {
    /// The list without names, with which only Cache-Control and Expires count.
    pub const EMPTY: TargetList = TargetList { names: Vec::new() };

    /// Creates the list of these names, the most preferred first.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> TargetList {
        TargetList { names: names.into_iter().map(|name| name.as_bytes().into()).collect() }
    }

    /// Whether the field is for this cache alone, and so must not be forwarded to clients.
    ///
    /// Every listed name is one of our own, except `CDN-Cache-Control`: RFC 9213 §3.1 has it
    /// forwarded, because further caches of this kind may be before the client.
    // RFC: 9213-2.2-4
    pub fn is_own(&self, name: &[u8]) -> bool {
        FieldId::of(name) != FieldId::CdnCacheControl
            && self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// RFC 9213 §2.2: returns the directives of the first listed field that has a valid value that
    /// is not empty.
    // RFC: 9213-2.1-4, 9213-2.2-1, 9213-2.2-3, 9213-2.4-1
    pub fn select(&self, response: Fields<'_>) -> TargetedControl<'_> {
        let mut has_invalid = false;
        for name in &self.names {
            let is_named = |field_name: &[u8]| field_name.eq_ignore_ascii_case(name);
            let mut lines = response.iter().filter(|field| is_named(field.name)).peekable();
            if lines.peek().is_none() {
                continue;
            }
            let directives = parse(lines.map(|field| field.value));
            if directives.is_some() {
                return TargetedControl { name: Some(name), directives, has_invalid };
            }
            has_invalid = true;
        }
        TargetedControl { name: None, directives: None, has_invalid }
    }
}

/// RFC 9213 §2.1: parses a targeted field; `None` if it is empty, is no Dictionary, or has a known
/// directive whose value has another type than the directive's definition implies. Directives that
/// are unknown are ignored, whatever their values are.
// RFC: 9213-2.1-3, 9213-2.1-4
fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<ResponseDirectives> {
    let members = dictionary(lines)?;
    if members.is_empty() {
        return None;
    }
    let mut directives = ResponseDirectives::default();
    for (name, value) in &members {
        if let Some(seconds) = directives.seconds(name) {
            *seconds = Some(delta(value)?);
        } else if let Some(flag) = directives.flag(name) {
            *flag = is_set(name, value).then_some(true)?;
        }
    }
    Some(directives)
}

/// Returns the value of a directive that is a number of seconds.
fn delta(value: &MemberValue) -> Option<u32> {
    match value {
        MemberValue::Item(BareItem::Integer(seconds)) => {
            let seconds = u64::try_from(*seconds).ok()?;
            Some(u32::try_from(seconds).map_or(DELTA_S_MAX, |seconds| seconds.min(DELTA_S_MAX)))
        }
        _ => None,
    }
}

/// Whether a directive without a number has a valid value: `true` or, where a list of field names
/// is defined for the directive, a String.
fn is_set(name: &[u8], value: &MemberValue) -> bool {
    match value {
        MemberValue::Item(BareItem::Boolean(is_true)) => *is_true,
        MemberValue::Item(BareItem::String(_)) => matches!(name, b"no-cache" | b"private"),
        _ => false,
    }
}
