//! What an operator may change, and what a condition looks at: whether one can touch the other.

use forebay_http::{edit::FieldName, fields::FieldId};

use crate::ast::{Condition, Matcher, Operator, Variable};

/// A part of the world that rules change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum DataItem {
    /// Lines of this name, in lower case, of whatever message.
    Field(Box<[u8]>),
    Url,
    /// State variables of both lifetimes.
    State,
    Controls,
    /// Any field, and state variables: what a filter does is its own affair.
    Fields,
}

impl DataItem {
    pub(super) fn field(name: &FieldName) -> DataItem {
        DataItem::Field(name.as_bytes().to_ascii_lowercase().into())
    }

    /// May it be another after this was changed?
    pub(super) fn is_of(&self, changed: &DataItem) -> bool {
        self == changed
            || *changed == DataItem::Fields && matches!(self, DataItem::Field(_) | DataItem::State)
    }

    fn cookies() -> DataItem {
        DataItem::Field(FieldId::Cookie.name().as_bytes().into())
    }
}

/// What an operator changes of what conditions look at.
pub(super) fn written_by(operator: &Operator) -> Option<DataItem> {
    match operator {
        Operator::SetHeader(name, _)
        | Operator::AddHeader(name, _)
        | Operator::RemoveHeader(name) => Some(DataItem::field(name)),
        Operator::AddCookie(..) | Operator::SetCookie(..) | Operator::RemoveCookie(_) => {
            Some(DataItem::cookies())
        }
        Operator::SetDestination { .. }
        | Operator::RemoveDestination(_)
        | Operator::FilterQuery { .. } => Some(DataItem::Url),
        Operator::SetFlag(..) | Operator::SetInt8(..) | Operator::SetInt16(..) => {
            Some(DataItem::State)
        }
        Operator::SetControl(..) => Some(DataItem::Controls),
        Operator::Filter(_) => Some(DataItem::Fields),
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
pub(super) enum Dependence {
    /// It is the same all the time of a run.
    None,
    On(DataItem),
    /// It may be different each time.
    Volatile,
}

/// What a condition looks at.
pub(super) fn dependence_of(test: &Condition, captures: bool) -> Dependence {
    if captures && matches!(test.matcher, Matcher::Regex(_)) {
        // Looking has an effect: somebody asks for what was found last.
        return Dependence::Volatile;
    }
    match &test.subject {
        Variable::Random(_) | Variable::LastCapture(_) => Dependence::Volatile,
        Variable::Header(_, name) => Dependence::On(DataItem::field(name)),
        Variable::Cookie(_) => Dependence::On(DataItem::cookies()),
        Variable::Url(..) => Dependence::On(DataItem::Url),
        Variable::Flag(..) | Variable::Int8(..) | Variable::Int16(_) => {
            Dependence::On(DataItem::State)
        }
        Variable::Control(_) => Dependence::On(DataItem::Controls),
        _ => Dependence::None,
    }
}
