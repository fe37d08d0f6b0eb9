//! Configuration: read once, checked as a whole, and never changed.
//!
//! Every setting is in one table (`table.rs`). A [`Config`] comes from a file or an origin's URL,
//! and flags override it. It is always valid; all errors are reported together, with positions.
//!
//! The innermost value of a route setting wins. The order is `[[site.route]]`, `[[site]]`, the top
//! of the file (or a flag, which stands for the top of the file), the default.

mod access_logs;
mod acme;
mod certificate_files;
mod certificate_name;
mod contradictions;
mod difference;
mod docs;
mod error;
mod error_pages;
mod file;
mod files;
mod health;
mod hsts;
mod includes;
mod listen;
pub(crate) mod lists;
mod origin_address;
mod origin_http2;
mod origin_tls;
mod origins;
mod outliers;
mod proxy_protocol;
mod read;
mod read_sites;
mod references;
pub(crate) mod route;
mod route_origins;
mod rules;
mod service;
mod setting;
mod site;
mod site_listen;
mod sites;
mod source;
mod store;
mod suggest;
mod syntax;
mod table;
mod tls;
pub(crate) mod units;
pub(crate) mod value;
mod watched;
mod written;
mod zone;

pub use crate::acme::CertificateStatus;
pub(crate) use access_logs::LogNumber;
pub use access_logs::{AccessLogs, LogDestination};
pub(crate) use acme::{AcmeChallenge, AcmeSettings, AcmeTerms};
pub(crate) use certificate_files::FileStamp;
pub(crate) use certificate_name::is_for_name;
pub use difference::{ConfigChange, RESTART_HINT, change_text};
pub use docs::{Flag, defaults_toml, flags, settings_markdown};
pub(crate) use error::mask_users;
pub use error::{ConfigError, ConfigErrors, SourceSpan};
pub(crate) use error_pages::ErrorPage;
pub use file::read_file;
pub use files::{FallbackFile, FileTypes, FilesDirectory, IndexNames};
pub use health::{HealthCheck, HealthPath};
pub(crate) use listen::ListenerNumber;
pub use lists::{AddressList, TagFields};
pub(crate) use lists::{ContentCoding, ForwardedField, LimitScope, REAL_IP, RateLimit};
pub use origin_address::{OriginAddress, OriginHttp2};
pub use origin_tls::{KeyPins, OriginTls};
pub(crate) use origins::OriginRank;
pub use origins::{Balance, OriginGroup, OriginHost, OriginMember};
pub use outliers::OutlierLimits;
pub use proxy_protocol::ProxyProtocol;
pub use read::{ConfigSource, FlagValue};
pub use route::Route;
pub use rules::RuleSet;
pub use service::OriginService;
pub use setting::{Setting, SettingKind, SettingScope};
pub use site::{HostPattern, Site};
pub use sites::{SiteOrigins, Sites};
pub use table::{RouteSettings, ServerSettings, SiteSettings, all as all_settings};
pub use tls::{CertificateSet, ClientAuth, Identity, TlsProfile, TrustId};
pub use value::{
    AccessLog, AccessLogFormat, AdminAddress, AmbiguousPath, CacheDir, LogLevel, OriginExcess,
    RuntimeDir, SetCookie,
};
pub(crate) use watched::{FileState, WatchedFiles};
pub use zone::Zone;

use std::sync::Arc;

use crate::rules::RuleCounters;

/// A complete, valid configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Settings that apply to the whole server.
    pub server: ServerSettings,
    /// The sites that the server serves.
    pub sites: Sites,
    /// The access logs of the server and of the sites.
    pub access_logs: AccessLogs,
    /// The certificates for sites that have none of their own, and for names that no site has.
    pub certificates: Option<Arc<CertificateSet>>,
    /// The terms on which certificates are ordered; `None` if no site has `acme`.
    pub(crate) acme: Option<Arc<AcmeSettings>>,
    written: Arc<written::WrittenValues>,
    /// The files from which the configuration was read.
    pub(crate) watched: WatchedFiles,
    /// Sets of header rules: the server's own, then one for each distinct list of files of routes.
    rule_sets: Vec<RuleSet>,
    /// Counters of the header rules. Each worker counts in its own copy of the configuration.
    pub(crate) rule_counters: RuleCounters,
}

#[cfg(test)]
mod tests;
