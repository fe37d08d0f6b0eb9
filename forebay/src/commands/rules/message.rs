//! The request and the response on which rules are tried.

use forebay_http::fields::FieldBlock;
use forebay_http::request::RequestHead;
use forebay_http::target::request_target;
use forebay_http::write;
use forebay_rules::apply::{MessageLimits, OwnAnswer, RequestText, RequestView};
use forebay_rules::run::Url;
use forebay_server::config::ServerSettings;

/// The host of a request that does not name a host.
const HOST: &str = "example.org";

/// A request head, parsed by the parser of a server. It has a Host line, and a target without a
/// host.
#[derive(Debug)]
pub(super) struct TrialRequest(RequestText);

/// A response head on which rules are tried.
#[derive(Clone, Debug)]
pub(super) struct TrialResponse {
    pub(super) status: u16,
    /// The reason phrase, if rules have set one.
    pub(super) reason: Option<Vec<u8>>,
    pub(super) fields: FieldBlock,
}

impl TrialRequest {
    /// Makes a request from `METHOD URL`, `METHOD /path` or `/path`, and field lines `Name: value`.
    ///
    /// # Errors
    /// A server would refuse the request.
    pub(super) fn new(line: &str, fields: &[String]) -> Result<TrialRequest, String> {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or("/"), words.next());
        if words.next().is_some_and(|word| !word.starts_with("HTTP/")) {
            return Err(format!("{line}: not a request line; write it as 'METHOD URL'"));
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
        let text = RequestText::parse(text, &rule_limits().head).map_err(|why| why.to_string());
        text.and_then(TrialRequest::check).map_err(|why| format!("{line}: {why}"))
    }

    /// Checks the target of a parsed request.
    ///
    /// # Errors
    /// The request has no valid target.
    pub(super) fn check(text: RequestText) -> Result<TrialRequest, String> {
        request_target(text.head()).map_err(|why| format!("invalid request: {why}"))?;
        Ok(TrialRequest(text))
    }

    pub(super) fn head(&self) -> RequestHead<'_> {
        self.0.head()
    }

    /// Returns the request as rules see it.
    pub(super) fn view<'a>(&'a self, original: Url<'a>) -> RequestView<'a> {
        let head = self.head();
        let method = head.method().as_bytes();
        RequestView { method, url: self.url(), original, fields: head.fields() }
    }

    /// Returns the field lines as sent.
    pub(super) fn fields(&self) -> FieldBlock {
        let mut block = FieldBlock::new();
        self.head().fields().iter().for_each(|field| block.push_field(field));
        block
    }

    pub(super) fn url(&self) -> Url<'_> {
        let target = request_target(self.head());
        target.map_or(Url::default(), |target| Url::new(target.authority, target.path_query))
    }

    /// Returns the request line and the field lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.0.bytes().split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        lines.take_while(|line| !line.is_empty()).map(shown).collect()
    }
}

impl TrialResponse {
    /// Makes a response from a status and lines `Name: value`.
    ///
    /// # Errors
    /// A line is not a field.
    pub(super) fn new(status: u16, fields: &[String]) -> Result<TrialResponse, String> {
        Ok(TrialResponse { status, reason: None, fields: block_of(fields)? })
    }

    /// Returns the response that a server makes from an answer of rules.
    ///
    /// # Errors
    /// The rules left invalid field lines.
    pub(super) fn own(own: &OwnAnswer) -> Result<TrialResponse, String> {
        let mut lines = Vec::new();
        own.write_fields(&mut lines);
        let fields = FieldBlock::parse(&lines).ok_or(NO_FIELDS)?;
        Ok(TrialResponse { status: own.status(), reason: None, fields })
    }

    /// Returns the head as sent, without the empty line, and the offset of its first field line.
    pub(super) fn text(&self) -> (Vec<u8>, usize) {
        let mut text = Vec::new();
        write::status_line_with(&mut text, self.status, self.reason.as_deref());
        let fields_start = text.len();
        text.extend_from_slice(self.fields.bytes());
        (text, fields_start)
    }

    /// Parses a head that [`TrialResponse::text`] wrote and rules may have changed.
    ///
    /// # Errors
    /// The rules left invalid field lines.
    pub(super) fn read(status: u16, text: &[u8]) -> Result<TrialResponse, String> {
        let mut parts = text.splitn(2, |byte| *byte == b'\n');
        let line = parts.next().unwrap_or_default().trim_ascii_end();
        let fields = FieldBlock::parse(parts.next().unwrap_or_default()).ok_or(NO_FIELDS)?;
        // The reason phrase follows the version and the status.
        let reason = line.splitn(3, |byte| *byte == b' ').nth(2).map(<[u8]>::to_vec);
        Ok(TrialResponse { status, reason, fields })
    }

    /// Returns the status line and the field lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let (text, fields_start) = self.text();
        let line = text.get(..fields_start).unwrap_or_default();
        let mut lines = vec![shown(line.trim_ascii_end())];
        lines.extend(lines_of(&self.fields));
        lines
    }
}

/// Returns field lines as text.
pub(super) fn lines_of(block: &FieldBlock) -> Vec<String> {
    let fields = block.fields();
    let line = |name, value| format!("{}: {}", shown(name), shown(value));
    fields.iter().map(|field| line(field.name, field.value)).collect()
}

/// Parses field lines `Name: value`.
fn block_of(lines: &[String]) -> Result<FieldBlock, String> {
    let mut text = Vec::new();
    for line in lines {
        let no_field = || format!("{line:?}: not a field; write it as 'Name: value'");
        let (name, value) = line.split_once(':').ok_or_else(no_field)?;
        let name = forebay_http::edit::FieldName::parse(name.as_bytes()).ok_or_else(no_field)?;
        let value = value.trim().as_bytes();
        let value = forebay_http::edit::FieldValue::parse(value).ok_or_else(no_field)?;
        write::field(&mut text, name.as_bytes(), value.as_bytes());
    }
    FieldBlock::parse(&text).ok_or_else(|| NO_FIELDS.to_owned())
}

const NO_FIELDS: &str = "the field lines cannot be parsed";

/// Returns the limits for heads that rules change, in a server with default settings.
pub(super) fn rule_limits() -> MessageLimits {
    ServerSettings::default().rule_limits()
}

/// Returns bytes of a message or a file as text for a terminal. Control characters become `?`.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
