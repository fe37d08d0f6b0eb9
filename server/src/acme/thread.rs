//! The thread that keeps certificates, and its messages to the control thread.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::challenges::Challenges;
use super::keeper::Keeper;
use super::progress::OrderProgress;
use crate::config::{AcmeSettings, CertificateSet, Config};

/// The certificates to keep, and the terms on which they are ordered.
#[derive(Clone, Debug)]
pub(crate) struct AcmePlan {
    pub(super) settings: Arc<AcmeSettings>,
    /// The certificate sets with terms, as they were read with the configuration.
    pub(super) sets: Vec<Arc<CertificateSet>>,
}

/// A message to the control thread.
pub(crate) enum AcmeReport {
    /// The answers to challenges that the workers need. `done` is told once they have them.
    Publish { challenges: Challenges, done: oneshot::Sender<()> },
    /// The file of a certificate has changed.
    Changed { set: u64 },
    /// An order begins.
    Ordering,
    /// The authority has created an account.
    NewAccount { url: String },
    /// A certificate was issued and is on disk.
    Obtained { site: String, valid_until: u64 },
    /// An order failed.
    Failed {
        site: String,
        reason: String,
        retry_at: u64,
        /// The time until which the present certificate is valid; `None` without a certificate.
        valid_until: Option<u64>,
        is_near_end: bool,
    },
    /// A certificate cannot be ordered, because its files or the directory cannot be used.
    Obstacle {
        text: String,
        /// Whether the site has no certificate, or one that soon ends.
        is_urgent: bool,
    },
}

/// The thread. It ends when this value is dropped, at the latest after the step that it takes.
pub(crate) struct AcmeThread {
    plan: watch::Sender<AcmePlan>,
}

/// The niceness of the thread, above that of the workers.
const NICE: i32 = 10;

/// Sends reports to the control thread.
pub(super) struct Reporter(mpsc::UnboundedSender<AcmeReport>);

impl AcmePlan {
    /// Returns the plan of a configuration; `None` if no site has `acme`.
    pub(crate) fn of(config: &Config) -> Option<AcmePlan> {
        let settings = Arc::clone(config.acme.as_ref()?);
        let mut sets = config.certificate_sets();
        sets.retain(|set| set.acme.is_some());
        Some(AcmePlan { settings, sets })
    }

    /// Whether `other` has the same certificates on the same terms.
    fn is_same(&self, other: &AcmePlan) -> bool {
        // Reports name a set by its identity, which other settings of the site may change.
        let sets = |plan: &AcmePlan| -> Vec<_> {
            plan.sets.iter().map(|set| (set.id, set.acme.clone())).collect()
        };
        self.settings == other.settings && sets(self) == sets(other)
    }
}

impl AcmeThread {
    /// Starts the thread. Also returns the receiver of its reports.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(
        plan: AcmePlan,
    ) -> std::io::Result<(AcmeThread, mpsc::UnboundedReceiver<AcmeReport>)> {
        let (plan, plans) = watch::channel(plan);
        let (reports, received) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            // A certificate has days, requests have not. This is not possible everywhere.
            let _ = rustix::process::nice(NICE);
            runtime.block_on(keep(plans, Reporter(reports)));
        };
        std::thread::Builder::new().name("acme".to_owned()).spawn(run)?;
        Ok((AcmeThread { plan }, received))
    }

    /// Gives the thread another plan. The order in progress ends if its terms have changed.
    pub(crate) fn set_plan(&self, plan: AcmePlan) {
        self.plan.send_if_modified(|current| {
            let is_new = !current.is_same(&plan);
            if is_new {
                *current = plan;
            }
            is_new
        });
    }
}

impl Reporter {
    pub(super) fn send(&self, report: AcmeReport) {
        // Without a receiver, the server stops.
        let _ = self.0.send(report);
    }

    /// Gives the answers to challenges to the workers, and waits until they use them.
    pub(super) async fn publish(&self, challenges: Challenges) {
        let (done, published) = oneshot::channel();
        self.send(AcmeReport::Publish { challenges, done });
        let _ = published.await;
    }
}

/// Keeps the certificates of each plan until the next one comes.
async fn keep(mut plans: watch::Receiver<AcmePlan>, reporter: Reporter) {
    loop {
        let plan = plans.borrow_and_update().clone();
        // The order of an earlier plan may have been cut off.
        reporter.publish(Challenges::default()).await;
        let progress = OrderProgress::default();
        let mut work = pin!(keep_plan(&plan, &reporter, &progress));
        loop {
            tokio::select! {
                changed = plans.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if !progress.ends_for(&plan, &plans.borrow()) {
                        break;
                    }
                }
                () = &mut work => break,
            }
        }
    }
}

/// Keeps the certificates of a plan. Returns after its last order.
async fn keep_plan(plan: &AcmePlan, reporter: &Reporter, progress: &OrderProgress) {
    let mut keeper = match Keeper::new(plan, reporter, progress) {
        Ok(keeper) => keeper,
        Err(text) => {
            reporter.send(AcmeReport::Obstacle { text, is_urgent: true });
            return std::future::pending().await;
        }
    };
    loop {
        let wait_s = keeper.look().await;
        if progress.is_last() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(wait_s)).await;
    }
}
