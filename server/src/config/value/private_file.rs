//! Files with secrets that settings name: passwords of users, keys of signed URLs.

use std::fs::File;
use std::io::{Error, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use aws_lc_rs::digest;

use crate::config::FileStamp;
use crate::config::watched::WatchedFile;

/// The content of a file with secrets.
pub(super) struct PrivateFile {
    /// The text, without a byte order mark.
    pub(super) text: String,
    /// A hash of the content.
    pub(super) fingerprint: [u8; 32],
    /// A sentence about the permissions of the file, if they need attention.
    pub(super) warning: Option<String>,
    /// The name and the state of the file.
    pub(super) watched: WatchedFile,
}

/// Returns a path or a name as one word of a command for a shell.
pub(super) fn shell_word(text: &Path) -> String {
    let text = text.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@:,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

impl PrivateFile {
    /// Reads a regular file of at most `bytes_max` bytes, which contains `secrets`.
    ///
    /// # Errors
    /// The file is of another kind, too large or not UTF-8, or cannot be read.
    pub(super) fn read(path: &Path, secrets: &str, bytes_max: usize) -> Result<PrivateFile, Error> {
        let metadata = path.metadata()?;
        // Opening a pipe would block until the pipe has a writer.
        if !metadata.is_file() {
            return Err(Error::other("this is not a regular file"));
        }
        let mut text = String::new();
        File::open(path)?.take(bytes_max as u64 + 1).read_to_string(&mut text)?;
        if text.len() > bytes_max {
            return Err(Error::other(format!("the file is larger than {bytes_max} bytes")));
        }
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
        let mode = metadata.mode();
        let warning = (mode & 0o077 != 0).then(|| {
            let path = path.display();
            let mode = mode & 0o7777;
            format!("{path}: other users may read the {secrets} (mode {mode:04o}); use chmod 600")
        });
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let watched = WatchedFile::new(path, FileStamp::of(&metadata));
        Ok(PrivateFile { text, fingerprint, warning, watched })
    }
}
