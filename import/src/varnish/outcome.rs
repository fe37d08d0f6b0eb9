//! The treatment of a request.

use std::collections::BTreeSet;

use super::lexer::VclPlace;

/// The cookies that the origin gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Cookies {
    #[default]
    All,
    /// Those with these names; a name may end in `*`.
    Only(Vec<String>),
    None,
    /// Those that a filter leaves, which Forebay does not know.
    Fewer,
    /// Text that the VCL writes.
    Other,
}

/// A change of a request on its way to the origin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldChange {
    pub(super) name: String,
    /// The value, as rules write it; `None` removes the field.
    pub(super) value: Option<String>,
}

/// The request as the VCL has changed it so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RequestState {
    pub(super) cookies: Cookies,
    pub(super) sort_query: bool,
    pub(super) drop_query: BTreeSet<String>,
    pub(super) backend: Option<String>,
    pub(super) host: Option<String>,
    pub(super) fields: Vec<FieldChange>,
    /// Fields whose value is not known.
    pub(super) unknown: BTreeSet<String>,
    pub(super) grace: Option<u64>,
}

/// An answer that Varnish makes itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SynthAnswer {
    pub(super) status: u16,
    /// The URL with `$uri` and `$host`.
    pub(super) location: Option<String>,
    pub(super) body: String,
    pub(super) media: Option<String>,
}

impl SynthAnswer {
    pub(super) fn unavailable() -> SynthAnswer {
        SynthAnswer { status: 503, location: None, body: String::new(), media: None }
    }

    pub(super) fn refused() -> SynthAnswer {
        SynthAnswer { status: 403, location: None, body: String::new(), media: None }
    }
}

/// The end of `vcl_recv`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RecvAction {
    Hash,
    Pass,
    Pipe,
    Purge,
    Answer(SynthAnswer),
}

/// A property of a request that is known only when it arrives.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cond {
    /// The field is there.
    Field(String),
    FieldIs(String, String),
    FieldMatches(String, String),
    HasQuery,
    /// An expression for the whole URL.
    Url(String),
    /// An expression for the path without its first slash.
    Path(String),
    Method(Vec<String>),
    Client(Vec<String>),
    /// A condition that rules cannot have.
    Other(VclPlace, String),
}

impl Cond {
    /// The value of the condition if the other one has this value; `None` if that is not enough.
    pub(super) fn follows(&self, known: &Cond, value: bool) -> Option<bool> {
        // The value may have changed since.
        if matches!(self, Cond::Other(..)) {
            return None;
        }
        if self == known {
            return Some(value);
        }
        match (self, known, value) {
            (Cond::Field(name), Cond::FieldIs(other, _) | Cond::FieldMatches(other, _), true)
                if name == other =>
            {
                Some(true)
            }
            (Cond::FieldIs(name, _) | Cond::FieldMatches(name, _), Cond::Field(other), false)
                if name == other =>
            {
                Some(false)
            }
            _ => None,
        }
    }

    /// Whether it is about this field.
    pub(super) fn is_about(&self, field: &str) -> bool {
        matches!(self, Cond::Field(name) | Cond::FieldIs(name, _) | Cond::FieldMatches(name, _)
            if name == field)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RuleAction {
    Bypass,
    Answer(SynthAnswer),
    Pipe,
    Change(FieldChange),
}

/// An action on conditions, all of which must hold; `false` negates one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequestRule {
    pub(super) conds: Vec<(Cond, bool)>,
    pub(super) action: RuleAction,
}

/// The treatment of the requests of a route.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RecvOutcome {
    pub(super) action: RecvAction,
    pub(super) state: RequestState,
    pub(super) rules: Vec<RequestRule>,
}

/// A join that loses something.
pub(super) enum Loss {
    /// An access rule on a condition that rules cannot have.
    Access,
    /// Requests bypass the cache.
    Cache,
    /// Requests for which another origin, host or query applies.
    Origin,
    /// Only fields of requests.
    Fields,
}

impl RecvOutcome {
    pub(super) fn new(action: RecvAction, mut state: RequestState) -> RecvOutcome {
        // Nothing compares them any more.
        state.unknown.clear();
        RecvOutcome { action, state, rules: Vec::new() }
    }

    /// How strict the treatment is: 0 refuses requests, 3 stores all responses.
    pub(super) fn rank(&self) -> u8 {
        let answers = |rule: &RequestRule| matches!(rule.action, RuleAction::Answer(_));
        match self.action {
            RecvAction::Answer(_) => 0,
            _ if self.rules.iter().any(answers) => 1,
            RecvAction::Pass | RecvAction::Pipe | RecvAction::Purge => 2,
            RecvAction::Hash => 3,
        }
    }

    pub(super) fn has_bypass_for_cookies(&self) -> bool {
        self.rules.iter().any(|rule| {
            rule.action == RuleAction::Bypass
                && rule.conds == [(Cond::Field("cookie".to_owned()), true)]
        })
    }
}
