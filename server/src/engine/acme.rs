//! The control thread's part in certificates by ACME: it gives certificates and the answers to
//! challenges to the workers, and reports the events.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_http::date::write_date;
use tokio::sync::mpsc;

use super::control::Control;
use super::worker_thread::{NewSettings, WorkerCommand};
use crate::acme::{AcmePlan, AcmeReport, AcmeThread, Challenges};
use crate::counters::Counter;
use crate::events::Event;
use crate::limits::ACME_RESTART_MS;
use crate::x509::validity;

/// The thread that orders certificates, if a site has `acme`, and the challenges of its order.
#[derive(Default)]
pub(super) struct AcmeState {
    thread: RefCell<Option<AcmeThread>>,
    /// The number of threads that have started.
    thread_number: Cell<u64>,
    challenges: RefCell<Arc<Challenges>>,
}

impl AcmeState {
    /// Returns the answers to the challenges of the order in progress.
    pub(super) fn challenges(&self) -> Arc<Challenges> {
        Arc::clone(&self.challenges.borrow())
    }
}

impl Control {
    /// Starts or stops the thread that orders certificates, as the configuration demands, and
    /// gives it the configuration.
    pub(super) fn update_acme(self: &Rc<Self>) {
        let mut thread = self.acme.thread.borrow_mut();
        match (self.with_config(AcmePlan::of), &*thread) {
            (Some(plan), Some(running)) => running.set_plan(plan),
            (Some(plan), None) => match AcmeThread::start(plan) {
                Ok((started, reports)) => {
                    *thread = Some(started);
                    let number = self.acme.thread_number.get() + 1;
                    self.acme.thread_number.set(number);
                    tokio::task::spawn_local(Rc::clone(self).take_acme_reports(number, reports));
                }
                Err(error) => {
                    Event::AcmeFailed.log(&format_args!("cannot start a thread: {error}"));
                }
            },
            (None, _) => *thread = None,
        }
        drop(thread);
        self.show_acme_certificates();
    }

    /// Stops ordering certificates. An order in progress ends.
    pub(super) fn stop_acme(&self) {
        self.acme.thread.replace(None);
    }

    async fn take_acme_reports(
        self: Rc<Self>,
        number: u64,
        mut reports: mpsc::UnboundedReceiver<AcmeReport>,
    ) {
        while let Some(report) = reports.recv().await {
            match report {
                AcmeReport::Publish { challenges, done } => {
                    self.publish_challenges(challenges).await;
                    // The order may have been cut off.
                    let _ = done.send(());
                }
                AcmeReport::Changed { set } => {
                    self.read_certificate(set);
                    self.show_acme_certificates();
                }
                report => self.report_acme(report),
            }
        }
        // The thread has ended, and its order with it. A later thread publishes its own challenges.
        if self.acme.thread.borrow().is_none() {
            self.publish_challenges(Challenges::default()).await;
        } else if self.acme.thread_number.get() == number {
            self.restart_acme(number).await;
        }
    }

    /// Starts the thread again after it has ended by an error of its own.
    async fn restart_acme(self: Rc<Self>, number: u64) {
        self.publish_challenges(Challenges::default()).await;
        self.count(Counter::AcmeFailures, 1);
        Event::AcmeUrgent.log(&"the thread that orders certificates has failed; it starts again");
        tokio::time::sleep(Duration::from_millis(ACME_RESTART_MS)).await;
        if self.acme.thread_number.get() == number && self.acme.thread.take().is_some() {
            self.update_acme();
        }
    }

    fn report_acme(&self, report: AcmeReport) {
        match report {
            AcmeReport::Ordering => self.count(Counter::AcmeOrders, 1),
            AcmeReport::NewAccount { url } => Event::AcmeAccount.log(&url),
            AcmeReport::Obtained { site, valid_until } => {
                self.count(Counter::AcmeCertificates, 1);
                Event::AcmeCertificate
                    .log(&format_args!("{site}: valid until {}", shown_time(valid_until)));
            }
            AcmeReport::Failed { site, reason, retry_at, valid_until, is_near_end } => {
                self.count(Counter::AcmeFailures, 1);
                let next = shown_time(retry_at);
                let state = match valid_until {
                    None => "there is no certificate yet".to_owned(),
                    Some(until) => {
                        let warning = if is_near_end { "only " } else { "" };
                        let until = shown_time(until);
                        format!("the certificate in use is valid {warning}until {until}")
                    }
                };
                let event = if is_near_end { Event::AcmeUrgent } else { Event::AcmeFailed };
                event.log(&format_args!("{site}: {reason}; {state}; the next order is at {next}"));
            }
            AcmeReport::Obstacle { text, is_urgent } => {
                self.count(Counter::AcmeFailures, 1);
                let event = if is_urgent { Event::AcmeUrgent } else { Event::AcmeFailed };
                event.log(&text);
            }
            AcmeReport::Publish { .. } | AcmeReport::Changed { .. } => {}
        }
    }

    /// Gives the answers to challenges to the workers, and waits until they use them.
    async fn publish_challenges(&self, challenges: Challenges) {
        let challenges = Arc::new(challenges);
        let previous = self.acme.challenges.replace(Arc::clone(&challenges));
        let of_tls = challenges.tls().next().is_some() || previous.tls().next().is_some();
        if !of_tls && !challenges.has_http() && !previous.has_http() {
            return;
        }
        let tls = match of_tls.then(|| self.acceptor(&self.config.borrow())) {
            Some(Ok(acceptor)) => acceptor,
            Some(Err(why)) => {
                Event::TlsFailed.log(&why);
                None
            }
            None => None,
        };
        let replies = self.workers.tell(|worker, done| {
            let settings = Arc::clone(&worker.settings);
            settings.put(NewSettings {
                config: None,
                keeps_rule_counts: true,
                tls: tls.as_ref().map(|tls| Box::new(tls.for_worker())),
                access_logs: None,
                challenges: Some(Arc::clone(&challenges)),
            });
            WorkerCommand::TakeSettings { settings, done }
        });
        // The authority may reach a worker that is stuck, but an order is repeated if it fails.
        drop(replies.wait().await);
    }

    /// Updates the gauges of certificates.
    fn show_acme_certificates(&self) {
        let (mut missing, mut earliest) = (0, 0);
        for set in self.with_config(|config| config.certificate_sets()) {
            if set.acme.is_none() {
                continue;
            }
            let first = set.identities.first().and_then(|identity| identity.chain.first());
            match first.and_then(|certificate| validity(certificate)) {
                Some((_, until)) if earliest == 0 || until < earliest => earliest = until,
                Some(_) => {}
                None => missing += 1,
            }
        }
        self.set_gauge(Counter::AcmeCertificatesMissing, missing);
        self.set_gauge(Counter::AcmeExpiry, earliest);
    }
}

/// Returns a Unix time for people.
fn shown_time(unix_s: u64) -> String {
    String::from_utf8_lossy(&write_date(unix_s)).into_owned()
}
