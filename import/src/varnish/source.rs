//! The VCL as a whole, and the notes about it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::lexer::VclPlace;
use super::regex::{self, PatternText, UrlTest};
use super::syntax::{Acl, Expr, Statement, StatementKind, Vcl, field_of};
use crate::Note;

/// Paths that the VCL tells apart.
const PATHS_MAX: usize = 31;
/// Sites with names of their own.
const HOSTS_MAX: usize = 64;

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

    /// Whether the host matches; `None` if that depends on the request.
    pub(super) fn matches(&self, literals: &[PatternText]) -> Option<bool> {
        let each = literals.iter().map(|literal| self.matches_one(literal));
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

    fn matches_one(&self, literal: &PatternText) -> Option<bool> {
        let is_suffix = !literal.starts && literal.ends && literal.text.starts_with('.');
        match self {
            HostName::Exact(name) => Some(literal.matches(name)),
            // Names with a site of their own are no longer among these.
            HostName::Below(end) if is_suffix && end.ends_with(&literal.text) => Some(true),
            HostName::Below(_) | HostName::Rest => match literal.starts && literal.ends {
                true => Some(false),
                false if is_suffix => Some(false),
                false => None,
            },
        }
    }
}

/// A test of the path that decides between routes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct PathTest {
    pub(super) regex: String,
    pub(super) no_query: bool,
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
}

impl<'v> VclSource<'v> {
    pub(super) fn new(vcl: &'v Vcl, drop_access_rules: bool) -> VclSource<'v> {
        let acls = vcl.acls.iter().map(|acl| (acl.name.as_str(), addresses(acl))).collect();
        let (notes, steps) = (RefCell::default(), Cell::default());
        let mut source =
            VclSource { vcl, drop_access_rules, paths: vec![], hosts: vec![], acls, notes, steps };
        for name in ["vcl_recv", "vcl_backend_response", "vcl_deliver"] {
            source.collect_all(vcl.sub(name));
        }
        for (name, statements) in vcl.subs.iter().filter(|(name, _)| !name.starts_with("vcl_")) {
            if vcl.subs.len() < 256 && !name.is_empty() {
                source.collect_all(statements);
            }
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
            let StatementKind::If(branches, rest) = &statement.kind else { continue };
            for (test, inner) in branches {
                self.collect(test);
                self.collect_all(inner);
            }
            self.collect_all(rest);
        }
    }

    fn collect(&mut self, test: &Expr) {
        match test {
            Expr::Not(inner) => self.collect(inner),
            Expr::All(parts) | Expr::Any(parts) => parts.iter().for_each(|part| self.collect(part)),
            Expr::Compare(left, symbol, right) => {
                let (name, text) = (left.name(), right.text());
                let Some(text) = text else { return };
                let is_regex = symbol.ends_with('~');
                if matches!(name.as_str(), "req.url" | "bereq.url") {
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

    fn collect_hosts(&mut self, text: &str, is_regex: bool) {
        let literals = match is_regex {
            true => host_literals(text).unwrap_or_default(),
            false => vec![PatternText::whole(&text.to_ascii_lowercase())],
        };
        let is_host = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
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

/// The test of the path that a comparison with `req.url` is.
pub(super) fn path_test(text: &str, is_regex: bool) -> Option<PathTest> {
    if is_regex {
        return match regex::url_test(text) {
            UrlTest::Path { regex, no_query } => Some(PathTest { regex, no_query }),
            UrlTest::Query(_) | UrlTest::Other => None,
        };
    }
    let is_path = text.starts_with('/') && !text.contains('?');
    let regex = format!("^{}$", regex::literal(text));
    is_path.then_some(PathTest { regex, no_query: true })
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
