//! The VCL as a whole, and the notes about it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::lexer::VclPlace;
use super::regex::{self, PatternText};
use super::request::HARMLESS;
use super::syntax::{Acl, Expr, Statement, StatementKind, Vcl, field_of};
use super::url::{PathTest, path_test};
use crate::Note;

/// Paths that the VCL tells apart.
const PATHS_MAX: usize = 31;
/// Sites with names of their own.
const HOSTS_MAX: usize = 64;
/// Methods that are told apart, and how many there may be with those that the VCL names.
const METHODS: &[&str] =
    &["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PURGE", "BAN"];
const METHODS_MAX: usize = 32;

/// The name of a site.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum HostName {
    Exact(String),
    /// Every name that ends so, with its first dot.
    Below(String),
    /// Every other name.
    Rest,
}

impl HostName {
    pub(super) fn name(&self) -> String {
        match self {
            HostName::Exact(name) => name.clone(),
            HostName::Below(end) => format!("*{end}"),
            HostName::Rest => "*".to_owned(),
        }
    }

    /// Whether the host matches; `None` if that depends on the request. `hosts` are all names with
    /// a site of their own.
    pub(super) fn matches(&self, literals: &[PatternText], hosts: &[HostName]) -> Option<bool> {
        let each = literals.iter().map(|literal| self.matches_one(literal, hosts));
        let mut result = Some(false);
        for one in each {
            match one {
                Some(true) => return Some(true),
                Some(false) => {}
                None => result = None,
            }
        }
        result
    }

    fn matches_one(&self, literal: &PatternText, hosts: &[HostName]) -> Option<bool> {
        let is_suffix = !literal.starts && literal.ends && literal.text.starts_with('.');
        let of_literal = match (literal.starts, is_suffix) {
            (true, _) if literal.ends => HostName::Exact(literal.text.clone()),
            (_, true) => HostName::Below(literal.text.clone()),
            _ => HostName::Rest,
        };
        match self {
            HostName::Exact(name) => Some(literal.matches(name)),
            HostName::Below(end) if is_suffix && end.ends_with(&literal.text) => Some(true),
            // Names with a site of their own are not among these.
            HostName::Below(_) | HostName::Rest => {
                (of_literal != HostName::Rest && hosts.contains(&of_literal)).then_some(false)
            }
        }
    }
}

/// Everything that the translation may look at.
pub(super) struct VclSource<'v> {
    pub(super) vcl: &'v Vcl,
    pub(super) drop_access_rules: bool,
    pub(super) paths: Vec<PathTest>,
    pub(super) hosts: Vec<HostName>,
    /// Addresses by the name of the acl; `None` if the list cannot be carried over.
    pub(super) acls: BTreeMap<&'v str, Option<Vec<String>>>,
    pub(super) notes: RefCell<Vec<Note>>,
    /// The statements of `vcl_recv` that were followed so far.
    pub(super) steps: Cell<usize>,
    /// Methods that are told apart.
    pub(super) methods: BTreeSet<String>,
    /// Fields of requests that the VCL sets or removes in any sub.
    pub(super) changed_fields: BTreeSet<String>,
    /// Fields of requests that the VCL sets.
    pub(super) set_fields: BTreeSet<String>,
    /// Fields of responses that the VCL sets or removes before they are stored.
    pub(super) response_fields: BTreeSet<String>,
    removes_www: bool,
}

impl<'v> VclSource<'v> {
    /// Whether the value has a field of the request that the VCL has changed.
    pub(super) fn has_changed_field(&self, value: &Expr) -> bool {
        match value {
            Expr::Name(name) => ["req.http.", "bereq.http."].iter().any(|prefix| {
                field_of(name, prefix).is_some_and(|field| self.changed_fields.contains(&field))
            }),
            Expr::Concat(parts) => parts.iter().any(|part| self.has_changed_field(part)),
            _ => false,
        }
    }

