//! The certificate that this server shows to origins, and the public keys that origins may have.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::super::certificate_files::{IdentityFile, IdentityNames, read_identity};
use super::super::read::Reader;
use super::super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::super::table::SiteSettings;
use super::super::tls::{Identity, PlaceOf};
use super::super::watched::WatchedFile;
use crate::limits::ORIGIN_PINS_MAX;

/// The value of the settings `origin_tls_cert` and `origin_tls_key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginFile(Option<PathBuf>);

/// The value of the setting `origin_tls_pin`: SHA-256 hashes of public keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyPins(Arc<[[u8; 32]]>);

/// A certificate with its key that this server shows to origins.
#[derive(Debug)]
pub(crate) struct OriginIdentity {
    pub(crate) identity: Identity,
    /// A hash of the certificate and the key.
    id: u64,
    /// The files of the certificate and the key.
    files: Vec<WatchedFile>,
    /// Sentences about files that can be used but need attention.
    warnings: Vec<String>,
}

/// The certificates that have been read for a configuration. Many routes name the same files.
#[derive(Default)]
pub(in crate::config) struct IdentityCache(HashMap<IdentityNames, ReadIdentity>);

/// A certificate, or the problems with it, each with the file that it concerns.
type ReadIdentity = Result<Arc<OriginIdentity>, Vec<(ValueProblem, IdentityFile)>>;

/// The beginning of a pin (RFC 7469 §2.1.1 writes it as the name of a directive).
const PIN_ALGORITHM: &str = "sha256/";

impl Readable for OriginFile {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        match setting.text(raw)? {
            "off" => Ok(OriginFile(None)),
            path => Ok(OriginFile(Some(path.into()))),
        }
    }
}

impl Readable for KeyPins {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        // A single pin may be written without brackets.
        let texts = match raw {
            RawValue::Text(text) if !text.is_empty() => vec![text],
            _ => setting.texts(raw)?,
        };
        if texts.len() > ORIGIN_PINS_MAX {
            return Err(setting.problem(format_args!("has more than {ORIGIN_PINS_MAX} keys")));
        }
        let pins = texts.into_iter().map(|text| read_pin(text, setting));
        Ok(KeyPins(pins.collect::<Result<_, _>>()?))
    }
}

fn read_pin(text: &str, setting: &Setting) -> Result<[u8; 32], ValueProblem> {
    let encoded = text.strip_prefix(PIN_ALGORITHM);
    let bytes = encoded.and_then(|encoded| BASE64_STANDARD.decode(encoded).ok());
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        let problem = setting.problem(format_args!("cannot contain {text:?}"));
        problem.hint(
            "write sha256/ and 44 characters of base64: `openssl x509 -in CERT -noout -pubkey | \
             openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64` prints them",
        )
    })
}

impl KeyPins {
    /// Returns the hashes of the keys.
    pub(crate) fn hashes(&self) -> &[[u8; 32]] {
        &self.0
    }
}

impl OriginIdentity {
    /// Returns a hash of the certificate and the key.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns sentences about files that can be used but need attention.
    pub(in crate::config) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn read(names: &IdentityNames) -> ReadIdentity {
        let mut warnings = Vec::new();
        let (identity, files) = read_identity(names.clone(), &mut warnings)?;
        let mut hasher = DefaultHasher::new();
        identity.chain.iter().for_each(|certificate| certificate.hash(&mut hasher));
        identity.key.secret_der().hash(&mut hasher);
        let (id, files) = (hasher.finish(), files.watched());
        Ok(Arc::new(OriginIdentity { identity, id, files, warnings }))
    }
}

impl IdentityCache {
    /// Returns the files that were read.
    pub(in crate::config) fn files(&self) -> impl Iterator<Item = &WatchedFile> {
        self.0.values().flatten().flat_map(|identity| &identity.files)
    }
}

impl Reader<'_> {
    /// Reads the certificate that this server shows to origins with these settings; `None` if there
    /// is none. `at` returns the positions of the settings.
    ///
    /// # Errors
    /// The certificate or its key cannot be used; this has been reported.
    pub(in crate::config) fn origin_identity(
        &mut self,
        settings: &SiteSettings,
        at: PlaceOf<'_>,
    ) -> Result<Option<Arc<OriginIdentity>>, ()> {
        let SiteSettings { origin_tls_cert, origin_tls_key, .. } = settings;
        let (cert_at, key_at) = (at("origin_tls_cert"), at("origin_tls_key"));
        let ((cert, cert_at), (key, key_at)) =
            match ((&origin_tls_cert.0, cert_at), (&origin_tls_key.0, key_at)) {
                ((Some(cert), Some(cert_at)), (Some(key), Some(key_at))) => {
                    ((cert, cert_at), (key, key_at))
                }
                ((Some(_), Some(at)), _) => {
                    let problem = ValueProblem::new("`origin_tls_cert` needs `origin_tls_key`");
                    self.problem_once(at, problem.hint("name the file with the private key"));
                    return Err(());
                }
                (_, (Some(_), Some(at))) => {
                    let problem = ValueProblem::new("`origin_tls_key` needs `origin_tls_cert`");
                    self.problem_once(at, problem.hint("name the file with the certificate"));
                    return Err(());
                }
                _ => return Ok(None),
            };
        let names = IdentityNames {
            cert: self.resolved(cert, &cert_at),
            key: self.resolved(key, &key_at),
            ocsp: None,
        };
        let read = self.origin_identities.0.entry(names);
        match read.or_insert_with_key(OriginIdentity::read).clone() {
            Ok(identity) => Ok(Some(identity)),
            Err(problems) => {
                for (problem, file) in problems {
                    let at = if file == IdentityFile::Key { &key_at } else { &cert_at };
                    self.problem_once(at.clone(), problem);
                }
                Err(())
            }
        }
    }
}
