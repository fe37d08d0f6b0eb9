//! Replaces certificates whose files have changed, without a reload.
//!
//! The control thread compares the states of the files with those at the time when they were read.
//! It reads changed files once they have been the same for one period, because a certificate and
//! its key are usually replaced one after the other. Files that cannot be used change nothing. They
//! are read again each period, because the cause may be a temporary error of the system; an event
//! reports each new reason once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use super::control::Control;
use crate::clock;
use crate::config::{CertificateSet, FileStamp};
use crate::counters::Counter;
use crate::events::Event;

/// The certificate files that differ from those in use.
#[derive(Debug, Default)]
pub(super) struct CertificateWatch {
    /// The changed files, by the identity of their certificate set.
    changed: RefCell<HashMap<u64, ChangedFiles>>,
    checked_ms: Cell<u64>,
}

#[derive(Debug)]
struct ChangedFiles {
    stamps: Vec<Option<FileStamp>>,
    /// The reason why these files were refused; empty if they were not.
    refused: String,
}

impl CertificateWatch {
    /// Whether the files of a set have to be read now.
    fn is_due(&self, set: &CertificateSet) -> bool {
        let mut changed = self.changed.borrow_mut();
        let stamps = set.stamps_now();
        if stamps == set.stamps_read() {
            changed.remove(&set.id);
            // An OCSP response that is read again is left out if it is out of date.
            return set.has_old_staple(clock::unix_seconds());
        }
        match changed.get_mut(&set.id) {
            Some(files) if files.stamps == stamps => true,
            _ => {
                changed.insert(set.id, ChangedFiles { stamps, refused: String::new() });
                false
            }
        }
    }

    /// Records why the files of a set cannot be used. Returns whether the reason is new.
    fn note_refused(&self, id: u64, why: &str) -> bool {
        let mut changed = self.changed.borrow_mut();
        let Some(files) = changed.get_mut(&id) else { return true };
        let is_new = files.refused != why;
        files.refused = why.to_owned();
        is_new
    }
}

impl Control {
    /// Replaces the certificates whose files have changed, if it is time to check them.
    pub(super) fn watch_certificates(&self) {
        let (period_ms, has_listener) = self.with_config(|config| {
            (u64::from(config.server.tls_watch_ms), !config.server.listen_tls.is_empty())
        });
        let (now_ms, watch) = (clock::monotonic_ms(), &self.certificate_watch);
        if period_ms == 0
            || !has_listener
            || now_ms.saturating_sub(watch.checked_ms.get()) < period_ms
        {
            return;
        }
        watch.checked_ms.set(now_ms);
        let sets = self.with_config(|config| config.certificate_sets());
        // A set that a reload has removed is no longer watched.
        let is_known = |id: &u64| sets.iter().any(|set| set.id == *id);
        watch.changed.borrow_mut().retain(|id, _| is_known(id));
        let mut read = Vec::new();
        for set in sets.iter().filter(|set| watch.is_due(set)) {
            match set.read_again() {
                Ok(again) => read.push(Arc::new(again)),
                Err(why) => self.refuse_certificates(set.id, &why),
            }
        }
        if read.is_empty() {
            return;
        }
        match self.replace_certificates(&read) {
            Ok(()) => {
                self.count(Counter::TlsCertificatesReplaced, read.len() as u64);
                read.iter().for_each(|set| Event::CertificatesReplaced.log(&set.names()));
            }
            Err(why) => read.iter().for_each(|set| self.refuse_certificates(set.id, &why)),
        }
    }

    /// Reads the file of one certificate set, if it differs from the one in use.
    pub(super) fn read_certificate(&self, id: u64) {
        let sets = self.with_config(|config| config.certificate_sets());
        let Some(set) = sets.iter().find(|set| set.id == id) else { return };
        if set.stamps_now() == set.stamps_read() {
            return;
        }
        let read = set.read_again().map(Arc::new);
        let replaced = read.and_then(|read| {
            self.replace_certificates(std::slice::from_ref(&read))?;
            Ok(read)
        });
        match replaced {
            Ok(read) => {
                self.count(Counter::TlsCertificatesReplaced, 1);
                Event::CertificatesReplaced.log(&read.names());
            }
            Err(why) => self.refuse_certificates(id, &why),
        }
    }

    fn refuse_certificates(&self, id: u64, why: &str) {
        if self.certificate_watch.note_refused(id, why) {
            self.count(Counter::TlsCertificatesRefused, 1);
            Event::CertificatesRefused.log(&why);
        }
    }

    /// Replaces certificate sets together, because each replacement creates the settings of all
    /// workers again.
    fn replace_certificates(&self, sets: &[Arc<CertificateSet>]) -> Result<(), String> {
        let mut config = self.with_config(Clone::clone);
        sets.iter().for_each(|set| config.replace_certificates(set));
        let acceptor = self.acceptor(&config)?;
        let warnings = sets.iter().flat_map(|set| &set.warnings);
        warnings.for_each(|warning| Event::TlsFiles.log(warning));
        *self.config.borrow_mut() = config;
        self.tell_acceptor(acceptor);
        Ok(())
    }
}
