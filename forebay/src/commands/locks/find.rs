//! Finds the lock profile that a command reads.

use std::path::{Path, PathBuf};

use forebay_server::config::RuntimeDir;
use forebay_server::engine::runtime_dir;
use forebay_shm::{ProfileFile, is_alive};
use forebay_sync::profile::plain_text;

use crate::admin_client::{self, AdminAnswer, ask};
use crate::running_servers::running_servers;
use crate::runtime_files::{list, list_paths, with_extension};

/// Returns the named file. Without a name, returns the profile of the only running server or, if no
/// server is running, the only profile in the runtime directory.
pub(super) fn find(file: Option<&String>) -> Result<PathBuf, String> {
    match file {
        Some(file) => Ok(PathBuf::from(file)),
        None => only_one(&runtime_dir(&RuntimeDir::Auto)),
    }
}

fn only_one(dir: &Path) -> Result<PathBuf, String> {
    let is_of_living = |path: &PathBuf| {
        let about = ProfileFile::open(path).and_then(|file| file.about());
        about.is_ok_and(|about| is_alive(&about))
    };
    let (mut alive, mut dead): (Vec<_>, Vec<_>) =
        with_extension(dir, "locks").into_iter().partition(is_of_living);
    let servers = running_servers(dir);
    match (alive.len(), dead.len()) {
        // Another server may run without a profile.
        (1, _) if servers.len() > 1 => Err(format!(
            "several servers are running, and one has a lock profile, {}; name the file:\n{}",
            alive[0].display(),
            list(&servers)
        )),
        (1, _) => Ok(alive.remove(0)),
        (0, 1) if servers.is_empty() => Ok(dead.remove(0)),
        (0, 0) => Err(format!("no lock profile found in {}; {}", dir.display(), why_none())),
        (0, _) if !servers.is_empty() => Err(format!(
            "no running server has a lock profile in {}; {}",
            dir.display(),
            why_none()
        )),
        (0, _) => Err(format!(
            "no server is running, and several lock profiles remain; choose one:\n{}",
            list_paths(&dead)
        )),
        _ => Err(format!(
            "several servers are running; choose the file of one:\n{}",
            list_paths(&alive)
        )),
    }
}

/// Returns the reason why no lock profile was found: the answer of the running server if exactly
/// one server is running, otherwise a hint for the user.
fn why_none() -> String {
    let said = admin_client::find(None).and_then(|admin| ask(&admin, "GET", "/locks", ""));
    match said {
        Ok(AdminAnswer { is_success: false, body }) => {
            format!("the running server says: {}", plain_text(body.trim()))
        }
        _ => "name the file, or see the setting `lock_profile_size`".to_owned(),
    }
}
