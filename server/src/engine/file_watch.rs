//! Loads the configuration again after its files have changed, if `config_watch_ms` is set.
//!
//! Once a period, the control thread compares the states of the files with those at the time when
//! they were read. If a file has changed, the thread reads the new configuration, and uses it once
//! two readings, a period apart, have found the same files in the same states: a file that is being
//! written, also one that only the new configuration names, is never used. A configuration that is
//! refused changes nothing. It is read again each period, because the cause may be in a file that
//! only the refused configuration names; an event reports each new reason once.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::control::Control;
use super::reload::ReloadError;
use crate::clock;
use crate::config::{FileState, WatchedFiles};
use crate::counters::Counter;
use crate::events::Event;
use crate::limits::HOUSEKEEPING_MS;

/// The changed files of the configuration.
#[derive(Debug, Default)]
pub(super) struct FileWatch(RefCell<Option<PendingLoad>>);

#[derive(Debug)]
struct PendingLoad {
    /// The states of the files of the configuration in use.
    states: Vec<FileState>,
    /// Whether the files failed their trial: they are not loaded again before they change.
    has_failed_trial: bool,
    /// The files that the last reading found, or the reason why it failed.
    reading: Option<Result<WatchedFiles, String>>,
    /// Whether an event has reported the change.
    is_reported: bool,
    /// The reason of the last refusal that was reported.
    refusal: Option<String>,
}

impl PendingLoad {
    fn new(states: Vec<FileState>) -> PendingLoad {
        let (reading, refusal) = (None, None);
        PendingLoad { states, has_failed_trial: false, reading, is_reported: false, refusal }
    }

    /// Records a reading. Returns whether the one before was the same.
    fn note_reading(&mut self, reading: Result<WatchedFiles, String>) -> bool {
        let is_same = match (&self.reading, &reading) {
            (Some(Ok(before)), Ok(now)) => before.has_read_same(now),
            (Some(Err(before)), Err(now)) => before == now,
            _ => false,
        };
        self.reading = Some(reading);
        is_same
    }
}

impl FileWatch {
    /// Whether files of the configuration in use have changed since they were read, and may be
    /// loaded.
    fn has_changed(&self, files: &WatchedFiles) -> bool {
        let now = files.states_now();
        let mut changed = self.0.borrow_mut();
        if now == files.states_read() {
            *changed = None;
            return false;
        }
        match &*changed {
            Some(known) if known.states == now => !known.has_failed_trial,
            _ => {
                *changed = Some(PendingLoad::new(now));
                true
            }
        }
    }

    /// Keeps the present files, which differ from `files`, from being loaded before they change,
    /// unless they have changed since the configuration that failed its trial was read from
    /// `tried`.
    pub(super) fn note_failed_trial(&self, files: &WatchedFiles, tried: &WatchedFiles) {
        let mut changed = PendingLoad::new(files.states_now());
        changed.has_failed_trial = tried.states_now() == tried.states_read();
        self.0.replace(Some(changed));
    }

    /// Runs `with` on the changed files, if there are any.
    fn with_changed<T>(&self, with: impl FnOnce(&mut PendingLoad) -> T) -> Option<T> {
        self.0.borrow_mut().as_mut().map(with)
    }
}

impl Control {
    /// Loads the configuration again whenever its files have changed.
    pub(super) async fn watch_files(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(Duration::from_millis(HOUSEKEEPING_MS));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut checked_ms = 0;
        loop {
            ticks.tick().await;
            let period_ms = self.with_config(|config| u64::from(config.server.config_watch_ms));
            let now_ms = clock::monotonic_ms();
            if period_ms != 0 && now_ms.saturating_sub(checked_ms) >= period_ms {
                checked_ms = now_ms;
                self.check_files().await;
            }
        }
    }

    /// Reads the configuration if its files have changed, and uses it if the last reading found the
    /// same files.
    async fn check_files(self: &Rc<Self>) {
        let watch = &self.file_watch;
        if !self.with_config(|config| watch.has_changed(&config.watched)) {
            return;
        }
        let loaded = self.load().map_err(ReloadError::Config);
        let reading = match &loaded {
            Ok(config) => Ok(config.watched.clone()),
            Err(error) => Err(error.to_string()),
        };
        let is_settled = watch.with_changed(|changed| changed.note_reading(reading));
        if is_settled != Some(true) {
            return;
        }
        let is_reported = watch.with_changed(|it| std::mem::replace(&mut it.is_reported, true));
        if is_reported == Some(false) {
            let names = self.with_config(|config| config.watched.changed());
            Event::FilesChanged.log(&names);
        }
        // If another reload used the files in the meantime, this one must not undo it or its trial.
        if let Ok(config) = &loaded
            && self.learn_services(config).await
            && !self.with_config(|config| watch.has_changed(&config.watched))
        {
            return;
        }
        match loaded.and_then(|config| self.apply_reloaded(config, None)) {
            Ok(replies) => {
                let control = Rc::clone(self);
                // An event and a counter report the outcome.
                tokio::task::spawn_local(async move { drop(control.finish_reload(replies).await) });
            }
            Err(error) => {
                let why = error.to_string();
                let is_new = watch.with_changed(|changed| {
                    let is_new = changed.refusal.as_ref() != Some(&why);
                    changed.refusal = Some(why);
                    is_new
                });
                if is_new == Some(true) {
                    self.count(Counter::ReloadsRefused, 1);
                    Event::ReloadRefused.log(&error);
                }
            }
        }
    }
}
