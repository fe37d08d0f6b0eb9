//! Reads a [`Config`] from the text of a file, or the URL of an origin, and from flags.
//!
//! Reading continues after an invalid value, so that all errors are reported. The setting keeps its
//! default, and the configuration is discarded at the end. Only syntax errors end the reading
//! immediately.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use forebay_rules::filter::Filters;
use toml::Spanned;
use toml::de::{DeString, DeValue};

use super::access_logs::NamedLog;
use super::contradictions::contradictions;
use super::error::{ConfigErrors, ProblemSpan};
use super::file::read_text;
use super::includes::{Documents, IncludedTexts};
use super::origin_tls::AuthorityCache;
use super::origin_tls::identity::IdentityCache;
use super::origins::read_urls;
use super::read_sites::SiteDefaults;
use super::references::ResolvedReference;
use super::rules::{NamedFile, RuleLibrary, named_by_flag, named_files};
use super::setting::{RawValue, Setting, ValueProblem};
use super::site::Site;
use super::source::SourceFiles;
use super::suggest::{belongs, foreign_name, nearest};
use super::table::{self, INCLUDE, RULES, RouteSettings, Settings, SiteSettings};
use super::tls::client_auth::unused_authorities;
use super::watched::{WatchedFile, WatchedFiles};
use super::written::WrittenValues;
use super::{Config, ServerSettings, SettingKind, SettingScope, Sites};

pub(crate) type Key<'a> = Spanned<DeString<'a>>;
pub(crate) type Value<'a> = Spanned<DeValue<'a>>;

/// The source of a configuration.
#[derive(Clone, Copy, Debug)]
pub enum ConfigSource<'a> {
    /// The text of a TOML file, and the file's name for errors.
    Toml {
        /// The file's content.
        text: &'a str,
        /// The file's name.
        file: &'a str,
    },
    /// The path of a TOML file.
    File(&'a Path),
    /// No file: one site that serves every host from the origin with this URL.
    Origin(&'a str),
    /// No file: one site that serves every host from the origins with these URLs; without URLs,
    /// from the directory of the flag `files`.
    Origins(&'a [&'a str]),
}

/// A flag on the command line, and its value.
#[derive(Clone, Copy, Debug)]
pub struct FlagValue<'a> {
    /// The name of the setting (`cache_size`) or of the flag (`cache-size`).
    pub name: &'a str,
    /// The value as it was typed.
    pub value: &'a str,
}

