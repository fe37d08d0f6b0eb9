//! Fields in `vcl_deliver`, `vcl_backend_fetch`, and the key in `vcl_hash`.

use super::eval::{Evaluator, RequestKind, Truth};
use super::outcome::{FieldChange, RequestState};
use super::request::template;
use super::rulefile::{change_lines, cond_line, is_free};
use super::source::VclSource;
use super::syntax::{Expr, Statement, StatementKind, field_of};

const DEPTH_MAX: usize = 16;

/// Fields that only Varnish writes.
const VARNISH: &[&str] = &["x-varnish"];

/// Rules of the responses to clients, and of requests to origins.
pub(super) fn rules(source: &VclSource<'_>, kind: RequestKind<'_>) -> String {
    let mut out = String::new();
    let mut writer = FieldWriter { source, kind, prefix: "resp.http.", out: &mut out };
    writer.run(source.vcl.sub("vcl_deliver"), "cond %{SEND_RESPONSE_HDR_HOOK}\n", 0);
    writer.prefix = "bereq.http.";
    writer.run(source.vcl.sub("vcl_backend_fetch"), "cond %{SEND_REQUEST_HDR_HOOK}\n", 0);
    out
}

struct FieldWriter<'w> {
    source: &'w VclSource<'w>,
    kind: RequestKind<'w>,
    prefix: &'static str,
    out: &'w mut String,
}

impl FieldWriter<'_> {
    fn run(&mut self, statements: &[Statement], conds: &str, depth: usize) {
        for statement in statements.iter().take(1000) {
            if depth > DEPTH_MAX || self.out.len() > 1 << 18 {
                return;
            }
            let place = &statement.place;
            match &statement.kind {
                StatementKind::Set(name, value) => {
                    let lower = name.to_ascii_lowercase();
                    if lower == "resp.http.age" || lower.starts_with("req.http.") {
                        continue;
                    }
                    let value = template(value).filter(|_| !self.source.has_changed_field(value));
                    match field_of(name, self.prefix) {
                        Some(name) if is_free(&name) && (self.is_request() || value.is_some()) => {
                            if value.is_none() {
                                self.left_out(statement, &name);
                            }
                            // A client must not write what the origin takes for the VCL's.
                            let change = FieldChange { name, value };
                            self.out.push_str(&format!("{conds}{}\n", change_lines(&change)));
                        }
                        _ => self.left_out(statement, name),
                    }
                }
                StatementKind::Unset(name) => match field_of(name, self.prefix) {
                    Some(field) if VARNISH.contains(&field.as_str()) => {}
                    Some(name) if is_free(&name) => {
                        let change = FieldChange { name, value: None };
                        self.out.push_str(&format!("{conds}{}\n", change_lines(&change)));
                    }
                    _ => self.left_out(statement, name),
                },
                StatementKind::Call(name) => {
                    self.run(self.source.vcl.sub(name), conds, depth + 1);
                }
                StatementKind::Return(action, _) => {
                    if !matches!(action.as_str(), "deliver" | "fetch" | "") {
                        self.left_out(statement, action);
                    }
                    return;
                }
                StatementKind::If(branches, last) => {
                    self.branches(statement, (branches, last), conds, depth);
                }
                StatementKind::Do(Expr::Call(name, _)) if name.starts_with("std.") => {}
                _ => self.source.note(place, "call", "left out: Forebay has no such function"),
            }
        }
    }

    fn is_request(&self) -> bool {
        self.prefix == "bereq.http."
    }

    /// Removes the fields of requests that statements on a condition would change.
    fn remove(&mut self, statements: &[Statement], conds: &str, depth: usize) {
        for statement in statements {
            if !self.is_request() || depth > DEPTH_MAX || self.out.len() > 1 << 18 {
                return;
            }
            match &statement.kind {
                StatementKind::Set(name, _) | StatementKind::Unset(name) => {
                    if let Some(name) = field_of(name, self.prefix).filter(|name| is_free(name)) {
                        let change = FieldChange { name, value: None };
                        self.out.push_str(&format!("{conds}{}\n", change_lines(&change)));
                    }
                }
                StatementKind::If(branches, last) => {
                    for inner in branches.iter().map(|(_, inner)| inner).chain([last]) {
                        self.remove(inner, conds, depth + 1);
                    }
                }
                StatementKind::Call(name) => {
                    self.remove(self.source.vcl.sub(name), conds, depth + 1);
                }
                _ => {}
            }
        }
    }

    fn left_out(&self, statement: &Statement, name: &str) {
        let message = "left out: rules cannot have it, or the value is not known (docs/rules.md)";
        self.source.note(&statement.place, name, message);
    }

    fn branches(
        &mut self,
        statement: &Statement,
        (branches, last): (&[(Expr, Vec<Statement>)], &[Statement]),
        conds: &str,
        depth: usize,
    ) {
        let mut conds = conds.to_owned();
        for (index, (test, inner)) in branches.iter().enumerate() {
            match self.decide(statement, test) {
                Decision::Known(true) => return self.run(inner, &conds, depth + 1),
                Decision::Known(false) => {}
                Decision::Lines(yes, no) => {
                    self.run(inner, &format!("{conds}{yes}"), depth + 1);
                    conds.push_str(&no);
                }
                Decision::Unknown => {
                    let message = "left out: rules cannot have this condition (docs/rules.md)";
                    self.source.note(&statement.place, "if", message);
                    for (_, inner) in &branches[index..] {
                        self.remove(inner, &conds, depth + 1);
                    }
                    return self.remove(last, &conds, depth + 1);
                }
            }
        }
        self.run(last, &conds, depth + 1);
    }

    fn decide(&self, statement: &Statement, test: &Expr) -> Decision {
        if let Expr::Not(inner) = test {
            return match self.decide(statement, inner) {
                Decision::Known(value) => Decision::Known(!value),
                Decision::Lines(yes, no) => Decision::Lines(no, yes),
                Decision::Unknown => Decision::Unknown,
            };
        }
        if let Expr::Compare(left, symbol, right) = test {
            let is_none = matches!(&**right, Expr::Number(number) if number == "0");
            let line = |not: &str| format!("cond %{{CACHE}} (hit-fresh,hit-stale){not}\n");
            match (left.name().as_str(), *symbol, is_none) {
                ("obj.hits", ">" | "!=", true) => {
                    return Decision::Lines(line(""), line(" [NOT]"));
                }
                ("obj.hits", "==", true) => return Decision::Lines(line(" [NOT]"), line("")),
                _ => {}
            }
        }
        if let Expr::Name(name) = test {
            if name == "obj.hits" {
                let line = |not: &str| format!("cond %{{CACHE}} (hit-fresh,hit-stale){not}\n");
                return Decision::Lines(line(""), line(" [NOT]"));
            }
            if let Some(field) = field_of(name, self.prefix) {
                let line = |not: &str| format!("cond %{{HEADER:{field}}} /./{not}\n");
                return Decision::Lines(line(""), line(" [NOT]"));
            }
        }
        let state = RequestState::default();
        let (source, kind, place) = (self.source, self.kind, &statement.place);
        let evaluator = Evaluator { source, kind, state: &state, place };
        match evaluator.decide(test) {
            Truth::Known(value) | Truth::Guarded(_, value, _) => Decision::Known(value),
            Truth::Depends(cond, positive) => {
                match (cond_line(&cond, positive), cond_line(&cond, !positive)) {
                    (Some(yes), Some(no)) => Decision::Lines(yes, no),
                    _ => Decision::Unknown,
                }
            }
        }
    }
}

