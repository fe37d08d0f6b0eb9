//! `GET /ls`: stored responses in the order of their keys, one line for each resource.

use std::fmt::Write;
use std::rc::Rc;

use forebay_cache::{KeyIndexDamaged, ListedResource, Selection};
use forebay_http::policy::directives::RequestDirectives;
use forebay_http::policy::freshness::current_age;
use forebay_http::policy::meta::StoredMeta;
use forebay_http::policy::reuse::{ForwardReason, ReuseDecision, judge};
use http::StatusCode;
use serde_json::json;

use super::body::{AdminResponse, ClientGone, LineSender, json_answer};
use super::query::{AdminQuery, QueryError};
use crate::clock;
use crate::config::Config;
use crate::engine::Control;
use crate::key::{KeyText, site_url_key};
use crate::limits::LISTED_AT_ONCE_MAX;
use crate::lookup::stored_meta;
use crate::terminal::escaped_json;

const KNOWN: &[&str] = &["host", "prefix", "tag", "site", "after", "limit"];

/// The part of a list that is still to be written.
struct Listing {
    selections: Vec<Selection>,
    /// The key after which the list continues; at the end, the key of the last line.
    after: Option<Vec<u8>>,
    left: u64,
    listed: u64,
}

pub(super) fn list(control: &Rc<Control>, query: Option<&str>) -> AdminResponse {
    if !control.store_is_used() {
        let text = "nothing was listed: a process with another cache is taking over; try again";
        return json_answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": text }));
    }
    let read = control.with_config(|config| Listing::read(config, query));
    let listing = match read {
        Ok(listing) => listing,
        Err(bad) => return json_answer(StatusCode::BAD_REQUEST, &bad.to_json()),
    };
    let (lines, answer) = LineSender::answer();
    let control = Rc::clone(control);
    tokio::task::spawn_local(async move {
        // The client may close the connection once it has read enough.
        let _ = listing.write(&control, &lines).await;
    });
    answer
}

impl Listing {
    fn read(config: &Config, query: Option<&str>) -> Result<Listing, QueryError> {
        let query = AdminQuery::parse(query, KNOWN)?;
        let mut selections = query.selections(config)?;
        let after = query.text("after").map(key_after).transpose()?;
        if let Some(after) = &after {
            selections.retain(|selection| reaches_behind(&selection.within, after));
        }
        let left = query.number("limit")?.unwrap_or(u64::MAX);
        Ok(Listing { selections, after, left, listed: 0 })
    }

    /// Writes the list in slices, so that other tasks can run in between. The last line has the
    /// number of listed resources and, if there may be more, the key after which to continue.
    async fn write(mut self, control: &Control, lines: &LineSender) -> Result<(), ClientGone> {
        let selections = std::mem::take(&mut self.selections);
        'all: for selection in &selections {
            let mut after = self.after.clone().filter(|after| after.starts_with(&selection.within));
            loop {
                if self.left == 0 {
                    break 'all;
                }
                let (text, next) = match self.slice(control, selection, after.as_deref()) {
                    Ok(slice) => slice,
                    Err(damaged) => {
                        return lines.write_json(&json!({ "error": damaged.to_string() })).await;
                    }
                };
                if !text.is_empty() {
                    lines.write(text).await?;
                }
                tokio::task::yield_now().await;
                if next.is_none() {
                    break;
                }
                after = next;
            }
        }
        // If the limit ended the list, some keys or selections may not have been listed.
        let goes_on = self.after.filter(|_| self.left == 0);
        let after = goes_on.and_then(|key| KeyText::of(&key));
        let after = after.map(|text| format!("{} {}", text.site, text.url));
        lines.write_json(&json!({ "listed": self.listed, "after": after })).await
    }

    /// Lists the next resources of a selection. Returns their lines and, if there may be more, the
    /// key after which the selection continues.
    fn slice(
        &mut self,
        control: &Control,
        selection: &Selection,
        after: Option<&[u8]>,
    ) -> Result<(String, Option<Vec<u8>>), KeyIndexDamaged> {
        let limit = usize::try_from(self.left).unwrap_or(usize::MAX).min(LISTED_AT_ONCE_MAX);
        let (now, mut text, mut count) = (clock::unix_seconds(), String::new(), 0);
        let mut last = None;
        let next = control.store_worker.list(selection, after, limit, &mut |resource| {
            write_line(&mut text, resource, now);
            last = Some(resource.key.to_vec());
            count += 1;
        })?;
        self.after = last.or(self.after.take());
        self.left -= count;
        self.listed += count;
        Ok((text, next))
    }
}

