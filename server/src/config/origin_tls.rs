//! The terms of TLS to an origin: the name that its certificate must have, the authorities that may
//! issue it, the public keys that it may have, and the certificate that this server shows.

pub(super) mod identity;

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::ServerName;

use super::error::ProblemSpan;
use super::origin_address::OriginAddress;
use super::origins::OriginGroup;
use super::read::Reader;
use super::route::Route;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::table::SiteSettings;
use super::tls::{PlaceOf, read_chain, unusable};
use super::watched::WatchedFile;
pub use identity::KeyPins;
use identity::{OriginFile, OriginIdentity};

/// The terms of TLS to an origin. Two values are equal if all of their terms are the same.
#[derive(Clone, Debug)]
pub struct OriginTls {
    /// The name that the certificate must have.
    pub name: String,
    /// The authorities that may issue the certificate.
    pub(crate) roots: Arc<RootCertStore>,
    /// The public keys that the certificate may have; any if there are none.
    pub(crate) pins: KeyPins,
    /// The certificate that this server shows if the origin asks for one.
    pub(crate) identity: Option<Arc<OriginIdentity>>,
    /// A hash of the terms.
    pub(crate) id: u64,
}

/// The authorities that have been read for a configuration, by their files. Many routes name the
/// same files.
#[derive(Default)]
pub(super) struct AuthorityCache(HashMap<Vec<PathBuf>, Result<Authorities, ValueProblem>>);

/// Authorities that were read.
struct Authorities {
    roots: Arc<RootCertStore>,
    /// A hash of the authorities.
    id: u64,
    /// The files, unless the authorities are those of the system.
    files: Vec<WatchedFile>,
}

/// The value of the setting `origin_tls_name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsName(Option<String>);

/// The content of a file of `origin_ca`, for an error.
const AUTHORITY: &str = "the certificate of the authority that issued the origin's certificate";

impl OriginTls {
    /// Returns terms without any authority, so that no certificate is valid.
    pub(super) fn unverified(name: &str) -> OriginTls {
        OriginTls {
            name: name.to_owned(),
            roots: Arc::new(RootCertStore::empty()),
            pins: KeyPins::default(),
            identity: None,
            id: 0,
        }
    }
}

impl PartialEq for OriginTls {
    fn eq(&self, other: &OriginTls) -> bool {
        self.id == other.id
    }
}

impl Eq for OriginTls {}

impl Hash for OriginTls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl Readable for TlsName {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        match setting.text(raw)? {
            "origin" => Ok(TlsName(None)),
            name if ServerName::try_from(name).is_ok() => Ok(TlsName(Some(name.to_owned()))),
            name => Err(setting.problem(format_args!("cannot be {name:?}"))),
        }
    }
}

impl Reader<'_> {
    /// Reports settings about TLS beside origins without TLS: an operator would believe that these
    /// are authenticated. `routes` inherit the settings. `own_at` returns the positions of the
    /// settings in the section of the origins.
    pub(crate) fn check_origin_terms(
        &mut self,
        (origins, routes): (&OriginGroup, &[Route]),
        settings: &SiteSettings,
        own_at: PlaceOf<'_>,
    ) {
        let have_tls = origins.members.iter().all(|member| member.address.tls.is_some());
        if have_tls || routes.iter().any(Route::has_own_tls) {
            return;
        }
        for (name, is_set) in [
            ("origin_tls_pin", !settings.origin_tls_pin.hashes().is_empty()),
            ("origin_tls_cert", settings.origin_tls_cert != OriginFile::default()),
            ("origin_tls_key", settings.origin_tls_key != OriginFile::default()),
        ] {
            if let Some(at) = own_at(name).filter(|_| is_set) {
                let problem = ValueProblem::new(format!("`{name}` needs an origin with TLS"));
                let hint =
                    "write https:// in `origin`: a connection without TLS has no certificates";
                self.problem(at, problem.hint(hint));
                return;
            }
        }
    }

    /// Adds the terms of TLS to an origin if its URL is `https`. `at` returns the positions of the
    /// settings.
    pub(crate) fn origin_tls(
        &mut self,
        mut origin: OriginAddress,
        settings: &SiteSettings,
        at: PlaceOf<'_>,
    ) -> Option<OriginAddress> {
        let Some(tls) = &mut origin.tls else { return Some(origin) };
        let identity = self.origin_identity(settings, at);
        if let Some(name) = &settings.origin_tls_name.0 {
            tls.name.clone_from(name);
        }
        let at = at("origin_ca").or_else(|| at("origin")).unwrap_or(ProblemSpan::File);
        let files = settings.origin_ca.0.iter().map(|file| self.resolved(file, &at)).collect();
        tls.pins = settings.origin_tls_pin.clone();
        tls.identity = identity.ok()?;
        match self.authorities.of(files) {
            Ok((roots, id)) => {
                let mut hasher = DefaultHasher::new();
                (&tls.name, id, &tls.pins).hash(&mut hasher);
                tls.identity.as_deref().map(OriginIdentity::id).hash(&mut hasher);
                tls.roots = Arc::clone(roots);
                tls.id = hasher.finish();
                Some(origin)
            }
            Err(problem) => {
                let problem = problem.clone();
                self.problem_once(at, problem);
                None
            }
        }
    }
}

impl AuthorityCache {
    /// Returns the authorities of these files, or of the system if there are no files, and their
    /// hash.
    pub(super) fn of(
        &mut self,
        files: Vec<PathBuf>,
    ) -> Result<(&Arc<RootCertStore>, u64), &ValueProblem> {
        let read = self.0.entry(files).or_insert_with_key(|files| read_authorities(files));
        read.as_ref().map(|Authorities { roots, id, .. }| (roots, *id))
    }

    /// Returns the files that were read.
    pub(super) fn files(&self) -> impl Iterator<Item = &WatchedFile> {
        self.0.values().flatten().flat_map(|read| &read.files)
    }
}

/// Reads the authorities of these files, or of the system if there are no files.
fn read_authorities(files: &[PathBuf]) -> Result<Authorities, ValueProblem> {
    let mut hasher = DefaultHasher::new();
    let mut roots = RootCertStore::empty();
    if files.is_empty() {
        // The errors concern files of the system that cannot be read; the certificates in other
        // files are used.
        let found = rustls_native_certs::load_native_certs().certs;
        found.iter().for_each(|certificate| certificate.hash(&mut hasher));
        roots.add_parsable_certificates(found);
        if roots.is_empty() {
            return Err(ValueProblem::new("the system has no certificate authorities").hint(
                "install the package ca-certificates, or set `origin_ca`; for `acme`, \
                     set `acme_ca`",
            ));
        }
    }
    let mut read = Vec::new();
    for path in files {
        let (chain, stamp) = read_chain(path, AUTHORITY, &mut Vec::new())?;
        read.push(WatchedFile::new(path, stamp));
        for certificate in chain {
            certificate.hash(&mut hasher);
            roots.add(certificate).map_err(|error| unusable(path, error))?;
        }
    }
    Ok(Authorities { roots: Arc::new(roots), id: hasher.finish(), files: read })
}
