//! Sites whose certificate is ordered by ACME (RFC 8555): their settings, and the file in which the
//! certificate and its key are kept.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::RootCertStore;
use toml::de::DeTable;

use super::certificate_files::{IdentityFiles, IdentityNames, read_identity};
use super::error::ProblemSpan;
use super::read::{Reader, TopLevel, Value};
use super::read_sites::SiteDefaults;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::site::{HostPattern, Site};
use super::table::{ServerSettings, SiteSettings};
use super::tls::{CertificateSet, PlaceOf};
use crate::limits::{ACME_CONTACTS_MAX, ACME_FILE_NAME_BYTES_MAX, ACME_NAMES_MAX};

/// How a certificate authority checks that this server has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// By a request without TLS (RFC 8555 §8.3).
    Http,
    /// By a TLS handshake (RFC 8737).
    TlsAlpn,
}

/// The words of `acme_challenge`, in the order of [`AcmeChallenge`].
pub(crate) const ACME_CHALLENGE_WORDS: &[&str] = &["http-01", "tls-alpn-01"];

/// The URL of a certificate authority's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeDirectory(String);

/// Mail addresses for a certificate authority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcmeContacts(pub(crate) Vec<String>);

/// Directory for the account and the certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcmeDir {
    /// A directory of the user; see [`AcmeDir::resolve`].
    Auto,
    /// The directory at this path.
    Path(PathBuf),
}

/// The terms on which the server orders certificates.
#[derive(Clone, Debug)]
pub(crate) struct AcmeSettings {
    /// The URL of the authority's directory.
    pub(crate) directory: String,
    /// The authorities that may issue the certificate of the server at `directory`.
    pub(crate) roots: Arc<RootCertStore>,
    roots_id: u64,
    /// URLs of the mail addresses.
    pub(crate) contacts: Vec<String>,
    /// The directory for the account and the certificates that the authority issues.
    pub(crate) dir: PathBuf,
    /// The time after a failed order until the next one, in milliseconds.
    pub(crate) retry_ms: u64,
}

/// The certificate of one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcmeTerms {
    /// The name of the site.
    pub(crate) site: String,
    /// The names that the certificate is for.
    pub(crate) names: Vec<String>,
    pub(crate) challenge: AcmeChallenge,
    /// The file with the certificate and its key.
    pub(crate) file: PathBuf,
}

impl PartialEq for AcmeSettings {
    fn eq(&self, other: &AcmeSettings) -> bool {
        let AcmeSettings { directory, roots: _, roots_id, contacts, dir, retry_ms } = self;
        (directory, roots_id, contacts, dir, retry_ms)
            == (&other.directory, &other.roots_id, &other.contacts, &other.dir, &other.retry_ms)
    }
}

impl AcmeChallenge {
    /// Returns the word of the setting, which is the type of the challenge.
    pub(crate) fn word(self) -> &'static str {
        ACME_CHALLENGE_WORDS[self as usize]
    }
}

impl AcmeTerms {
    /// Returns the file with the number and the reason of failed orders.
    pub(crate) fn failures_file(&self) -> PathBuf {
        self.file.with_extension("failures")
    }
}

impl AcmeDir {
    /// Returns the path of the directory, given the values of `$STATE_DIRECTORY`, which systemd
    /// sets, `$XDG_STATE_HOME` and `$HOME`. `None` if none of them is an absolute path.
    fn resolve(&self, [state, xdg, home]: [Option<PathBuf>; 3]) -> Option<PathBuf> {
        let absolute = |path: Option<PathBuf>| path.filter(|path| path.is_absolute());
        match self {
            AcmeDir::Path(path) => Some(path.clone()),
            AcmeDir::Auto => absolute(state)
                .or_else(|| absolute(xdg).map(|path| path.join("forebay")))
                .or_else(|| absolute(home).map(|path| path.join(".local/state/forebay")))
                .map(|path| path.join("acme")),
        }
    }
}