/// Reads the source, the flags and the rule files; see [`Config::load_with`].
pub(crate) fn read(
    source: ConfigSource<'_>,
    flags: &[FlagValue<'_>],
    filters: &Filters,
) -> Result<Config, ConfigErrors> {
    match source {
        ConfigSource::Toml { text, file } => {
            let texts = IncludedTexts::new();
            read_documents(Documents::open(file, text, &texts), flags, filters)
        }
        ConfigSource::File(path) => {
            let (text, stamp) = read_text(path)?;
            let (file, texts) = (path.display().to_string(), IncludedTexts::new());
            let mut documents = Documents::open(&file, &text, &texts);
            // A pipe has no content to read again.
            if path.is_file() {
                documents.watched.push(WatchedFile::new(path, stamp));
            }
            read_documents(documents, flags, filters)
        }
        ConfigSource::Origin(url) => read_origins(&[url], flags, filters),
        ConfigSource::Origins(urls) => read_origins(urls, flags, filters),
    }
}

fn read_documents(
    documents: Documents<'_>,
    flags: &[FlagValue<'_>],
    filters: &Filters,
) -> Result<Config, ConfigErrors> {
    let Documents { sources, tables, substitutions, problems, elsewhere, watched, .. } = documents;
    // After a syntax error the parser guesses the rest of the file, and without a file other files
    // seem to be wrong, so further errors would mislead.
    ConfigErrors::check(&sources, problems, elsewhere)?;
    let written = WrittenValues::of(&sources, &tables);
    let mut reader = Reader { watched, ..Reader::new(sources, substitutions, filters) };
    let mut top = TopLevel { written, ..TopLevel::default() };
    let values = tables.iter().flat_map(|table| table.iter());
    for (key, value) in values.filter(|(key, _)| key.get_ref() != "site") {
        reader.top_value(&mut top, key, value);
    }
    reader.flags(&mut top, flags);
    let defaults = SiteDefaults {
        server: &top.server,
        site: &top.site,
        route: &top.route,
        places: &top.places,
    };
    let sites: Vec<_> = tables.iter().filter_map(|table| table.get("site")).collect();
    let sites = reader.sites(&sites, defaults);
    reader.finish(top, sites)
}

fn read_origins(
    urls: &[&str],
    flags: &[FlagValue<'_>],
    filters: &Filters,
) -> Result<Config, ConfigErrors> {
    let mut reader = Reader::new(SourceFiles::new("", ""), Vec::new(), filters);
    let mut top = TopLevel::default();
    reader.flags(&mut top, flags);
    if let (true, Some(directory)) = (urls.is_empty(), top.route.files.get()) {
        let site = reader.with_settings(Site::of_files(directory, top.route.clone()), &top);
        return reader.finish(top, vec![site]);
    }
    if urls.is_empty() && top.places.contains_key("files") {
        // The directory is invalid, which is already reported.
        return reader.finish(top, Vec::new());
    }
    if top.route.files.get().is_some() {
        let problem = ValueProblem::new("`--files` and `--origin` are both given");
        let hint = "leave one of them out, or write a configuration file with a route for each";
        reader.problem(ProblemSpan::Flag("--files".to_owned()), problem.hint(hint));
    }
    let read = read_urls(urls);
    let origins = reader.keep(ProblemSpan::Flag("--origin".to_owned()), read);
    let at = |name| match name {
        "origin" => Some(ProblemSpan::Flag("--origin".to_owned())),
        _ => top.places.get(name).cloned(),
    };
    let origins = origins.and_then(|origins| reader.equip_origins(origins, &top.site, &at));
    let site = origins.map(|origins| Site::of_origins(origins, top.route.clone()));
    let site = site.map(|site| reader.with_settings(site, &top));
    reader.finish(top, site.into_iter().collect())
}

/// The settings at the top of the file and in flags, and the position of each value.
#[derive(Default)]
pub(super) struct TopLevel {
    pub(super) server: ServerSettings,
    pub(super) site: SiteSettings,
    pub(super) route: RouteSettings,
    pub(super) places: HashMap<&'static str, ProblemSpan>,
    written: WrittenValues,
    rules: Vec<NamedFile>,
}

impl TopLevel {
    fn set(
        &mut self,
        setting: &'static Setting,
        raw: RawValue<'_>,
        at: ProblemSpan,
    ) -> Result<(), ValueProblem> {
        self.places.insert(setting.name, at);
        self.written.set_flag(setting, raw);
        match setting.scope {
            SettingScope::Server => self.server.set(setting, raw),
            SettingScope::PerSite => self.site.set(setting, raw),
            _ => self.route.set(setting, raw),
        }
    }
}

/// Reads the parts of a configuration, and collects their problems.
pub(crate) struct Reader<'a> {
    pub(crate) sources: SourceFiles<'a>,
    /// The values that environment variables and files have.
    substitutions: Vec<ResolvedReference>,
    problems: Vec<(ProblemSpan, ValueProblem)>,
    /// Filters that header rules may run.
    pub(crate) filters: &'a Filters,
    /// Whether a section is unknown; it may be meant for one that is missing.
    pub(super) has_unknown_section: bool,
    /// Whether `listen` or `listen_tls` at the top cannot be read.
    pub(super) has_bad_listen: bool,
    /// Whether a certificate or a key cannot be used.
    pub(super) has_bad_certificate: bool,
    /// The first place that asks for a certificate by ACME.
    pub(super) acme_at: Option<ProblemSpan>,
    pub(super) authorities: AuthorityCache,
    pub(super) origin_identities: IdentityCache,
    /// The access logs that sites name.
    pub(super) named_logs: Vec<NamedLog>,
    /// The files that were read, except for those of error pages, users and origins' certificates.
    pub(super) watched: Vec<WatchedFile>,
}

impl<'a> Reader<'a> {
    fn new(
        sources: SourceFiles<'a>,
        substitutions: Vec<ResolvedReference>,
        filters: &'a Filters,
    ) -> Reader<'a> {
        Reader {
            sources,
            substitutions,
            problems: Vec::new(),
            filters,
            has_unknown_section: false,
            has_bad_listen: false,
            has_bad_certificate: false,
            acme_at: None,
            authorities: AuthorityCache::default(),
            origin_identities: IdentityCache::default(),
            named_logs: Vec::new(),
            watched: Vec::new(),
        }
    }
}

impl Reader<'_> {
    /// Gives the only site of a server without a file its settings.
    fn with_settings(&mut self, site: Site, top: &TopLevel) -> Site {
        if top.site.acme {
            let problem = ValueProblem::new("`--acme` needs a configuration file");
            let hint = "write a [[site]] with its `names`, for which the certificate is ordered";
            self.problem(ProblemSpan::Flag("--acme".to_owned()), problem.hint(hint));
            self.has_bad_certificate = true;
        }
        if let Some(problem) = top.site.connect_ports.problem_with(site.route_of_all_paths()) {
            self.problem(ProblemSpan::Flag("--connect-ports".to_owned()), problem);
        }
        let site = site.with_settings(top.site.clone());
        if let Some(problem) = site.problem_with_certificates() {
            self.problem(ProblemSpan::Flag("--client-certificate".to_owned()), problem);
        }
        site
    }

    pub(crate) fn problem(&mut self, at: ProblemSpan, problem: ValueProblem) {
        let written = match &at {
            ProblemSpan::Span(span) => self.sources.text(span),
            ProblemSpan::File | ProblemSpan::Flag(_) => "",
        };
        let problem = match placeholder_hint(written) {
            Some(hint) => problem.hint(hint),
            None => problem,
        };
        let reference = match &at {
            ProblemSpan::Span(span) => self.reference_in(span),
            ProblemSpan::File | ProblemSpan::Flag(_) => None,
        };
        let problem = match reference {
            Some(substitution) => substitution.hide(problem),
            None => problem,
        };
        self.problems.push((at, problem));
    }

    /// Returns a reference at these bytes, whose text may be a secret.
    pub(super) fn reference_in(&self, span: &Range<usize>) -> Option<&ResolvedReference> {
        let touches = |other: &Range<usize>| span.start < other.end && other.start < span.end;
        self.substitutions.iter().find(|other| touches(&other.span))
    }

    /// Reports a problem with a value that several origins have, unless it has been reported.
    pub(super) fn problem_once(&mut self, at: ProblemSpan, problem: ValueProblem) {
        if !self.problems.iter().any(|(other, earlier)| *other == at && *earlier == problem) {
            self.problem(at, problem);
        }
    }

    /// Returns the number of problems that have been found.
    pub(super) fn problem_count(&self) -> usize {
        self.problems.len()
    }

    pub(crate) fn keep<T>(&mut self, at: ProblemSpan, read: Result<T, ValueProblem>) -> Option<T> {
        read.map_err(|problem| self.problem(at, problem)).ok()
    }

    pub(crate) fn keep_at<T>(
        &mut self,
        span: Range<usize>,
        read: Result<T, ValueProblem>,
    ) -> Option<T> {
        self.keep(ProblemSpan::Span(span), read)
    }

    fn finish(mut self, top: TopLevel, mut sites: Vec<Site>) -> Result<Config, ConfigErrors> {
        for (name, problem) in contradictions(&top) {
            self.problem(top.places.get(name).cloned().unwrap_or(ProblemSpan::File), problem);
        }
        let certificates = self.default_certificates(&top.site, &top.places);
        if let Some(at) = top.places.get("tls_client_ca")
            && !top.places.contains_key("tls_client_auth")
            && !sites.iter().any(Site::asks_for_certificates)
        {
            self.problem(at.clone(), unused_authorities());
        }
        for site in &mut sites {
            let own = site.certificates.as_ref().or(certificates.as_ref());
            site.certificates_id = own.map_or(0, |set| set.id);
        }
        let acme = self.acme_settings(&top, &sites);
        self.check_listen_tls(&top.server, &sites, &top.places);
        let log_at = top.places.get("access_log");
        let access_logs = self.number_logs((&top.site.access_log, log_at), &mut sites);
        let mut library = RuleLibrary::default();
        let rule_sets = library.plan(&mut self, &top.rules, &mut sites);
        let rule_counters = library.rule_counters();
        ConfigErrors::check(&self.sources, self.problems, library.into_errors())?;
        let of_origins = self.authorities.files().chain(self.origin_identities.files());
        let read = self.watched.iter().chain(of_origins).cloned();
        let watched = WatchedFiles::collect(read, &sites);
        let sites = Sites::new(sites, &top.server);
        let server = top.server;
        let written = Arc::new(top.written);
        Ok(Config {
            server,
            sites,
            access_logs,
            certificates,
            acme,
            written,
            watched,
            rule_sets,
            rule_counters,
        })
    }

    fn top_value(&mut self, top: &mut TopLevel, key: &Key<'_>, value: &Value<'_>) {
        if let Some(ProblemSpan::Span(first)) = top.places.get(&**key.get_ref()) {
            let text = format!("`{}` is set in two files", key.get_ref());
            return self.clash(value, first.start, text);
        }
        if key.get_ref() == RULES.name {
            top.rules = named_files(self, &RULES, value);
            top.places.insert(RULES.name, ProblemSpan::Span(value.span()));
            return;
        }
        let Some(setting) = find(table::top_level(), key.get_ref()) else {
            let known =
                table::top_level().map(|setting| setting.name).chain([INCLUDE.name, "site"]);
            return self.unknown(key, value, "at the top of the file", known);
        };
        let read = top.set(setting, raw(value.get_ref()), ProblemSpan::Span(value.span()));
        self.has_bad_listen |= read.is_err() && setting.name.starts_with("listen");
        self.keep_at(value.span(), read);
    }

    fn flags(&mut self, top: &mut TopLevel, flags: &[FlagValue<'_>]) {
        for flag in flags {
            let name = flag.name.replace('-', "_");
            if name == RULES.name {
                top.rules.push(named_by_flag(flag.value));
                continue;
            }
            let at = ProblemSpan::Flag(format!("--{}", name.replace('_', "-")));
            let read = match find(table::top_level(), &name) {
                Some(setting) if matches!(setting.kind, SettingKind::Texts { .. }) => {
                    // The values of a repeated flag form one list.
                    let same = flags.iter().filter(|other| other.name == flag.name);
                    let all: Vec<_> = same.map(|flag| flag.value).collect();
                    top.set(setting, RawValue::Flag(&all.join(",")), at.clone())
                }
                Some(setting) => top.set(setting, RawValue::Flag(flag.value), at.clone()),
                None => Err(ValueProblem::new("no setting has this flag")),
            };
            self.has_bad_listen |= read.is_err() && name.starts_with("listen");
            self.keep(at, read);
        }
    }

    /// Reports an unknown key; `known` are the valid keys.
    pub(crate) fn unknown<'k>(
        &mut self,
        key: &Key<'_>,
        value: &Value<'_>,
        here: &str,
        known: impl Iterator<Item = &'k str>,
    ) {
        let word: &str = key.get_ref();
        let lower = word.replace('-', "_").to_ascii_lowercase();
        let known: Vec<_> = known.collect();
        let foreign = foreign_name(&lower).and_then(|name| find(table::all(), name));
        let near = || {
            let in_ms = lower.replace("_timeout", "_ms_max");
            nearest(&lower, known.iter().copied()).or(nearest(&in_ms, known.iter().copied()))
        };
        let is_section = match value.get_ref() {
            DeValue::Array(array) => {
                !array.is_empty() && array.iter().all(|element| element.get_ref().is_table())
            }
            value => value.is_table(),
        };
        self.has_unknown_section |= is_section;
        let hint = match (find(table::all(), word), foreign) {
            (Some(setting), _) => belongs(setting).to_owned(),
            (None, Some(meant)) if known.contains(&meant.name) => {
                format!("did you mean `{}`?", meant.name)
            }
            (None, Some(meant)) => {
                format!("did you mean `{}`? If so, {}", meant.name, belongs(meant))
            }
            (None, None) if ["var", "variable", "environment", "secret"].contains(&&*lower) => {
                "for an environment variable, write { env = \"NAME\" }; for a file with the value, \
                 { file = \"PATH\" }"
                    .to_owned()
            }
            (None, None) if word == "route" => "a route belongs to a site: [[site.route]]".into(),
            (None, None) => match near() {
                Some(near) => format!("did you mean `{near}`?"),
                None if is_section => "the sections are [[site]] and [[site.route]]; settings of \
                                       the server come before the first section"
                    .to_owned(),
                None if known.len() <= NAMES_SHOWN => {
                    format!("the settings here are `{}`", known.join("`, `"))
                }
                None => "`forebay config --defaults` lists every setting".to_owned(),
            },
        };
        let problem =
            ValueProblem::new(format!("`{}` is not a setting {here}", word.escape_debug()));
        let problem = problem.hint(hint);
        let problem = match find(table::all(), word) {
            // The value of a setting at a wrong place is no more secret than at its own.
            Some(_) => problem,
            // The value of a dotted key has no position of its own.
            None if value.span().start < key.span().end => {
                problem.hide(key.span().end..key.span().end)
            }
            None => problem.hide(value.span()),
        };
        self.problem(ProblemSpan::Span(key.span()), problem);
    }
}

