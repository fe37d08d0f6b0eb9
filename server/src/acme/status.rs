//! The certificate of a site as its files describe it.

use serde_json::{Value, json};

use super::schedule::{credible, is_near_end};
use super::storage::{modified_ns, read_limited, write_durably};
use crate::clock;
use crate::config::{AcmeTerms, CertificateSet, is_for_name};
use crate::x509::validity;

/// The orders of a certificate that failed since the last one that did not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) count: u32,
    /// The Unix time at which the next order may begin.
    pub(super) retry_at: u64,
    /// The reason of the last failure.
    pub(super) reason: String,
}

impl Failures {
    /// Reads the failures of a certificate. Those of an order for other names do not count, because
    /// the operator has changed the configuration since.
    pub(super) fn read(terms: &AcmeTerms) -> Failures {
        let text = read_limited(&terms.failures_file()).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        if value["names"] != json!(terms.names) || value["challenge"] != terms.challenge.word() {
            return Failures::default();
        }
        Failures {
            count: value["count"].as_u64().unwrap_or(0).try_into().unwrap_or(u32::MAX),
            retry_at: credible(value["retry_at"].as_u64().unwrap_or(0), clock::unix_seconds()),
            reason: value["reason"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Writes the failures of a certificate.
    ///
    /// # Errors
    /// See [`write_durably`].
    pub(super) fn write(&self, terms: &AcmeTerms) -> std::io::Result<()> {
        let Failures { count, retry_at, reason } = self;
        let value = json!({
            "names": terms.names,
            "challenge": terms.challenge.word(),
            "count": count,
            "retry_at": retry_at,
            "reason": reason,
        });
        write_durably(&terms.failures_file(), format!("{value}\n").as_bytes())
    }

    /// Whether the failures of a certificate were written before a file at this time.
    pub(super) fn are_older(terms: &AcmeTerms, written_ns: i128) -> bool {
        let metadata = std::fs::metadata(terms.failures_file());
        metadata.is_ok_and(|metadata| modified_ns(&metadata) < written_ns)
    }

    /// Forgets the failures of a certificate after an order.
    pub(super) fn remove(terms: &AcmeTerms) {
        // There may be none.
        let _ = std::fs::remove_file(terms.failures_file());
    }
}

/// The state of a site's certificate by ACME, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStatus {
    /// The name of the site.
    pub site: String,
    /// The file with the certificate and its key.
    pub file: std::path::PathBuf,
    /// The Unix time until which the certificate is valid; `None` without a certificate.
    pub valid_until: Option<u64>,
    /// The names of the site that the certificate is not for.
    pub missing_names: Vec<String>,
    /// The reason why the last order failed.
    pub failure: Option<String>,
    /// The Unix time before which no further order begins, if the last one failed.
    pub retry_at: Option<u64>,
    /// Whether the certificate has expired or soon will.
    pub is_near_end: bool,
}

impl CertificateStatus {
    /// Returns the state of a certificate set; `None` if its files belong to the operator.
    pub(crate) fn of(set: &CertificateSet) -> Option<CertificateStatus> {
        let terms = set.acme.as_ref()?;
        let certificate = set.identities.first().and_then(|identity| identity.chain.first());
        let life = certificate.and_then(|certificate| validity(certificate));
        let is_missing =
            |name: &&String| certificate.is_some_and(|certificate| !is_for_name(certificate, name));
        let failures = Failures::read(terms);
        let has_failed = failures.count > 0;
        Some(CertificateStatus {
            site: terms.site.clone(),
            file: terms.file.clone(),
            valid_until: life.map(|(_, until)| until),
            missing_names: terms.names.iter().filter(is_missing).cloned().collect(),
            failure: has_failed.then_some(failures.reason),
            retry_at: has_failed.then_some(failures.retry_at),
            is_near_end: life.is_some_and(|life| is_near_end(life, clock::unix_seconds())),
        })
    }
}
