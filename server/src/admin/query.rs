//! The query of an admin request: the selection of stored responses, and other options.

use std::collections::BTreeMap;

use forebay_cache::{Selection, TagExpr};
use serde_json::{Value, json};

use crate::config::Config;
use crate::key::{host_prefixes, site_prefixes, url_prefixes};

/// The parameters of a query by name, each at most once.
#[derive(Debug)]
pub(super) struct AdminQuery {
    values: BTreeMap<&'static str, String>,
}

/// The error of an invalid parameter.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueryError {
    /// The name of the parameter.
    pub(super) argument: String,
    pub(super) text: String,
    /// The offset of the error in the parameter's value, in bytes.
    pub(super) at: Option<usize>,
}

impl QueryError {
    pub(super) fn new(argument: impl Into<String>, text: impl Into<String>) -> QueryError {
        QueryError { argument: argument.into(), text: text.into(), at: None }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut value = json!({ "error": self.text, "argument": self.argument });
        if let Some(at) = self.at {
            value["at"] = json!(at);
        }
        value
    }
}

impl AdminQuery {
    /// Parses a query in the encoding of HTML forms. An unknown name is an error, because a purge
    /// that ignored a misspelt parameter would select other responses.
    pub(super) fn parse(
        query: Option<&str>,
        known: &[&'static str],
    ) -> Result<AdminQuery, QueryError> {
        let mut values = BTreeMap::new();
        for part in query.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let Some(name) = known.iter().find(|known| **known == name) else {
                let text =
                    format!("there is no such parameter; the parameters are {}", known.join(", "));
                return Err(QueryError::new(name, text));
            };
            let Some(value) = decode(value) else {
                return Err(QueryError::new(*name, "the value is not percent-encoded UTF-8"));
            };
            if values.insert(*name, value).is_some() {
                return Err(QueryError::new(*name, "give the parameter only once"));
            }
        }
        Ok(AdminQuery { values })
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Whether a boolean parameter is given and true.
    pub(super) fn is_set(&self, name: &str) -> Result<bool, QueryError> {
        match self.text(name) {
            None => Ok(false),
            Some("" | "1" | "true") => Ok(true),
            Some("0" | "false") => Ok(false),
            Some(_) => Err(QueryError::new(name, "give true or false")),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, QueryError> {
        let parsed = self.text(name).map(str::parse).transpose();
        parsed.map_err(|_| QueryError::new(name, "give a whole number"))
    }

    /// Whether the query selects by host, URL prefix or tags.
    pub(super) fn selects(&self) -> bool {
        ["host", "prefix", "tag"].iter().any(|name| self.values.contains_key(name))
    }

    /// Returns the selections of the query, in the order of keys. Each selection consists of a key
    /// prefix and the tags.
    pub(super) fn selections(&self, config: &Config) -> Result<Vec<Selection>, QueryError> {
        let site = self.text("site");
        if let Some(site) = site {
            has_site(config, site)?;
        }
        let prefixes = match (self.text("host"), self.text("prefix")) {
            (Some(_), Some(_)) => {
                return Err(QueryError::new(
                    "host",
                    "a prefix already contains a host; give either host or prefix",
                ));
            }
            (Some(host), None) => {
                host_prefixes(config, host, site).map_err(|text| QueryError::new("host", text))?
            }
            (None, Some(url)) if url.ends_with('*') => {
                return Err(QueryError::new("prefix", "leave out the * at the end of the prefix"));
            }
            (None, Some(url)) => url_prefixes(config, url.as_bytes(), site)
                .map_err(|text| QueryError::new("prefix", text))?,
            (None, None) => {
                site_prefixes(config, site).map_err(|text| QueryError::new("site", text))?
            }
        };
        let tags = self.text("tag").map(tag_expr).transpose()?;
        let selection = |within| Selection { within, tags: tags.clone() };
        Ok(prefixes.into_iter().map(selection).collect())
    }
}

/// Checks the name of a site.
///
/// # Errors
/// The configuration has no site of this name.
pub(super) fn has_site(config: &Config, name: &str) -> Result<(), QueryError> {
    match config.sites.iter().any(|site| site.name == name) {
        true => Ok(()),
        false => Err(QueryError::new("site", "there is no site with this name")),
    }
}

fn tag_expr(text: &str) -> Result<TagExpr, QueryError> {
    text.parse::<TagExpr>().map_err(|error| QueryError {
        argument: "tag".to_owned(),
        text: error.what.to_owned(),
        at: Some(error.at),
    })
}

/// Decodes `application/x-www-form-urlencoded`, in which a plus is a space.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_first_chunk::<2>()?;
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["host", "prefix", "tag", "site", "soft", "limit"];

    fn parse(query: &str) -> Result<AdminQuery, QueryError> {
        AdminQuery::parse(Some(query), KNOWN)
    }

    #[test]
    fn parameters_are_decoded_and_unknown_doubled_or_broken_ones_refused() {
        let query = parse("tag=a+and+%22b%20c%22&&soft&limit=7&host=").expect("it is right");
        assert_eq!(query.text("tag"), Some("a and \"b c\""));
        assert_eq!((query.text("host"), query.text("site")), (Some(""), None));
        assert_eq!((query.is_set("soft"), query.number("limit")), (Ok(true), Ok(Some(7))));
        assert!(query.selects() && !parse("soft=1").expect("it is right").selects());
        for (query, argument, part) in [
            ("tags=a", "tags", "the parameters are host, prefix"),
            ("Tag=a", "Tag", "no such"),
            ("tag=a&tag=b", "tag", "once"),
            ("tag=%", "tag", "percent"),
            ("tag=%4", "tag", "percent"),
            ("tag=%zz", "tag", "percent"),
            ("tag=%+1", "tag", "percent"),
            ("tag=%ff", "tag", "UTF-8"),
        ] {
            let bad = parse(query).expect_err(query);
            assert!(bad.argument == argument && bad.text.contains(part), "{query}: {bad:?}");
        }
        let query = parse("soft=yes&limit=-1").expect("the query parses");
        assert!(query.is_set("soft").is_err() && query.number("limit").is_err());
        assert_eq!(parse("soft=0").expect("it is right").is_set("soft"), Ok(false));
    }

    #[test]
    fn an_error_names_the_parameter_at_fault() {
        let site = "[[site]]\nname = 'a'\nnames = ['a.org']\norigin = 'http://o'\n";
        let config = Config::from_toml(site, "f.toml").expect("it is right");
        for (query, argument, at) in [
            ("host=b.org", "host", None),
            ("host=a.org&site=b", "site", None),
            ("prefix=a.org", "prefix", None),
            ("prefix=http://a.org&host=a.org", "host", None),
            ("tag=a&site=b", "site", None),
            ("tag=a+and", "tag", Some(5)),
            ("tag=", "tag", Some(0)),
        ] {
            let bad = parse(query).expect("the query parses").selections(&config);
            let bad = bad.expect_err(query);
            assert_eq!((bad.argument.as_str(), bad.at), (argument, at), "{query}: {bad:?}");
        }
        let query = parse("host=a.org&tag=x&site=a").expect("it is right");
        let selections = query.selections(&config).expect("it is right");
        assert_eq!(selections.len(), 4);
        let begins = [&b"a\0http\0org.a"[..], b"a\0https\0org.a"];
        let of_host = |within: &[u8]| begins.iter().any(|begin| within.starts_with(begin));
        assert!(selections.iter().all(|one| of_host(&one.within)));
        assert!(selections.iter().all(|one| one.tags == "x".parse().ok()));
    }
}
