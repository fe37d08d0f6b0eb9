//! `GET /explain`: how a request would be answered now, and why.

use std::net::SocketAddr;
use std::rc::Rc;

use forebay_http::authority::Authority;
use forebay_http::edit::FieldName;
use forebay_http::target::Scheme;
use forebay_rules::apply::{ApplyError, RequestText};
use http::StatusCode;
use serde_json::json;

use super::body::{AdminResponse, json_answer, plain, typed};
use super::query::{AdminQuery, QueryError};
use crate::config::{ListenerNumber, ServerSettings};
use crate::engine::Control;
use crate::explain::ExplainedRequest;
use crate::key::{SplitUrl, split_url};
use crate::parse::head_limits;
use crate::terminal::escaped_json;

const KNOWN: &[&str] = &["url", "method", "header", "listen", "json"];

pub(super) async fn explain(control: &Rc<Control>, query: Option<&str>) -> AdminResponse {
    let read = AdminQuery::parse(query, KNOWN).and_then(|query| {
        let request = control.with_config(|config| request_of(&query, &config.server))?;
        Ok((request, query.is_set("json")?))
    });
    let (request, is_json) = match read {
        Ok(read) => read,
        Err(bad) => return json_answer(StatusCode::BAD_REQUEST, &bad.to_json()),
    };
    match control.explain(request).await {
        None => {
            let text = "no worker replied: all workers are stuck, or the server is stopping";
            json_answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": text }))
        }
        Some(explanation) if is_json => {
            let text = escaped_json(&explanation.to_json().to_string()) + "\n";
            typed(StatusCode::OK, "application/json", text.into())
        }
        Some(explanation) => plain(StatusCode::OK, explanation.to_string()),
    }
}

/// Makes the head of the request that the query describes. A Host field among the `header`
/// parameters replaces the host of the URL, as in curl.
fn request_of(
    query: &AdminQuery,
    settings: &ServerSettings,
) -> Result<ExplainedRequest, QueryError> {
    let url = query.text("url").ok_or_else(|| QueryError::new("url", "give a URL"))?;
    let SplitUrl { scheme, authority, path_query } =
        split_url(url.as_bytes()).map_err(|text| QueryError::new("url", text))?;
    let method = query.text("method").unwrap_or("GET");
    if !is_token(method) {
        return Err(QueryError::new("method", "this is not a valid HTTP method"));
    }
    let (mut lines, mut has_host) = (Vec::new(), false);
    for line in query.text("header").unwrap_or_default().lines() {
        let name = line.split_once(':').map(|(name, _)| name).filter(|name| is_token(name));
        let Some(name) = name else {
            let text = format!("write NAME: VALUE, not {line:?}");
            return Err(QueryError::new("header", text));
        };
        has_host |= name.eq_ignore_ascii_case("host");
        lines.extend_from_slice(line.as_bytes());
        lines.extend_from_slice(b"\r\n");
    }
    let mut text = [method.as_bytes(), b" "].concat();
    match method {
        "CONNECT" => {
            let host = Authority { port: None, ..authority };
            let port = authority.port_or(scheme.default_port());
            text.extend_from_slice(format!("{}:{port}", host_of(host)).as_bytes());
        }
        _ => text.extend_from_slice(path_query),
    }
    text.extend_from_slice(b" HTTP/1.1\r\n");
    if !has_host {
        text.extend_from_slice(format!("Host: {}\r\n", host_of(authority)).as_bytes());
    }
    text.extend_from_slice(&lines);
    text.extend_from_slice(b"\r\n");
    let listener = listener_of(query.text("listen"), (scheme, authority), settings)?;
    let parsed = RequestText::parse(text, &head_limits(settings));
    parsed.map(|text| ExplainedRequest { text, scheme, listener }).map_err(|error| {
        let reason = match error {
            ApplyError::Request(Some(error)) => error.reason(),
            _ => "the fields do not form a valid request",
        };
        QueryError::new("header", reason)
    })
}