impl Readable for AcmeChallenge {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        Ok(match setting.choice(raw)? {
            0 => AcmeChallenge::Http,
            _ => AcmeChallenge::TlsAlpn,
        })
    }
}

impl Readable for AcmeDirectory {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        let url = text.parse::<http::Uri>().ok();
        let is_good = url.is_some_and(|url| {
            url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty())
        });
        match is_good && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(AcmeDirectory(text.to_owned())),
            false => Err(setting.problem(format_args!("cannot be {text:?}")).hint(
                "write the whole URL, such as \
                 \"https://acme-v02.api.letsencrypt.org/directory\"",
            )),
        }
    }
}

impl Readable for AcmeContacts {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > ACME_CONTACTS_MAX {
            let problem = format_args!("has more than {ACME_CONTACTS_MAX} addresses");
            return Err(setting.problem(problem));
        }
        let is_address = |text: &str| {
            let parts = text
                .split_once('@')
                .filter(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'));
            parts.is_some() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
        };
        let addresses = texts.into_iter().map(|text| {
            let address = text.strip_prefix("mailto:").unwrap_or(text);
            match is_address(address) {
                true => Ok(address.to_owned()),
                false => Err(setting
                    .problem(format_args!("cannot contain {text:?}"))
                    .hint("write a mail address, such as \"ops@example.org\"")),
            }
        });
        addresses.collect::<Result<_, _>>().map(AcmeContacts)
    }
}

impl Readable for AcmeDir {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        match setting.text(raw)? {
            "auto" => Ok(AcmeDir::Auto),
            path => Ok(AcmeDir::Path(path.into())),
        }
    }
}

