//! Filters in Rust: what rules cannot say, in a build of your own, where rules say it is to run.
//!
//! A build gives [`Filters`] names; a rule runs one with `run-plugin NAME [argument …]`. So its
//! conditions, its hook, its price and its place among the rules are those of the rule.

use std::{collections::BTreeMap, fmt, sync::Arc};

use forebay_http::{
    edit::{EditError, FieldEdit, FieldName},
    fields::Fields,
};

use crate::{
    ast::Hook,
    run::{RuleVariables, Url},
};

/// What is done to a message. One filter serves all workers at once; what it counts or remembers
/// is its own to share.
pub trait Filter: Send + Sync {
    /// Names of the fields that it may change. Whoever decides by a field has to know who else
    /// writes it: a name that is missing here can let a stored answer go to the wrong request.
    fn changes(&self) -> &[FieldName];

    /// Changes the message at hand. It runs in an event loop that others wait for: it must not
    /// wait, nor take longer than the work on a head takes.
    ///
    /// # Errors
    /// There was no room in the head: counted as a failure of the rule, which goes on.
    fn run(&self, message: &mut FilterMessage<'_, '_>) -> Result<(), EditError>;
}

/// What a filter sees of a request, and the fields that it changes.
pub struct FilterMessage<'s, 'b> {
    /// Where it runs.
    pub hook: Hook,
    /// The message that the hook is about.
    pub fields: &'s mut FieldEdit<'b>,
    /// The client's request, if `fields` is another message.
    pub client: Option<Fields<'s>>,
    /// The request's method.
    pub method: &'s [u8],
    /// The URL as the request now stands.
    pub url: Url<'s>,
    /// Of the response that `fields` are of.
    pub status: Option<u16>,
    /// The variables `STATE-…` of this request: by them a filter and rules tell each other.
    pub state: &'s mut RuleVariables,
    /// An empty buffer that is used again and again, so that nothing need be allocated.
    pub scratch: &'s mut Vec<u8>,
}

/// Makes a filter of the arguments that a rule gives it; the error is shown at their place.
type Make = dyn Fn(&[&str]) -> Result<Arc<dyn Filter>, String> + Send + Sync;

/// Filters by the names that rules call them. A clone costs a reference count.
#[derive(Clone, Default)]
pub struct Filters(BTreeMap<String, Arc<Make>>);

impl Filters {
    /// Adds a filter, or replaces that of this name. `make` is called once for each rule that runs
    /// it, whenever a rule file is read, with the arguments of that rule.
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

    /// Their names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// `None` if there is none of this name.
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

/// A filter as a rule runs it.
#[derive(Clone)]
pub struct FilterCall {
    /// What the rule calls it.
    pub name: Box<str>,
    /// Where it runs.
    pub hook: Hook,
    /// Made for this rule.
    pub filter: Arc<dyn Filter>,
}

impl PartialEq for FilterCall {
    /// Whether it is the same one, made for the same rule.
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