/// Returns the listener with the address `given`. Without it, returns the first listener for the
/// scheme of a URL that has the URL's port, else the first one for the scheme.
fn listener_of(
    given: Option<&str>,
    (scheme, authority): (Scheme, Authority<'_>),
    settings: &ServerSettings,
) -> Result<ListenerNumber, QueryError> {
    if let Some(given) = given {
        let address = given.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
        let known = settings.listeners().find(|(_, known, _)| Some(*known) == address);
        let Some((number, ..)) = known else {
            let known: Vec<_> = settings.addresses().map(|known| known.to_string()).collect();
            let text = format!("not an address of the server, which are {}", known.join(", "));
            return Err(QueryError::new("listen", text));
        };
        return Ok(number);
    }
    let port = authority.port.unwrap_or(scheme.default_port());
    let of_scheme =
        || settings.listeners().filter(|(.., is_tls)| *is_tls == (scheme == Scheme::Https));
    let has_port = |(_, address, _): &(_, SocketAddr, _)| address.port() == port;
    // A trusted proxy may have taken the TLS of a client off.
    let found = of_scheme().find(has_port).or_else(|| of_scheme().next());
    let found = found.or_else(|| settings.listeners().find(has_port));
    Ok(found.map(|(number, ..)| number).unwrap_or_default())
}

fn host_of(authority: Authority<'_>) -> String {
    let host = String::from_utf8_lossy(authority.host);
    match authority.port {
        Some(port) => format!("{host}:{port}"),
        None => host.into_owned(),
    }
}

/// Whether the text is a token, the syntax of field names and methods (RFC 9110 §5.6.2).
fn is_token(text: &str) -> bool {
    FieldName::parse(text.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn request(query: &str) -> Result<String, QueryError> {
        let site = "[[site]]\nname = 'a'\nnames = ['a.org']\norigin = 'http://o'\n";
        let config = Config::from_toml(site, "f.toml").expect("it is right");
        let query = AdminQuery::parse(Some(query), KNOWN)?;
        let request = request_of(&query, &config.server)?;
        Ok(String::from_utf8_lossy(request.text.bytes()).into_owned())
    }

    #[test]
    fn a_query_becomes_the_head_of_a_request() {
        for (query, expected) in [
            ("url=http://A.org", "GET / HTTP/1.1\r\nHost: A.org\r\n\r\n"),
            ("url=http://a.org:80/x?y&method=HEAD", "HEAD /x?y HTTP/1.1\r\nHost: a.org:80\r\n\r\n"),
            (
                "url=http://127.0.0.1:8080/&header=host:+a.org%0AAccept:+b",
                "GET / HTTP/1.1\r\nhost: a.org\r\nAccept: b\r\n\r\n",
            ),
        ] {
            assert_eq!(request(query).as_deref(), Ok(expected), "{query}");
        }
    }

    #[test]
    fn a_malformed_url_method_or_field_is_named() {
        for (query, argument, part) in [
            ("", "url", "give a URL"),
            ("url=a.org", "url", "begins with http://"),
            ("url=http://a.org/%20", "url", "path"),
            ("url=http://a.org&method=G+T", "method", "valid HTTP method"),
            ("url=http://a.org&header=Accept", "header", "NAME: VALUE, not \"Accept\""),
            ("url=http://a.org&header=A+b:+c", "header", "NAME: VALUE"),
            ("url=http://a.org&header=A:+%01", "header", "control character"),
            ("url=http://a.org&from=b", "from", "no such parameter"),
            ("url=http://a.org&listen=[::]:8080", "listen", "which are 127.0.0.1:8080"),
            ("url=http://a.org&listen=8080", "listen", "which are 127.0.0.1:8080"),
        ] {
            let bad = request(query).expect_err(query);
            assert!(bad.argument == argument && bad.text.contains(part), "{query}: {bad:?}");
        }
    }
}
