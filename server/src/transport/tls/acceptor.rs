//! One worker's TLS settings: certificates by name, versions, ticket keys.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use ::aws_lc_rs::rand;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{SignatureAlgorithm, SupportedProtocolVersion};

use super::client_certificate::{BoundedVerifier, ClientCertificate};
use super::session::{ALPN_ACME, ALPN_HTTP2};
use super::tickets::{TicketKeys, TicketScope, Tickets};
use crate::acme::Challenges;
use crate::config::{
    CertificateSet, ClientAuth, Config, HostPattern, Identity, ListenerNumber, Site, TlsProfile,
};

/// Everything that a worker needs to accept TLS connections. An acceptor is immutable: a reload or
/// a rotation of the ticket keys creates a new one.
#[derive(Debug)]
pub(crate) struct TlsAcceptor {
    /// A random number, which the copies for all workers share.
    number: u64,
    /// The settings for listeners whose address no site names.
    general: ListenerConfigs,
    /// Those of each other listener.
    of_listeners: Vec<(ListenerNumber, ListenerConfigs)>,
    table: Arc<CertificateTable>,
    pub(super) handshake_ms_max: u32,
    pub(super) handshakes_max: u32,
}

/// The TLS library's settings for a listener.
#[derive(Debug)]
struct ListenerConfigs {
    /// For names whose clients are not asked for a certificate.
    without_auth: Arc<ServerConfig>,
    /// For those names that have each element of [`CertificateTable::auths`].
    of_auths: Vec<Arc<ServerConfig>>,
}

/// The certificates of the sites, by the names that they serve.
#[derive(Default)]
pub(super) struct CertificateTable {
    sets: Vec<KeySet>,
    /// The distinct terms for the certificates of clients.
    auths: Vec<ClientAuth>,
    /// The sites without `listen`.
    general: NameIndex,
    /// The sites that name the address of a listener.
    own: Vec<(ListenerNumber, NameIndex)>,
    /// The index of the set that serves all other names, and clients that send no name.
    other: Option<usize>,
    /// The certificates that answer challenges of certificate authorities, by the name.
    challenges: HashMap<Box<str>, Arc<CertifiedKey>>,
}

/// Indices of certificate sets, by the names of the sites.
#[derive(Default)]
struct NameIndex {
    exact: HashMap<Box<str>, usize>,
    below: HashMap<Box<str>, usize>,
    /// The set of the site with `*`, which also serves clients that send no name.
    any: Option<usize>,
}

/// Chooses the certificate for a client of one listener.
#[derive(Debug)]
struct ListenerResolver {
    table: Arc<CertificateTable>,
    listener: Option<ListenerNumber>,
}

/// The certificates of one set, which differ in their signature algorithms. There are none while
/// the first certificate of a site is being ordered: connections for its names are refused.
struct KeySet {
    id: u64,
    keys: Vec<Arc<CertifiedKey>>,
    /// The index of the terms for the certificates of clients; `None` if none are asked for.
    auth: Option<usize>,
}

/// Creates TLS settings; each worker gets a copy ([`TlsAcceptor::for_worker`]). Returns
/// `None` if the server has no listener for TLS.
///
/// # Errors
/// The TLS library refuses the settings. The error is a text that says why.
pub(crate) fn acceptor(
    config: &Config,
    tickets: &TicketKeys,
    challenges: &Challenges,
) -> Result<Option<TlsAcceptor>, String> {
    if config.server.listen_tls.is_empty() {
        return Ok(None);
    }
    let table =
        Arc::new(CertificateTable::new(config, challenges, &aws_lc_rs::default_provider())?);
    let general = ListenerConfigs::new(config, tickets, (&table, None))?;
    let mut of_listeners = Vec::new();
    for (listener, address, _) in config.server.listeners() {
        if table.own.iter().any(|(number, _)| *number == listener) {
            let at = Some((listener, address));
            of_listeners.push((listener, ListenerConfigs::new(config, tickets, (&table, at))?));
        }
    }
    let mut number = [0; 8];
    rand::fill(&mut number).map_err(|_| "the system has no random bytes")?;
    Ok(Some(TlsAcceptor {
        number: u64::from_le_bytes(number),
        general,
        of_listeners,
        table,
        handshake_ms_max: config.server.tls_handshake_ms_max,
        handshakes_max: config.server.tls_handshakes_max,
    }))
}

