//! Keeps the certificates of a plan: orders those that are missing, and renews the others.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use instant_acme::{Account, AccountCredentials, NewAccount};
use rustls::pki_types::CertificateDer;
use tokio::time::timeout;

use super::challenges::Challenges;
use super::client::CaClient;
use super::failure::OrderFailure;
use super::order::order;
use super::renewal::RenewalWindows;
use super::schedule::{is_near_end, renewal_time, retry_time};
use super::status::Failures;
use super::storage::{AcmeStorage, OrderLock, write_durably};
use super::thread::{AcmePlan, AcmeReport, Reporter};
use crate::clock;
use crate::config::{AcmeTerms, CertificateSet, FileStamp, is_for_name};
use crate::limits::{ACME_CHECK_S, ACME_LOCKED_S, ACME_ORDER_MS_MAX};
use crate::x509::validity;

/// The state that the thread keeps between two looks at the certificates.
pub(super) struct Keeper<'a> {
    plan: &'a AcmePlan,
    reporter: &'a Reporter,
    client: CaClient,
    storage: Option<AcmeStorage>,
    account: Option<Account>,
    windows: RenewalWindows,
    /// The states of the certificates' files that were reported.
    reported: HashMap<u64, Vec<Option<FileStamp>>>,
    /// The reason why the directory cannot be used, as it was last reported.
    obstacle: String,
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
    pub(super) fn new(plan: &'a AcmePlan, reporter: &'a Reporter) -> Result<Keeper<'a>, String> {
        Ok(Keeper {
            plan,
            reporter,
            client: CaClient::new(&plan.settings.roots)?,
            storage: None,
            account: None,
            windows: RenewalWindows::default(),
            reported: HashMap::new(),
            obstacle: String::new(),
        })
    }

    /// Looks at all certificates, and orders those that are due. Returns after how many seconds to
    /// look again.
    pub(super) async fn look(&mut self) -> u64 {
        let mut next = ACME_CHECK_S;
        match self.keep_all(&mut next).await {
            Ok(()) => self.obstacle.clear(),
            Err(why) if why == self.obstacle => {}
            Err(why) => {
                self.reporter.send(AcmeReport::Obstacle(why.clone()));
                self.obstacle = why;
            }
        }
        next.max(1)
    }

    async fn keep_all(&mut self, next: &mut u64) -> Result<(), String> {
        if self.storage.is_none() {
            self.storage = Some(AcmeStorage::open(&self.plan.settings.dir)?);
        }
        let mut certificates = Vec::new();
        for set in &self.plan.sets {
            let mut due = self.due(set);
            if let Some(certificate) = &due.certificate {
                let is_due = self.windows.is_due(certificate, clock::unix_seconds());
                if is_due && due.at > clock::unix_seconds() {
                    let account = self.stored_account().await;
                    self.windows.ask(account.as_ref(), certificate).await;
                    due = self.due(set);
                }
            }
            if due.at <= clock::unix_seconds() {
                let wait = self.order_under_lock(set).await?;
                *next = wait.min(*next);
                due = self.due(set);
            }
            *next = due.at.saturating_sub(clock::unix_seconds()).max(1).min(*next);
            certificates.extend(due.certificate);
        }
        self.windows.retain(&certificates);
        Ok(())
    }

    /// Reads the files of a certificate; reports a certificate that the server does not use yet.
    fn due(&mut self, set: &CertificateSet) -> Due {
        let stamps = set.stamps_now();
        if self.reported.get(&set.id) != Some(&stamps) {
            // The first look compares with the files that the configuration was read from.
            let known = self.reported.insert(set.id, stamps.clone());
            if known.is_some() || stamps != set.stamps_read() {
                self.reporter.send(AcmeReport::Changed { set: set.id });
            }
        }
        let Some(terms) = &set.acme else { return Due::never() };
        let failures = Failures::read(terms);
        let read = set.read_again().ok();
        let identity = read.and_then(|read| read.identities.into_iter().next());
        let certificate = identity.and_then(|identity| identity.chain.into_iter().next());
        let renewal = certificate.as_ref().map_or(0, |certificate| {
            let is_complete = terms.names.iter().all(|name| is_for_name(certificate, name));
            let life = validity(certificate).filter(|_| is_complete);
            let window = self.windows.of(certificate);
            life.map_or(0, |life| renewal_time(life, window, &terms.site))
        });
        Due { at: renewal.max(failures.retry_at), certificate, failures }
    }

    /// Orders a certificate, unless another process orders one. Returns after how many seconds to
    /// look again.
    ///
    /// # Errors
    /// The directory cannot be used.
    async fn order_under_lock(&mut self, set: &CertificateSet) -> Result<u64, String> {
        let Some(lock) = self.lock()? else { return Ok(ACME_LOCKED_S) };
        // Another process may have ordered it before this one got the lock.
        let due = self.due(set);
        if due.at > clock::unix_seconds() {
            return Ok(ACME_CHECK_S);
        }
        let Some(terms) = &set.acme else { return Ok(ACME_CHECK_S) };
        let retry_ms = self.plan.settings.retry_ms;
        let mut failures = due.failures;
        failures.count = failures.count.saturating_add(1);
        failures.retry_at = retry_time(clock::unix_seconds(), failures.count, retry_ms, None);
        "the server stopped before the order ended".clone_into(&mut failures.reason);
        // This counts if the process is killed during the order.
        let before = Failures::read(terms);
        failures.write(terms).map_err(|error| self.unwritable(&error))?;
        let mut started = StartedOrder { terms, before: Some(before) };
        self.client.take_retry_at();
        let limit = Duration::from_millis(ACME_ORDER_MS_MAX);
        let ordered = timeout(limit, self.order(set, due.certificate.as_ref())).await;
        let ordered = ordered.unwrap_or_else(|_| Err(OrderFailure::new("order", "no end in time")));
        started.before = None;
        match ordered {
            Ok(()) => {
                Failures::remove(terms);
                let valid_until = self.due(set).certificate.and_then(|one| validity(&one));
                let valid_until = valid_until.map_or(0, |(_, until)| until);
                self.reporter.send(AcmeReport::Obtained { site: terms.site.clone(), valid_until });
            }
            Err(failure) => {
                self.reporter.publish(Challenges::default()).await;
                if failure.is_of_account {
                    self.account = None;
                    self.storage.iter().for_each(AcmeStorage::remove_account);
                }
                let now = clock::unix_seconds();
                let asked = self.client.take_retry_at();
                failures.retry_at = retry_time(now, failures.count, retry_ms, asked);
                failures.reason = failure.text;
                failures.write(terms).map_err(|error| self.unwritable(&error))?;
                let life = due.certificate.as_ref().and_then(|one| validity(one));
                self.reporter.send(AcmeReport::Failed {
                    site: terms.site.clone(),
                    reason: failures.reason,
                    retry_at: failures.retry_at,
                    valid_until: life.map(|(_, until)| until),
                    is_near_end: life.is_none_or(|life| is_near_end(life, now)),
                });
            }
        }
        drop(lock);
        Ok(ACME_CHECK_S)
    }

    async fn order(
        &mut self,
        set: &CertificateSet,
        previous: Option<&CertificateDer<'static>>,
    ) -> Result<(), OrderFailure> {
        let Some(terms) = &set.acme else { return Ok(()) };
        self.reporter.send(AcmeReport::Ordering);
        let account = match self.stored_account().await {
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

    /// Returns the account that the directory has, if the authority can be reached.
    async fn stored_account(&mut self) -> Option<Account> {
        if self.account.is_none() {
            let text = self.storage.as_ref()?.account()?;
            let credentials: AccountCredentials = serde_json::from_str(&text).ok()?;
            let builder = Account::builder_with_http(Box::new(self.client.clone()));
            self.account = builder.from_credentials(credentials).await.ok();
        }
        self.account.clone()
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
        self.reporter.send(AcmeReport::NewAccount { url: account.id().to_owned() });
        self.account = Some(account.clone());
        Ok(account)
    }
}

/// An order in progress. If it is cut off because the server stops, or because its terms change, it
/// does not count as failed.
struct StartedOrder<'a> {
    terms: &'a AcmeTerms,
    /// The failures before the order; `None` once it has ended.
    before: Option<Failures>,
}

impl Drop for StartedOrder<'_> {
    fn drop(&mut self) {
        match self.before.take() {
            None => {}
            Some(before) if before.count == 0 => Failures::remove(self.terms),
            // Without room on the disk, the order counts as failed.
            Some(before) => drop(before.write(self.terms)),
        }
    }
}

impl Due {
    fn never() -> Due {
        Due { at: u64::MAX, certificate: None, failures: Failures::default() }
    }
}
