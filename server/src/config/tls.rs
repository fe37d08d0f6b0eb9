//! The certificates and keys of the configuration: reads their files, and checks that they can be
//! used.

pub(super) mod client_auth;
mod staple;

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_http::date::write_date;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};

use super::acme::AcmeTerms;
use super::certificate_files::{
    FileStamp, IdentityFile, IdentityFiles, IdentityNames, read_identity,
};
use super::error::ProblemSpan;
use super::read::Reader;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::site::Site;
use super::table::{ServerSettings, SiteSettings};
use super::{CertificateStatus, Config};
use crate::acme::is_near_end;
use crate::clock;
use crate::limits::{CERTIFICATE_BYTES_MAX, CERTIFICATES_MAX};
use crate::x509::validity;
pub use client_auth::{ClientAuth, TrustId};
use client_auth::{ClientAuthFiles, ClientAuthMode};
pub(crate) use staple::Staple;
pub(super) use staple::read_staple;

/// Versions of TLS that clients may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsProfile {
    /// TLS 1.2 and 1.3.
    Intermediate,
    /// TLS 1.3.
    Modern,
}

/// The words of `tls_profile`, in the order of [`TlsProfile`].
pub(crate) const TLS_PROFILE_WORDS: &[&str] = &["intermediate", "modern"];

/// File names, as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileList(pub Vec<PathBuf>);

/// The certificates of one or more sites. They are alternatives: each client gets one of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CertificateSet {
    /// A hash of the names of the files, and of `tls_client_auth`. It stays the same when a
    /// certificate is renewed.
    pub id: u64,
    /// The certificates: at least one, or none yet if they come by ACME.
    pub identities: Vec<Identity>,
    /// The terms for the certificates of clients; `None` if clients are not asked for any.
    pub(crate) client_auth: Option<ClientAuth>,
    /// Sentences about files that can be used but need attention.
    pub warnings: Vec<String>,
    /// The files of the certificates, in the order of `identities`.
    pub(crate) files: Vec<IdentityFiles>,
    /// The terms on which the certificate is ordered; `None` for files of the operator.
    pub(crate) acme: Option<AcmeTerms>,
}

/// A certificate and its key.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, followed by those of its issuers.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key.
    pub key: PrivateKeyDer<'static>,
    /// The response of the authority about the certificate, which clients get with it.
    pub(crate) staple: Option<Staple>,
}

/// Returns the position of a setting, if it is set.
pub(crate) type PlaceOf<'a> = &'a dyn Fn(&'static str) -> Option<ProblemSpan>;

/// The settings from which a certificate set is made.
const SET_SETTINGS: &[&str] =
    &["tls_cert", "tls_key", "tls_ocsp", "tls_client_auth", "tls_client_ca", "tls_client_crl"];

impl Config {
    /// Returns the warnings about files for TLS, each a sentence that names the file.
    pub fn tls_warnings(&self) -> impl Iterator<Item = &str> {
        let own = self.sites.iter().filter_map(|site| site.certificates.as_deref());
        let sets = self.certificates.as_deref().into_iter().chain(own);
        let to_origins = self
            .sites
            .origin_addresses()
            .filter_map(|origin| origin.tls.as_ref()?.identity.as_deref());
        let to_origins: HashMap<_, _> =
            to_origins.map(|shown| (shown.id(), shown.warnings())).collect();
        let all = sets.map(|set| &set.warnings[..]).chain(to_origins.into_values());
        all.flatten().map(String::as_str)
    }
}

impl Config {
    /// Returns the state of each certificate by ACME, as far as its files tell.
    pub fn acme_status(&self) -> Vec<CertificateStatus> {
        let sets = self.certificate_sets();
        sets.iter().filter_map(|set| CertificateStatus::of(set)).collect()
    }
}

impl Readable for TlsProfile {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => TlsProfile::Intermediate,
            _ => TlsProfile::Modern,
        })
    }
}

impl Readable for FileList {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        // A single file may be written without brackets.
        let texts = match raw {
            RawValue::Text(text) if !text.is_empty() => vec![text],
            _ => setting.texts(raw)?,
        };
        if texts.len() > CERTIFICATES_MAX {
            return Err(setting.problem(format_args!("has more than {CERTIFICATES_MAX} files")));
        }
        if texts.iter().any(|text| text.is_empty()) {
            return Err(setting.problem("contains an empty file name"));
        }
        Ok(FileList(texts.into_iter().map(PathBuf::from).collect()))
    }
}

