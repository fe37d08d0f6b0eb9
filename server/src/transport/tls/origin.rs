//! TLS connections to origins. The certificate of the origin is always verified.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error as TlsError};
use tokio_rustls::TlsConnector;

use super::origin_pins::{PinnedVerifier, WRONG_KEY};
use crate::config::{Identity, OriginAddress, OriginHttp2, OriginTls};
use crate::fault::Fault;
use crate::limits::ORIGIN_TLS_MAX;
use crate::transport::{OriginConnection, OriginIo};

/// One worker's TLS configurations for origins, which also contain the sessions that can be
/// resumed.
#[derive(Default)]
pub(crate) struct OriginTlsConnector {
    settings: RefCell<HashMap<(u64, OfferedProtocols), Arc<ClientConfig>>>,
}

/// The protocols that a handshake offers to the origin (RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OfferedProtocols {
    Http1,
    /// HTTP/2 or HTTP/1.1.
    Either,
    Http2,
}

impl OfferedProtocols {
    /// Returns the protocols for a connection to `origin`. A connection that may switch to another
    /// protocol needs HTTP/1.1.
    pub(crate) fn to(origin: &OriginAddress, is_switchable: bool) -> OfferedProtocols {
        match origin.http2 {
            _ if is_switchable => OfferedProtocols::Http1,
            OriginHttp2::Never => OfferedProtocols::Http1,
            OriginHttp2::Auto => OfferedProtocols::Either,
            OriginHttp2::Always => OfferedProtocols::Http2,
        }
    }

    fn names(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            OfferedProtocols::Http1 => &[b"http/1.1"],
            OfferedProtocols::Either => &[H2, b"http/1.1"],
            OfferedProtocols::Http2 => &[H2],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

const H2: &[u8] = b"h2";

impl OriginTlsConnector {
    /// Runs the handshake over a connection, and offers `protocols`.
    ///
    /// # Errors
    /// [`Fault::OriginTls`] with the reason.
    pub(crate) async fn connect(
        &self,
        tls: &OriginTls,
        protocols: OfferedProtocols,
        connection: OriginConnection,
    ) -> Result<OriginConnection, Fault> {
        let name = ServerName::try_from(tls.name.clone());
        let name = name.map_err(|_| Fault::OriginTls("the origin's name cannot be verified"))?;
        let connector = TlsConnector::from(self.settings_for(tls, protocols)?);
        let io = connector.connect(name, connection.io).await.map_err(|error| fault_of(&error))?;
        let is_http2 = io.get_ref().1.alpn_protocol() == Some(H2);
        if protocols == OfferedProtocols::Http2 && !is_http2 {
            return Err(Fault::OriginTls("the origin did not choose HTTP/2 in the TLS handshake"));
        }
        let io = Box::new(io) as Box<dyn OriginIo>;
        Ok(OriginConnection { io, is_http2, ..connection })
    }

    fn settings_for(
        &self,
        tls: &OriginTls,
        protocols: OfferedProtocols,
    ) -> Result<Arc<ClientConfig>, Fault> {
        let mut all = self.settings.borrow_mut();
        if let Some(settings) = all.get(&(tls.id, protocols)) {
            return Ok(Arc::clone(settings));
        }
        // Without this limit, each reload that changes the TLS settings of an origin would add a
        // configuration.
        if all.len() >= ORIGIN_TLS_MAX {
            all.clear();
        }
        let settings = client_config(tls);
        let mut settings = settings
            .map_err(|_| Fault::OriginTls("the TLS library refuses this server's settings"))?;
        settings.alpn_protocols = protocols.names();
        let settings = Arc::new(settings);
        all.insert((tls.id, protocols), Arc::clone(&settings));
        Ok(settings)
    }
}

/// Creates the TLS library's settings for an origin, except for the protocols.
fn client_config(tls: &OriginTls) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let (roots, pins) = (Arc::clone(&tls.roots), tls.pins.clone());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions()?;
    let builder = match pins.hashes().is_empty() {
        true => builder.with_root_certificates(Arc::clone(&tls.roots)),
        false => {
            let verifier =
                verifier.build().map_err(|error| TlsError::General(error.to_string()))?;
            let verifier = Arc::new(PinnedVerifier { verifier, pins });
            builder.dangerous().with_custom_certificate_verifier(verifier)
        }
    };
    match &tls.identity {
        None => Ok(builder.with_no_client_auth()),
        Some(shown) => {
            let Identity { chain, key, .. } = &shown.identity;
            builder.with_client_auth_cert(chain.clone(), key.clone_key())
        }
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
            why if *why == WRONG_KEY => {
                "the public key of the origin's certificate is not one of origin_tls_pin"
            }
            CertificateError::Revoked => "the origin's certificate is revoked",
            _ => "the origin's certificate is not valid",
        },
        Some(TlsError::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            "the origin speaks none of the offered versions of HTTP over TLS"
        }
        Some(TlsError::AlertReceived(alert)) if is_about_certificate(*alert) => REFUSED_CERTIFICATE,
        Some(TlsError::AlertReceived(_)) => "the origin refused the TLS handshake with an alert",
        Some(TlsError::PeerIncompatible(_) | TlsError::NoApplicationProtocol) => {
            "the origin has no TLS version, cipher suite or protocol in common with this server"
        }
        Some(_) => "the origin violated the TLS protocol",
    })
}

/// The reason of a handshake that failed because of this server's certificate.
const REFUSED_CERTIFICATE: &str =
    "the origin asks for a certificate of this server, or refused the one of origin_tls_cert";

/// Whether an origin sends this alert because of this server's certificate.
fn is_about_certificate(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
            | A::CertificateRequired
    )
}

/// Returns the fault of a connection that broke because the origin refused this server's
/// certificate: in TLS 1.3, this happens after the handshake is complete for this server.
pub(crate) fn refused_certificate(error: &io::Error) -> Option<Fault> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    match inner {
        Some(TlsError::AlertReceived(alert)) if is_about_certificate(*alert) => {
            Some(Fault::OriginTls(REFUSED_CERTIFICATE))
        }
        _ => None,
    }
}
