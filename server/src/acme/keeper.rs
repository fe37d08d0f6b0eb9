//! Keeps the certificates of a plan: orders those that are missing, and renews the others.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use instant_acme::{Account, AccountCredentials, NewAccount};
use rustls::pki_types::CertificateDer;
use tokio::time::timeout;

use super::certificate_file::CertificateFile;
use super::challenges::Challenges;
use super::client::CaClient;
use super::failure::{OrderFailure, shortened};
use super::order::order;
use super::progress::{OrderProgress, StartedOrder};
use super::renewal::RenewalWindows;
use super::schedule::{credible, is_near_end, renewal_time, retry_time, time_after_order};
use super::status::Failures;
use super::storage::{AcmeStorage, OrderLock, write_durably};
use super::thread::{AcmePlan, AcmeReport, Reporter};
use crate::clock;
use crate::config::{CertificateSet, FileStamp, is_for_name};
use crate::limits::{ACME_CHECK_S, ACME_LOCKED_S, ACME_ORDER_MS_MAX};
use crate::x509::validity;

/// The state that the thread keeps between two looks at the certificates.
pub(super) struct Keeper<'a> {
    plan: &'a AcmePlan,
    reporter: &'a Reporter,
    progress: &'a OrderProgress,
    client: CaClient,
    storage: Option<AcmeStorage>,
    account: Option<Account>,
    windows: RenewalWindows,
    /// The states of the certificates' files that were reported.
    reported: HashMap<u64, Vec<Option<FileStamp>>>,
    /// The reasons why certificates could not be ordered in the last look.
    obstacles: Vec<Obstacle>,
    lock_attempts: LockAttempts,
}

/// A reason why a certificate cannot be ordered, apart from a failed order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Obstacle {
    text: String,
    is_urgent: bool,
}

/// The time for which other processes have held the lock.
#[derive(Debug, Default)]
struct LockAttempts {
    /// The monotonic time since when each attempt has failed.
    since_ms: Option<u64>,
    /// Whether an attempt of this look failed.
    is_locked: bool,
}

/// The present state of a certificate.
struct Due {
    /// The time of the next order.
    at: u64,
    certificate: Option<CertificateDer<'static>>,
    failures: Failures,
}

