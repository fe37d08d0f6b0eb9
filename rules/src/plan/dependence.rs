//! Dependences: the data items that operators write and conditions read.

use forebay_http::{edit::FieldName, fields::FieldId};

use crate::ast::{Condition, Matcher, Operator, Variable};

/// A data item that rules can change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum DataItem {
    /// The lines of the field with this name (in lower case), in any message.
    Field(Box<[u8]>),
    Url,
    /// State variables of both lifetimes.
    State,
    Controls,
    /// Any field and any state variable: the item that a filter writes, because its effects are not
    /// known in detail.
    Fields,
}

impl DataItem {
    pub(super) fn field(name: &FieldName) -> DataItem {
        DataItem::Field(name.as_bytes().to_ascii_lowercase().into())
    }

    /// Whether a change of `changed` may affect this item.
    pub(super) fn is_affected_by(&self, changed: &DataItem) -> bool {
        self == changed
            || *changed == DataItem::Fields && matches!(self, DataItem::Field(_) | DataItem::State)
    }

    fn cookies() -> DataItem {
        DataItem::Field(FieldId::Cookie.name().as_bytes().into())
    }
}

/// Returns the item that an operator writes, if conditions can read it.
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
        // A changed status is visible only from the next hook on.
        Operator::SetRedirect { .. }
        | Operator::SetStatus(_)
        | Operator::SetReason(_)
        | Operator::SetBody(_)
        | Operator::Counter(_)
        | Operator::NoOp
        | Operator::SetDscp(_) => None,
    }
}

/// The data items on which the value of a condition depends.
pub(super) enum Dependence {
    /// The value of the condition is constant during a run.
    None,
    On(DataItem),
    /// The value of the condition may differ at every evaluation.
    Volatile,
}

/// Returns the dependence of a condition. `captures` says whether any rule uses captured groups.
pub(super) fn dependence_of(test: &Condition, captures: bool) -> Dependence {
    if captures && matches!(test.matcher, Matcher::Regex(_)) {
        // The evaluation has a side effect: it sets the captured groups.
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