impl Reader<'_> {
    /// Reads the certificates that are given at the top of the file or by flags.
    pub(crate) fn default_certificates(
        &mut self,
        settings: &SiteSettings,
        places: &HashMap<&'static str, ProblemSpan>,
    ) -> Option<Arc<CertificateSet>> {
        let at = |name| places.get(name).cloned();
        if let (true, Some(at)) = (settings.acme, at("tls_cert")) {
            self.refuse_two_sources(at);
            return None;
        }
        self.certificates(settings, &at, &at)
    }

    /// Reads the certificates of a section with these settings. `own_at` returns the position of
    /// a setting in this section, and `at` also that of a setting that it inherits. Returns `None`
    /// if the section has no settings of its own about certificates.
    pub(crate) fn certificates(
        &mut self,
        settings: &SiteSettings,
        own_at: PlaceOf<'_>,
        at: PlaceOf<'_>,
    ) -> Option<Arc<CertificateSet>> {
        let earlier = self.problem_count();
        let set = self.certificate_set(settings, own_at, at);
        self.has_bad_certificate |= self.problem_count() > earlier;
        set
    }

    fn certificate_set(
        &mut self,
        settings: &SiteSettings,
        own_at: PlaceOf<'_>,
        at: PlaceOf<'_>,
    ) -> Option<Arc<CertificateSet>> {
        if SET_SETTINGS.iter().all(|name| own_at(name).is_none()) {
            return None;
        }
        if let Some((at, problem)) = half_pair(own_at) {
            self.problem(at, problem);
            return None;
        }
        let mut hasher = std::hash::DefaultHasher::new();
        let mut set = CertificateSet::default();
        let client_auth = self.client_auth(settings, at, (&mut hasher, &mut set.warnings));
        let (Some(cert_at), Some(key_at)) = (at("tls_cert"), at("tls_key")) else { return None };
        let (certs, keys) = (&settings.tls_cert.0, &settings.tls_key.0);
        if certs.len() != keys.len() {
            let (certs, keys) = (certs.len(), keys.len());
            let text = format!("`tls_cert` names {certs} files, but `tls_key` {keys}");
            let problem = ValueProblem::new(text).hint(
                "name one key for each certificate, in the same order; the certificates of issuers \
                 belong in the file of the certificate, as in fullchain.pem",
            );
            self.problem(key_at, problem);
            return None;
        }
        // Responses of outer sections are about their certificates.
        let ocsp_at = if own_at("tls_cert").is_some() { own_at } else { at };
        let (ocsp_at, staples) = self.staples(settings, ocsp_at("tls_ocsp"))?;
        for ((cert, key), ocsp) in certs.iter().zip(keys).zip(staples) {
            let (cert, key) = (self.resolved(cert, &cert_at), self.resolved(key, &key_at));
            let names = IdentityNames { cert, key, ocsp };
            names.hash(&mut hasher);
            match read_identity(names, &mut set.warnings) {
                Ok((identity, files)) => {
                    set.identities.push(identity);
                    set.files.push(files);
                }
                Err(problems) => {
                    for (problem, file) in problems {
                        let at = match file {
                            IdentityFile::Certificate => &cert_at,
                            IdentityFile::Key => &key_at,
                            IdentityFile::Ocsp => &ocsp_at,
                        };
                        self.problem_once(at.clone(), problem);
                    }
                }
            }
        }
        set.client_auth = client_auth;
        // The value 0 stands for a site without certificates.
        set.id = hasher.finish().max(1);
        (!set.identities.is_empty()).then(|| Arc::new(set))
    }

    /// Adds the terms for the certificates of clients to a certificate set that comes by ACME.
    pub(super) fn with_client_auth(
        &mut self,
        mut set: CertificateSet,
        settings: &SiteSettings,
        at: PlaceOf<'_>,
    ) -> CertificateSet {
        let mut hasher = std::hash::DefaultHasher::new();
        set.id.hash(&mut hasher);
        set.client_auth = self.client_auth(settings, at, (&mut hasher, &mut set.warnings));
        if set.client_auth.is_some() {
            set.id = hasher.finish().max(1);
        }
        set
    }

    /// Returns the file of the OCSP response for each certificate of `tls_cert`, and the position
    /// of `tls_ocsp`, which is `at` if it is set.
    fn staples(
        &mut self,
        settings: &SiteSettings,
        at: Option<ProblemSpan>,
    ) -> Option<(ProblemSpan, Vec<Option<PathBuf>>)> {
        let (count, files) = (settings.tls_cert.0.len(), &settings.tls_ocsp.0);
        let Some(at) = at.filter(|_| !files.is_empty()) else {
            return Some((ProblemSpan::File, vec![None; count]));
        };
        if files.len() != count {
            let text = format!("`tls_cert` names {count} files, but `tls_ocsp` {}", files.len());
            let hint = "name one response for each certificate, in the same order, and \"off\" for \
                        a certificate without one";
            self.problem_once(at, ValueProblem::new(text).hint(hint));
            return None;
        }
        let resolve =
            |path: &PathBuf| (path.as_os_str() != "off").then(|| self.resolved(path, &at));
        let staples = files.iter().map(resolve).collect();
        Some((at, staples))
    }

    /// Reads the terms for the certificates of clients.
    fn client_auth(
        &mut self,
        settings: &SiteSettings,
        at: PlaceOf<'_>,
        (hasher, warnings): (&mut impl Hasher, &mut Vec<String>),
    ) -> Option<ClientAuth> {
        let (ca_at, crl_at) = (at("tls_client_ca"), at("tls_client_crl"));
        let mode_at = at("tls_client_auth").unwrap_or(ProblemSpan::File);
        if settings.tls_client_auth == ClientAuthMode::Off {
            return None;
        }
        let Some(ca_at) = ca_at.filter(|_| !settings.tls_client_ca.0.is_empty()) else {
            let problem = ValueProblem::new("`tls_client_auth` needs `tls_client_ca`");
            let hint = "name the file with the authorities that issue the clients' certificates";
            self.problem_once(mode_at, problem.hint(hint));
            return None;
        };
        let crl_at = crl_at.unwrap_or(ProblemSpan::File);
        let all = |files: &FileList, at: &ProblemSpan| -> Vec<PathBuf> {
            files.0.iter().map(|file| self.resolved(file, at)).collect()
        };
        let names = ClientAuthFiles {
            authorities: all(&settings.tls_client_ca, &ca_at),
            revocation_lists: all(&settings.tls_client_crl, &crl_at),
        };
        let is_required = settings.tls_client_auth == ClientAuthMode::Required;
        (is_required, &names.authorities, &names.revocation_lists).hash(hasher);
        match ClientAuth::read(is_required, &names, warnings) {
            Ok(read) => Some(read),
            Err((problem, is_of_crl)) => {
                self.problem_once(if is_of_crl { crl_at } else { ca_at }, problem);
                None
            }
        }
    }

    /// Checks that every site has a certificate if there is a listener for TLS.
    pub(crate) fn check_listen_tls(
        &mut self,
        server: &ServerSettings,
        sites: &[Site],
        places: &HashMap<&'static str, ProblemSpan>,
    ) {
        let at = places.get("listen_tls").cloned().unwrap_or(ProblemSpan::File);
        let addresses = &server.listen_tls.0;
        if let Some(both) = addresses.iter().find(|address| server.listen.overlaps(**address)) {
            let problem =
                ValueProblem::new(format!("{both} is also an address of `listen`, without TLS"));
            let hint = "use another port for clients without TLS";
            self.problem(at, problem.hint(hint));
        } else if !self.has_bad_certificate
            // A site whose certificate cannot be used seems to have none.
            && let Some(site) = sites.iter().find(|site| {
                let is_served = |at: &SocketAddr| site.is_served_at(*at, sites.iter());
                site.certificates_id == 0 && addresses.iter().any(is_served)
            })
        {
            let problem = ValueProblem::new(format!("the site {:?} has no certificate", site.name));
            let hint = "write tls_cert = [\"FILE.pem\"] and tls_key = [\"FILE.key\"] in this \
                        [[site]], or before the first section for all sites";
            self.problem(at, problem.hint(hint));
        }
    }

    pub(crate) fn resolved(&self, path: &Path, at: &ProblemSpan) -> PathBuf {
        match at {
            ProblemSpan::Flag(_) => path.to_owned(),
            ProblemSpan::Span(span) => self.sources.dir(span.start).join(path),
            ProblemSpan::File => self.sources.dir(0).join(path),
        }
    }
}

