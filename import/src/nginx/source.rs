//! The configuration as a whole, and the notes about it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use super::real_ip::RealIp;
use super::syntax::NginxDirective;
use crate::Note;
use crate::rule_files::RuleFiles;

/// Everything that the translation of one server may look at.
pub(super) struct NginxSource<'s> {
    /// The directives of `http`.
    pub(super) http: &'s [NginxDirective],
    pub(super) groups: BTreeMap<&'s str, &'s NginxDirective>,
    /// The zones of `limit_req` and of `limit_conn`.
    pub(super) rate_zones: BTreeMap<&'s str, &'s NginxDirective>,
    pub(super) count_zones: BTreeMap<&'s str, &'s NginxDirective>,
    /// The proxies that become `trusted_proxies`.
    pub(super) real_ip: RealIp,
    pub(super) prefix: PathBuf,
    /// Whether `--prefix` has named the directory.
    pub(super) has_prefix: bool,
    pub(super) drop_access_rules: bool,
    pub(super) rule_files: RefCell<RuleFiles>,
    pub(super) notes: RefCell<Vec<Note>>,
}

impl NginxSource<'_> {
    /// Notes once that a directive is not carried over, or not with the same meaning.
    pub(super) fn note(&self, directive: &NginxDirective, message: impl Into<String>) {
        let note = Note {
            file: directive.file.to_string(),
            line: directive.line,
            directive: directive.name.clone(),
            message: message.into(),
        };
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// An absolute path.
    pub(super) fn path(&self, text: &str) -> String {
        let path = self.prefix.join(text);
        std::path::absolute(&path).unwrap_or(path).display().to_string()
    }
}
