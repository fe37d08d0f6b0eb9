//! The public keys that the certificates of origins may have.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error as TlsError, SignatureScheme};

use crate::config::KeyPins;
use crate::x509::public_key;

/// Verifies certificates of origins, and then their public keys. Only the key of the origin's own
/// certificate counts: the certificates that an origin sends with it need not be those of its
/// issuers.
#[derive(Debug)]
pub(super) struct PinnedVerifier {
    pub(super) verifier: Arc<WebPkiServerVerifier>,
    pub(super) pins: KeyPins,
}

/// The error for a certificate whose key is none of the pinned ones. The library's verifier never
/// returns it.
pub(super) const WRONG_KEY: CertificateError = CertificateError::ApplicationVerificationFailure;

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let verified = self.verifier.verify_server_cert(own, issuers, name, ocsp_response, now)?;
        let hash = public_key(own).map(|key| digest(&SHA256, key));
        let is_pinned = |hash: &[u8]| self.pins.hashes().iter().any(|pin| pin == hash);
        match hash.is_some_and(|hash| is_pinned(hash.as_ref())) {
            true => Ok(verified),
            false => Err(WRONG_KEY.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.verifier.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.verifier.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
