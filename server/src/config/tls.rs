//! The certificates and keys of the configuration: reads their files, and checks that they can be
//! used.

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
use super::certificate_der::validity;
use super::certificate_files::{FileStamp, IdentityFiles, read_identity};
use super::error::ProblemSpan;
use super::read::Reader;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::site::Site;
use super::table::{ServerSettings, SiteSettings};
use super::{CertificateStatus, Config};
use crate::acme::is_near_end;
use crate::clock;
use crate::limits::{CERTIFICATE_BYTES_MAX, CERTIFICATES_MAX};

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
    /// A hash of the names of the files. It stays the same when a certificate is renewed.
    pub id: u64,
    /// The certificates: at least one, or none yet if they come by ACME.
    pub identities: Vec<Identity>,
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
}

impl Config {
    /// Returns the warnings about files for TLS, each a sentence that names the file.
    pub fn tls_warnings(&self) -> impl Iterator<Item = &str> {
        let own = self.sites.iter().filter_map(|site| site.certificates.as_deref());
        let sets = self.certificates.as_deref().into_iter().chain(own);
        sets.flat_map(|set| set.warnings.iter().map(String::as_str))
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
        self.certificates(settings, at("tls_cert"), at("tls_key"))
    }

    /// Reads the certificates that `settings` names. The spans are those of `tls_cert` and
    /// `tls_key`, if these are set.
    pub(crate) fn certificates(
        &mut self,
        settings: &SiteSettings,
        cert_at: Option<ProblemSpan>,
        key_at: Option<ProblemSpan>,
    ) -> Option<Arc<CertificateSet>> {
        let earlier = self.problem_count();
        let set = self.certificate_set(settings, cert_at, key_at);
        self.has_bad_certificate |= self.problem_count() > earlier;
        set
    }

    fn certificate_set(
        &mut self,
        settings: &SiteSettings,
        cert_at: Option<ProblemSpan>,
        key_at: Option<ProblemSpan>,
    ) -> Option<Arc<CertificateSet>> {
        let (certs, keys) = (&settings.tls_cert.0, &settings.tls_key.0);
        let (cert_at, key_at) = match (cert_at, key_at) {
            (None, None) => return None,
            (Some(at), None) => {
                let problem = ValueProblem::new("`tls_cert` needs `tls_key`");
                self.problem(at, problem.hint("name the file with the private key"));
                return None;
            }
            (None, Some(at)) => {
                let problem = ValueProblem::new("`tls_key` needs `tls_cert`");
                self.problem(at, problem.hint("name the file with the certificate"));
                return None;
            }
            (Some(cert_at), Some(key_at)) => (cert_at, key_at),
        };
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
        let mut set = CertificateSet::default();
        let mut hasher = std::hash::DefaultHasher::new();
        for (cert, key) in certs.iter().zip(keys) {
            let cert = self.resolved(cert, &cert_at);
            let key = self.resolved(key, &key_at);
            (&cert, &key).hash(&mut hasher);
            match read_identity((cert, key), &mut set.warnings) {
                Ok((identity, files)) => {
                    set.identities.push(identity);
                    set.files.push(files);
                }
                Err(problems) => {
                    for (problem, is_of_key) in problems {
                        let at = if is_of_key { &key_at } else { &cert_at };
                        self.problem(at.clone(), problem);
                    }
                }
            }
        }
        // The value 0 stands for a site without certificates.
        set.id = hasher.finish().max(1);
        (!set.identities.is_empty()).then(|| Arc::new(set))
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

/// Reads the certificates of a file; `wanted` describes them for a file that has a key instead.
pub(super) fn read_chain(
    path: &Path,
    wanted: &str,
    warnings: &mut Vec<String>,
) -> Result<(Vec<CertificateDer<'static>>, FileStamp), ValueProblem> {
    let (text, metadata) = read_pem(path)?;
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
    let (text, metadata) = read_pem(path)?;
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

/// Returns the content of a file, and its metadata.
fn read_pem(path: &Path) -> Result<(Vec<u8>, Metadata), ValueProblem> {
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
    file.take(CERTIFICATE_BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() > CERTIFICATE_BYTES_MAX {
        let why = format!("the file is larger than {CERTIFICATE_BYTES_MAX} bytes");
        return Err(unusable(path, why));
    }
    Ok((text, metadata))
}
