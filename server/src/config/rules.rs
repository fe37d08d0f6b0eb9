//! Reads, checks and plans the rule files that a configuration names.
//!
//! Each route has one program: rules of the server come first, then rules of the site, then rules
//! of the route.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_rules::ast::{RuleList, RuleScope};
use forebay_rules::diagnostic::{Diagnostic, Severity};
use forebay_rules::filter::Filters;
use forebay_rules::plan::Program;
use toml::de::DeValue;

use super::error::{ConfigError, ProblemSpan, SourceSpan};
use super::file::read_bytes;
use super::read::{Reader, Value, raw};
use super::setting::{Setting, ValueProblem};
use super::watched::WatchedFile;
use super::{Config, Route, Site};
use crate::limits::RULE_FILES_MAX;
use crate::rules::RuleCounters;

/// The rules for requests of one route, or for requests to hosts without a site.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// The program made from the rules.
    pub program: Program,
    /// The index of the set's first rule among the rules of all sets of the configuration.
    pub first: usize,
    /// The index of the set's first counter among the counters of all sets of the configuration.
    pub first_counter: usize,
    /// Paths and texts of the set's files. Sets with equal sources are equal.
    sources: Vec<(PathBuf, Arc<str>)>,
}

impl PartialEq for RuleSet {
    fn eq(&self, other: &RuleSet) -> bool {
        self.sources == other.sources
    }
}

impl Config {
    /// Whether the configuration has any header rules.
    pub(crate) fn has_rules(&self) -> bool {
        !self.rule_counters.is_empty()
    }

    /// Returns all rule sets. The first has only the rules of the server.
    pub fn rule_sets(&self) -> &[RuleSet] {
        &self.rule_sets
    }

    /// Returns the rules for requests of this route or, without a route, for requests to hosts
    /// without a site.
    pub(crate) fn rules_of(&self, route: Option<&Route>) -> &RuleSet {
        let number = route.map_or(0, |route| route.rule_set);
        self.rule_sets.get(number).expect("each route has a rule set in its configuration")
    }
}

/// The path of a rule file, and the position at which the configuration names the file.
#[derive(Clone, Debug)]
pub(crate) struct NamedFile {
    path: PathBuf,
    at: ProblemSpan,
}

/// Reads the setting `rules`: the name of a file, or an array of names, relative to the directory
/// of the configuration file that has the setting.
pub(crate) fn named_files(
    reader: &mut Reader<'_>,
    setting: &Setting,
    value: &Value<'_>,
) -> Vec<NamedFile> {
    let dir = reader.sources.dir(value.span().start);
    let elements: Vec<&Value<'_>> = match value.get_ref() {
        DeValue::Array(array) => array.iter().collect(),
        _ => vec![value],
    };
    if let Some(beyond) = elements.get(RULE_FILES_MAX) {
        let problem = setting.problem(format_args!("names more than {RULE_FILES_MAX} files"));
        reader.problem(ProblemSpan::Span(beyond.span()), problem);
    }
    let named = elements.into_iter().take(RULE_FILES_MAX).filter_map(|element| {
        let text = reader.keep_at(element.span(), setting.text(raw(element.get_ref())))?;
        Some(NamedFile { path: dir.join(text), at: ProblemSpan::Span(element.span()) })
    });
    named.collect()
}

/// Reads the value of a flag `--rules`: the name of one file, relative to the current directory.
pub(crate) fn named_by_flag(value: &str) -> NamedFile {
    NamedFile { path: PathBuf::from(value), at: ProblemSpan::Flag("--rules".to_owned()) }
}

/// The rules and the text of a rule file without errors.
type CheckedFile = (RuleList, Arc<str>);

/// The rule files of a configuration. A file that is named both for the server and for a site or
/// route is read and checked twice: once in each of these scopes.
#[derive(Default)]
pub(crate) struct RuleLibrary {
    /// The files, by path and by whether they belong to the server; `None` for a file with errors.
    files: HashMap<(PathBuf, bool), Option<CheckedFile>>,
    /// Errors in the text of rule files.
    errors: Vec<ConfigError>,
    rule_count: usize,
    counter_count: usize,
}

