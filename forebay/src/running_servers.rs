//! Finds the running servers of a runtime directory, and the addresses of their admin interfaces.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use forebay_server::config::AdminAddress;
use forebay_shm::CounterReader;

use crate::runtime_files::with_extension;

/// Largest size in bytes of a file that states an admin interface; an address is much shorter.
const ADDRESS_FILE_BYTES_MAX: u64 = 4096;

/// A running server.
pub(crate) struct RunningServer {
    /// The port of the server, as in the names of its files.
    port: String,
    /// The address of its admin interface; `None` if the server has left none.
    pub(crate) admin: Option<AdminAddress>,
}

impl std::fmt::Display for RunningServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "port {}: ", self.port)?;
        match &self.admin {
            Some(admin) => admin.fmt(f),
            None => f.write_str("the address of the admin interface is unknown"),
        }
    }
}

/// Returns the servers that run with this runtime directory. A server counts if the process that
/// writes its counter file lives, or if a server answers at the default admin socket of its port:
/// a process in another container looks dead, but its socket answers.
pub(crate) fn running_servers(dir: &Path) -> Vec<RunningServer> {
    let files = ["counters", "admin"].into_iter().flat_map(|kind| with_extension(dir, kind));
    // The files of one server differ only in their extensions.
    let servers: BTreeSet<PathBuf> = files.map(|path| path.with_extension("")).collect();
    servers.iter().filter_map(|path| running_server(path)).collect()
}

/// Returns the server whose files have this path without their extensions, if it runs.
fn running_server(files: &Path) -> Option<RunningServer> {
    let default_socket = files.with_extension("admin");
    let answers = UnixStream::connect(&default_socket).is_ok();
    let counters = CounterReader::open(&files.with_extension("counters"));
    if !answers && !counters.is_ok_and(|reader| reader.writer().is_alive()) {
        return None;
    }
    let stated = stated_address(&files.with_extension("admin-address"));
    let admin = stated.or_else(|| answers.then_some(AdminAddress::Path(default_socket)));
    let port = files.file_name()?.to_string_lossy().into_owned();
    Some(RunningServer { port, admin })
}

/// Reads the address in a file that a server has left. A file of another user counts for nothing,
/// since it could lead to any program on this machine.
fn stated_address(path: &Path) -> Option<AdminAddress> {
    let file = File::open(path).ok()?;
    if file.metadata().ok()?.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let mut text = String::new();
    file.take(ADDRESS_FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    let (_process, address) = text.split_once('\n')?;
    AdminAddress::parse(address.strip_suffix('\n')?).ok()
}

#[cfg(test)]
mod tests {
    use forebay_testkit::server::Folder;

    use super::*;

    #[test]
    fn only_whole_addresses_are_taken() {
        let folder = Folder::new();
        let path = folder.path("80.admin-address");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("the folder is writable");
            stated_address(&path).map(|address| address.to_string())
        };
        assert_eq!(read("7\n127.0.0.1:9000\n").as_deref(), Some("127.0.0.1:9000"));
        assert_eq!(read("7\n[::1]:9000\n").as_deref(), Some("[::1]:9000"));
        assert_eq!(read("7\n/run/a b\n").as_deref(), Some("/run/a b"));
        for bad in ["", "7\n", "7\n127.0.0.1:9000", "7\n10.0.0.1:80\n", "/run/admin\n"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