/// Returns the problem with a section that has only one of `tls_cert` and `tls_key`.
fn half_pair(own_at: PlaceOf<'_>) -> Option<(ProblemSpan, ValueProblem)> {
    match (own_at("tls_cert"), own_at("tls_key")) {
        (Some(at), None) => {
            let problem = ValueProblem::new("`tls_cert` needs `tls_key`");
            Some((at, problem.hint("name the file with the private key")))
        }
        (None, Some(at)) => {
            let problem = ValueProblem::new("`tls_key` needs `tls_cert`");
            Some((at, problem.hint("name the file with the certificate")))
        }
        _ => None,
    }
}

/// Reads the certificates of a file; `wanted` describes them for a file that has a key instead.
pub(super) fn read_chain(
    path: &Path,
    wanted: &str,
    warnings: &mut Vec<String>,
) -> Result<(Vec<CertificateDer<'static>>, FileStamp), ValueProblem> {
    let (text, metadata) = read_file(path, CERTIFICATE_BYTES_MAX)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| unusable(path, error))?;
    let Some(first) = chain.first() else {
        let hint = match contains(&text, b"PRIVATE KEY-----") {
            true => format!("the file has a private key; name the file with {wanted}"),
            false => "a PEM file has a line -----BEGIN CERTIFICATE-----; `openssl x509 -inform \
                      der -in FILE -out FILE.pem` makes one of a DER file"
                .to_owned(),
        };
        return Err(unusable(path, "the file contains no certificate").hint(hint));
    };
    let now = clock::unix_seconds();
    match validity(first) {
        Some((_, until)) if until < now => {
            warnings.push(format!("{}: the certificate has expired", path.display()));
        }
        Some(life) if is_near_end(life, now) => {
            let until = String::from_utf8_lossy(&write_date(life.1)).into_owned();
            warnings.push(format!("{}: the certificate expires at {until}", path.display()));
        }
        Some((from, _)) if from > now => {
            warnings.push(format!("{}: the certificate is not valid yet", path.display()));
        }
        _ => {}
    }
    Ok((chain, FileStamp::of(&metadata)))
}

