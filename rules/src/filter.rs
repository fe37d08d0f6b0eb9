//! Native filters: Rust code in a custom build, which rules can run.
//!
//! A build registers [`Filters`] by name; a rule runs one with `run-plugin NAME [argument …]`. The
//! rule decides under which conditions, at which hook and in which order the filter runs, and is
//! charged for its time.

use std::{collections::BTreeMap, fmt, sync::Arc};

use forebay_http::{
    edit::{EditError, FieldEdit, FieldName},
    fields::Fields,
};

use crate::{
    ast::Hook,
    run::{RuleVariables, Url},
};

/// A native filter, which changes messages. All workers run the same filter at the same time, so
/// state that it keeps must be safe to share between threads.
pub trait Filter: Send + Sync {
    /// Returns the names of all fields that the filter may change. Forebay makes caching decisions
    /// by fields, so it must know every writer of a field: if a name is missing here, a stored
    /// response may be sent for the wrong request.
    fn changes(&self) -> &[FieldName];

    /// Changes the current message. The filter runs in an event loop that other requests share, so
    /// it must not block, or take longer than other work on a head.
    ///
    /// # Errors
    /// The head would exceed its limits. The error counts as a failed operator, and the rule
    /// continues.
    fn run(&self, message: &mut FilterMessage<'_, '_>) -> Result<(), EditError>;
}

/// The input of a filter: the fields that the filter can change, and the parts of the request and
/// the response that it can read.
pub struct FilterMessage<'s, 'b> {
    /// The hook at which the filter runs.
    pub hook: Hook,
    /// The fields of the hook's message, such as the origin's response at `ReadResponse`.
    pub fields: &'s mut FieldEdit<'b>,
    /// The fields of the client's request, if `fields` belongs to another message.
    pub client: Option<Fields<'s>>,
    /// The request's method.
    pub method: &'s [u8],
    /// The current URL of the request.
    pub url: Url<'s>,
    /// The status of the response; `None` in a request.
    pub status: Option<u16>,
    /// The request's variables `STATE-…`, through which filters and rules exchange values.
    pub state: &'s mut RuleVariables,
    /// An empty buffer that is reused, so that filters need not allocate.
    pub scratch: &'s mut Vec<u8>,
}

/// A function that makes a filter from the arguments of a rule. Its error is reported at these
/// arguments.
type Make = dyn Fn(&[&str]) -> Result<Arc<dyn Filter>, String> + Send + Sync;

/// Filters by their names in rules. A clone copies the names, and shares the functions that make
/// the filters.
#[derive(Clone, Default)]
pub struct Filters(BTreeMap<String, Arc<Make>>);

impl Filters {
    /// Adds a filter, replacing any filter of this name. Whenever a rule file is read, `make` is
    /// called once for each rule that runs the filter, with that rule's arguments.
    #[must_use]
    pub fn with<F, M>(mut self, name: &str, make: M) -> Filters
    where
        F: Filter + 'static,
        M: Fn(&[&str]) -> Result<F, String> + Send + Sync + 'static,
    {
        let make = move |arguments: &[&str]| -> Result<Arc<dyn Filter>, String> {
            Ok(Arc::new(make(arguments)?))
        };
        self.0.insert(name.to_owned(), Arc::new(make));
        self
    }

    /// Returns the names of all filters, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Makes the filter of this name; `None` if there is no such filter.
    pub(crate) fn make(
        &self,
        name: &str,
        arguments: &[&str],
    ) -> Option<Result<Arc<dyn Filter>, String>> {
        self.0.get(name).map(|make| make(arguments))
    }
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// A filter that was made for a rule.
#[derive(Clone)]
pub struct FilterCall {
    /// The filter's name in the rule.
    pub name: Box<str>,
    /// The hook at which the filter runs.
    pub hook: Hook,
    /// The filter itself.
    pub filter: Arc<dyn Filter>,
}

impl PartialEq for FilterCall {
    /// Whether both calls run the same filter object, which was made for one rule.
    fn eq(&self, other: &FilterCall) -> bool {
        Arc::ptr_eq(&self.filter, &other.filter)
    }
}

impl Eq for FilterCall {}

impl fmt::Debug for FilterCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterCall").field("name", &self.name).finish_non_exhaustive()
    }
}
