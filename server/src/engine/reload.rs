//! Reloads of the configuration, and of the access logs alone.
//!
//! The control thread replaces its own settings and passes them to the workers in one step, without
//! a wait. So two reloads do not interleave, and the newest settings win everywhere. Only then does
//! it wait until the workers use them.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot::error::TryRecvError;

use super::control::Control;
use super::files;
use super::trial::TrialTerms;
use super::worker_group::{Replies, StuckWorkers};
use super::worker_thread::{NewSettings, WorkerCommand};
use crate::clock;
use crate::config::{Config, ConfigChange, ConfigErrors, RESTART_HINT};
use crate::counters::Counter;
use crate::events::Event;
use crate::limits::TICKET_KEY_MS;
use crate::log::LogWriters;
use crate::transport::tls::{TlsAcceptor, acceptor};

/// The reason why a new configuration was refused.
#[derive(Debug)]
pub(crate) enum ReloadError {
    /// The configuration has errors.
    Config(ConfigErrors),
    /// These settings cannot change while the server runs; a restart is needed.
    NeedsRestart(Vec<ConfigChange>),
    /// An access log that the configuration names cannot be opened.
    AccessLog(io::Error),
    /// The settings for TLS cannot be used.
    Tls(String),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReloadError::Config(errors) => errors.fmt(f),
            ReloadError::NeedsRestart(changes) => {
                changes.iter().try_for_each(|change| writeln!(f, "{change}"))?;
                f.write_str(RESTART_HINT)
            }
            ReloadError::Tls(why) => write!(f, "cannot use TLS: {why}"),
            ReloadError::AccessLog(error) => write!(f, "cannot open the access log: {error}"),
        }
    }
}

impl Control {
    /// Reads the configuration again and applies it to every worker, on trial if there are `terms`.
    /// An invalid configuration changes nothing. Returns the workers that are stuck; they apply it
    /// once their event loops turn again.
    ///
    /// # Errors
    /// See [`ReloadError`].
    pub(crate) async fn reload(
        self: &Rc<Self>,
        terms: Option<TrialTerms>,
    ) -> Result<StuckWorkers, ReloadError> {
        let mut loaded = self.load().map_err(ReloadError::Config);
        if let Ok(config) = &loaded
            && self.learn_services(config).await
        {
            // Another reload may have come first, so this one reads the newest files.
            loaded = self.load().map_err(ReloadError::Config);
        }
        let replies = match loaded.and_then(|config| self.apply_reloaded(config, terms)) {
            Ok(replies) => replies,
            Err(error) => {
                self.count(Counter::ReloadsRefused, 1);
                Event::ReloadRefused.log(&error);
                return Err(error);
            }
        };
        Ok(self.finish_reload(replies).await)
    }

    /// Waits until the workers use the new configuration. Returns those that are stuck.
    pub(super) async fn finish_reload(self: &Rc<Self>, replies: Replies<()>) -> StuckWorkers {
        self.update_acme();
        let (_, late) = replies.wait_or_keep().await;
        self.late_workers.replace(late);
        let stuck = self.workers_behind();
        self.hosts.retain(&self.config.borrow().sites);
        self.count(Counter::Reloads, 1);
        match stuck.is_empty() {
            true => Event::Reloaded.log(&"every worker uses the new configuration"),
            false => {
                Event::Reloaded
                    .log(&format_args!("{stuck}; the other workers use the new configuration"));
            }
        }
        stuck
    }

    /// Returns the workers that do not use the configuration of the last reload yet.
    pub(crate) fn workers_behind(&self) -> StuckWorkers {
        let mut late = self.late_workers.borrow_mut();
        // A worker that has ended needs no configuration.
        late.retain_mut(|(_, reply)| matches!(reply.try_recv(), Err(TryRecvError::Empty)));
        StuckWorkers(late.iter().map(|(number, _)| *number).collect())
    }

