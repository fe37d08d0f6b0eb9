//! Test files for rules: requests, responses and expected results.
//!
//! `docs/rules.md` describes the format. A line that starts with an arrow is part of a message: `>`
//! from the client, `>>` to the origin, `<<` from the origin, `<` to the client.

use std::path::Path;

use forebay_rules::ast::RuleScope;
use forebay_rules::run::CacheResult;

use super::files::scope_named;
use super::flow::TrialExchange;
use super::message::{TrialRequest, TrialResponse};
use super::world::{LOOKUPS, TrialWorld};

/// A parsed test file.
#[derive(Debug, Default)]
pub(super) struct TestFile {
    /// The rule files under test, with their scopes.
    pub(super) rules: Vec<(String, Option<RuleScope>)>,
    pub(super) cases: Vec<TestCase>,
}

/// One test of a test file.
#[derive(Debug, Default)]
pub(super) struct TestCase {
    pub(super) name: String,
    pub(super) line: usize,
    asks: MessageLines,
    answers: MessageLines,
    client: Option<std::net::IpAddr>,
    cache: Option<CacheResult>,
    now: Option<u64>,
    random: Option<u64>,
    pub(super) to_origin: Expectation,
    /// Whether the test expects that no request goes to the origin.
    pub(super) no_origin: bool,
    pub(super) to_client: Expectation,
    pub(super) body: Option<String>,
}

/// The start line and the fields of a request or response.
#[derive(Debug, Default)]
struct MessageLines {
    start: Option<String>,
    fields: Vec<String>,
}

/// The expectations of a test about one message.
#[derive(Debug, Default)]
pub(super) struct Expectation {
    /// The method and target of a request, or the status of a response.
    pub(super) start: Option<String>,
    /// The expected fields. They list all lines of each name that occurs in them.
    pub(super) fields: Vec<(String, String)>,
    /// Names of fields that must be absent.
    pub(super) absent: Vec<String>,
}

impl Expectation {
    pub(super) fn is_empty(&self) -> bool {
        self.start.is_none() && self.fields.is_empty() && self.absent.is_empty()
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        if let Some(name) = text.strip_prefix('!') {
            self.absent.push(name.trim().to_owned());
        } else if is_field(text) {
            let (name, value) = text.split_once(':').unwrap_or_default();
            self.fields.push((name.to_owned(), value.trim().to_owned()));
        } else if self.start.replace(text.to_owned()).is_some() {
            return Err(format!("the message already has a start line, so it cannot have {text}"));
        }
        Ok(())
    }
}

impl MessageLines {
    fn add(&mut self, text: &str) -> Result<(), String> {
        if is_field(text) {
            self.fields.push(text.to_owned());
        } else if self.start.replace(text.to_owned()).is_some() {
            return Err(format!("the message already has a start line, so it cannot have {text}"));
        }
        Ok(())
    }
}

/// Whether the text is a field: its first word has a colon, and is neither a path nor a URL.
fn is_field(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.contains(':') && !word.starts_with('/') && !word.starts_with("http://")
}

impl TestFile {
    /// Parses a test file.
    ///
    /// # Errors
    /// The text is `line: message`.
    pub(super) fn parse(path: &Path, text: &str) -> Result<TestFile, String> {
        let mut file = TestFile::default();
        let mut scope = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            file.add(path, &mut scope, (number, line)).map_err(|why| format!("{number}: {why}"))?;
        }
        if file.rules.is_empty() {
            return Err("1: no line `rules FILE` names the rules under test".to_owned());
        }
        let idle = file.cases.iter().find(|case| !case.expects());
        match idle {
            Some(case) => Err(format!("{}: the test has no expectations", case.line)),
            None => Ok(file),
        }
    }

    fn add(
        &mut self,
        path: &Path,
        scope: &mut Option<RuleScope>,
        (number, line): (usize, &str),
    ) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match (word, self.cases.last_mut()) {
            ("test", _) => {
                self.cases.push(TestCase {
                    name: rest.to_owned(),
                    line: number,
                    ..TestCase::default()
                });
                Ok(())
            }
            (_, Some(case)) => case.add(word, rest),
            ("scope", None) => {
                *scope = Some(scope_named(rest).ok_or("a scope is `server` or `route`")?);
                Ok(())
            }
            ("rules", None) => {
                let dir = path.parent().unwrap_or(Path::new(""));
                let named = rest.split_whitespace().map(|name| dir.join(name));
                self.rules.extend(named.map(|path| (path.display().to_string(), *scope)));
                Ok(())
            }
            _ => Err(format!("`{word}` is not allowed here; expected `scope`, `rules` or `test`")),
        }
    }
}

impl TestCase {
    fn add(&mut self, word: &str, rest: &str) -> Result<(), String> {
        match word {
            ">" => self.asks.add(rest)?,
            "<<" => self.answers.add(rest)?,
            ">>" if rest == "none" => self.no_origin = true,
            ">>" => self.to_origin.add(rest)?,
            "<" => self.to_client.add(rest)?,
            "client" => {
                self.client = Some(rest.parse().map_err(|_| format!("not an IP address: {rest}"))?)
            }
            "cache" => {
                let found = LOOKUPS.into_iter().find(|result| result.as_str() == rest);
                let all = LOOKUPS.map(CacheResult::as_str).join(", ");
                self.cache = Some(found.ok_or_else(|| format!("{rest}: expected one of {all}"))?);
            }
            "now" => self.now = Some(number(rest)?),
            "random" => self.random = Some(number(rest)?),
            "body" => self.body = Some(rest.to_owned()),
            _ => {
                let known = ">, >>, <<, <, client, cache, now, random, body, test";
                return Err(format!("`{word}`: expected one of {known}"));
            }
        }
        Ok(())
    }

    fn expects(&self) -> bool {
        let is_empty = self.to_client.is_empty() && self.to_origin.is_empty();
        !is_empty || self.no_origin || self.body.is_some()
    }

    /// Returns the input of the trial.
    pub(super) fn exchange(&self) -> Result<TrialExchange, String> {
        let line = self.asks.start.as_deref().unwrap_or("GET /");
        let request = TrialRequest::new(line, &self.asks.fields)?;
        let status = self.answers.start.as_deref().unwrap_or("200");
        let code = status.split(' ').next().and_then(|code| code.parse().ok());
        let code = code.filter(|code| (200..=599).contains(code));
        let code = code.ok_or_else(|| format!("{status}: not a status from 200 to 599"))?;
        let mut world = TrialWorld::default();
        world.client = self.client.unwrap_or(world.client);
        world.found = self.cache.unwrap_or(world.found);
        world.now = self.now.unwrap_or(world.now);
        world.random = self.random.unwrap_or(world.random);
        Ok(TrialExchange {
            request,
            answer: TrialResponse::new(code, &self.answers.fields)?,
            world,
        })
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text}: expected a whole number"))
}
