//! TLS connections to origins. The certificate of the origin is always verified.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, Error as TlsError};
use tokio_rustls::TlsConnector;

use crate::config::OriginTls;
use crate::fault::Fault;
use crate::limits::ORIGIN_TLS_MAX;
use crate::transport::OriginIo;

/// One worker's TLS configurations for origins, which also contain the sessions that can be
/// resumed.
#[derive(Default)]
pub(crate) struct OriginTlsConnector {
    settings: RefCell<HashMap<u64, Arc<ClientConfig>>>,
}

impl OriginTlsConnector {
    /// Runs the handshake over a connection.
    ///
    /// # Errors
    /// [`Fault::OriginTls`] with the reason.
    pub(crate) async fn connect(
        &self,
        tls: &OriginTls,
        io: Box<dyn OriginIo>,
    ) -> Result<Box<dyn OriginIo>, Fault> {
        let name = ServerName::try_from(tls.name.clone());
        let name = name.map_err(|_| Fault::OriginTls("the origin's name cannot be verified"))?;
        let connector = TlsConnector::from(self.settings_for(tls)?);
        let secured = connector.connect(name, io).await;
        secured.map(|io| Box::new(io) as Box<dyn OriginIo>).map_err(|error| fault_of(&error))
    }

    fn settings_for(&self, tls: &OriginTls) -> Result<Arc<ClientConfig>, Fault> {
        let mut all = self.settings.borrow_mut();
        if let Some(settings) = all.get(&tls.id) {
            return Ok(Arc::clone(settings));
        }
        // Without this limit, each reload that changes the TLS settings of an origin would add a
        // configuration.
        if all.len() >= ORIGIN_TLS_MAX {
            all.clear();
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let settings = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| Fault::OriginTls("the TLS library refuses this server's settings"))?;
        let mut settings =
            settings.with_root_certificates(Arc::clone(&tls.roots)).with_no_client_auth();
        settings.alpn_protocols = vec![b"http/1.1".to_vec()];
        let settings = Arc::new(settings);
        all.insert(tls.id, Arc::clone(&settings));
        Ok(settings)
    }
}

/// Returns the fault that says why the handshake failed.
fn fault_of(error: &io::Error) -> Fault {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    Fault::OriginTls(match inner {
        None => "the origin closed the connection during the TLS handshake",
        Some(TlsError::InvalidCertificate(why)) => match why {
            // A wrong signature means that the issuer has the name of a trusted authority, but a
            // different key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "the issuer of the origin's certificate is not trusted"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the origin's certificate is for another name"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the origin's certificate has expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the origin's certificate is not valid yet"
            }
            CertificateError::Revoked => "the origin's certificate is revoked",
            _ => "the origin's certificate is not valid",
        },
        Some(TlsError::AlertReceived(_)) => "the origin refused the TLS handshake with an alert",
        Some(TlsError::PeerIncompatible(_) | TlsError::NoApplicationProtocol) => {
            "the origin has no TLS version, cipher suite or protocol in common with this server"
        }
        Some(_) => "the origin violated the TLS protocol",
    })
}
