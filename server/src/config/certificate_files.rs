//! The files of certificates and keys: their state when they were read, and how they are read again
//! after a change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Config;
use super::certificate_name::is_for_name;
use super::setting::ValueProblem;
use super::tls::client_auth::ClientAuth;
use super::tls::{CertificateSet, Identity, check_pair, read_chain, read_key, read_staple};
use super::watched::WatchedFile;
use crate::x509::validity;

/// The files of a certificate, its key and its OCSP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdentityFiles {
    pub(crate) names: IdentityNames,
    /// The states of the files when they were read, in the order of [`IdentityNames::paths`].
    /// `None` for a file that was missing.
    read: Vec<Option<FileStamp>>,
}

/// The names of the files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdentityNames {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    /// The file with the response of the authority about the certificate.
    pub(crate) ocsp: Option<PathBuf>,
}

/// The file of an identity that a problem concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdentityFile {
    Certificate,
    Key,
    Ocsp,
}

impl IdentityNames {
    /// Returns the names of all files.
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.cert, &self.key].into_iter().chain(&self.ocsp)
    }
}

/// The state of a file. It differs after each change of the file's content, and after the name
/// leads to another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl FileStamp {
    pub(super) fn of(metadata: &Metadata) -> FileStamp {
        let ns = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        FileStamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    pub(super) fn now(path: &Path) -> Option<FileStamp> {
        std::fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata))
    }
}

/// Reads a certificate, its key and its OCSP response, and checks that they can be used together.
/// Adds warnings to `warnings`.
///
/// # Errors
/// The problems, each with the file that it concerns.
pub(super) fn read_identity(
    names: IdentityNames,
    warnings: &mut Vec<String>,
) -> Result<(Identity, IdentityFiles), Vec<(ValueProblem, IdentityFile)>> {
    use IdentityFile::{Certificate, Key, Ocsp};
    let IdentityNames { cert, key, ocsp } = &names;
    let chain = read_chain(cert, "the certificate", warnings).map_err(|why| (why, Certificate));
    let key_der = read_key(key, warnings).map_err(|why| (why, Key));
    let ((chain, cert_read), (key_der, key_read)) = match (chain, key_der) {
        (Ok(chain), Ok(key_der)) => (chain, key_der),
        (chain, key_der) => return Err(chain.err().into_iter().chain(key_der.err()).collect()),
    };
    check_pair(&chain, &key_der, (cert, key)).map_err(|problem| vec![(problem, Key)])?;
    let mut read = vec![Some(cert_read), Some(key_read)];
    let staple = match ocsp {
        None => None,
        Some(path) => {
            let stapled = read_staple(path, &chain, warnings);
            let (staple, stamp) = stapled.map_err(|problem| vec![(problem, Ocsp)])?;
            read.push(Some(stamp));
            staple
        }
    };
    Ok((Identity { chain, key: key_der, staple }, IdentityFiles { names, read }))
}

impl IdentityFiles {
    /// Returns a certificate and key that share a file, which could not be read.
    pub(super) fn unread(path: PathBuf) -> IdentityFiles {
        let names = IdentityNames { cert: path.clone(), key: path, ocsp: None };
        IdentityFiles { names, read: vec![None; 2] }
    }

    /// Returns the files with their states when they were read.
    pub(super) fn watched(&self) -> Vec<WatchedFile> {
        let files = self.names.paths().zip(&self.read);
        files.filter_map(|(path, read)| read.map(|stamp| WatchedFile::new(path, stamp))).collect()
    }
}

impl CertificateSet {
    /// Returns the states of the set's files when they were read.
    pub(crate) fn stamps_read(&self) -> Vec<Option<FileStamp>> {
        let of_clients = self.client_auth.iter().flat_map(ClientAuth::stamps_read).map(Some);
        let own = self.files.iter().flat_map(|files| files.read.iter().copied());
        own.chain(of_clients).collect()
    }

