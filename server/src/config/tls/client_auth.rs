//! Certificates of clients: whether they are asked for, the authorities that may issue them, and
//! the lists of revoked ones.

use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::super::certificate_files::FileStamp;
use super::super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::super::tls::{read_chain, read_file, unusable};
use crate::limits::REVOCATION_LIST_BYTES_MAX;
use crate::x509::next_update;

/// The value of the setting `tls_client_auth`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuthMode {
    /// Clients are not asked for certificates.
    #[default]
    Off,
    /// Clients are asked for certificates, but need none.
    Optional,
    /// A handshake without a certificate fails.
    Required,
}

/// The words of `tls_client_auth`, in the order of [`ClientAuthMode`].
pub(crate) const CLIENT_AUTH_WORDS: &[&str] = &["off", "optional", "required"];

/// The value of the setting `client_certificate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateDemand {
    /// A request needs a certificate if the handshakes of its site need one.
    #[default]
    Auto,
    /// A request needs a certificate.
    Required,
    /// A request needs no certificate.
    Off,
}

/// The words of `client_certificate`, in the order of [`CertificateDemand`].
pub(crate) const CERTIFICATE_DEMAND_WORDS: &[&str] = &["auto", "required", "off"];

/// The terms for the certificates of clients. Two values are equal if they accept the same
/// certificates.
#[derive(Clone, Debug)]
pub struct ClientAuth {
    /// Whether a handshake without a certificate fails.
    is_required: bool,
    /// Verifies certificates by the authorities and the revocation lists.
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    /// A hash of the terms. Processes with the same terms have the same hash.
    pub(crate) trust: TrustId,
    /// The Unix times in seconds at which the revocation lists are out of date.
    pub(crate) list_ends_s: Box<[u64]>,
    /// The files of the authorities, then those of the revocation lists.
    files: Vec<(PathBuf, FileStamp)>,
    authority_file_count: usize,
}

/// A hash of [`ClientAuth`]'s terms.
pub type TrustId = [u8; 32];

/// The names of the files of [`ClientAuth`].
#[derive(Clone, Debug, Default)]
pub(in crate::config) struct ClientAuthFiles {
    pub(in crate::config) authorities: Vec<PathBuf>,
    pub(in crate::config) revocation_lists: Vec<PathBuf>,
}

/// The content of a file of `tls_client_ca`, for an error.
const AUTHORITY: &str = "the certificate of the authority that issued the clients' certificates";

impl Readable for ClientAuthMode {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => ClientAuthMode::Off,
            1 => ClientAuthMode::Optional,
            _ => ClientAuthMode::Required,
        })
    }
}

impl Readable for CertificateDemand {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => CertificateDemand::Auto,
            1 => CertificateDemand::Required,
            _ => CertificateDemand::Off,
        })
    }
}

impl ClientAuth {
    /// Reads the files. Adds warnings to `warnings`.
    ///
    /// # Errors
    /// A file cannot be used. The flag says whether it is one of the revocation lists.
    pub(in crate::config) fn read(
        is_required: bool,
        names: &ClientAuthFiles,
        warnings: &mut Vec<String>,
    ) -> Result<ClientAuth, (ValueProblem, bool)> {
        let mut files = Vec::new();
        let mut hash = Context::new(&SHA256);
        // The hash separates its parts by their lengths, so that no two lists have the same bytes.
        let mut add = |bytes: &[u8]| {
            hash.update(&bytes.len().to_le_bytes());
            hash.update(bytes);
        };
        add(&[u8::from(is_required)]);
        let mut roots = RootCertStore::empty();
        for path in &names.authorities {
            let (chain, stamp) =
                read_chain(path, AUTHORITY, warnings).map_err(|problem| (problem, false))?;
            files.push((path.clone(), stamp));
            for certificate in chain {
                add(&certificate);
                roots.add(certificate).map_err(|error| (unusable(path, error), false))?;
            }
        }
        add(b"revoked");
        let provider = Arc::new(provider::default_provider());
        let roots = Arc::new(roots);
        let mut lists = Vec::new();
        for path in &names.revocation_lists {
            let (read, stamp) = read_lists(path).map_err(|problem| (problem, true))?;
            // Each file is checked by itself, so that a problem names its file.
            let checked = WebPkiClientVerifier::builder_with_provider(
                Arc::clone(&roots),
                Arc::clone(&provider),
            );
            let checked = checked.with_crls(read.clone()).build();
            checked.map_err(|error| (unusable(path, error), true))?;
            files.push((path.clone(), stamp));
            read.iter().for_each(|list| add(list.as_ref()));
            lists.extend(read);
        }
        let list_ends_s = lists.iter().filter_map(|list| next_update(list)).collect();
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider)
            .with_crls(lists)
            .enforce_revocation_expiration();
        if !is_required {
            builder = builder.allow_unauthenticated();
        }
        let verifier = builder.build().map_err(|error| {
            let first = names.authorities.first().map(PathBuf::as_path);
            (unusable(first.unwrap_or("tls_client_ca".as_ref()), error), false)
        })?;
        let mut trust = TrustId::default();
        trust.copy_from_slice(hash.finish().as_ref());
        let authority_file_count = names.authorities.len();
        Ok(ClientAuth { is_required, verifier, trust, list_ends_s, files, authority_file_count })
    }

    /// Reads the files again.
    ///
    /// # Errors
    /// A file cannot be used; the text names it and says why.
    pub(in crate::config) fn read_again(
        &self,
        warnings: &mut Vec<String>,
    ) -> Result<ClientAuth, String> {
        let mut authorities = self.paths().cloned().collect::<Vec<_>>();
        let revocation_lists = authorities.split_off(self.authority_file_count);
        let names = ClientAuthFiles { authorities, revocation_lists };
        let read = ClientAuth::read(self.is_required, &names, warnings);
        read.map_err(|(problem, _)| problem.message)
    }

    /// Returns the names of the files.
    pub(in crate::config) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().map(|(path, _)| path)
    }

    /// Returns the states of the files when they were read.
    pub(in crate::config) fn stamps_read(&self) -> impl Iterator<Item = FileStamp> {
        self.files.iter().map(|(_, stamp)| *stamp)
    }
}

impl PartialEq for ClientAuth {
    fn eq(&self, other: &ClientAuth) -> bool {
        self.trust == other.trust
    }
}

impl Eq for ClientAuth {}

/// Returns the problem with `tls_client_ca` if no client is asked for a certificate.
pub(in crate::config) fn unused_authorities() -> ValueProblem {
    let problem = ValueProblem::new("`tls_client_ca` needs `tls_client_auth`");
    problem.hint(
        "write tls_client_auth = \"required\", or \"optional\" for routes that require a \
         certificate by `client_certificate`",
    )
}

/// Reads the revocation lists of a file.
fn read_lists(
    path: &std::path::Path,
) -> Result<(Vec<CertificateRevocationListDer<'static>>, FileStamp), ValueProblem> {
    let (text, metadata) = read_file(path, REVOCATION_LIST_BYTES_MAX)?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    let lists = lists.map_err(|error| unusable(path, error))?;
    if lists.is_empty() {
        let problem = unusable(path, "the file contains no revocation list");
        return Err(problem.hint(
            "a PEM file has a line -----BEGIN X509 CRL-----; `openssl crl -inform der -in FILE \
             -out FILE.pem` makes one of a DER file",
        ));
    }
    Ok((lists, FileStamp::of(&metadata)))
}
