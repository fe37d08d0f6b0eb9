//! The setting `signed_urls`: a file with the keys that sign the URLs of a route.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::hmac;

use super::private_file::{PrivateFile, shell_word};
use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::config::watched::WatchedFile;
use crate::limits::{URL_KEY_BYTES_MIN, URL_KEY_FILE_BYTES_MAX, URL_KEYS_MAX};

/// The keys that sign the URLs of a route; `None` if the route serves URLs without a signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedUrls(Option<Arc<UrlKeys>>);

/// The content of a file with keys: one key in each line.
pub(crate) struct UrlKeys {
    path: PathBuf,
    file: WatchedFile,
    /// The keys, at least one.
    keys: Vec<hmac::Key>,
    /// A hash of the content.
    fingerprint: [u8; 32],
    /// A sentence about the permissions of the file, if they need attention.
    warning: Option<String>,
}

impl SignedUrls {
    /// Returns the keys.
    pub(crate) fn keys(&self) -> Option<&UrlKeys> {
        self.0.as_deref()
    }
}

impl UrlKeys {
    /// Reads a file with keys.
    ///
    /// # Errors
    /// The part of a message after the name of the file, and a hint.
    pub(crate) fn read(path: &Path) -> Result<UrlKeys, (String, String)> {
        // The command adds a key, because it may be typed for a file whose keys are in use.
        let hint =
            || format!("`(umask 077; openssl rand -hex 32 >> {})` adds one", shell_word(path));
        let file = PrivateFile::read(path, "keys", URL_KEY_FILE_BYTES_MAX);
        let file = file.map_err(|error| {
            let text = match error.kind() {
                ErrorKind::NotFound => return (format!(": {error}"), hint()),
                ErrorKind::PermissionDenied => {
                    "`chown USER FILE` gives the file to the user that runs the server"
                }
                _ => "name a file with one key in each line, for example 64 hexadecimal digits",
            };
            (format!(": {error}"), text.to_owned())
        })?;
        let lines = (1..).zip(file.text.lines().map(str::trim_end));
        let mut keys = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            if line.len() < URL_KEY_BYTES_MIN {
                let short = format!(
                    ", line {number}: the key has {} bytes; {URL_KEY_BYTES_MIN} are needed",
                    line.len()
                );
                return Err((short, "replace this key by a longer one".to_owned()));
            }
            keys.push(hmac::Key::new(hmac::HMAC_SHA256, line.as_bytes()));
        }
        if keys.is_empty() {
            return Err((": the file has no keys".to_owned(), hint()));
        }
        if keys.len() > URL_KEYS_MAX {
            let many = format!(": the file has more than {URL_KEYS_MAX} keys");
            return Err((many, "delete the keys that sign no URLs any more".to_owned()));
        }
        let PrivateFile { fingerprint, warning, watched, .. } = file;
        Ok(UrlKeys { path: path.to_owned(), file: watched, keys, fingerprint, warning })
    }

    /// Returns the name and the state of the file.
    pub(in crate::config) fn file(&self) -> &WatchedFile {
        &self.file
    }

    /// Returns the keys. The first one signs; each of them verifies.
    pub(crate) fn keys(&self) -> &[hmac::Key] {
        &self.keys
    }

    /// Returns a sentence about the permissions of the file, if they need attention.
    pub(super) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }
}

impl PartialEq for UrlKeys {
    fn eq(&self, other: &UrlKeys) -> bool {
        self.path == other.path && self.fingerprint == other.fingerprint
    }
}

impl Eq for UrlKeys {}

impl fmt::Debug for UrlKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UrlKeys({})", self.path.display())
    }
}

impl Readable for SignedUrls {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        if text == "off" {
            return Ok(SignedUrls(None));
        }
        let path = Path::new(text);
        if !path.is_absolute() {
            let problem = setting.problem("is not an absolute path").secret();
            let hint = "the keys are in a file of their own; write its path, such as \
                        \"/etc/forebay/url-keys\"";
            return Err(problem.hint(hint));
        }
        let keys = UrlKeys::read(path).map_err(|(what, hint)| {
            let problem = ValueProblem::new(format!("`{}` cannot use {text}{what}", setting.name));
            problem.hint(hint)
        })?;
        Ok(SignedUrls(Some(Arc::new(keys))))
    }
}
