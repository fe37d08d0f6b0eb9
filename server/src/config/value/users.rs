//! The settings `basic_auth` and `basic_auth_realm`: a file with the users of a route and the
//! hashes of their passwords, in the form of `htpasswd`.

use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bcrypt::HashParts;
use sha_crypt::{PasswordHashRef, PasswordVerifier, ShaCrypt};

use super::private_file::{PrivateFile, shell_word};
use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::config::table::RouteSettings;
use crate::config::watched::WatchedFile;
use crate::limits::{
    BCRYPT_COST_MAX, REALM_BYTES_MAX, SHA_CRYPT_ROUNDS_MAX, USER_BYTES_MAX, USER_FILE_BYTES_MAX,
};

/// The users of a route; `None` if the route asks for no password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BasicAuth(Option<Arc<UserFile>>);

/// The content of a file with users.
pub(crate) struct UserFile {
    path: PathBuf,
    file: WatchedFile,
    users: HashMap<Box<str>, PasswordHash>,
    /// A hash of the content.
    fingerprint: [u8; 32],
    /// The hash with which passwords of unknown users are compared, so that the time of an answer
    /// does not tell whether a user exists: that of the first user.
    stand_in: PasswordHash,
    /// A sentence about the permissions of the file, if they need attention.
    warning: Option<String>,
}

/// The hash of a password, with its salt and its cost.
#[derive(Clone)]
pub(crate) enum PasswordHash {
    /// `$2y$`, or the equivalent `$2a$` and `$2b$`.
    Bcrypt(Arc<str>),
    /// `$5$` or `$6$`.
    ShaCrypt(Arc<str>),
}

/// The realm in a request for credentials (RFC 9110 §11.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realm(pub(crate) Arc<str>);

impl BasicAuth {
    /// Returns the file with the users.
    pub(crate) fn users(&self) -> Option<&Arc<UserFile>> {
        self.0.as_ref()
    }
}

impl RouteSettings {
    /// Whether the server uses the Authorization field of requests itself, so that the origin does
    /// not get it.
    pub(crate) fn uses_credentials(&self) -> bool {
        self.basic_auth.0.is_some() && !self.basic_auth_forward
    }
}

impl UserFile {
    /// Returns a sentence about the permissions of the file, if they need attention.
    pub(super) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Returns the name and the state of the file.
    pub(in crate::config) fn file(&self) -> &WatchedFile {
        &self.file
    }

    /// Returns the hash with which a password has to be compared, and whether the user exists.
    pub(crate) fn hash_of(&self, user: &str) -> (&PasswordHash, bool) {
        match self.users.get(user) {
            Some(hash) => (hash, true),
            None => (&self.stand_in, false),
        }
    }
}

impl PartialEq for UserFile {
    fn eq(&self, other: &UserFile) -> bool {
        self.path == other.path && self.fingerprint == other.fingerprint
    }
}

impl Eq for UserFile {}

impl fmt::Debug for UserFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserFile({})", self.path.display())
    }
}

impl PasswordHash {
    /// Whether this is the hash of `password`. This takes many milliseconds, about the same time
    /// for every password.
    pub(crate) fn is_of(&self, password: &[u8]) -> bool {
        match self {
            PasswordHash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            PasswordHash::ShaCrypt(hash) => PasswordHashRef::new(hash)
                .is_ok_and(|hash| ShaCrypt::SHA512.verify_password(password, hash).is_ok()),
        }
    }

    /// Returns the hash as it is in the file.
    pub(crate) fn text(&self) -> &str {
        let (PasswordHash::Bcrypt(text) | PasswordHash::ShaCrypt(text)) = self;
        text
    }

