//! The file `PORT.admin-address` in the runtime directory: the address of a server's admin
//! interface, which may be outside the directory. Clients that do not know the address read it
//! there.
//!
//! The file has two lines: the process number of its server, and the address as `--admin` takes it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::runtime_paths::{AdminEndpoint, admin_address_file};

/// The file of a running server. Dropping this value removes the file, unless another process has
/// replaced it: a successor, or the next server at this port.
#[derive(Debug)]
pub(super) struct AdminAddressFile {
    path: PathBuf,
    content: Vec<u8>,
}

impl AdminAddressFile {
    /// Writes the file, in place of an existing one. If that fails, removes the existing one, since
    /// its address may be wrong.
    ///
    /// # Errors
    /// The file cannot be written or renamed.
    pub(super) fn write(
        runtime_dir: &Path,
        port: u16,
        admin: &AdminEndpoint,
    ) -> io::Result<AdminAddressFile> {
        let path = admin_address_file(runtime_dir, port);
        let mut content = format!("{}\n", std::process::id()).into_bytes();
        match admin {
            AdminEndpoint::Tcp(address) => content.extend(address.to_string().bytes()),
            // The client may run in another directory.
            AdminEndpoint::Unix(path) => {
                content.extend(std::path::absolute(path)?.as_os_str().as_bytes());
            }
        }
        content.push(b'\n');
        if let Err(error) = replace(&path, &content) {
            // The file may not exist at all.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(AdminAddressFile { path, content })
    }
}

impl Drop for AdminAddressFile {
    fn drop(&mut self) {
        if fs::read(&self.path).is_ok_and(|found| found == self.content) {
            // A failure has no remedy; clients see that the server has ended.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes a file that only its owner may read, and gives it its name when it is complete.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temp = path.with_extension(format!("admin-address.{}.new", std::process::id()));
    // A dead process with this process's number may have left such a file.
    let _ = fs::remove_file(&temp);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp)?;
    let replaced = file.write_all(content).and_then(|()| fs::rename(&temp, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&temp);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_private_and_removed_only_by_its_own_server() {
        let folder = forebay_testkit::server::Folder::new();
        let dir = folder.path("");
        let admin = |port| AdminEndpoint::Tcp(([127, 0, 0, 1], port).into());
        let path = admin_address_file(&dir, 80);
        let first = AdminAddressFile::write(&dir, 80, &admin(1)).expect("the folder is writable");
        let mode = fs::metadata(&path).expect("written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = AdminAddressFile::write(&dir, 80, &admin(2)).expect("the folder is writable");
        drop(first);
        let content = fs::read_to_string(&path).expect("the second file is there");
        assert_eq!(content, format!("{}\n127.0.0.1:2\n", std::process::id()));
        drop(second);
        assert_eq!(fs::read_dir(&dir).expect("it exists").count(), 0);
    }

    #[test]
    fn an_address_that_cannot_be_replaced_is_removed() {
        let folder = forebay_testkit::server::Folder::new();
        let dir = folder.path("");
        let path = admin_address_file(&dir, 80);
        let old = AdminAddressFile::write(&dir, 80, &AdminEndpoint::Unix("/old/admin".into()));
        std::mem::forget(old.expect("the folder is writable"));
        // A directory has the temporary name.
        let temp = path.with_extension(format!("admin-address.{}.new", std::process::id()));
        fs::create_dir(temp).expect("the folder is writable");
        AdminAddressFile::write(&dir, 80, &AdminEndpoint::Unix("/new/admin".into()))
            .expect_err("the temporary name is taken");
        assert!(!path.exists(), "the old address remains");
    }
}
