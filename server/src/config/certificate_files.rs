//! The files of certificates and keys: their state when they were read, and how they are read again
//! after a change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Config;
use super::setting::ValueProblem;
use super::tls::{CertificateSet, Identity, check_pair, read_chain, read_key};

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdentityFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    /// The states of both files when they were read; `None` for a file that was missing.
    read: [Option<FileStamp>; 2],
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

/// Reads a certificate and its key, and checks that they can be used together. Adds warnings to
/// `warnings`.
///
/// # Errors
/// The problems. The flag of each says whether it concerns the key and not the certificate.
pub(super) fn read_identity(
    (cert, key): (PathBuf, PathBuf),
    warnings: &mut Vec<String>,
) -> Result<(Identity, IdentityFiles), Vec<(ValueProblem, bool)>> {
    let chain = read_chain(&cert, "the certificate", warnings).map_err(|problem| (problem, false));
    let key_der = read_key(&key, warnings).map_err(|problem| (problem, true));
    let ((chain, cert_read), (key_der, key_read)) = match (chain, key_der) {
        (Ok(chain), Ok(key_der)) => (chain, key_der),
        (chain, key_der) => return Err(chain.err().into_iter().chain(key_der.err()).collect()),
    };
    check_pair(&chain, &key_der, (&cert, &key)).map_err(|problem| vec![(problem, true)])?;
    let files = IdentityFiles { cert, key, read: [Some(cert_read), Some(key_read)] };
    Ok((Identity { chain, key: key_der }, files))
}

impl IdentityFiles {
    /// Returns a certificate and key that share a file, which could not be read.
    pub(super) fn unread(path: PathBuf) -> IdentityFiles {
        IdentityFiles { cert: path.clone(), key: path, read: [None; 2] }
    }
}

impl CertificateSet {
    /// Returns the states of the set's files when they were read.
    pub(crate) fn stamps_read(&self) -> Vec<Option<FileStamp>> {
        self.files.iter().flat_map(|files| files.read).collect()
    }

    /// Returns the present states of the set's files; `None` for a file that cannot be found.
    pub(crate) fn stamps_now(&self) -> Vec<Option<FileStamp>> {
        let paths = self.files.iter().flat_map(|files| [&files.cert, &files.key]);
        paths.map(|path| FileStamp::now(path)).collect()
    }

    /// Returns the names of the certificates' files, for a message.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.files.iter().map(|files| files.cert.display()).collect();
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
            let paths = (files.cert.clone(), files.key.clone());
            let (identity, files) =
                read_identity(paths, &mut set.warnings).map_err(|problems| {
                    let messages = problems.into_iter().map(|(problem, _)| problem.message);
                    messages.collect::<Vec<_>>().join("; ")
                })?;
            set.identities.push(identity);
            set.files.push(files);
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