    /// Reads the hash of one line.
    ///
    /// # Errors
    /// The reason why the hash cannot be used.
    fn read(text: &str) -> Result<PasswordHash, String> {
        if ["$2y$", "$2b$", "$2a$"].iter().any(|start| text.starts_with(start)) {
            let parts = text.parse::<HashParts>().map_err(|_| "the bcrypt hash is malformed")?;
            return match parts.get_cost() {
                4..=BCRYPT_COST_MAX => Ok(PasswordHash::Bcrypt(text.into())),
                cost => {
                    Err(format!("the bcrypt cost must be from 4 to {BCRYPT_COST_MAX}, not {cost}"))
                }
            };
        }
        if text.starts_with("$5$") || text.starts_with("$6$") {
            check_sha_crypt(text)?;
            return Ok(PasswordHash::ShaCrypt(text.into()));
        }
        Err(if text.starts_with("$apr1$") || text.starts_with("$1$") {
            "MD5 is too weak"
        } else if text.starts_with("{SHA}") {
            "SHA-1 without salt is too weak"
        } else if text.starts_with('$') {
            "this kind of hash is not supported"
        } else {
            "the password is either not hashed, or hashed with crypt, which is too weak"
        }
        .to_owned())
    }
}

/// Checks the form of `$6$rounds=5000$SALT$HASH`, where the rounds may be left out.
fn check_sha_crypt(text: &str) -> Result<(), String> {
    let malformed = || "the SHA-crypt hash is malformed".to_owned();
    let (kind, rest) = text.split_at(3);
    let (rounds, rest) = match rest.strip_prefix("rounds=") {
        Some(rest) => rest.split_once('$').ok_or_else(malformed)?,
        None => ("5000", rest),
    };
    match rounds.parse::<u32>() {
        Ok(1000..=SHA_CRYPT_ROUNDS_MAX) if !rounds.starts_with(['+', '0']) => {}
        _ => return Err(format!("SHA-crypt's rounds must be from 1000 to {SHA_CRYPT_ROUNDS_MAX}")),
    }
    let (salt, hash) = rest.split_once('$').ok_or_else(malformed)?;
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '/';
    let hash_bytes = if kind == "$6$" { 86 } else { 43 };
    let is_right = (1..=16).contains(&salt.len())
        && salt.chars().all(is_base64)
        && hash.len() == hash_bytes
        && hash.chars().all(is_base64);
    if is_right { Ok(()) } else { Err(malformed()) }
}

impl Readable for BasicAuth {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        if text == "off" {
            return Ok(BasicAuth(None));
        }
        let path = Path::new(text);
        if !path.is_absolute() {
            let problem = setting.problem("is not an absolute path").secret();
            return Err(problem.hint(
                "users and passwords are in a file of their own; write its path, such as \
                 \"/etc/forebay/users\"",
            ));
        }
        let file = read_file(path).map_err(|(what, hint)| {
            let problem = ValueProblem::new(format!("`{}` cannot use {text}{what}", setting.name));
            problem.hint(hint)
        })?;
        Ok(BasicAuth(Some(Arc::new(file))))
    }
}

/// Reads a file with users.
///
/// # Errors
/// The part of a message after the name of the file, and a hint.
fn read_file(path: &Path) -> Result<UserFile, (String, String)> {
    let file = PrivateFile::read(path, "passwords", USER_FILE_BYTES_MAX).map_err(|error| {
        let hint = match error.kind() {
            // Unlike `htpasswd -c`, the command keeps a file that exists.
            ErrorKind::NotFound => {
                let path = shell_word(path);
                format!(
                    "if the path is right, `(umask 077; touch {path}; htpasswd -B {path} USER)` \
                     makes the file"
                )
            }
            ErrorKind::PermissionDenied => {
                "`chown USER FILE` gives the file to the user that runs the server".to_owned()
            }
            _ => "name a file with lines USER:HASH, as `htpasswd -B` writes them".to_owned(),
        };
        (format!(": {error}"), hint)
    })?;
    let (users, stand_in) = read_users(&file.text, path)?;
    let PrivateFile { fingerprint, warning, watched, .. } = file;
    Ok(UserFile { path: path.to_owned(), file: watched, users, fingerprint, stand_in, warning })
}

/// The hashes of all users, and that of the first user.
type Users = (HashMap<Box<str>, PasswordHash>, PasswordHash);