/// Largest number of settings that a hint lists.
const NAMES_SHOWN: usize = 6;

/// Returns the hint for a value with a placeholder of another program; `None` if it has none.
fn placeholder_hint(written: &str) -> Option<String> {
    if let Some((_, rest)) = written.split_once("${") {
        let name = rest.split('}').next().unwrap_or_default();
        return Some(format!(
            "text in quotes is not searched for variables; write {{ env = \"{name}\" }}"
        ));
    }
    written.contains("{{").then(|| {
        "the file is a template; write the file with the program that fills in {{ }}".to_owned()
    })
}

pub(crate) fn find(
    mut settings: impl Iterator<Item = &'static Setting>,
    name: &str,
) -> Option<&'static Setting> {
    settings.find(|setting| setting.name == name)
}

pub(crate) fn raw<'v>(value: &'v DeValue<'_>) -> RawValue<'v> {
    match value {
        DeValue::String(text) => RawValue::Text(text),
        DeValue::Integer(number) => {
            let parsed = i128::from_str_radix(number.as_str(), number.radix());
            RawValue::Integer(parsed.unwrap_or(i128::MAX))
        }
        DeValue::Boolean(value) => RawValue::Bool(*value),
        DeValue::Float(_) => RawValue::Other("a number with a decimal point"),
        DeValue::Datetime(_) => RawValue::Other("a date"),
        DeValue::Array(array) => RawValue::Array(array),
        DeValue::Table(_) => RawValue::Other("a table"),
    }
}