enum Decision {
    Known(bool),
    /// Conditions of rules: that it holds, and that it does not.
    Lines(String, String),
    Unknown,
}

/// The request fields that `vcl_hash` adds to the key.
///
/// # Errors
/// The key has a part that Forebay cannot have.
pub(super) fn key_fields(source: &VclSource<'_>) -> Result<Vec<String>, ()> {
    let mut fields = Vec::new();
    let mut is_known = true;
    read_key(source, source.vcl.sub("vcl_hash"), (&mut fields, &mut is_known), 0);
    fields.sort();
    fields.dedup();
    if is_known && fields.len() <= 8 { Ok(fields) } else { Err(()) }
}

fn read_key(
    source: &VclSource<'_>,
    statements: &[Statement],
    (fields, is_known): (&mut Vec<String>, &mut bool),
    depth: usize,
) {
    if depth > DEPTH_MAX {
        *is_known = false;
        return;
    }
    for statement in statements {
        match &statement.kind {
            StatementKind::If(branches, last) => {
                let inner = branches.iter().map(|(_, inner)| inner.as_slice());
                for block in inner.chain([last.as_slice()]) {
                    read_key(source, block, (fields, is_known), depth + 1);
                }
            }
            StatementKind::Call(name) => {
                read_key(source, source.vcl.sub(name), (fields, is_known), depth + 1);
            }
            StatementKind::Do(Expr::Call(name, arguments)) if name == "hash_data" => {
                let part = arguments.first().map(Expr::name).unwrap_or_default();
                match (part.as_str(), field_of(&part, "req.http.")) {
                    // The scheme is in the key anyway.
                    ("req.url" | "server.ip" | "req.http.host", _) => {}
                    ("req.http.x-forwarded-proto", _)
                        if !source.set_fields.contains("x-forwarded-proto") => {}
                    // A client's field is not the one that the VCL computes.
                    (_, Some(field)) if is_key(&field) && !source.set_fields.contains(&field) => {
                        fields.push(field);
                    }
                    _ => {
                        *is_known = false;
                        source.note(
                            &statement.place,
                            "hash_data",
                            "this part of the key cannot be carried over, so nothing is cached; \
                             use key_fields or key_cookies, and remove `cache = false`",
                        );
                    }
                }
            }
            StatementKind::Return(..) => {}
            _ => source.note(&statement.place, "vcl_hash", "left out"),
        }
    }
}

/// Whether `key_fields` may have it.
fn is_key(field: &str) -> bool {
    is_free(field) && !field.starts_with("x-forwarded-for") && field != "cookie" && field != "range"
}
