//! The certificates of clients: their verification, and the facts that the server keeps.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error as TlsError, SignatureScheme,
};

use crate::config::{ClientAuth, TrustId};
use crate::limits::{CLIENT_CERTIFICATE_BYTES_MAX, CLIENT_CHAIN_MAX};
use crate::x509::CertificateFacts;

/// The verified certificate of a connection's client.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// The certificate, followed by those of issuers that the client has sent.
    chain: Vec<CertificateDer<'static>>,
    pub(crate) facts: Arc<CertificateFacts>,
    /// The terms by which the certificate was verified.
    trust: Cell<TrustId>,
    /// The number of the TLS settings that had these terms, see [`TlsAcceptor`].
    ///
    /// [`TlsAcceptor`]: super::TlsAcceptor
    settings: Cell<u64>,
}

impl ClientCertificate {
    /// Returns the certificate that was verified by these terms, which the TLS settings with this
    /// number have; `None` if its facts cannot be read.
    pub(super) fn new(
        chain: &[CertificateDer<'static>],
        auth: &ClientAuth,
        settings: u64,
    ) -> Option<ClientCertificate> {
        let facts = Arc::new(CertificateFacts::read(chain.first()?)?);
        let (trust, settings) = (Cell::new(auth.trust), Cell::new(settings));
        Some(ClientCertificate { chain: chain.to_vec(), facts, trust, settings })
    }

    /// Returns the value of Client-Cert: the certificate as a byte sequence of structured fields
    /// (RFC 9440 §2.2).
    pub(crate) fn field_value(&self) -> String {
        let certificate = self.chain.first().map_or(&[][..], |certificate| certificate);
        format!(":{}:", BASE64_STANDARD.encode(certificate))
    }

    /// Whether the certificate is valid at the Unix time `now_s` by the terms of the TLS settings
    /// with this number, which `auth` returns. A reload may have changed the terms since the
    /// handshake.
    pub(super) fn is_valid<'a>(
        &self,
        now_s: u64,
        settings: u64,
        auth: impl FnOnce() -> Option<&'a ClientAuth>,
    ) -> bool {
        if now_s > self.facts.not_after_s {
            return false;
        }
        if self.settings.get() == settings {
            return true;
        }
        let Some(auth) = auth() else { return false };
        let is_valid = self.trust.get() == auth.trust || self.is_verified_by(auth, now_s);
        if is_valid {
            self.trust.set(auth.trust);
            self.settings.set(settings);
        }
        is_valid
    }

    fn is_verified_by(&self, auth: &ClientAuth, now_s: u64) -> bool {
        let Some((own, issuers)) = self.chain.split_first() else { return false };
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now_s));
        auth.verifier.verify_client_cert(own, issuers, now).is_ok()
    }
}

/// Formats the certificate by its subject.
impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientCertificate({})", self.facts.subject)
    }
}

/// Verifies the certificates of clients, as long as they are small enough.
#[derive(Debug)]
pub(super) struct BoundedVerifier(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for BoundedVerifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        let mut all = issuers.iter().chain([own]);
        let is_long = all.any(|certificate| certificate.len() > CLIENT_CERTIFICATE_BYTES_MAX);
        if issuers.len() >= CLIENT_CHAIN_MAX || is_long {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        let verified = self.0.verify_client_cert(own, issuers, now)?;
        match CertificateFacts::read(own) {
            Some(_) => Ok(verified),
            None => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Returns the reason why a client's certificate is refused.
pub(super) fn refusal_of(error: &CertificateError) -> &'static str {
    use CertificateError as E;
    match error {
        E::UnknownIssuer | E::BadSignature => {
            "the issuer of the client's certificate is not trusted"
        }
        E::Expired | E::ExpiredContext { .. } => "the client's certificate has expired",
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "the client's certificate is not valid yet"
        }
        E::Revoked => "the client's certificate is revoked",
        E::UnknownRevocationStatus => {
            "no revocation list is of the issuer of the client's certificate"
        }
        E::ExpiredRevocationList | E::ExpiredRevocationListContext { .. } => {
            "the revocation list of the issuer of the client's certificate is out of date"
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            "the client's certificate is not for clients"
        }
        E::ApplicationVerificationFailure => {
            "the client's certificate, its names or the list of its issuers is too long"
        }
        _ => "the client's certificate is not valid",
    }
}