impl RuleLibrary {
    /// Plans the rules of the server and of the routes; routes with the same files share a set.
    pub(crate) fn plan(
        &mut self,
        reader: &mut Reader<'_>,
        of_server: &[NamedFile],
        sites: &mut [Site],
    ) -> Vec<RuleSet> {
        for file in of_server {
            self.open(reader, file, RuleScope::Server);
        }
        for site in &mut *sites {
            for file in site.rule_files() {
                self.open(reader, file, RuleScope::Route);
            }
        }
        let mut sets = vec![self.set(of_server, &[])];
        let mut known = HashMap::from([(Vec::new(), 0)]);
        for site in sites {
            site.plan_rules(|files| {
                let paths: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
                *known.entry(paths).or_insert_with(|| {
                    sets.push(self.set(of_server, files));
                    sets.len() - 1
                })
            });
        }
        sets
    }

    /// Creates counters for all planned rules.
    pub(crate) fn rule_counters(&self) -> RuleCounters {
        RuleCounters::new(self.rule_count, self.counter_count)
    }

    /// Returns the errors in the text of rule files.
    pub(crate) fn into_errors(self) -> Vec<ConfigError> {
        self.errors
    }

    fn open(&mut self, reader: &mut Reader<'_>, file: &NamedFile, scope: RuleScope) {
        let key = (file.path.clone(), scope == RuleScope::Server);
        if self.files.contains_key(&key) {
            return;
        }
        let read = match read_bytes(&file.path) {
            Ok((bytes, stamp)) => {
                reader.watched.push(WatchedFile::new(&file.path, stamp));
                Some(bytes)
            }
            Err(errors) => {
                let why = errors.iter().next().map(|error| error.message.clone());
                let shown = file.path.display();
                let why = why.unwrap_or_default();
                let problem = ValueProblem::new(format!("rules `{shown}`: {why}"));
                let hint = match &file.at {
                    ProblemSpan::Flag(_) => "a path in a flag is relative to the current directory",
                    _ => {
                        "name a file; a path is relative to the directory of the configuration \
                         file that has it"
                    }
                };
                reader.problem(file.at.clone(), problem.hint(hint));
                None
            }
        };
        let rules = read.and_then(|bytes| self.check(&file.path, bytes, scope, reader.filters));
        self.files.insert(key, rules);
    }

    fn check(
        &mut self,
        path: &Path,
        bytes: Vec<u8>,
        scope: RuleScope,
        filters: &Filters,
    ) -> Option<CheckedFile> {
        let name = path.display().to_string();
        let (text, read) = forebay_rules::read_bytes(&name, bytes, scope, filters);
        let errors = read.diagnostics.iter().filter(|found| found.severity == Severity::Error);
        let before = self.errors.len();
        self.errors.extend(errors.map(|found| error_of(&name, &text, found)));
        (self.errors.len() == before).then(|| (read.rules, text.into()))
    }

    fn set(&mut self, of_server: &[NamedFile], of_route: &[NamedFile]) -> RuleSet {
        let files = of_server.iter().map(|file| (file, true));
        let files = files.chain(of_route.iter().map(|file| (file, false)));
        let (mut lists, mut sources) = (Vec::new(), Vec::new());
        for (file, is_server) in files {
            if let Some(Some((rules, text))) = self.files.get(&(file.path.clone(), is_server)) {
                lists.push(rules);
                sources.push((file.path.clone(), Arc::clone(text)));
            }
        }
        let program = Program::plan(&lists);
        let (first, first_counter) = (self.rule_count, self.counter_count);
        self.rule_count += program.rules().len();
        self.counter_count += program.counters().len();
        RuleSet { program, first, first_counter, sources }
    }
}