pub(super) fn read_key(
    path: &Path,
    warnings: &mut Vec<String>,
) -> Result<(PrivateKeyDer<'static>, FileStamp), ValueProblem> {
    let (text, metadata) = read_file(path, CERTIFICATE_BYTES_MAX)?;
    let mode = metadata.mode();
    if mode & 0o077 != 0 {
        warnings.push(format!(
            "{}: other users may read the private key (mode {:04o}); use chmod 600",
            path.display(),
            mode & 0o7777
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => {
            if contains(&text, b"ENCRYPTED PRIVATE KEY") {
                return unusable(path, "the private key is encrypted").hint(
                    "`(umask 077; openssl pkey -in KEY -out PLAIN_KEY)` writes it decrypted",
                );
            }
            let hint = match contains(&text, b"BEGIN CERTIFICATE-----") {
                true => {
                    "the file has a certificate, which `tls_cert` would name; name a file with a \
                     private key"
                }
                false => "a PEM file has a line -----BEGIN PRIVATE KEY-----",
            };
            unusable(path, "the file contains no private key").hint(hint)
        }
        error => unusable(path, error),
    });
    Ok((key?, FileStamp::of(&metadata)))
}

/// Checks that the key can be used and belongs to the certificate.
pub(super) fn check_pair(
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
    (cert_path, key_path): (&Path, &Path),
) -> Result<(), ValueProblem> {
    let provider = aws_lc_rs::default_provider();
    let pair = CertifiedKey::from_der(chain.to_vec(), key.clone_key(), &provider);
    pair.map(drop).map_err(|error| match error {
        TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => unusable(
            key_path,
            format_args!("the key does not belong to the certificate in {}", cert_path.display()),
        )
        .hint(
            "they belong together if `openssl x509 -noout -pubkey -in CERT` and `openssl pkey \
             -pubout -in KEY` print the same",
        ),
        TlsError::InvalidCertificate(error) => {
            unusable(cert_path, format_args!("the certificate is malformed: {error:?}"))
        }
        error => unusable(key_path, error),
    })
}

pub(super) fn unusable(path: &Path, why: impl std::fmt::Display) -> ValueProblem {
    ValueProblem::new(format!("cannot use {}: {why}", path.display()))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|found| found == part)
}

/// Returns the content of a file of at most `bytes_max`, and its metadata.
pub(super) fn read_file(
    path: &Path,
    bytes_max: usize,
) -> Result<(Vec<u8>, Metadata), ValueProblem> {
    let failed = |error: std::io::Error| {
        let problem = ValueProblem::new(format!("cannot read {}: {error}", path.display()));
        match error.kind() {
            std::io::ErrorKind::NotFound => problem
                .hint("a path is relative to the directory of the configuration file that has it"),
            std::io::ErrorKind::PermissionDenied => {
                problem.hint("`chown USER FILE` gives the file to the user that runs the server")
            }
            _ => problem.hint("write the path of a file in PEM format"),
        }
    };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mut text = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() > bytes_max {
        let why = format!("the file is larger than {bytes_max} bytes");
        return Err(unusable(path, why));
    }
    Ok((text, metadata))
}
