//! The directory with the account and the certificates of one certificate authority.
//!
//! Files are written beside their final name and renamed after their content is on disk, so a
//! reader finds either the old content or the new, even after a crash. A certificate and its key
//! are in one file, so they are replaced together.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::limits::ACME_FILE_BYTES_MAX;

/// The directory of one certificate authority.
#[derive(Debug)]
pub(super) struct AcmeStorage {
    dir: PathBuf,
}

/// The right to order certificates, until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct OrderLock {
    _file: File,
}

/// The file with the account.
const ACCOUNT: &str = "account.json";

/// The file with the previous account, which may be of use to an operator.
const OLD_ACCOUNT: &str = "account.json.old";

/// The file whose lock is the right to order. It is never removed: otherwise two processes could
/// lock two files of this name.
const LOCK: &str = "lock";

impl AcmeStorage {
    /// Makes the directory, and those above it that are missing.
    ///
    /// # Errors
    /// A directory cannot be made, or other users may enter it. The error is a text that names it.
    pub(super) fn open(dir: &Path) -> Result<AcmeStorage, String> {
        let above = dir.parent().unwrap_or(Path::new("/"));
        if let Some(parent) = above.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)
                .map_err(|error| format!("cannot make {}: {error}", parent.display()))?;
        }
        for one in [above, dir] {
            forebay_shm::create_private_dir(one).map_err(|error| error.to_string())?;
        }
        Ok(AcmeStorage { dir: dir.to_owned() })
    }

    /// Takes the lock; `None` if another process orders a certificate.
    ///
    /// # Errors
    /// The file of the lock cannot be opened or locked.
    pub(super) fn lock(&self) -> io::Result<Option<OrderLock>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(NO_LINK);
        let file = options.open(self.dir.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(OrderLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns the stored account; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, so there may be an account.
    pub(super) fn account(&self) -> io::Result<Option<String>> {
        match read_limited(&self.dir.join(ACCOUNT)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores the account, including its key.
    ///
    /// # Errors
    /// See [`write_durably`].
    pub(super) fn set_account(&self, text: &str) -> io::Result<()> {
        write_durably(&self.dir.join(ACCOUNT), text.as_bytes())
    }

    /// Puts the account aside, which the authority does not know.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn retire_account(&self) -> io::Result<()> {
        std::fs::rename(self.dir.join(ACCOUNT), self.dir.join(OLD_ACCOUNT))
    }
}

/// Opening a link fails, because its target may be anywhere.
const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// Returns the content of a small file.
///
/// # Errors
/// The system refuses, or the content is not text.
pub(super) fn read_limited(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = OpenOptions::new().read(true).custom_flags(NO_LINK).open(path)?;
    file.take(ACME_FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the time at which a file was written, as a Unix time in nanoseconds.
pub(super) fn modified_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

/// Replaces a file, which only its owner can read. The new content is on disk when this returns.
///
/// # Errors
/// The system refuses; the old file then stays as it was.
pub(super) fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // A process that was killed may have left a part of the file.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    forebay_shm::crash_point!("acme.written");
    let renamed = written.and_then(|()| std::fs::rename(&new, path));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    renamed?;
    let dir = path.parent().unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use forebay_testkit::server::Folder;

    use super::*;

    #[test]
    fn only_the_owner_can_read_the_directory_and_its_files() {
        let folder = Folder::new();
        let dir = folder.path("state/acme/ca");
        let storage = AcmeStorage::open(&dir).expect("it is made");
        storage.set_account("{}").expect("it is written");
        storage.set_account("{\"id\":1}").expect("it is replaced");
        let lock = storage.lock().expect("it can be locked").expect("no other process holds it");
        for (path, expected) in [
            ("state/acme", 0o700),
            ("state/acme/ca", 0o700),
            ("state/acme/ca/account.json", 0o600),
            ("state/acme/ca/lock", 0o600),
        ] {
            let mode = std::fs::metadata(folder.path(path)).expect(path).permissions().mode();
            assert_eq!(mode & 0o777, expected, "{path}");
        }
        let account = || storage.account().expect("it can be read");
        assert_eq!(account().as_deref(), Some("{\"id\":1}"));
        drop(lock);
        storage.retire_account().expect("it is ours");
        assert_eq!(account(), None);
        let old = std::fs::read_to_string(dir.join("account.json.old")).expect("it is kept");
        assert_eq!(old, "{\"id\":1}");
        std::fs::create_dir(dir.join("account.json")).expect("it is ours");
        storage.account().expect_err("a file that cannot be read is no missing account");
        std::fs::remove_dir(dir.join("account.json")).expect("it is ours");
        AcmeStorage::open(&dir).expect("it is ours");
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).expect("it is ours");
        let refused = AcmeStorage::open(&dir).expect_err("others can read it");
        assert!(refused.contains("ca"), "{refused}");
    }

    #[test]
    fn one_process_orders_at_a_time() {
        let folder = Folder::new();
        let storage = AcmeStorage::open(&folder.path("acme/ca")).expect("it is made");
        let first = storage.lock().expect("it can be locked");
        assert!(first.is_some());
        assert!(storage.lock().expect("it can be tried").is_none());
        drop(first);
        assert!(storage.lock().expect("it can be locked").is_some());
    }

    #[test]
    fn the_rest_of_a_killed_process_is_replaced() {
        let folder = Folder::new();
        let path = folder.path("site.pem");
        std::fs::write(folder.path("site.pem.new"), "half").expect("the folder is ours");
        write_durably(&path, b"whole").expect("it is written");
        assert_eq!(read_limited(&path).expect("it can be read"), "whole");
        assert!(!folder.path("site.pem.new").exists());
        let refused = write_durably(&folder.path("none/site.pem"), b"").expect_err("no folder");
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
    }
}
