//! Loads the configuration again after its files have changed, if `config_watch_ms` is set.
//!
//! The control thread compares the states of the files with those at the time when they were read.
//! It loads a changed configuration once its files have been the same for one period. A
//! configuration that is refused changes nothing. It is loaded again each period, because the cause
//! may be in a file that only the refused configuration names; an event reports each new reason
//! once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::control::Control;
use crate::clock;
use crate::config::{FileState, WatchedFiles};
use crate::counters::Counter;
use crate::events::Event;

/// The changed files of the configuration.
#[derive(Debug, Default)]
pub(super) struct FileWatch {
    changed: RefCell<Option<ChangedConfig>>,
    checked_ms: Cell<u64>,
}

#[derive(Debug)]
struct ChangedConfig {
    states: Vec<FileState>,
    progress: LoadProgress,
}

#[derive(Debug, PartialEq, Eq)]
enum LoadProgress {
    /// The change has just been noticed.
    New,
    /// The files were refused for this reason.
    Refused(String),
    /// The files failed their trial, and are not loaded again before they change.
    FailedTrial,
}

impl FileWatch {
    /// Returns the names of the changed files if they have to be loaded now; empty if they have
    /// been refused before.
    fn due(&self, files: &WatchedFiles) -> Option<String> {
        let now = files.states_now();
        let mut changed = self.changed.borrow_mut();
        if now == files.states_read() {
            *changed = None;
            return None;
        }
        match &*changed {
            Some(known) if known.states == now => match known.progress {
                LoadProgress::New => Some(files.changed(&now)),
                LoadProgress::Refused(_) => Some(String::new()),
                LoadProgress::FailedTrial => None,
            },
            _ => {
                *changed = Some(ChangedConfig { states: now, progress: LoadProgress::New });
                None
            }
        }
    }

    /// Records why the files were refused. Returns whether the reason is new.
    fn note_refused(&self, why: String) -> bool {
        let mut changed = self.changed.borrow_mut();
        let Some(known) = &mut *changed else { return true };
        let progress = LoadProgress::Refused(why);
        let is_new = known.progress != progress;
        known.progress = progress;
        is_new
    }

    /// Keeps the present files, which differ from `files`, from being loaded before they change.
    pub(super) fn note_failed_trial(&self, files: &WatchedFiles) {
        let (states, progress) = (files.states_now(), LoadProgress::FailedTrial);
        *self.changed.borrow_mut() = Some(ChangedConfig { states, progress });
    }
}

impl Control {
    /// Loads the configuration again if its files have changed, and it is time to check them.
    pub(super) fn watch_files(self: &Rc<Self>) {
        let period_ms = self.with_config(|config| u64::from(config.server.config_watch_ms));
        let (now_ms, watch) = (clock::monotonic_ms(), &self.file_watch);
        if period_ms == 0 || now_ms.saturating_sub(watch.checked_ms.get()) < period_ms {
            return;
        }
        watch.checked_ms.set(now_ms);
        let Some(names) = self.with_config(|config| watch.due(&config.watched)) else { return };
        if !names.is_empty() {
            Event::FilesChanged.log(&names);
        }
        match self.apply_reload(None) {
            Ok(replies) => {
                let control = Rc::clone(self);
                // An event and a counter report the outcome.
                tokio::task::spawn_local(async move { drop(control.finish_reload(replies).await) });
            }
            Err(error) => {
                if watch.note_refused(error.to_string()) {
                    self.count(Counter::ReloadsRefused, 1);
                    Event::ReloadRefused.log(&error);
                }
            }
        }
    }
}