fn read_users(text: &str, path: &Path) -> Result<Users, (String, String)> {
    let (mut users, mut first) = (HashMap::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |what: String, hint: String| (format!(", line {number}: {what}"), hint);
        let form = || {
            let hint = "delete this line, or write what `htpasswd -n -B USER` prints".to_owned();
            at("this is not a user and a hash".into(), hint)
        };
        let (user, hash) = line.split_once(':').ok_or_else(form)?;
        let is_name = !user.chars().any(char::is_control) && user.trim_start() == user;
        if user.is_empty() || user.len() > USER_BYTES_MAX || !is_name {
            return Err(form());
        }
        // Some tools put a comment behind the hash.
        let hash = hash.split(':').next().unwrap_or_default();
        let hash = PasswordHash::read(hash).map_err(|why| {
            let hint =
                format!("type `htpasswd -B {} {}`", shell_word(path), shell_word(user.as_ref()));
            at(format!("the password of {user:?} cannot be used: {why}"), hint)
        })?;
        first.get_or_insert_with(|| hash.clone());
        if users.insert(Box::from(user), hash).is_some() {
            let hint = "delete one of the two lines".to_owned();
            return Err(at(format!("the user {user:?} is in an earlier line"), hint));
        }
    }
    let hint = || format!("`htpasswd -B {} USER` adds one", shell_word(path));
    let first = first.ok_or_else(|| (": the file has no users".to_owned(), hint()))?;
    Ok((users, first))
}

impl Readable for Realm {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
        match text.len() <= REALM_BYTES_MAX && text.bytes().all(is_plain) {
            true => Ok(Realm(text.into())),
            false => Err(setting.problem(format_args!("cannot be {text:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The password is `secret`; made with `openssl passwd` and crypt(3).
    const HASHES: [&str; 3] = [
        "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
        "$5$saltstring$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi.",
        "$6$saltstring$AIsRs/Ee56G/tC8MEHhvReZTfx8u3rXXMl6eYrjCG9ibix19DxoMBLogdTET5Ukw9Sf7eZTI\
         Tsuk0Ry5qulYz.",
    ];

    #[test]
    fn a_password_matches_its_hash_and_no_other() {
        for hash in HASHES {
            let hash = PasswordHash::read(hash).expect("it is valid");
            assert!(hash.is_of(b"secret"));
            for wrong in ["", "Secret", "secret ", "secre", "secret\0", &"x".repeat(200)] {
                assert!(!hash.is_of(wrong.as_bytes()), "{wrong:?}");
            }
        }
    }

    #[test]
    fn a_bad_line_is_refused_with_its_number_and_its_user() {
        let [good, ..] = HASHES;
        for (text, what, hint) in [
            ("", "has no users", "htpasswd -B /f USER"),
            ("# none\n\n", "has no users", "adds one"),
            ("bob", "line 1: this is not a user", "delete this line"),
            (":x", "line 1: this is not a user", "delete this line"),
            ("\nbob:secret", "line 2: the password of \"bob\"", "htpasswd -B /f bob"),
            ("bob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "SHA-1", "htpasswd -B /f bob"),
            ("bob:$apr1$x$y", "MD5", "htpasswd -B /f bob"),
            ("bob:$y$j9T$x$y", "not supported", "htpasswd -B /f bob"),
            ("bob:$2y$05$x", "malformed", "htpasswd -B /f bob"),
            ("bob:$6$salt$x", "malformed", "htpasswd -B /f bob"),
            ("bob:$6$rounds=9999999$salt$x", "rounds must be from 1000", "htpasswd"),
            (&format!("bob:{}", good.replace("$04$", "$15$")), "from 4 to 14, not 15", "htpasswd"),
            (&format!("bob:{good}\nbob:{good}"), "line 2: the user \"bob\" is in an", "delete"),
        ] {
            let Err((message, advice)) = read_users(text, Path::new("/f")) else {
                panic!("accepted: {text:?}");
            };
            assert!(message.contains(what), "{text:?}: {message}");
            assert!(advice.contains(hint), "{text:?}: {advice}");
        }
        let text = format!("# users\r\nann:{good}:a comment\r\n\r\nbob:{good}\r\n");
        let (users, _) = read_users(&text, Path::new("/f")).unwrap_or_else(|_| panic!("refused"));
        assert_eq!(users.len(), 2);
    }
}