impl Reader<'_> {
    /// Whether the certificate of a site comes by ACME. Certificates that the site names replace
    /// `acme` at the top of the file.
    pub(super) fn uses_acme(table: &DeTable<'_>, settings: &SiteSettings) -> bool {
        settings.acme && (given_files(table).is_none() || table.contains_key("acme"))
    }

    /// Reports that a section has both certificates and `acme`.
    pub(super) fn refuse_two_sources(&mut self, at: ProblemSpan) {
        let problem = ValueProblem::new("`tls_cert` and `acme` are in the same section");
        let hint = "a site has one kind of certificate, so leave one of them out";
        self.problem(at, problem.hint(hint));
        self.has_bad_certificate = true;
    }

    /// Returns the certificate that is ordered for a site: the one that the file in `acme_dir` has,
    /// if there is one.
    pub(super) fn acme_certificates(
        &mut self,
        table: &DeTable<'_>,
        (name, names): (&Option<String>, &Option<Vec<HostPattern>>),
        (settings, at): (&SiteSettings, PlaceOf<'_>),
        defaults: SiteDefaults<'_>,
    ) -> Option<Arc<CertificateSet>> {
        if let Some(files) = given_files(table) {
            self.refuse_two_sources(ProblemSpan::Span(files.span()));
            return None;
        }
        let names = self.certificate_names(table, names.as_deref()?)?;
        let place = table.get("acme").map(|value| ProblemSpan::Span(value.span()));
        let place = place.or_else(|| defaults.places.get("acme").cloned());
        let place = place.unwrap_or(ProblemSpan::File);
        self.acme_at.get_or_insert(place.clone());
        let dir = self.acme_dir(defaults.server, defaults.places.get("acme_dir"), place)?;
        let site = name.clone()?;
        let file = dir.join(file_name(&site) + ".pem");
        let acme = AcmeTerms { site, names, challenge: settings.acme_challenge, file };
        let set = CertificateSet::of_acme(acme);
        Some(Arc::new(self.with_client_auth(set, settings, at)))
    }

    /// Returns the names for a certificate. Reports names that no challenge can prove.
    fn certificate_names(
        &mut self,
        table: &DeTable<'_>,
        names: &[HostPattern],
    ) -> Option<Vec<String>> {
        let array = table.get("names")?;
        let elements = array.get_ref().as_array()?;
        let span_of = |name: &HostPattern| {
            let is_name = |text: &str| text.eq_ignore_ascii_case(&name.to_string());
            let element = elements.iter().find(|one| one.get_ref().as_str().is_some_and(is_name));
            ProblemSpan::Span(element.map_or(array.span(), |element| element.span()))
        };
        let mut hosts = Vec::new();
        for name in names {
            let (text, hint) = match name {
                HostPattern::Exact(host) if is_address(host) => (
                    format!("`acme` cannot order a certificate for the address {host}"),
                    "clients name no address in a TLS handshake; use `tls_cert`",
                ),
                HostPattern::Exact(host) => {
                    hosts.push(host.clone());
                    continue;
                }
                HostPattern::Below(_) | HostPattern::Any => (
                    format!("`acme` cannot order a certificate for `{name}`"),
                    "the challenges http-01 and tls-alpn-01 prove single names: write each of \
                     them, or use `tls_cert` with a certificate from another ACME client",
                ),
            };
            self.problem(span_of(name), ValueProblem::new(text).hint(hint));
            self.has_bad_certificate = true;
        }
        if let Some(name) = names.get(ACME_NAMES_MAX) {
            let text = format!("`acme` orders certificates for at most {ACME_NAMES_MAX} names");
            let hint = "divide the names between several [[site]]";
            self.problem(span_of(name), ValueProblem::new(text).hint(hint));
            self.has_bad_certificate = true;
            return None;
        }
        (hosts.len() == names.len()).then_some(hosts)
    }

    /// Returns the directory for the certificates of the configured authority.
    fn acme_dir(
        &mut self,
        server: &ServerSettings,
        dir_at: Option<&ProblemSpan>,
        place: ProblemSpan,
    ) -> Option<PathBuf> {
        let variables = ["STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"];
        let Some(dir) = server.acme_dir.resolve(variables.map(variable)) else {
            let problem = ValueProblem::new("there is no directory for the certificates of `acme`")
                .hint("set `acme_dir`, because the environment has no HOME");
            self.problem_once(place, problem);
            self.has_bad_certificate = true;
            return None;
        };
        let dir = self.resolved(&dir, dir_at.unwrap_or(&ProblemSpan::File));
        Some(dir.join(authority_name(&server.acme_directory.0)))
    }

    /// Returns the terms on which certificates are ordered, if a site has `acme`. Reports settings
    /// of the server without which no certificate can be ordered.
    pub(super) fn acme_settings(
        &mut self,
        top: &TopLevel,
        sites: &[Site],
    ) -> Option<Arc<AcmeSettings>> {
        let terms = sites.iter().find_map(|site| site.certificates.as_ref()?.acme.as_ref())?;
        let place = |name: &str| top.places.get(name).cloned();
        let at = self.acme_at.clone().unwrap_or(ProblemSpan::File);
        if top.server.listen_tls.is_empty() && !self.has_bad_listen {
            let problem = ValueProblem::new("`acme` needs `listen_tls`");
            let hint = "write listen_tls = [\"0.0.0.0:443\", \"[::]:443\"], or leave out `acme`";
            self.problem(at.clone(), problem.hint(hint));
        }
        if !top.server.acme_terms_agreed {
            let problem = ValueProblem::new("`acme` needs `acme_terms_agreed`");
            let hint = "read the terms of service of the certificate authority, then write \
                        acme_terms_agreed = true";
            self.problem(place("acme_terms_agreed").unwrap_or(at.clone()), problem.hint(hint));
        }
        let ca_at = place("acme_ca").unwrap_or(at);
        let files = top.server.acme_ca.0.iter().map(|file| self.resolved(file, &ca_at)).collect();
        let (roots, roots_id) = match self.authorities.of(files) {
            Ok((roots, id)) => (Arc::clone(roots), id),
            Err(problem) => {
                let problem = problem.clone();
                self.problem(ca_at, problem);
                return None;
            }
        };
        let contacts = top.server.acme_contact.0.iter();
        Some(Arc::new(AcmeSettings {
            directory: top.server.acme_directory.0.clone(),
            roots,
            roots_id,
            contacts: contacts.map(|address| format!("mailto:{address}")).collect(),
            dir: terms.file.parent().map(Path::to_owned).unwrap_or_default(),
            retry_ms: u64::from(top.server.acme_retry_ms),
        }))
    }
}

