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
use crate::x509::{CertificateFacts, validity};

/// The verified certificate of a connection's client.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// The certificate, followed by those of issuers that the client has sent.
    chain: Vec<CertificateDer<'static>>,
    pub(crate) facts: Arc<CertificateFacts>,
    /// The result of the last verification.
    verdict: Cell<ClientVerdict>,
}

/// The result of a verification, which is remembered: verifying takes up to a millisecond, and a
/// client sends many requests.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ClientVerdict {
    is_valid: bool,
    /// The terms by which the certificate was verified.
    trust: TrustId,
    /// The number of the TLS settings that had these terms, see [`TlsAcceptor`].
    ///
    /// [`TlsAcceptor`]: super::TlsAcceptor
    settings: u64,
    /// The Unix time in seconds at which a valid certificate has to be verified again, because a
    /// certificate of its chain or a revocation list is out of date then.
    until_s: u64,
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
        // The client may have resumed a session, so times that have passed count, too.
        let until_s = ends(chain, auth).min().unwrap_or(0);
        let verdict =
            Cell::new(ClientVerdict { is_valid: true, trust: auth.trust, settings, until_s });
        Some(ClientCertificate { chain: chain.to_vec(), facts, verdict })
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
        let last = self.verdict.get();
        let is_due = last.is_valid && now_s >= last.until_s;
        if last.settings == settings && !is_due {
            return last.is_valid;
        }
        let verdict = match auth() {
            Some(auth) if auth.trust == last.trust && !is_due => ClientVerdict { settings, ..last },
            Some(auth) => ClientVerdict {
                is_valid: self.is_verified_by(auth, now_s),
                trust: auth.trust,
                settings,
                until_s: ends(&self.chain, auth).filter(|end_s| *end_s > now_s).min().unwrap_or(0),
            },
            None => {
                ClientVerdict { is_valid: false, trust: TrustId::default(), settings, until_s: 0 }
            }
        };
        self.verdict.set(verdict);
        verdict.is_valid
    }

    fn is_verified_by(&self, auth: &ClientAuth, now_s: u64) -> bool {
        let Some((own, issuers)) = self.chain.split_first() else { return false };
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now_s));
        auth.verifier.verify_client_cert(own, issuers, now).is_ok()
    }
}

/// Returns the Unix times in seconds at which the certificates of a chain, and the revocation lists
/// of the terms, are out of date.
fn ends(chain: &[CertificateDer<'static>], auth: &ClientAuth) -> impl Iterator<Item = u64> {
    let of_chain = chain.iter().filter_map(|certificate| Some(validity(certificate)?.1 + 1));
    of_chain.chain(auth.list_ends_s.iter().copied())
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use forebay_testkit::TestAuthority;

    use super::*;
    use crate::config::Config;

    /// The first seconds of the years 2030 and 2031.
    const YEAR_2030: u64 = 1_893_456_000;
    const YEAR_2031: u64 = 1_924_992_000;

    /// Returns the terms for clients with certificates of an authority, and of a revocation list.
    fn terms(name: &str, authority: &TestAuthority, list: Option<String>) -> ClientAuth {
        let folder = std::env::temp_dir().join(format!("forebay-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
        let write = |name: &str, text: &str| -> PathBuf {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("the folder is writable");
            path
        };
        let (cert, key) = authority.issue(&["a.org"]).write(&folder, "own");
        let ca = write("ca.pem", &authority.pem());
        let mut text = format!(
            "listen_tls = ['127.0.0.1:0']\ntls_cert = {cert:?}\ntls_key = {key:?}\n\
             tls_client_auth = 'required'\ntls_client_ca = {ca:?}\n"
        );
        if let Some(list) = list {
            text += &format!("tls_client_crl = {:?}\n", write("list.crl", &list));
        }
        text += "[[site]]\nname = 'a'\nnames = ['a.org']\norigin = 'http://127.0.0.1:1'\n";
        let config = Config::from_toml(&text, "f.toml").unwrap_or_else(|why| panic!("{why}"));
        std::fs::remove_dir_all(&folder).expect("it is ours");
        let set = config.certificates.as_deref().expect("it has certificates");
        set.client_auth.clone().expect("it has terms")
    }

    #[test]
    fn a_certificate_is_valid_no_longer_than_its_issuer_and_its_list() {
        let authority = TestAuthority::new();
        let inner = authority.issue_authority(2030);
        let (of_root, of_inner) = (authority.issue_client("a", 1), inner.issue_client("b", 2));
        let (of_root, _) = of_root.parsed();
        let (mut of_inner, _) = of_inner.parsed();
        of_inner.push(inner.certificate());
        let list = authority.revocation_list(&[9], 2030);
        for (name, chain, list) in [("list", of_root, Some(list)), ("issuer", of_inner, None)] {
            let auth = terms(name, &authority, list);
            let certificate = ClientCertificate::new(&chain, &auth, 1).expect("it is one");
            let unused = || panic!("{name}: it is verified again");
            assert!(certificate.is_valid(YEAR_2030 - 1, 1, unused), "{name}");
            assert!(!certificate.is_valid(YEAR_2031, 1, || Some(&auth)), "{name}");
            assert!(!certificate.is_valid(YEAR_2031, 1, unused), "{name}: refusals are remembered");
            // A client that resumes its session then has the certificate of the earlier handshake.
            let resumed = ClientCertificate::new(&chain, &auth, 1).expect("it is one");
            assert!(!resumed.is_valid(YEAR_2031, 1, || Some(&auth)), "{name}");
        }
    }

    #[test]
    fn a_verification_by_new_terms_is_remembered() {
        let authority = TestAuthority::new();
        let (chain, _) = authority.issue_client("a", 1).parsed();
        let old = terms("old", &authority, None);
        let others = [
            ("same", true, terms("same", &authority, None)),
            ("list", true, terms("new", &authority, Some(authority.revocation_list(&[9], 2030)))),
            (
                "revoked",
                false,
                terms("no", &authority, Some(authority.revocation_list(&[1], 2030))),
            ),
            ("other", false, terms("other", &TestAuthority::new(), None)),
        ];
        for (name, expected, new) in &others {
            let certificate = ClientCertificate::new(&chain, &old, 1).expect("it is one");
            assert_eq!(certificate.is_valid(YEAR_2030 - 1, 2, || Some(new)), *expected, "{name}");
            let unused = || panic!("{name}: it is verified again");
            assert_eq!(certificate.is_valid(YEAR_2030 - 1, 2, unused), *expected, "{name}");
        }
        let certificate = ClientCertificate::new(&chain, &old, 1).expect("it is one");
        assert!(!certificate.is_valid(YEAR_2030, 2, || None), "no client is asked any more");
        assert!(certificate.is_valid(YEAR_2030, 3, || Some(&old)), "clients are asked again");
    }
}
