//! The certificate of `forebay try --tls`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use forebay_server::config::RuntimeDir;
use forebay_server::engine::runtime_dir;
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

/// A certificate for this machine, which signs itself, and its key. Both files are removed when
/// this value is dropped.
pub(super) struct TryCertificate {
    pub(super) cert: PathBuf,
    key: PathBuf,
}

/// The names of this machine.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

impl TryCertificate {
    /// Makes a certificate, and adds the flags with which the server uses it.
    ///
    /// # Errors
    /// The flags name a certificate, or the files cannot be written. The text is for the user.
    pub(super) fn add_to(flags: &mut Vec<(String, String)>) -> Result<TryCertificate, String> {
        let value_of = |name: &str| {
            let is_it = |(found, _): &&(String, String)| found.replace('-', "_") == name;
            flags.iter().find(is_it).map(|(_, value)| value.clone())
        };
        if value_of("tls_cert").is_some() || value_of("tls_key").is_some() {
            return Err(
                "--tls makes a certificate of its own: leave out --tls-cert and --tls-key, \
                        or use `forebay serve`"
                    .to_owned(),
            );
        }
        let dir = match value_of("runtime_dir") {
            Some(dir) if dir != "auto" => RuntimeDir::Path(dir.into()),
            _ => RuntimeDir::Auto,
        };
        let certificate = TryCertificate::make(&runtime_dir(&dir))?;
        if value_of("listen_tls").is_none() {
            flags.push(("listen-tls".to_owned(), "127.0.0.1:0".to_owned()));
        }
        flags.push(("tls-cert".to_owned(), certificate.cert.display().to_string()));
        flags.push(("tls-key".to_owned(), certificate.key.display().to_string()));
        Ok(certificate)
    }

    fn make(dir: &Path) -> Result<TryCertificate, String> {
        forebay_shm::create_private_dir(dir).map_err(|error| error.to_string())?;
        let failed = |error| format!("cannot make a certificate: {error}");
        let names = NAMES.map(str::to_owned).to_vec();
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, "forebay try");
        params.not_before = date_time_ymd(2020, 1, 1);
        let key = KeyPair::generate().map_err(failed)?;
        let signed = params.self_signed(&key).map_err(failed)?;
        let path = |ending| dir.join(format!("try-{}.{ending}", std::process::id()));
        let certificate = TryCertificate { cert: path("pem"), key: path("key") };
        write(&certificate.cert, &signed.pem())?;
        write(&certificate.key, &key.serialize_pem())?;
        Ok(certificate)
    }
}

impl Drop for TryCertificate {
    fn drop(&mut self) {
        for path in [&self.cert, &self.key] {
            // The directory may be gone.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Writes a file that only this user can read.
fn write(path: &Path, text: &str) -> Result<(), String> {
    // A killed process with the same number may have left the file.
    let _ = std::fs::remove_file(path);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}