impl ListenerConfigs {
    /// Creates the settings of a listener that sites name, or of all others.
    fn new(
        config: &Config,
        tickets: &TicketKeys,
        (table, at): (&Arc<CertificateTable>, Option<(ListenerNumber, SocketAddr)>),
    ) -> Result<ListenerConfigs, String> {
        let address = at.map(|(_, address)| address.to_string()).unwrap_or_default();
        let create = |auth: Option<&ClientAuth>| {
            let mut settings = server_config(config, auth, (table, at.map(|at| at.0)))?;
            // A client that resumes its session is not asked for its certificate again, so a
            // ticket is bound to the terms by which the certificate was verified.
            let trust = auth.map(|auth| auth.trust);
            let tickets = Tickets::new(tickets, TicketScope { address: address.clone(), trust });
            settings.ticketer = Arc::new(tickets.ok_or("the ticket keys cannot be used")?);
            Ok::<_, String>(Arc::new(settings))
        };
        let of_auths: Result<_, _> = table.auths.iter().map(|auth| create(Some(auth))).collect();
        Ok(ListenerConfigs { without_auth: create(None)?, of_auths: of_auths? })
    }

    /// Returns a copy for another worker.
    fn for_worker(&self) -> ListenerConfigs {
        let own = |settings: &Arc<ServerConfig>| Arc::new(ServerConfig::clone(settings));
        ListenerConfigs {
            without_auth: own(&self.without_auth),
            of_auths: self.of_auths.iter().map(own).collect(),
        }
    }
}

