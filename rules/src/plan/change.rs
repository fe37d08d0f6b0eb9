//! What an operator may change, and what a condition looks at: whether one can touch the other.

use forebay_http::{edit::FieldName, fields::FieldId};

use crate::ast::{Matcher, Operator, Test, Variable};

/// A part of the world that rules change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Lines of this name, in lower case, of whatever message.
    Field(Box<[u8]>),
    Url,
    /// State variables of both lifetimes.
    State,
    Controls,
    /// Any field, and state variables: what a filter does is its own affair.
    Fields,
}

impl Place {
    pub(super) fn field(name: &FieldName) -> Place {
        Place::Field(name.as_bytes().to_ascii_lowercase().into())
    }

    /// May it be another after this was changed?
    pub(super) fn is_of(&self, changed: &Place) -> bool {
        self == changed
            || *changed == Place::Fields && matches!(self, Place::Field(_) | Place::State)
    }

    fn cookies() -> Place {
        Place::Field(FieldId::Cookie.name().as_bytes().into())
    }
}

/// What an operator changes of what conditions look at.
pub(super) fn changed_by(operator: &Operator) -> Option<Place> {
    match operator {
        Operator::SetHeader(name, _)
        | Operator::AddHeader(name, _)
        | Operator::RemoveHeader(name) => Some(Place::field(name)),
        Operator::AddCookie(..) | Operator::SetCookie(..) | Operator::RemoveCookie(_) => {
            Some(Place::cookies())
        }
        Operator::SetDestination { .. }
        | Operator::RemoveDestination(_)
        | Operator::FilterQuery { .. } => Some(Place::Url),
        Operator::SetFlag(..) | Operator::SetInt8(..) | Operator::SetInt16(..) => {
            Some(Place::State)
        }
        Operator::SetControl(..) => Some(Place::Controls),
        Operator::Filter(_) => Some(Place::Fields),
        // A status that is set is not seen before the next hook.
        Operator::SetRedirect { .. }
        | Operator::SetStatus(_)
        | Operator::SetReason(_)
        | Operator::SetBody(_)
        | Operator::Counter(_)
        | Operator::NoOp
        | Operator::SetDscp(_) => None,
    }
}

/// What a condition looks at.
pub(super) enum Looks {
    /// It is the same all the time of a run.
    Fixed,
    At(Place),
    /// It may be different each time.
    Anew,
}

/// What a condition looks at.
pub(super) fn looks_at(test: &Test, captures: bool) -> Looks {
    if captures && matches!(test.matcher, Matcher::Regex(_)) {
        // Looking has an effect: somebody asks for what was found last.
        return Looks::Anew;
    }
    match &test.subject {
        Variable::Random(_) | Variable::LastCapture(_) => Looks::Anew,
        Variable::Header(_, name) => Looks::At(Place::field(name)),
        Variable::Cookie(_) => Looks::At(Place::cookies()),
        Variable::Url(..) => Looks::At(Place::Url),
        Variable::Flag(..) | Variable::Int8(..) | Variable::Int16(_) => Looks::At(Place::State),
        Variable::Control(_) => Looks::At(Place::Controls),
        _ => Looks::Fixed,
    }
}
