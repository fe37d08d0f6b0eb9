//! A request and an answer that rules are tried on.

use forebay_http::fields::FieldBlock;
use forebay_http::request::{HeadLimits, RequestHead, RequestParts, Version, parse_request};
use forebay_http::target::request_target;
use forebay_http::write;
use forebay_rules::run::Url;

/// For a request that names no host.
const HOST: &str = "example.org";

/// What a server takes by default, and what rules may add.
const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 128 << 10, field_count_max: 1000, target_bytes_max: 16 << 10 };

/// A request head that was parsed as a server would. It has a Host line, and a target without it.
#[derive(Debug)]
pub(super) struct Request {
    text: Vec<u8>,
    parts: RequestParts,
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// If it is not the usual one.
    pub(super) reason: Option<String>,
    pub(super) fields: FieldBlock,
}

impl Request {
    /// From `METHOD URL`, `METHOD /path` or `/path`, and lines `Name: value`.
    ///
    /// # Errors
    /// A sentence: a server would refuse it.
    pub(super) fn new(line: &str, fields: &[String]) -> Result<Request, String> {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or("/"), words.next());
        if words.next().is_some_and(|word| !word.starts_with("HTTP/")) {
            return Err(format!("{line}: that is no request line"));
        }
        let (method, target) = second.map_or(("GET", first), |target| (first, target));
        let (host, target) = match target.strip_prefix("http://") {
            None => (HOST, target),
            Some(rest) => match rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())) {
                (host, "") => (host, "/"),
                parts => parts,
            },
        };
        let mut text = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
        let is_host =
            |line: &String| line.get(..5).is_some_and(|it| it.eq_ignore_ascii_case("host:"));
        if !fields.iter().any(is_host) {
            write::field(&mut text, b"Host", host.as_bytes());
        }
        let lines = block_of(fields)?;
        text.extend_from_slice(lines.bytes());
        text.extend_from_slice(b"\r\n");
        Request::parse(text).map_err(|why| format!("{line}: {why}"))
    }

    /// From a whole head, the empty line included.
    ///
    /// # Errors
    /// A sentence: a server would refuse it.
    pub(super) fn parse(text: Vec<u8>) -> Result<Request, String> {
        let mut parts = RequestParts::default();
        match parse_request(&text, &LIMITS, &mut parts) {
            Ok(Some(bytes)) if bytes == text.len() => {}
            Ok(_) => return Err("that is no request".to_owned()),
            Err(why) => return Err(format!("that is no request: {why}")),
        }
        request_target(parts.head(&text)).map_err(|why| format!("that is no request: {why}"))?;
        Ok(Request { text, parts })
    }

    /// Method and URL as they are now, with other fields.
    pub(super) fn rewritten(&self, url: Url<'_>, fields: &[u8]) -> Result<Request, String> {
        let mut text = self.head().method().as_bytes().to_vec();
        text.push(b' ');
        text.extend_from_slice(url.path);
        if let Some(query) = url.query {
            text.push(b'?');
            text.extend_from_slice(query);
        }
        text.extend_from_slice(match self.head().version() {
            Version::Http10 => b" HTTP/1.0\r\n",
            Version::Http11 => b" HTTP/1.1\r\n",
        });
        text.extend_from_slice(fields);
        text.extend_from_slice(b"\r\n");
        Request::parse(text)
    }

    pub(super) fn head(&self) -> RequestHead<'_> {
        self.parts.head(&self.text)
    }

    /// Its field lines, as they go on the wire.
    pub(super) fn fields(&self) -> FieldBlock {
        let mut block = FieldBlock::new();
        self.head().fields().iter().for_each(|field| block.push_field(field));
        block
    }

    pub(super) fn url(&self) -> Url<'_> {
        let Ok(target) = request_target(self.head()) else {
            return Url::default();
        };
        let mut parts = target.path_query.splitn(2, |byte| *byte == b'?');
        Url {
            host: target.authority.map_or(b"", |authority| authority.host),
            port: target.authority.and_then(|authority| authority.port),
            path: parts.next().unwrap_or_default(),
            query: parts.next(),
        }
    }

    /// Request line and fields.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        lines.take_while(|line| !line.is_empty()).map(shown).collect()
    }
}

impl Answer {
    /// # Errors
    /// A sentence: one of the lines is no field.
    pub(super) fn new(status: u16, fields: &[String]) -> Result<Answer, String> {
        Ok(Answer { status, reason: None, fields: block_of(fields)? })
    }

    /// Status line and fields.
    pub(super) fn lines(&self) -> Vec<String> {
        let usual = write::reason_phrase(self.status);
        let reason = self.reason.as_deref().unwrap_or(usual);
        let mut lines = vec![format!("HTTP/1.1 {} {reason}", self.status)];
        lines.extend(lines_of(&self.fields));
        lines
    }
}

/// Field lines as text.
pub(super) fn lines_of(block: &FieldBlock) -> Vec<String> {
    let fields = block.fields();
    let line = |name, value| format!("{}: {}", shown(name), shown(value));
    fields.iter().map(|field| line(field.name, field.value)).collect()
}

/// From lines `Name: value`.
fn block_of(lines: &[String]) -> Result<FieldBlock, String> {
    let mut text = Vec::new();
    for line in lines {
        let no_field = || format!("{line:?} is no field: write it as 'Name: value'");
        let (name, value) = line.split_once(':').ok_or_else(no_field)?;
        let name = forebay_http::edit::FieldName::parse(name.as_bytes()).ok_or_else(no_field)?;
        let value = value.trim().as_bytes();
        let value = forebay_http::edit::FieldValue::parse(value).ok_or_else(no_field)?;
        write::field(&mut text, name.as_bytes(), value.as_bytes());
    }
    FieldBlock::parse(&text).ok_or_else(|| "these are no fields".to_owned())
}

/// Bytes of a message or a file for a terminal: control characters are shown as `?`.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
