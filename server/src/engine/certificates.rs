//! Replaces certificates whose files have changed, without a reload.
//!
//! The control thread compares the states of the files with those at the time when they were read.
//! It reads changed files once they have been the same for one period, because a certificate and
//! its key are usually replaced one after the other. Files that cannot be used change nothing; they
//! are read again after the next change.

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
    /// Whether these files were read, and refused.
    is_refused: bool,
}

impl CertificateWatch {
    /// Whether the files of a set have to be read now.
    fn is_due(&self, set: &CertificateSet) -> bool {
        let mut changed = self.changed.borrow_mut();
        let stamps = set.stamps_now();
        if stamps == set.stamps_read() {
            changed.remove(&set.id);
            return false;
        }
        match changed.get_mut(&set.id) {
            Some(files) if files.stamps == stamps => {
                !std::mem::replace(&mut files.is_refused, true)
            }
            _ => {
                changed.insert(set.id, ChangedFiles { stamps, is_refused: false });
                false
            }
        }
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
        for set in sets.iter().filter(|set| watch.is_due(set)) {
            match self.replace_certificates(set) {
                Ok(()) => {
                    self.count(Counter::TlsCertificatesReplaced, 1);
                    Event::CertificatesReplaced.log(&set.names());
                }
                Err(why) => {
                    self.count(Counter::TlsCertificatesRefused, 1);
                    Event::CertificatesRefused.log(&why);
                }
            }
        }
    }

    fn replace_certificates(&self, set: &CertificateSet) -> Result<(), String> {
        let set = Arc::new(set.read_again()?);
        let mut config = self.with_config(Clone::clone);
        config.replace_certificates(&set);
        let acceptors = self.acceptors(&config)?;
        set.warnings.iter().for_each(|warning| Event::TlsFiles.log(warning));
        *self.config.borrow_mut() = config;
        self.tell_acceptors(acceptors);
        Ok(())
    }
}