impl<'a> Keeper<'a> {
    /// # Errors
    /// The TLS library refuses the settings.
    pub(super) fn new(
        plan: &'a AcmePlan,
        reporter: &'a Reporter,
        progress: &'a OrderProgress,
    ) -> Result<Keeper<'a>, String> {
        Ok(Keeper {
            plan,
            reporter,
            progress,
            client: CaClient::new(&plan.settings.roots, plan.settings.retry_ms)?,
            storage: None,
            account: None,
            windows: RenewalWindows::default(),
            reported: HashMap::new(),
            obstacles: Vec::new(),
            lock_attempts: LockAttempts::default(),
        })
    }

    /// Looks at all certificates, and orders those that are due. Returns after how many seconds to
    /// look again.
    pub(super) async fn look(&mut self) -> u64 {
        let mut obstacles = Vec::new();
        let next = self.keep_all(&mut obstacles).await;
        for obstacle in obstacles.iter().filter(|one| !self.obstacles.contains(one)) {
            let Obstacle { text, is_urgent } = obstacle.clone();
            self.reporter.send(AcmeReport::Obstacle { text, is_urgent });
        }
        self.obstacles = obstacles;
        next.max(1)
    }

    async fn keep_all(&mut self, obstacles: &mut Vec<Obstacle>) -> u64 {
        let mut next = ACME_CHECK_S;
        if self.storage.is_none() {
            match AcmeStorage::open(&self.plan.settings.dir) {
                Ok(storage) => self.storage = Some(storage),
                Err(why) => {
                    obstacles.push(why.into());
                    return next;
                }
            }
        }
        self.lock_attempts.is_locked = false;
        // A site without a certificate needs one more urgently than one with an old certificate.
        let mut sets: Vec<_> = self.plan.sets.iter().collect();
        sets.sort_by_key(|set| set.acme.as_ref().is_some_and(|terms| terms.file.exists()));
        let mut certificates = Vec::new();
        for set in sets {
            match self.keep_one(set, &mut certificates).await {
                Ok(wait) => next = wait.min(next),
                Err(obstacle) => obstacles.push(obstacle),
            }
            if self.progress.is_last() {
                return next;
            }
        }
        if !self.lock_attempts.is_locked {
            self.lock_attempts.since_ms = None;
        }
        if obstacles.is_empty() {
            self.windows.retain(&certificates);
        }
        next
    }

    /// Orders a certificate if it is due, and adds the present one to `certificates`. Returns after
    /// how many seconds to look again.
    async fn keep_one(
        &mut self,
        set: &CertificateSet,
        certificates: &mut Vec<CertificateDer<'static>>,
    ) -> Result<u64, Obstacle> {
        let mut due = self.due(set)?;
        let mut wait = ACME_CHECK_S;
        if let Some(certificate) = &due.certificate
            && due.at > clock::unix_seconds()
            && self.client.pause_left_s() == 0
            && self.windows.is_due(certificate, clock::unix_seconds())
        {
            let account = self.stored_account().await.ok().flatten();
            self.windows.ask(account.as_ref(), certificate).await;
            due = self.due(set)?;
        }
        if due.at <= clock::unix_seconds() {
            wait = self.client.pause_left_s();
            if wait == 0 {
                wait = self.order_under_lock(set).await?;
                due = self.due(set)?;
            }
        }
        certificates.extend(due.certificate);
        let until_due = due.at.saturating_sub(clock::unix_seconds());
        Ok(if until_due == 0 { wait } else { until_due.min(wait) })
    }

    /// Reads the file of a certificate; reports a certificate that the server does not use yet.
    ///
    /// # Errors
    /// The system cannot read the file. That does not mean that the certificate is unusable, so it
    /// is no reason for an order.
    fn due(&mut self, set: &CertificateSet) -> Result<Due, String> {
        let stamps = set.stamps_now();
        if self.reported.get(&set.id) != Some(&stamps) {
            // The first look compares with the files that the configuration was read from.
            let known = self.reported.insert(set.id, stamps.clone());
            if known.is_some() || stamps != set.stamps_read() {
                self.reporter.send(AcmeReport::Changed { set: set.id });
            }
        }
        let Some(terms) = &set.acme else { return Ok(Due::never()) };
        let file = CertificateFile::read(&terms.file)
            .map_err(|error| format!("cannot read {}: {error}", terms.file.display()))?;
        let (now, certificate) = (clock::unix_seconds(), file.certificate);
        let mut failures = Failures::read(terms);
        let Some((certificate, life)) =
            certificate.and_then(|one| validity(&one).map(|life| (one, life)))
        else {
            return Ok(Due { at: failures.retry_at, certificate: None, failures });
        };
        let is_complete = terms.names.iter().all(|name| is_for_name(&certificate, name));
        let window = self.windows.of(&certificate);
        let renewal = if is_complete { renewal_time(life, window, &terms.site) } else { 0 };
        let written_ns = file.written_ns.unwrap_or(0);
        if renewal > now && failures.count > 0 && Failures::are_older(terms, written_ns) {
            // A process was killed between the end of its order and this step.
            Failures::remove(terms);
            failures = Failures::default();
        }
        let issued = u64::try_from(written_ns / 1_000_000_000).unwrap_or(0);
        let earliest = time_after_order(issued, life, self.plan.settings.retry_ms);
        let earliest = if life.1 > now { credible(earliest, now) } else { 0 };
        let at = renewal.max(failures.retry_at).max(earliest);
        Ok(Due { at, certificate: Some(certificate), failures })
    }

    /// Orders a certificate, unless another process orders one. Returns after how many seconds to
    /// look again.
    ///
    /// # Errors
    /// The directory cannot be used.
    async fn order_under_lock(&mut self, set: &CertificateSet) -> Result<u64, Obstacle> {
        let Some(terms) = &set.acme else { return Ok(ACME_CHECK_S) };
        let Some(lock) = self.lock()? else { return self.wait_for_lock(set) };
        self.lock_attempts.since_ms = None;
        // Another process may have ordered it before this one got the lock.
        let due = self.due(set)?;
        if due.at > clock::unix_seconds() {
            return Ok(ACME_CHECK_S);
        }
        let retry_ms = self.plan.settings.retry_ms;
        let mut failures = due.failures;
        failures.count = failures.count.saturating_add(1);
        failures.retry_at = retry_time(clock::unix_seconds(), failures.count, retry_ms, None);
        "the server stopped before the order ended".clone_into(&mut failures.reason);
        // This counts if the process is killed during the order.
        failures.write(terms).map_err(|error| self.unwritable(&error))?;
        let started = StartedOrder::new(self.progress, terms, failures.clone(), retry_ms);
        self.client.take_retry_at();
        let limit = Duration::from_millis(ACME_ORDER_MS_MAX);
        let ordered = timeout(limit, self.order(set, due.certificate.as_ref())).await;
        let ordered = ordered.unwrap_or_else(|_| Err(OrderFailure::new("order", "no end in time")));
        match ordered {
            Ok(()) => {
                Failures::remove(terms);
                started.end();
                let valid_until = self.due(set)?.certificate.and_then(|one| validity(&one));
                let valid_until = valid_until.map_or(0, |(_, until)| until);
                self.reporter.send(AcmeReport::Obtained { site: terms.site.clone(), valid_until });
            }
            Err(failure) => {
                self.reporter.publish(Challenges::default()).await;
                let now = clock::unix_seconds();
                let asked = self.client.take_retry_at();
                failures.retry_at = retry_time(now, failures.count, retry_ms, asked);
                failures.reason = failure.text;
                let life = due.certificate.as_ref().and_then(|one| validity(one));
                self.reporter.send(AcmeReport::Failed {
                    site: terms.site.clone(),
                    reason: failures.reason.clone(),
                    retry_at: failures.retry_at,
                    valid_until: life.map(|(_, until)| until),
                    is_near_end: life.is_none_or(|life| is_near_end(life, now)),
                });
                started.end();
                let retired = if failure.is_of_account { self.retire_account() } else { Ok(()) };
                let written = failures.write(terms);
                retired.and(written).map_err(|error| self.unwritable(&error))?;
            }
        }
        drop(lock);
        Ok(ACME_CHECK_S)
    }

    /// Returns after how many seconds to try the lock again.
    ///
    /// # Errors
    /// Other processes have held it for longer than an order takes.
    fn wait_for_lock(&mut self, set: &CertificateSet) -> Result<u64, Obstacle> {
        let now_ms = clock::monotonic_ms();
        let since_ms = *self.lock_attempts.since_ms.get_or_insert(now_ms);
        self.lock_attempts.is_locked = true;
        if now_ms.saturating_sub(since_ms) <= ACME_ORDER_MS_MAX {
            return Ok(ACME_LOCKED_S);
        }
        let text = format!(
            "{}: another process has locked the directory {} for longer than an order takes",
            set.acme.as_ref().map_or("", |terms| &terms.site),
            self.plan.settings.dir.display()
        );
        let life = self.due(set)?.certificate.and_then(|one| validity(&one));
        let is_urgent = life.is_none_or(|life| is_near_end(life, clock::unix_seconds()));
        Err(Obstacle { text, is_urgent })
    }

    async fn order(
        &mut self,
        set: &CertificateSet,
        previous: Option<&CertificateDer<'static>>,
    ) -> Result<(), OrderFailure> {
        let Some(terms) = &set.acme else { return Ok(()) };
        self.reporter.send(AcmeReport::Ordering);
        let account = match self.stored_account().await? {
            Some(account) => account,
            None => self.new_account().await?,
        };
        let publish = async |challenges| self.reporter.publish(challenges).await;
        let pem = order(&account, terms, previous, publish).await?;
        write_durably(&terms.file, pem.as_bytes())
            .map_err(|error| OrderFailure::new("certificate", self.unwritable(&error)))
    }

    fn lock(&self) -> Result<Option<OrderLock>, String> {
        let Some(storage) = &self.storage else { return Ok(None) };
        storage.lock().map_err(|error| {
            format!("cannot lock the directory {}: {error}", self.plan.settings.dir.display())
        })
    }

    fn unwritable(&self, error: &io::Error) -> String {
        format!("cannot write to {}: {error}", self.plan.settings.dir.display())
    }

    /// Returns the account that the directory has; `None` if it has none.
    ///
    /// # Errors
    /// The account cannot be read, or the authority cannot be reached.
    async fn stored_account(&mut self) -> Result<Option<Account>, OrderFailure> {
        const STEP: &str = "account";
        if self.account.is_none() {
            let Some(storage) = &self.storage else { return Ok(None) };
            let unreadable = |why: String| {
                let dir = self.plan.settings.dir.display();
                let text = format!("{dir}: cannot use account.json: {why}");
                OrderFailure { text, is_of_account: false }
            };
            let text = storage.account().map_err(|error| unreadable(error.to_string()))?;
            let Some(text) = text else { return Ok(None) };
            let credentials = credentials(&text).map_err(unreadable)?;
            let builder = Account::builder_with_http(Box::new(self.client.clone()));
            let account = builder.from_credentials(credentials).await;
            self.account = Some(account.map_err(OrderFailure::of(STEP))?);
        }
        Ok(self.account.clone())
    }

    /// Puts the account aside, which the authority does not know, so that the next order makes
    /// another one.
    fn retire_account(&mut self) -> io::Result<()> {
        self.account = None;
        self.storage.iter().try_for_each(AcmeStorage::retire_account)
    }

    async fn new_account(&mut self) -> Result<Account, OrderFailure> {
        const STEP: &str = "account";
        let settings = &self.plan.settings;
        let contacts: Vec<_> = settings.contacts.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contacts,
            // The configuration is refused otherwise.
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let builder = Account::builder_with_http(Box::new(self.client.clone()));
        let created = builder.create(&new, settings.directory.clone(), None).await;
        let (account, credentials) = created.map_err(OrderFailure::of(STEP))?;
        let text =
            serde_json::to_string(&credentials).map_err(|error| OrderFailure::new(STEP, error))?;
        let stored = self.storage.iter().try_for_each(|storage| storage.set_account(&text));
        stored.map_err(|error| OrderFailure::new(STEP, self.unwritable(&error)))?;
        self.reporter.send(AcmeReport::NewAccount { url: shortened(account.id()) });
        self.account = Some(account.clone());
        Ok(account)
    }
}

impl Due {
    fn never() -> Due {
        Due { at: u64::MAX, certificate: None, failures: Failures::default() }
    }
}

impl From<String> for Obstacle {
    fn from(text: String) -> Obstacle {
        Obstacle { text, is_urgent: false }
    }
}

/// Returns the credentials of an account file. The ACME library expects that its URLs are valid.
fn credentials(text: &str) -> Result<AccountCredentials, String> {
    let malformed = |error: serde_json::Error| error.to_string();
    let value: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
    let urls = [&value["directory"], &value["urls"]["newNonce"]];
    let is_url = |url: &str| url.parse::<http::Uri>().is_ok();
    if !urls.iter().filter_map(|url| url.as_str()).all(is_url) {
        return Err("it has a malformed URL".to_owned());
    }
    serde_json::from_str(text).map_err(malformed)
}