impl CertificateSet {
    /// Returns the certificate of a site, as far as its file has it. A file that cannot be used
    /// causes a warning only: the next order replaces it.
    fn of_acme(acme: AcmeTerms) -> CertificateSet {
        let mut hasher = std::hash::DefaultHasher::new();
        acme.file.hash(&mut hasher);
        let mut set = CertificateSet { id: hasher.finish().max(1), ..CertificateSet::default() };
        let path = acme.file.clone();
        let names = IdentityNames { cert: path.clone(), key: path.clone(), ocsp: None };
        let read = match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Vec::new()),
            _ => read_identity(names, &mut set.warnings),
        };
        match read {
            Ok((identity, files)) => {
                set.identities.push(identity);
                set.files.push(files);
            }
            Err(problems) => {
                set.warnings.extend(problems.into_iter().map(|(problem, _)| problem.message));
                set.files.push(IdentityFiles::unread(path));
            }
        }
        set.acme = Some(acme);
        set
    }
}

/// Returns the value of an environment variable with a path. systemd puts several paths into one
/// variable, with colons between them.
fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var(name).ok()?;
    Some(value.split(':').next().unwrap_or_default().into())
}

/// Returns the value of `tls_cert` or `tls_key` in a section.
fn given_files<'t, 'i>(table: &'t DeTable<'i>) -> Option<&'t Value<'i>> {
    ["tls_cert", "tls_key"].into_iter().find_map(|name| table.get(name))
}

fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

/// Returns the name of the directory for the certificates of an authority, so that those of a test
/// authority are never used in place of others.
fn authority_name(url: &str) -> String {
    file_name(url.trim_start_matches("https://").trim_end_matches('/'))
}

/// Returns a name for a file, which differs for each text.
fn file_name(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'.' if name.is_empty() => name.push_str("%2E"),
            b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                name.push(byte.into());
            }
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    if name.len() > ACME_FILE_NAME_BYTES_MAX {
        let hash = digest(&SHA256, text.as_bytes());
        name = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_where_the_system_keeps_state() {
        let cases = [
            (["/var/lib/forebay", "/x", "/home/a"], Some("/var/lib/forebay/acme")),
            (["", "/x", "/home/a"], Some("/x/forebay/acme")),
            (["relative", "relative", "/home/a"], Some("/home/a/.local/state/forebay/acme")),
            (["", "", ""], None),
        ];
        for (variables, expected) in cases {
            let found = AcmeDir::Auto.resolve(variables.map(|value| Some(value.into())));
            assert_eq!(found.as_deref(), expected.map(Path::new), "{variables:?}");
        }
        let path = AcmeDir::Path("/srv/acme".into());
        assert_eq!(path.resolve([None, None, None]).as_deref(), Some(Path::new("/srv/acme")));
    }

    #[test]
    fn every_site_has_a_file_of_its_own_in_the_directory() {
        let cases = [
            ("shop", "shop"),
            ("https://127.0.0.1:3000", "https%3A%2F%2F127.0.0.1%3A3000"),
            ("../x", "%2E.%2Fx"),
            ("a%2Fb", "a%252Fb"),
            (".", "%2E"),
        ];
        for (site, expected) in cases {
            assert_eq!(file_name(site), expected, "{site}");
        }
        let long = |end| format!("{}{end}", "/".repeat(200));
        assert_eq!(file_name(&long("a")).len(), 64);
        assert_ne!(file_name(&long("a")), file_name(&long("b")));
    }
}