    /// Returns the present states of the set's files; `None` for a file that cannot be found.
    pub(crate) fn stamps_now(&self) -> Vec<Option<FileStamp>> {
        let of_clients = self.client_auth.iter().flat_map(ClientAuth::paths);
        let own = self.files.iter().flat_map(|files| files.names.paths());
        own.chain(of_clients).map(|path| FileStamp::now(path)).collect()
    }

    /// Whether a certificate has an OCSP response that is out of date at the Unix time `now_s`.
    pub(crate) fn has_old_staple(&self, now_s: u64) -> bool {
        let staples = self.identities.iter().filter_map(|identity| identity.staple.as_ref());
        staples.filter_map(|staple| staple.until_s).any(|until_s| until_s < now_s)
    }

    /// Returns the names of the certificates' files, for a message.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.files.iter().map(|files| files.names.cert.display()).collect();
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Reads the files again.
    ///
    /// # Errors
    /// A file cannot be used; the text names it and says why.
    pub(crate) fn read_again(&self) -> Result<CertificateSet, String> {
        let acme = self.acme.clone();
        let mut set = CertificateSet { id: self.id, acme, ..CertificateSet::default() };
        for files in &self.files {
            let (identity, files) =
                read_identity(files.names.clone(), &mut set.warnings).map_err(|problems| {
                    let messages = problems.into_iter().map(|(problem, _)| problem.message);
                    messages.collect::<Vec<_>>().join("; ")
                })?;
            set.identities.push(identity);
            set.files.push(files);
        }
        if let Some(client_auth) = &self.client_auth {
            set.client_auth = Some(client_auth.read_again(&mut set.warnings)?);
        }
        Ok(set)
    }
}

impl Config {
    /// Returns the configuration's certificate sets, each of them once.
    pub(crate) fn certificate_sets(&self) -> Vec<Arc<CertificateSet>> {
        let own = self.sites.iter().filter_map(|site| site.certificates.as_ref());
        let mut sets: Vec<Arc<CertificateSet>> = Vec::new();
        for set in self.certificates.iter().chain(own) {
            if !sets.iter().any(|known| known.id == set.id) {
                sets.push(Arc::clone(set));
            }
        }
        sets
    }

    /// Gives certificates of `previous` to the sites whose certificate by ACME is not in its file,
    /// if there is one for all names of the site. They stay in use until the next order succeeds.
    pub(crate) fn keep_certificates(&mut self, previous: &Config) {
        let known = previous.certificate_sets();
        self.sites.change_certificates(|set| {
            let Some(terms) = set.acme.as_ref().filter(|_| set.identities.is_empty()) else {
                return;
            };
            let life = |identity: &&Identity| {
                let certificate = identity.chain.first()?;
                let is_whole = terms.names.iter().all(|name| is_for_name(certificate, name));
                validity(certificate).filter(|_| is_whole)
            };
            let identities = known.iter().flat_map(|set| &set.identities);
            let usable = identities.filter_map(|identity| Some((life(&identity)?.1, identity)));
            if let Some((_, found)) = usable.max_by_key(|(until, _)| *until) {
                let Identity { chain, key, staple: _ } = found;
                let kept = Identity { chain: chain.clone(), key: key.clone_key(), staple: None };
                *set = Arc::new(CertificateSet {
                    id: set.id,
                    identities: vec![kept],
                    client_auth: set.client_auth.clone(),
                    warnings: set.warnings.clone(),
                    files: set.files.clone(),
                    acme: set.acme.clone(),
                });
            }
        });
    }

    /// Puts `set` in place of the certificate set with the same identity.
    pub(crate) fn replace_certificates(&mut self, set: &Arc<CertificateSet>) {
        let mut replace = |current: &mut Arc<CertificateSet>| {
            if current.id == set.id {
                *current = Arc::clone(set);
            }
        };
        self.certificates.iter_mut().for_each(&mut replace);
        self.sites.change_certificates(replace);
    }
}
