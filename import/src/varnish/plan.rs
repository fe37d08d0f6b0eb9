//! The treatment of the origin's responses, and its rules.

use super::context::{ChangeLog, LIFETIME};
use super::outcome::FieldChange;
use super::rulefile;

/// The field in which rules give this cache a lifetime.
pub(super) const LIFETIME_FIELD: &str = "forebay-cache-control";

/// The treatment of the origin's responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ResponsePlan {
    pub(super) lifetime: Option<u64>,
    pub(super) grace: Option<u64>,
    pub(super) is_uncacheable: bool,
    /// Whether Varnish may refuse requests because of the response.
    pub(super) is_refused: bool,
    pub(super) is_abandoned: bool,
    pub(super) gzip: bool,
    pub(super) types: Vec<String>,
    /// Lifetimes on conditions of rules, in their order.
    pub(super) lifetimes: Vec<(String, u64)>,
    /// Lifetimes for URLs whose query matches an expression for a path.
    pub(super) query_lifetimes: Vec<(String, u64)>,
    /// Conditions on which a response is not stored, and those of a lifetime of 0.
    pub(super) unstored: Vec<String>,
    pub(super) unstored_by_lifetime: Vec<String>,
    /// Changes of fields with their conditions, in their order.
    pub(super) changes: Vec<(String, FieldChange)>,
    pub(super) log: ChangeLog,
}

impl ResponsePlan {
    /// Whether a rule gives some responses a lifetime.
    pub(super) fn has_lifetime_rules(&self) -> bool {
        !self.lifetimes.is_empty() || !self.query_lifetimes.is_empty()
    }

    /// The rules of the plan. Lifetimes are in a field that only this cache reads.
    pub(super) fn rule_text(&self, is_stored: bool) -> String {
        let mut out = String::new();
        let always = self.lifetime.filter(|_| self.has_lifetime_rules());
        let always = always.map(|lifetime| (String::new(), lifetime));
        let each = always.iter().chain(&self.lifetimes).chain(&self.query_lifetimes);
        for (cond, lifetime) in each.filter(|_| is_stored) {
            out.push_str(&format!(
                "cond %{{READ_RESPONSE_HDR_HOOK}}\n{cond}cond %{{HEADER:Cache-Control}} \
                 /no-cache|no-store|private/ [NOT,NOCASE]\nset-header {LIFETIME_FIELD} \
                 \"max-age={lifetime}\"\n\n"
            ));
        }
        for cond in self.unstored.iter().chain(&self.unstored_by_lifetime).filter(|_| is_stored) {
            out.push_str(&format!(
                "cond %{{READ_RESPONSE_HDR_HOOK}}\n{cond}set-http-cntl SERVER_NO_STORE on\n\n"
            ));
        }
        for (cond, change) in &self.changes {
            if !rulefile::is_free(&change.name) {
                continue;
            }
            // With a lifetime of its own, the response is stored whatever these fields say.
            let is_removed = change.value.is_none() && self.lifetime.is_some();
            let hook = match LIFETIME.contains(&change.name.as_str()) && !is_removed {
                true => "SEND_RESPONSE_HDR_HOOK",
                false => "READ_RESPONSE_HDR_HOOK",
            };
            let lines = rulefile::change_lines(change);
            out.push_str(&format!("cond %{{{hook}}}\n{cond}{lines}\n"));
        }
        out
    }
}