    /// Returns the changes that a reload would make now. Reads the configuration, and does not
    /// apply it.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub(crate) fn pending_changes(&self) -> Result<Vec<ConfigChange>, ConfigErrors> {
        let mut config = self.load()?;
        // The configuration in use has limits that fit the files of the process.
        files::lower_limits(&mut config, self.worker_count());
        Ok(self.config.borrow().changes(&config))
    }

    /// Reads the configuration again.
    pub(super) fn load(&self) -> Result<Config, ConfigErrors> {
        (self.hooks.load)()
    }

    /// Passes a configuration that was read again to the workers. Returns their replies.
    pub(super) fn apply_reloaded(
        &self,
        config: Config,
        terms: Option<TrialTerms>,
    ) -> Result<Replies<()>, ReloadError> {
        let conflicts = self.config.borrow().reload_conflicts(&config);
        if !conflicts.is_empty() {
            return Err(ReloadError::NeedsRestart(conflicts));
        }
        let (previous, replies) = self.apply(config)?;
        self.begin_trial(previous, terms);
        Ok(replies)
    }

    /// Applies a configuration to every worker. Returns the previous one, and the replies of the
    /// workers.
    pub(super) fn apply(&self, mut config: Config) -> Result<(Config, Replies<()>), ReloadError> {
        files::fit_limit(&mut config, self.worker_count());
        config.keep_certificates(&self.config.borrow());
        // The logs are reopened even if their settings did not change, because log rotation renames
        // the files and then reloads.
        let writers =
            LogWriters::open(&config, &self.log_losses).map_err(ReloadError::AccessLog)?;
        let tls = self.acceptor(&config).map_err(ReloadError::Tls)?;
        config_warnings(&config);
        self.services.fill(&mut config, &|counter, amount| self.count(counter, amount));
        self.limiter.prepare(&config);
        let replies = self.workers.tell(|worker, done| {
            let settings = Arc::clone(&worker.settings);
            settings.put(NewSettings {
                config: Some(Box::new(config.clone())),
                keeps_rule_counts: false,
                tls: tls.as_ref().map(|tls| Box::new(tls.for_worker())),
                access_logs: Some(writers.senders()),
                challenges: None,
            });
            WorkerCommand::TakeSettings { settings, done }
        });
        (self.hooks.applied)(&config);
        let previous = self.config.replace(config);
        self.replaced_logs.add(self.log_writers.replace(writers));
        Ok((previous, replies))
    }

    /// Creates TLS settings for the workers.
    pub(super) fn acceptor(&self, config: &Config) -> Result<Option<TlsAcceptor>, String> {
        acceptor(config, &self.ticket_keys.get().0, &self.acme.challenges())
    }

    /// Replaces the ticket keys once they are older than [`TICKET_KEY_MS`]. If that fails, the
    /// current keys stay in use, and the next attempt follows after the same time.
    pub(super) fn rotate_ticket_keys(&self) {
        let (keys, made_ms) = self.ticket_keys.get();
        let now_ms = clock::monotonic_ms();
        if now_ms.saturating_sub(made_ms) < TICKET_KEY_MS {
            return;
        }
        let Some(rotated) = keys.rotated() else {
            self.ticket_keys.set((keys, now_ms));
            return Event::TlsFailed.log(&"the system cannot supply random bytes for ticket keys");
        };
        self.ticket_keys.set((rotated, now_ms));
        let tls = match self.acceptor(&self.config.borrow()) {
            Ok(acceptor) => acceptor,
            Err(why) => return Event::TlsFailed.log(&why),
        };
        self.count(Counter::TlsKeysRotated, 1);
        self.tell_acceptor(tls);
    }

    /// Passes TLS settings to the workers, for connections whose handshake begins from now on.
    pub(super) fn tell_acceptor(&self, tls: Option<TlsAcceptor>) {
        // A stuck worker takes the settings once its event loop runs again.
        drop(self.workers.tell(|worker, done| {
            let settings = Arc::clone(&worker.settings);
            let access_logs = None;
            let tls = tls.as_ref().map(|tls| Box::new(tls.for_worker()));
            settings.put(NewSettings {
                config: None,
                keeps_rule_counts: true,
                tls,
                access_logs,
                challenges: None,
            });
            WorkerCommand::TakeSettings { settings, done }
        }));
    }

    /// Reopens the access logs after their files were renamed. If that fails for one of them, all
    /// old files stay in use.
    pub(super) fn reopen_logs(&self) {
        let opened = LogWriters::open(&self.config.borrow(), &self.log_losses);
        match opened {
            Ok(writers) => {
                // A stuck worker takes the new logs once its event loop runs again.
                drop(self.workers.tell(|worker, done| {
                    let settings = Arc::clone(&worker.settings);
                    let access_logs = Some(writers.senders());
                    settings.put(NewSettings {
                        config: None,
                        keeps_rule_counts: true,
                        tls: None,
                        access_logs,
                        challenges: None,
                    });
                    WorkerCommand::TakeSettings { settings, done }
                }));
                self.replaced_logs.add(self.log_writers.replace(writers));
                Event::LogReopened.log(&"SIGUSR1");
            }
            Err(error) => {
                Event::LogFailed.log(&format_args!(
                    "a log cannot be opened again, so all old files stay in use: {error}"
                ));
            }
        }
    }
}

/// Logs the warnings about files of the configuration.
pub(super) fn config_warnings(config: &Config) {
    config.tls_warnings().for_each(|warning| Event::TlsFiles.log(&warning));
    config.private_file_warnings().iter().for_each(|warning| Event::UserFiles.log(warning));
}
