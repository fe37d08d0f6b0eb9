//! The URL of a request while rules change it. It is valid at all times: each part is checked
//! before it is set.

use std::ops::Range;

use forebay_http::{
    authority::Authority,
    target::{is_path, is_query},
};

use super::Url;
use crate::ast::UrlPart;

/// A URL that is being changed.
#[derive(Debug, Default)]
pub(super) struct UrlBuilder {
    /// All parts, concatenated. Replaced parts remain here until the next run.
    bytes: Vec<u8>,
    host: Range<usize>,
    port: Option<u16>,
    path: Range<usize>,
    query: Option<Range<usize>>,
    is_changed: bool,
}

/// The error for a part that is invalid or would make the URL too large. The URL is unchanged.
#[derive(Debug)]
pub(super) struct InvalidUrlPart;

impl UrlBuilder {
    pub(super) fn clear(&mut self) {
        self.is_changed = false;
    }

    /// Returns the changed URL; `None` if no rule has changed it.
    pub(super) fn changed(&self) -> Option<Url<'_>> {
        let part = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        self.is_changed.then(|| Url {
            host: part(&self.host),
            port: self.port,
            path: part(&self.path),
            query: self.query.as_ref().map(part),
        })
    }

    /// Sets a part. `now` is the URL before the first change of this run.
    pub(super) fn set(
        &mut self,
        now: Url<'_>,
        part: &UrlPart,
        value: &[u8],
        bytes_max: usize,
    ) -> Result<(), InvalidUrlPart> {
        match part {
            UrlPart::Scheme => {
                value.eq_ignore_ascii_case(b"http").then_some(()).ok_or(InvalidUrlPart)
            }
            UrlPart::Host => self.set_host(now, value),
            UrlPart::Port => self.set_port(now, value),
            UrlPart::Path => self.set_path(now, value, bytes_max),
            UrlPart::Query => self.set_query(now, Some(value), bytes_max),
            UrlPart::QueryParameter(_) => Err(InvalidUrlPart),
            UrlPart::Whole => self.set_whole(now, value, bytes_max),
        }
    }

    /// Removes a part; returns false if that is not possible.
    pub(super) fn remove(&mut self, now: Url<'_>, part: &UrlPart) -> bool {
        match part {
            UrlPart::Path => self.set_path(now, b"", 1).is_ok(),
            UrlPart::Port => {
                self.begin(now);
                self.port = None;
                true
            }
            UrlPart::Query => {
                self.begin(now);
                self.query = None;
                true
            }
            _ => false,
        }
    }

    /// Copies the current URL, if this is its first change.
    fn begin(&mut self, now: Url<'_>) {
        if self.is_changed {
            return;
        }
        self.bytes.clear();
        self.host = self.push(now.host);
        self.port = now.port;
        self.path = self.push(now.path);
        self.query = now.query.map(|query| self.push(query));
        self.is_changed = true;
    }

    fn push(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        start..self.bytes.len()
    }

    fn set_host(&mut self, now: Url<'_>, value: &[u8]) -> Result<(), InvalidUrlPart> {
        let authority = Authority::parse(value).ok_or(InvalidUrlPart)?;
        if authority.port.is_some() {
            return Err(InvalidUrlPart);
        }
        self.begin(now);
        self.host = self.push(value);
        Ok(())
    }

    fn set_port(&mut self, now: Url<'_>, value: &[u8]) -> Result<(), InvalidUrlPart> {
        let port = str::from_utf8(value).ok().and_then(|port| port.parse::<u16>().ok());
        let port = port.filter(|port| *port > 0).ok_or(InvalidUrlPart)?;
        // An HTTP/1.0 request may have no host, and a port alone is not an authority.
        if self.now_or(now).host.is_empty() {
            return Err(InvalidUrlPart);
        }
        self.begin(now);
        self.port = Some(port);
        Ok(())
    }

    /// Sets the path; `value` has no leading slash.
    fn set_path(
        &mut self,
        now: Url<'_>,
        value: &[u8],
        bytes_max: usize,
    ) -> Result<(), InvalidUrlPart> {
        let path = value;
        let query_bytes = self.now_or(now).query.map_or(0, <[u8]>::len);
        if !is_path(path) || path.len() + 1 + query_bytes > bytes_max.max(query_bytes + 1) {
            return Err(InvalidUrlPart);
        }
        self.begin(now);
        let start = self.bytes.len();
        self.bytes.push(b'/');
        self.bytes.extend_from_slice(path);
        self.path = start..self.bytes.len();
        Ok(())
    }

    /// Sets the query; `None` removes it.
    pub(super) fn set_query(
        &mut self,
        now: Url<'_>,
        value: Option<&[u8]>,
        bytes_max: usize,
    ) -> Result<(), InvalidUrlPart> {
        let path_bytes = self.now_or(now).path.len();
        let value = value.filter(|value| !value.is_empty());
        if value.is_some_and(|value| !is_query(value) || value.len() + path_bytes > bytes_max) {
            return Err(InvalidUrlPart);
        }
        self.begin(now);
        self.query = value.map(|value| self.push(value));
        Ok(())
    }

    /// Parses and sets `http://host[:port][/path][?query]`.
    fn set_whole(
        &mut self,
        now: Url<'_>,
        value: &[u8],
        bytes_max: usize,
    ) -> Result<(), InvalidUrlPart> {
        let rest = value.strip_prefix(b"http://").ok_or(InvalidUrlPart)?;
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (authority, target) = rest.split_at_checked(end).ok_or(InvalidUrlPart)?;
        let authority = Authority::parse(authority).ok_or(InvalidUrlPart)?;
        let mark = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
        let (path, query) = target.split_at_checked(mark).ok_or(InvalidUrlPart)?;
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let query = query.strip_prefix(b"?");
        let is_valid = is_path(path) && query.is_none_or(is_query);
        if !is_valid || target.len() + 1 > bytes_max {
            return Err(InvalidUrlPart);
        }
        self.begin(now);
        self.host = self.push(authority.host);
        self.port = authority.port;
        let start = self.bytes.len();
        self.bytes.push(b'/');
        self.bytes.extend_from_slice(path);
        self.path = start..self.bytes.len();
        self.query = query.map(|query| self.push(query));
        Ok(())
    }

    fn now_or<'u>(&'u self, now: Url<'u>) -> Url<'u> {
        self.changed().unwrap_or(now)
    }
}
