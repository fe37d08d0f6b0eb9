//! The terms of TLS to an origin: the name that its certificate must have, and the authorities that
//! may issue it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::ServerName;

use super::error::ProblemSpan;
use super::read::Reader;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::site::OriginAddress;
use super::table::SiteSettings;
use super::tls::{read_chain, unusable};

/// The terms of TLS to an origin. Two values are equal if they have the same name and authorities.
#[derive(Clone, Debug)]
pub struct OriginTls {
    /// The name that the certificate must have.
    pub name: String,
    /// The authorities that may issue the certificate.
    pub(crate) roots: Arc<RootCertStore>,
    /// A hash of the name and the authorities.
    pub(crate) id: u64,
}

/// The value of the setting `origin_tls_name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsName(Option<String>);

impl OriginTls {
    /// Returns terms without any authority, so that no certificate is valid.
    pub(super) fn unverified(name: &str) -> OriginTls {
        OriginTls { name: name.to_owned(), roots: Arc::new(RootCertStore::empty()), id: 0 }
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
    /// Adds the terms of TLS to an origin if its URL is `https`. Problems are reported at the
    /// position `at`, which is that of `origin_ca` or of the origin.
    pub(crate) fn origin_tls(
        &mut self,
        mut origin: OriginAddress,
        settings: &SiteSettings,
        at: ProblemSpan,
    ) -> Option<OriginAddress> {
        let Some(tls) = &mut origin.tls else { return Some(origin) };
        if let Some(name) = &settings.origin_tls_name.0 {
            tls.name.clone_from(name);
        }
        let mut hasher = DefaultHasher::new();
        tls.name.hash(&mut hasher);
        let files = &settings.origin_ca.0;
        let mut roots = RootCertStore::empty();
        if files.is_empty() {
            // The errors concern files of the system that cannot be read; the certificates in other
            // files are used.
            let found = rustls_native_certs::load_native_certs().certs;
            found.iter().for_each(|certificate| certificate.hash(&mut hasher));
            roots.add_parsable_certificates(found);
            if roots.is_empty() {
                let problem = ValueProblem::new("the system has no certificate authorities");
                let hint = "install the package ca-certificates, or set `origin_ca`";
                self.problem(at, problem.hint(hint));
                return None;
            }
        }
        for file in files {
            let path = self.resolved(file, &at);
            let (chain, _) = self.keep(at.clone(), read_chain(&path, &mut Vec::new()))?;
            for certificate in chain {
                certificate.hash(&mut hasher);
                let added = roots.add(certificate).map_err(|error| unusable(&path, error));
                self.keep(at.clone(), added)?;
            }
        }
        tls.roots = Arc::new(roots);
        tls.id = hasher.finish();
        Some(origin)
    }
}
