//! The tree of a VCL.

use std::collections::BTreeMap;

use super::lexer::VclPlace;

/// Declarations of all files.
#[derive(Debug, Default)]
pub(super) struct Vcl {
    pub(super) backends: Vec<VclSection>,
    pub(super) probes: Vec<VclSection>,
    pub(super) acls: Vec<Acl>,
    /// Statements by the name of their sub; sections of the same name follow one another.
    pub(super) subs: BTreeMap<String, Vec<Statement>>,
    pub(super) imports: Vec<(VclPlace, String)>,
    /// Inline C outside of subs.
    pub(super) foreign: Vec<VclPlace>,
}

impl Vcl {
    /// The statements of a sub; none if it is not there.
    pub(super) fn sub(&self, name: &str) -> &[Statement] {
        self.subs.get(name).map_or(&[], Vec::as_slice)
    }
}

/// A `backend` or a `probe`.
#[derive(Clone, Debug)]
pub(super) struct VclSection {
    pub(super) place: VclPlace,
    pub(super) name: String,
    pub(super) fields: Vec<SectionField>,
}

impl VclSection {
    pub(super) fn field(&self, name: &str) -> Option<&SectionField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// `.name = value;`
#[derive(Clone, Debug)]
pub(super) struct SectionField {
    pub(super) place: VclPlace,
    pub(super) name: String,
    /// The text of the value; several texts are joined by a space.
    pub(super) value: String,
    /// The fields of a probe in braces.
    pub(super) inner: Vec<SectionField>,
}

#[derive(Clone, Debug)]
pub(super) struct Acl {
    pub(super) name: String,
    pub(super) entries: Vec<AclEntry>,
}

#[derive(Clone, Debug)]
pub(super) struct AclEntry {
    pub(super) is_negated: bool,
    pub(super) address: String,
    pub(super) bits: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) place: VclPlace,
    pub(super) kind: StatementKind,
}

#[derive(Clone, Debug)]
pub(super) enum StatementKind {
    /// Variable and value; `+=` is the concatenation of both.
    Set(String, Expr),
    Unset(String),
    If(Vec<(Expr, Vec<Statement>)>, Vec<Statement>),
    /// The action and its arguments.
    Return(String, Vec<Expr>),
    Call(String),
    /// Name and class.
    New(String, String),
    /// A call of a function without a value.
    Do(Expr),
    Foreign,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Text(String),
    Number(String),
    Name(String),
    Call(String, Vec<Expr>),
    Not(Box<Expr>),
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Compare(Box<Expr>, &'static str, Box<Expr>),
    Concat(Vec<Expr>),
    /// Arithmetic.
    Other,
}

impl Expr {
    /// The name of a variable in lower case; an empty text for all else.
    pub(super) fn name(&self) -> String {
        match self {
            Expr::Name(name) => name.to_ascii_lowercase(),
            _ => String::new(),
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        match self {
            Expr::Text(text) => Some(text.clone()),
            Expr::Concat(parts) => parts.iter().map(Expr::text).collect(),
            _ => None,
        }
    }
}

/// The part of a name behind a prefix such as `req.http.`, in lower case.
pub(super) fn field_of(name: &str, prefix: &str) -> Option<String> {
    let start = name.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| name[prefix.len()..].to_ascii_lowercase())
}

/// Seconds of a duration such as `1.5h`.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let count: f64 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        "y" => 31_536_000.0,
        _ => return None,
    };
    Some(count * unit)
}