/// Creates the TLS library's settings, except for the tickets.
fn server_config(
    config: &Config,
    auth: Option<&ClientAuth>,
    (table, listener): (&Arc<CertificateTable>, Option<ListenerNumber>),
) -> Result<ServerConfig, String> {
    let versions: &[&SupportedProtocolVersion] = match config.server.tls_profile {
        TlsProfile::Intermediate => &[&TLS13, &TLS12],
        TlsProfile::Modern => &[&TLS13],
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?;
    let builder = match auth {
        None => builder.with_no_client_auth(),
        Some(auth) => {
            let verifier = BoundedVerifier(Arc::clone(&auth.verifier));
            builder.with_client_cert_verifier(Arc::new(verifier))
        }
    };
    let mut settings = builder.with_cert_resolver(table.resolver(listener));
    settings.alpn_protocols = match config.server.tls_http2 {
        true => vec![ALPN_HTTP2.to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    if !table.challenges.is_empty() {
        settings.alpn_protocols.push(ALPN_ACME.to_vec());
    }
    // The session store of the library needs a mutex; tickets need no store.
    settings.session_storage = Arc::new(NoServerSessionStorage {});
    // A second ticket would cost every client 230 bytes, and a client with one connection needs
    // only one ticket.
    settings.send_tls13_tickets = 1;
    Ok(settings)
}

impl TlsAcceptor {
    /// Returns a copy for another worker. The copies share the certificates and keys, because
    /// parsing a key takes long. They do not share the rest, because every connection changes its
    /// reference count.
    pub(crate) fn for_worker(&self) -> TlsAcceptor {
        let of_listeners = self.of_listeners.iter();
        TlsAcceptor {
            number: self.number,
            general: self.general.for_worker(),
            of_listeners: of_listeners.map(|(at, all)| (*at, all.for_worker())).collect(),
            table: Arc::clone(&self.table),
            handshake_ms_max: self.handshake_ms_max,
            handshakes_max: self.handshakes_max,
        }
    }

    /// Whether clients of some names are asked for certificates, so that the settings depend on
    /// the name that a client asks for.
    pub(super) fn depends_on_name(&self) -> bool {
        !self.table.auths.is_empty()
    }

    /// Returns the TLS library's settings for clients of a listener that ask for a name.
    pub(super) fn config_for(
        &self,
        listener: ListenerNumber,
        name: Option<&str>,
    ) -> Arc<ServerConfig> {
        let configs = self.configs_at(listener);
        let auth = match self.depends_on_name() {
            true => self.table.lookup(Some(listener), name).and_then(|set| set.auth),
            false => None,
        };
        let of_auth = auth.and_then(|auth| configs.of_auths.get(auth));
        Arc::clone(of_auth.unwrap_or(&configs.without_auth))
    }

    /// Returns the TLS library's settings for the client of a listener that has sent `hello`.
    pub(super) fn config_for_hello(
        &self,
        listener: ListenerNumber,
        hello: &ClientHello<'_>,
    ) -> Arc<ServerConfig> {
        // An authority that checks a challenge shows no certificate.
        match !self.table.challenges.is_empty() && is_challenge(hello) {
            true => Arc::clone(&self.configs_at(listener).without_auth),
            false => self.config_for(listener, hello.server_name()),
        }
    }

    fn configs_at(&self, listener: ListenerNumber) -> &ListenerConfigs {
        let own = self.of_listeners.iter().find(|(number, _)| *number == listener);
        own.map_or(&self.general, |(_, configs)| configs)
    }

    /// Returns the identity of the certificate set for a name at a listener; 0 if there is none.
    pub(super) fn set_of(&self, listener: ListenerNumber, name: Option<&str>) -> u64 {
        self.table.lookup(Some(listener), name).map_or(0, |set| set.id)
    }

    /// Returns the terms for the certificates of clients of a certificate set.
    fn auth_of(&self, set: u64) -> Option<&ClientAuth> {
        let set = self.table.sets.iter().find(|known| known.id == set)?;
        self.table.auths.get(set.auth?)
    }

    /// Returns a certificate that a client has shown in a handshake for the names of a certificate
    /// set; `None` if it has expired since it was verified, which an earlier handshake may have
    /// done.
    pub(super) fn client_certificate(
        &self,
        set: u64,
        chain: &[CertificateDer<'static>],
        now_s: u64,
    ) -> Option<ClientCertificate> {
        let client = ClientCertificate::new(chain, self.auth_of(set)?, self.number)?;
        self.accepts(set, &client, now_s).then_some(client)
    }

    /// Whether the certificate of a client is still valid for the names of a certificate set.
    pub(super) fn accepts(&self, set: u64, client: &ClientCertificate, now_s: u64) -> bool {
        client.is_valid(now_s, self.number, || self.auth_of(set))
    }
}

impl CertificateTable {
    fn new(
        config: &Config,
        challenges: &Challenges,
        provider: &CryptoProvider,
    ) -> Result<CertificateTable, String> {
        let mut table = CertificateTable::default();
        for (name, identity) in challenges.tls() {
            table.challenges.insert(name.into(), challenge_key(identity, provider)?);
        }
        table.other = table.add(config.certificates.as_deref(), provider)?;
        let mut sets = Vec::new();
        for site in &config.sites {
            let set = match &site.certificates {
                Some(own) => table.add(Some(own), provider)?,
                None => table.other,
            };
            sets.extend(set.map(|set| (site, set)));
        }
        let index = |has: &dyn Fn(&Site) -> bool| {
            let mut index = NameIndex::default();
            let sites = sets.iter().filter(|(site, _)| has(site));
            sites.for_each(|(site, set)| index.put(site, *set));
            index
        };
        table.general = index(&|site| site.listen.is_empty());
        for (number, address, is_tls) in config.server.listeners() {
            if is_tls && config.sites.iter().any(|site| site.names_address(address)) {
                table.own.push((number, index(&|site| site.names_address(address))));
            }
        }
        Ok(table)
    }

    fn resolver(self: &Arc<Self>, listener: Option<ListenerNumber>) -> Arc<dyn ResolvesServerCert> {
        Arc::new(ListenerResolver { table: Arc::clone(self), listener })
    }

    fn add(
        &mut self,
        set: Option<&CertificateSet>,
        provider: &CryptoProvider,
    ) -> Result<Option<usize>, String> {
        let Some(set) = set else { return Ok(None) };
        if let Some(known) = self.sets.iter().position(|known| known.id == set.id) {
            return Ok(Some(known));
        }
        let mut keys = Vec::new();
        for identity in &set.identities {
            keys.push(certified_key(identity, provider)?);
        }
        // Keys for RSA come last, because signing with RSA takes nine times as long as with ECDSA.
        keys.sort_by_key(|key| key.key.algorithm() == SignatureAlgorithm::RSA);
        let auth = set.client_auth.as_ref().map(|auth| {
            let known = self.auths.iter().position(|known| known == auth);
            known.unwrap_or_else(|| {
                self.auths.push(auth.clone());
                self.auths.len() - 1
            })
        });
        self.sets.push(KeySet { id: set.id, keys, auth });
        Ok(Some(self.sets.len() - 1))
    }

    /// Returns the certificate set for a name at a listener: that of the site which serves the name
    /// there, else the set for other names.
    fn lookup(&self, listener: Option<ListenerNumber>, name: Option<&str>) -> Option<&KeySet> {
        let own = self.own.iter().find(|(number, _)| Some(*number) == listener);
        let own = own.and_then(|(_, own)| own.lookup(name));
        self.sets.get(own.or_else(|| self.general.lookup(name)).or(self.other)?)
    }
}

fn certified_key(
    identity: &Identity,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, String> {
    let key = CertifiedKey::from_der(identity.chain.clone(), identity.key.clone_key(), provider);
    let mut key = key.map_err(|error| error.to_string())?;
    key.ocsp = identity.staple.as_ref().map(|staple| staple.response.clone());
    Ok(Arc::new(key))
}

/// Returns the certificate of a challenge. The library does not know its critical extension, so it
/// could not read the certificate to compare it with the key.
fn challenge_key(
    identity: &Identity,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, String> {
    let key = provider.key_provider.load_private_key(identity.key.clone_key());
    let key = key.map_err(|error| error.to_string())?;
    Ok(Arc::new(CertifiedKey::new(identity.chain.clone(), key)))
}

impl NameIndex {
    fn put(&mut self, site: &Site, set: usize) {
        for name in &site.names {
            match name {
                HostPattern::Exact(host) => drop(self.exact.insert(host.as_str().into(), set)),
                HostPattern::Below(host) => drop(self.below.insert(host.as_str().into(), set)),
                HostPattern::Any => self.any = Some(set),
            }
        }
    }

    /// Returns the certificate set for a name: that of the site with exactly this name; otherwise
    /// that of the site with the longest matching `*.` name; otherwise that of the site with `*`.
    fn lookup(&self, name: Option<&str>) -> Option<usize> {
        let named = name.and_then(|name| {
            // The library returns names in lower case.
            self.exact.get(name).or_else(|| {
                let mut suffixes = name.match_indices('.').map(|(at, _)| name.get(at + 1..));
                suffixes.find_map(|suffix| self.below.get(suffix?))
            })
        });
        named.copied().or(self.any)
    }
}

impl ResolvesServerCert for ListenerResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if !self.table.challenges.is_empty() && is_challenge(&hello) {
            return self.table.challenges.get(hello.server_name()?).cloned();
        }
        let set = self.table.lookup(self.listener, hello.server_name())?;
        let fits =
            |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        set.keys.iter().find(fits).or(set.keys.first()).cloned()
    }
}

/// Whether a client offers only the protocol of challenges (RFC 8737 §3).
fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|offered| offered.eq([ALPN_ACME]))
}

impl fmt::Debug for CertificateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CertificateTable({} sets)", self.sets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 §9.2.2 forbids the cipher suites of its appendix A, which are those without an
    /// ephemeral key exchange and those that are not AEAD. It requires one particular suite.
    #[test]
    fn every_suite_is_permitted_for_http2() {
        let provider = aws_lc_rs::default_provider();
        let suites: Vec<_> =
            provider.cipher_suites.iter().filter_map(|suite| suite.suite().as_str()).collect();
        assert_eq!(suites.len(), provider.cipher_suites.len());
        for suite in &suites {
            let is_ephemeral = suite.starts_with("TLS_ECDHE_") || suite.starts_with("TLS13_");
            let is_aead = suite.contains("_GCM_") || suite.contains("_CHACHA20_POLY1305_");
            assert!(is_ephemeral && is_aead, "{suite}");
        }
        assert!(suites.contains(&"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "{suites:?}");
    }
}
