//! Clients that trust every certificate.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion,
};

/// Accepts every certificate, also one that the TLS library cannot read, and keeps the OCSP
/// response that comes with the first one.
#[derive(Debug, Default)]
pub struct AnyCertificate {
    ocsp_response: OnceLock<Vec<u8>>,
}

impl AnyCertificate {
    /// Returns the configuration of clients that offer these protocols (ALPN) in this version of
    /// TLS.
    ///
    /// # Panics
    /// The TLS library lacks the version.
    pub fn config(
        self: &Arc<Self>,
        version: &'static SupportedProtocolVersion,
        protocols: &[&[u8]],
    ) -> Arc<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier: Arc<Self> = Arc::clone(self);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("the provider has it")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    /// Returns the OCSP response of the first handshake, which is empty if there was none in it;
    /// `None` before the first handshake.
    pub fn ocsp_response(&self) -> Option<&[u8]> {
        self.ocsp_response.get().map(Vec::as_slice)
    }
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.ocsp_response.get_or_init(|| ocsp_response.to_vec());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