/// Turns a diagnostic of a rule file into an error of the configuration.
fn error_of(file: &str, text: &str, found: &Diagnostic) -> ConfigError {
    let line = text.lines().nth(found.at.line.saturating_sub(1) as usize).unwrap_or_default();
    let before = line.get(..found.at.column.saturating_sub(1) as usize).unwrap_or_default();
    let rest = line.get(before.len()..).unwrap_or_default();
    let meant = rest.get(..found.at.len as usize).unwrap_or(rest);
    let place = SourceSpan::Text {
        file: file.to_owned(),
        line: found.at.line as usize,
        column: before.chars().count() + 1,
        text: masked_line(line),
        width: meant.chars().count().max(1),
    };
    let problem = ValueProblem::new(masked_message(line, &found.message));
    let problem = match &found.hint {
        Some(hint) => problem.hint(masked_message(line, hint)),
        None => problem,
    };
    ConfigError::new(place, problem)
}

/// Parts of the names of fields whose values may be secrets, in lower case.
const SECRET_NAMES: [&str; 6] = ["authorization", "cookie", "key", "token", "secret", "passw"];

/// Returns the bytes of a line of a rule file that may be secret: those behind the name of such a
/// field, up to the flags.
fn secret_part(line: &str) -> Option<Range<usize>> {
    let lower = line.to_ascii_lowercase();
    let name = SECRET_NAMES.iter().filter_map(|name| lower.find(name)).min()?;
    let start = name + lower.get(name..)?.find([' ', '\t', '}'])?;
    let flags = line.trim_end().ends_with(']').then(|| line.rfind(" [")).flatten();
    let end = flags.filter(|end| *end >= start).unwrap_or(line.len());
    Some(start..end)
}

/// Returns a line of a rule file with asterisks in place of secrets. Conditions stay, because they
/// only name what they insert, and all characters keep their columns.
fn masked_line(line: &str) -> String {
    let Some(secret) = secret_part(line) else { return line.to_owned() };
    let (mut masked, mut rest) = (line[..secret.start].to_owned(), &line[secret.clone()]);
    while let Some(next) = rest.chars().next() {
        let condition = rest.strip_prefix("%{").and_then(|behind| behind.find('}'));
        let length = condition.map_or(next.len_utf8(), |at| "%{".len() + at + 1);
        let (part, behind) = rest.split_at(length);
        let is_shown = condition.is_some() || next.is_whitespace() || matches!(next, '"' | '}');
        masked.push_str(if is_shown { part } else { "*" });
        rest = behind;
    }
    masked + &line[secret.end..]
}

/// Returns a message about a line of a rule file without the secrets of the line.
fn masked_message(line: &str, message: &str) -> String {
    let Some(secret) = secret_part(line) else { return message.to_owned() };
    let words = line[secret].split(|c: char| c.is_whitespace() || matches!(c, '"' | '}'));
    let secrets = words.filter(|word| !word.is_empty() && !word.starts_with("%{"));
    secrets.fold(message.to_owned(), |message, secret| message.replace(secret, "***"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_do_not_show_the_secrets_of_a_rule_file() {
        for (line, shown) in [
            ("set-header X-Kind plain", "set-header X-Kind plain"),
            ("set-heder Authorization \"Basic dG9w\"", "set-heder Authorization \"***** ****\""),
            ("set-header X-Api-Key \"t\u{f6}p\" [BAD]", "set-header X-Api-Key \"***\" [BAD]"),
            ("set-header Authorization \"Basic dG9w", "set-header Authorization \"***** ****"),
            ("set-header X-Token %{NOW:YEAR}abc", "set-header X-Token %{NOW:YEAR}***"),
            ("cond %{HEADER:Cookie} =s3 [NOCASE]", "cond %{HEADER:Cookie} *** [NOCASE]"),
            ("set-header Authorization", "set-header Authorization"),
        ] {
            assert_eq!(masked_line(line), shown);
        }
        let line = "set-header Authorization Basic s3cret";
        assert_eq!(
            masked_message(line, "the word s3cret is one too many"),
            "the word *** is one too many"
        );
        assert_eq!(masked_message("no-op a b", "there is no no-op"), "there is no no-op");
    }
}