    pub(super) fn new(vcl: &'v Vcl, drop_access_rules: bool) -> VclSource<'v> {
        let acls = vcl.acls.iter().map(|acl| (acl.name.as_str(), addresses(acl))).collect();
        let (notes, steps) = (RefCell::default(), Cell::default());
        let mut source = VclSource {
            vcl,
            drop_access_rules,
            paths: vec![],
            hosts: vec![],
            acls,
            notes,
            steps,
            methods: METHODS.iter().map(|one| (*one).to_owned()).collect(),
            changed_fields: BTreeSet::new(),
            set_fields: BTreeSet::new(),
            response_fields: BTreeSet::new(),
            removes_www: false,
        };
        for name in ["vcl_recv", "vcl_backend_response", "vcl_deliver"] {
            source.collect_all(vcl.sub(name));
        }
        for (name, statements) in &vcl.subs {
            if !["vcl_recv", "vcl_backend_response", "vcl_deliver"].contains(&name.as_str()) {
                source.collect_all(statements);
            }
        }
        if source.removes_www {
            let with_www = source.hosts.clone().into_iter().filter_map(|host| match host {
                HostName::Exact(name) if !name.starts_with("www.") => {
                    Some(HostName::Exact(format!("www.{name}")))
                }
                _ => None,
            });
            let with_www: Vec<_> = with_www.collect();
            source.hosts.extend(with_www);
        }
        source.hosts.sort();
        source.hosts.dedup();
        source.hosts.truncate(HOSTS_MAX);
        source.hosts.push(HostName::Rest);
        source
    }

    /// Notes once that a statement is not carried over, or not with the same meaning.
    pub(super) fn note(&self, place: &VclPlace, directive: &str, message: impl Into<String>) {
        let note = Note {
            file: place.file.to_string(),
            line: place.line,
            directive: directive.to_owned(),
            message: message.into(),
        };
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    fn collect_all(&mut self, statements: &[Statement]) {
        for statement in statements {
            match &statement.kind {
                StatementKind::If(branches, rest) => {
                    for (test, inner) in branches {
                        self.collect(test);
                        self.collect_all(inner);
                    }
                    self.collect_all(rest);
                }
                StatementKind::Set(name, value) => self.collect_change(name, Some(value)),
                StatementKind::Unset(name) => self.collect_change(name, None),
                // Modules may change a field that they are given.
                StatementKind::Do(Expr::Call(name, arguments))
                    if !HARMLESS.contains(&name.as_str()) && name != "hash_data" =>
                {
                    for argument in arguments {
                        if argument.name().starts_with("req.http.") {
                            self.collect_change(&argument.name(), Some(argument));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn collect_change(&mut self, name: &str, value: Option<&Expr>) {
        self.response_fields.extend(field_of(name, "beresp.http."));
        let field = field_of(name, "req.http.").or_else(|| field_of(name, "bereq.http."));
        let Some(field) = field else { return };
        if field == "host" && value.is_some_and(is_tidy_host) {
            return;
        }
        if let (true, Some(Expr::Call(_, arguments))) = (field == "host", value) {
            let pattern = arguments.get(1).and_then(Expr::text);
            self.removes_www |= pattern.is_some_and(|pattern| pattern.starts_with("^www"));
        }
        if value.is_some() {
            self.set_fields.insert(field.clone());
        }
        self.changed_fields.insert(field);
    }

    fn collect(&mut self, test: &Expr) {
        match test {
            Expr::Not(inner) => self.collect(inner),
            Expr::All(parts) | Expr::Any(parts) => parts.iter().for_each(|part| self.collect(part)),
            Expr::Compare(left, symbol, right) => {
                let (name, text) = (left.name(), right.text());
                let Some(text) = text else { return };
                let is_regex = symbol.ends_with('~');
                if matches!(name.as_str(), "req.method" | "bereq.method" | "req.request") {
                    self.collect_methods(&text, is_regex);
                } else if matches!(name.as_str(), "req.url" | "bereq.url") {
                    if let Some(path) = path_test(&text, is_regex)
                        && !self.paths.contains(&path)
                        && self.paths.len() < PATHS_MAX
                    {
                        self.paths.push(path);
                    }
                } else if field_of(&name, "req.http.").is_some_and(|field| field == "host")
                    || name == "bereq.http.host"
                {
                    self.collect_hosts(&text, is_regex);
                }
            }
            _ => {}
        }
    }

    fn collect_methods(&mut self, text: &str, is_regex: bool) {
        let texts = match is_regex {
            true => regex::expand(text, false).unwrap_or_default().0,
            false => vec![PatternText::whole(text)],
        };
        for literal in texts.into_iter().filter(|one| one.starts && one.ends) {
            let is_name = |c: char| c.is_ascii_uppercase() || "-_".contains(c);
            let is_method = !literal.text.is_empty() && literal.text.len() <= 32;
            if is_method && literal.text.chars().all(is_name) && self.methods.len() < METHODS_MAX {
                self.methods.insert(literal.text);
            }
        }
    }

    fn collect_hosts(&mut self, text: &str, is_regex: bool) {
        let literals = match is_regex {
            true => host_literals(text).unwrap_or_default(),
            false => vec![PatternText::whole(&text.to_ascii_lowercase())],
        };
        for literal in literals {
            let text = literal.text.to_ascii_lowercase();
            if !literal.ends || !is_host(text.trim_start_matches('.')) {
                continue;
            }
            if literal.starts && !text.starts_with('.') {
                self.hosts.push(HostName::Exact(text));
            } else if text.starts_with('.') && text.matches('.').count() >= 2 {
                self.hosts.push(HostName::Below(text));
            }
        }
    }
}

/// Whether a site may have the name.
pub(super) fn is_host(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
}

/// Whether the new host differs from the old one only by port and case.
pub(super) fn is_tidy_host(value: &Expr) -> bool {
    let Expr::Call(name, arguments) = value else { return false };
    let is_host = |one: &Expr| one.name() == "req.http.host" || is_tidy_host(one);
    if !arguments.first().is_some_and(is_host) {
        return false;
    }
    let pattern = arguments.get(1).and_then(Expr::text).unwrap_or_default();
    let is_port = arguments.get(2).and_then(Expr::text).is_some_and(|by| by.is_empty())
        && PORTS.contains(&pattern.as_str());
    name == "std.tolower" || matches!(name.as_str(), "regsub" | "regsuball") && is_port
}

/// Expressions for the port of a host.
const PORTS: &[&str] = &[
    ":[0-9]+",
    ":[0-9]+$",
    ":\\d+",
    ":\\d+$",
    ":.*",
    ":.*$",
    ":[0-9]*$",
    "(:[0-9]+)?$",
    ":[\\d]+",
];

/// The hosts of an expression; a port at its end does not matter.
pub(super) fn host_literals(pattern: &str) -> Option<Vec<PatternText>> {
    let mut bare = pattern.to_owned();
    for port in ["(:[0-9]+)?$", "(:\\d+)?$", "(?::\\d+)?$", "(:[0-9]*)?$", "(:.*)?$", ":?"] {
        if let Some(start) = pattern.strip_suffix(port) {
            bare = format!("{start}$");
        }
    }
    let (mut literals, _) = regex::expand(&bare, true)?;
    literals.iter_mut().for_each(|literal| literal.text.make_ascii_lowercase());
    Some(literals)
}

/// The addresses of an acl, if each entry is an address that grants something.
fn addresses(acl: &Acl) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for entry in &acl.entries {
        if entry.is_negated {
            return None;
        }
        if entry.address.eq_ignore_ascii_case("localhost") {
            all.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
            continue;
        }
        let address: std::net::IpAddr = entry.address.parse().ok()?;
        match &entry.bits {
            None => all.push(address.to_string()),
            Some(bits) => {
                let bits: u32 = bits.parse().ok()?;
                all.push(network(address, bits)?);
            }
        }
    }
    all.sort();
    all.dedup();
    (!all.is_empty() && all.len() <= 256).then_some(all)
}

/// The network without bits of hosts.
fn network(address: std::net::IpAddr, bits: u32) -> Option<String> {
    Some(match address {
        std::net::IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(bits)?).unwrap_or(0);
            format!("{}/{bits}", std::net::Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        std::net::IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(bits)?).unwrap_or(0);
            format!("{}/{bits}", std::net::Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    })
}
