//! The time at which a certificate authority wants a certificate to be renewed (RFC 9773).

use std::collections::HashMap;

use instant_acme::{Account, CertificateIdentifier, RenewalInfo};
use rustls::pki_types::{CertificateDer, Der};

use super::schedule::{RenewalWindow, credible};
use crate::clock;
use crate::limits::ACME_RENEWAL_INFO_S;

/// The windows that the authority has suggested, by the certificate.
#[derive(Debug, Default)]
pub(super) struct RenewalWindows(HashMap<Vec<u8>, KnownWindow>);

#[derive(Debug)]
struct KnownWindow {
    window: Option<RenewalWindow>,
    /// The time from which on the authority is asked again.
    ask_at: u64,
}

impl RenewalWindows {
    /// Returns the known window of a certificate.
    pub(super) fn of(&self, certificate: &CertificateDer<'_>) -> Option<RenewalWindow> {
        self.0.get(certificate.as_ref())?.window
    }

    /// Whether the authority should be asked for the window of a certificate.
    pub(super) fn is_due(&self, certificate: &CertificateDer<'_>, now: u64) -> bool {
        let known = self.0.get(certificate.as_ref());
        known.is_none_or(|known| credible(known.ask_at, now) <= now)
    }

    /// Asks the authority for the window of a certificate. Without an answer, the last window stays
    /// in use, and the next question follows after the usual time.
    pub(super) async fn ask(
        &mut self,
        account: Option<&Account>,
        certificate: &CertificateDer<'_>,
    ) {
        let answer = match (account, identifier(certificate)) {
            (Some(account), Some(id)) => account.renewal_info(&id).await.ok(),
            _ => None,
        };
        let (least, most) = (*ACME_RENEWAL_INFO_S.start(), *ACME_RENEWAL_INFO_S.end());
        let wait = answer.as_ref().map_or(least, |(_, wait)| wait.as_secs().clamp(least, most));
        let window = match answer {
            Some((info, _)) => window_of(&info),
            None => self.of(certificate),
        };
        let known = KnownWindow { window, ask_at: clock::unix_seconds() + wait };
        self.0.insert(certificate.as_ref().to_owned(), known);
    }

    /// Forgets the windows of all other certificates.
    pub(super) fn retain(&mut self, certificates: &[CertificateDer<'static>]) {
        self.0.retain(|known, _| certificates.iter().any(|used| used.as_ref() == known));
    }
}

/// Returns the name of a certificate for its authority.
pub(super) fn identifier(
    certificate: &CertificateDer<'_>,
) -> Option<CertificateIdentifier<'static>> {
    let (key, serial) = crate::x509::issuer_key_and_serial(certificate)?;
    Some(CertificateIdentifier::new(Der::from_slice(key), Der::from_slice(serial)).into_owned())
}

fn window_of(info: &RenewalInfo) -> Option<RenewalWindow> {
    let start = u64::try_from(info.suggested_window.start.unix_timestamp()).ok()?;
    let end = u64::try_from(info.suggested_window.end.unix_timestamp()).ok()?;
    (start < end).then_some(RenewalWindow { start, end })
}