/// Parses `SITE URL`, the form of a key in the last line of a list.
///
/// The site need not be configured, because responses of a removed site are listed too.
fn key_after(text: &str) -> Result<Vec<u8>, QueryError> {
    let Some((site, url)) = text.split_once(' ') else {
        return Err(QueryError::new("after", "write the name of a site, a space and a URL"));
    };
    let mut key = Vec::new();
    site_url_key(site, url.as_bytes(), &mut key).map_err(|text| QueryError::new("after", text))?;
    Ok(key)
}

/// Whether any key that begins with `within` can come after the key `after`.
fn reaches_behind(within: &[u8], after: &[u8]) -> bool {
    after.starts_with(within) || within > after
}

fn write_line(text: &mut String, resource: &ListedResource<'_>, now: u64) {
    let key = KeyText::of(resource.key);
    let meta = stored_meta(resource.head);
    let age_s = meta.map(|meta| current_age(meta.initial_age_s, meta.response_time, now));
    let forward =
        meta.map_or(Some(ForwardReason::Miss), |meta| forward_reason(resource, &meta, now));
    let stale_from = i64::try_from(resource.stale_from).unwrap_or(i64::MAX);
    let tags = resource.tags().map(|tag| String::from_utf8_lossy(tag).into_owned());
    let line = json!({
        "url": key.as_ref().map(|key| &key.url),
        "site": key.as_ref().map(|key| &key.site),
        "age_s": age_s,
        "fresh_for_s": stale_from.saturating_sub_unsigned(now),
        "uses": resource.uses,
        "variants": resource.variants,
        "bytes": resource.bytes,
        "tags": tags.collect::<Vec<_>>(),
        "soft": resource.is_soft,
        "fwd": forward.map(ForwardReason::token),
        "detail": meta.and_then(|meta| meta.detail()).map(|detail| detail.to_string()),
    });
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", escaped_json(&line.to_string()));
}

/// Returns why a request without directives would go to the origin; `None` if it would be a hit.
fn forward_reason(
    resource: &ListedResource<'_>,
    meta: &StoredMeta,
    now: u64,
) -> Option<ForwardReason> {
    match judge(meta, &RequestDirectives::EMPTY, now) {
        ReuseDecision::Validate(reason) => Some(reason),
        ReuseDecision::Serve { .. } => resource.is_soft.then_some(ForwardReason::Stale),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Listing, QueryError> {
        let site = "[[site]]\nname = 'a'\nnames = ['a.org', '*.a.org']\norigin = 'http://o'\n";
        let config = Config::from_toml(site, "f.toml").expect("it is right");
        Listing::read(&config, Some(query))
    }

    #[test]
    fn a_list_continues_after_a_key_and_leaves_out_earlier_keys() {
        for (query, expected) in [
            ("host=a.org", &["\0org.a\0", "\0org.a:", "s\0org.a\0", "s\0org.a:"][..]),
            (
                "host=a.org&after=a+http://a.org/x",
                &["\0org.a\0", "\0org.a:", "s\0org.a\0", "s\0org.a:"],
            ),
            ("host=a.org&after=a+http://a.org:8080/x", &["\0org.a:", "s\0org.a\0", "s\0org.a:"]),
            ("host=a.org&after=a+https://a.org:8080/x", &["s\0org.a:"]),
            ("host=a.org&after=a+https://b.org/", &[]),
            ("host=a.org&after=a+http://b.org/", &["s\0org.a\0", "s\0org.a:"]),
            ("prefix=http://a.org/x&after=a+http://a.org/xy", &["\0org.a\0/x"]),
            ("prefix=https://a.org/x", &["s\0org.a\0/x"]),
            ("prefix=http://a.org/x&after=a+http://a.org/y", &[]),
        ] {
            let listing = read(query).unwrap_or_else(|bad| panic!("{query}: {bad:?}"));
            let expected = expected.iter().map(|end| [b"a\0http", end.as_bytes()].concat());
            let within = listing.selections.iter().map(|selection| selection.within.clone());
            assert_eq!(within.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{query}");
        }
        // A site that is no longer configured.
        assert_eq!(
            read("after=b+http://a.org/").expect("b").after,
            Some(b"b\0http\0org.a\0/".into())
        );
        assert_eq!(read("").expect("all").selections, [Selection::within(b"")]);
        assert_eq!(read("limit=5").expect("all").left, 5);
        for (query, argument) in [
            ("after=http://a.org/", "after"),
            ("after=b", "after"),
            ("after=a+ftp://a.org/", "after"),
            ("limit=x", "limit"),
            ("soft", "soft"),
            ("tag=(", "tag"),
        ] {
            assert_eq!(read(query).err().map(|bad| bad.argument), Some(argument.into()), "{query}");
        }
    }
}
