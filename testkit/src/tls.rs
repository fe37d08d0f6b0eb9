//! Certificates, and clients over TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SignatureAlgorithm,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};

use crate::clock::PATIENCE;
use crate::script::locked;

mod any_certificate;

pub use any_certificate::AnyCertificate;
pub use rcgen;
pub use rustls;

/// The largest response that a client reads.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Number of authorities of this process, whose names differ.
static AUTHORITIES: AtomicUsize = AtomicUsize::new(0);

/// A certificate authority of a test.
pub struct TestAuthority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct IssuedCertificate {
    /// The certificate.
    pub cert: String,
    /// The private key.
    pub key: String,
    /// The public key: the subjectPublicKeyInfo, in DER.
    pub public_key: Vec<u8>,
}

impl TestAuthority {
    /// Makes an authority.
    #[expect(clippy::new_without_default, reason = "each authority is another one")]
    pub fn new() -> TestAuthority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = format!("authority {}", AUTHORITIES.fetch_add(1, Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("randomness");
        TestAuthority(CertifiedIssuer::self_signed(params, key).expect("valid parameters"))
    }

    /// Makes an authority below this one, which is valid until a year.
    pub fn issue_authority(&self, until_year: i32) -> TestAuthority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(until_year, 1, 1);
        let name = format!("authority {}", AUTHORITIES.fetch_add(1, Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("randomness");
        let issued = CertifiedIssuer::signed_by(params, key, &self.0);
        TestAuthority(issued.expect("valid parameters"))
    }

    /// Issues an ECDSA certificate for these names.
    pub fn issue(&self, names: &[&str]) -> IssuedCertificate {
        self.issue_with(names, &rcgen::PKCS_ECDSA_P256_SHA256, |_| {})
    }

    /// Issues a certificate for these names, whose key is of this kind. `change` edits the
    /// parameters of the certificate before it is signed.
    pub fn issue_with(
        &self,
        names: &[&str],
        algorithm: &'static SignatureAlgorithm,
        change: impl FnOnce(&mut CertificateParams),
    ) -> IssuedCertificate {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("valid names");
        change(&mut params);
        let key = KeyPair::generate_for(algorithm).expect("randomness");
        let cert = params.signed_by(&key, &self.0).expect("valid parameters");
        let public_key = rcgen::PublicKeyData::subject_public_key_info(&key);
        IssuedCertificate { cert: cert.pem(), key: key.serialize_pem(), public_key }
    }

    /// The certificate of the authority, as PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// The certificate of the authority.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// Returns settings of a client that trusts this authority.
    pub fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate()).expect("a certificate");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("the provider supports these TLS versions");
        Arc::new(config.with_root_certificates(roots).with_no_client_auth())
    }
}

impl TestAuthority {
    /// Returns settings of a client that trusts this authority, and shows a certificate.
    pub fn client_with(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        shown: &IssuedCertificate,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate()).expect("a certificate");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("the provider supports these TLS versions")
            .with_root_certificates(roots);
        let (chain, key) = shown.parsed();
        Arc::new(config.with_client_auth_cert(chain, key).expect("the key fits"))
    }

    /// Returns a verifier of clients whose certificates this authority has issued.
    fn verifier(&self) -> Arc<dyn rustls::server::danger::ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate()).expect("a certificate");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.build().expect("there is an authority")
    }

    /// Issues a certificate of a client for these names, and returns it with its serial number.
    pub fn issue_client(&self, name: &str, serial: u8) -> IssuedCertificate {
        self.issue_with(&[], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, "Shop");
            params.distinguished_name.push(DnType::CommonName, name);
            params.serial_number = Some(rcgen::SerialNumber::from(vec![serial]));
            params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        })
    }

    /// Returns a list, as PEM, that revokes the certificates with these serial numbers until a
    /// year.
    pub fn revocation_list(&self, serials: &[u8], until_year: i32) -> String {
        let revoked = |serial: &u8| rcgen::RevokedCertParams {
            serial_number: rcgen::SerialNumber::from(vec![*serial]),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(until_year, 1, 1),
            crl_number: rcgen::SerialNumber::from(vec![1]),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&self.0).expect("valid parameters").pem().expect("it can be written")
    }
}

impl std::fmt::Debug for TestAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestAuthority")
    }
}

impl IssuedCertificate {
    /// Returns the certificate and its key in the types of the TLS library.
    pub fn parsed(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_slice_iter(self.cert.as_bytes()).collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        (chain.expect("PEM"), key.expect("PEM"))
    }

    /// Returns the pin of the public key (RFC 7469 §2.4).
    pub fn pin(&self) -> String {
        let suite = aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13();
        let hash = suite.expect("it is of TLS 1.3").common.hash_provider.hash(&self.public_key);
        format!("sha256/{}", base64(hash.as_ref()))
    }

    /// Writes certificate and key into a folder; only this user may read the key. Returns both
    /// paths.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        use std::os::unix::fs::PermissionsExt;
        let (cert, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        std::fs::write(&cert, &self.cert).expect("the temporary folder is writable");
        std::fs::write(&key, &self.key).expect("the temporary folder is writable");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&key, mode).expect("this user owns the file");
        (cert, key)
    }
}

/// Returns bytes in base64 (RFC 4648 §4).
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let value = (0..3).fold(0, |sum, at| sum << 8 | u32::from(*part.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let digit = DIGITS[(value >> (18 - 6 * at) & 63) as usize];
            text.push(if at > part.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// An origin over TLS, which passes each connection on to another origin without TLS.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    handshakes: Arc<Mutex<Vec<Option<HandshakeKind>>>>,
}

impl TlsFront {
    /// Starts an origin with this certificate, in front of the origin at `inner`.
    pub fn start(certificate: &IssuedCertificate, inner: SocketAddr) -> TlsFront {
        TlsFront::start_with(certificate, None, inner)
    }

    /// Starts an origin with this certificate, whose clients need a certificate of an authority if
    /// one is given.
    pub fn start_with(
        certificate: &IssuedCertificate,
        clients: Option<&TestAuthority>,
        inner: SocketAddr,
    ) -> TlsFront {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let (chain, key) = certificate.parsed();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default TLS versions");
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(authority) => config.with_client_cert_verifier(authority.verifier()),
        };
        let config = config.with_single_cert(chain, key);
        let config = Arc::new(config.expect("the key belongs to the certificate"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let handshakes = Arc::<Mutex<Vec<Option<HandshakeKind>>>>::default();
        let seen = Arc::clone(&handshakes);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, seen) = (Arc::clone(&config), Arc::clone(&seen));
                thread::spawn(move || pass_on(stream, inner, config, &seen));
            }
        });
        TlsFront { address, handshakes }
    }

    /// The address on which this origin listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The kinds of the complete handshakes so far.
    pub fn handshakes(&self) -> Vec<Option<HandshakeKind>> {
        locked(&self.handshakes).clone()
    }
}

/// Passes requests on, one at a time. A request with a body needs a `Content-Length`.
fn pass_on(
    mut stream: TcpStream,
    inner: SocketAddr,
    config: Arc<ServerConfig>,
    seen: &Mutex<Vec<Option<HandshakeKind>>>,
) -> Option<()> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut connection = ServerConnection::new(config).ok()?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).ok()?;
    }
    locked(seen).push(connection.handshake_kind());
    let mut client = rustls::StreamOwned::new(connection, stream);
    let mut inner = TcpStream::connect(inner).ok()?;
    inner.set_read_timeout(Some(PATIENCE)).ok()?;
    let (mut space, mut request) = ([0; 16 << 10], Vec::new());
    loop {
        let count = client.read(&mut space).ok().filter(|count| *count > 0)?;
        inner.write_all(&space[..count]).ok()?;
        request.extend_from_slice(&space[..count]);
        if whole_length(&request).is_none_or(|whole| request.len() < whole) {
            continue;
        }
        request.clear();
        let answer = read_answer(&mut inner)?;
        client.write_all(&answer).ok()?;
        client.flush().ok()?;
    }
}

/// Reads a response with a `Content-Length`.
fn read_answer(inner: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut answer, mut space) = (Vec::new(), [0; 16 << 10]);
    loop {
        if let Some(whole) = whole_length(&answer).filter(|whole| answer.len() >= *whole) {
            answer.truncate(whole);
            return Some(answer);
        }
        let count = inner.read(&mut space).ok().filter(|count| *count > 0)?;
        answer.extend_from_slice(&space[..count]);
    }
}

/// Returns the length of a response with a `Content-Length`, once its head is complete.
fn whole_length(answer: &[u8]) -> Option<usize> {
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    Some(end + 4 + length.unwrap_or(0))
}

/// A client's connection over TLS.
#[derive(Debug)]
pub struct TlsClient {
    connection: ClientConnection,
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A response that a [`TlsClient`] has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsResponse {
    /// Status line and fields.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl TlsResponse {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.head.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl TlsClient {
    /// Connects, and completes the handshake.
    ///
    /// # Errors
    /// The handshake fails; the text is the reason.
    pub fn connect(
        server: SocketAddr,
        name: &str,
        config: &Arc<ClientConfig>,
    ) -> Result<TlsClient, String> {
        let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let connection = ClientConnection::new(Arc::clone(config), name);
        let stream = TcpStream::connect_timeout(&server, PATIENCE).map_err(|e| e.to_string())?;
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let connection = connection.map_err(|error| error.to_string())?;
        let mut client = TlsClient { connection, stream, unread: Vec::new() };
        while client.connection.is_handshaking() {
            client.connection.complete_io(&mut client.stream).map_err(|error| error.to_string())?;
        }
        Ok(client)
    }

    /// The client's side of the TLS connection.
    pub fn connection(&self) -> &ClientConnection {
        &self.connection
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The server does not take them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        let mut stream = rustls::Stream::new(&mut self.connection, &mut self.stream);
        stream.write_all(bytes.as_ref())?;
        stream.flush()
    }

    /// Sends bytes that are not encrypted.
    ///
    /// # Errors
    /// The server does not take them.
    pub fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a GET request, and reads its response.
    ///
    /// # Errors
    /// The connection ends before the response is complete.
    pub fn get(&mut self, host: &str, target: &str) -> std::io::Result<TlsResponse> {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))?;
        self.read()
    }

    /// Reads a response with a `Content-Length`.
    ///
    /// # Errors
    /// The connection ends before the response is complete: `ConnectionAborted` with close_notify,
    /// `UnexpectedEof` without it.
    pub fn read(&mut self) -> std::io::Result<TlsResponse> {
        loop {
            let whole = whole_length(&self.unread).filter(|whole| self.unread.len() >= *whole);
            if let Some(whole) = whole {
                let end = self.unread.windows(4).position(|part| part == b"\r\n\r\n");
                let end = end.unwrap_or_default();
                let head = String::from_utf8_lossy(&self.unread[..end]).into_owned();
                let body = self.unread[end + 4..whole].to_vec();
                self.unread.drain(..whole);
                return Ok(TlsResponse { head, body });
            }
            if self.fill()? == 0 || self.unread.len() > RESPONSE_BYTES_MAX {
                return Err(ErrorKind::ConnectionAborted.into());
            }
        }
    }

    /// Reads until the server ends the connection with close_notify; returns the bytes.
    ///
    /// # Errors
    /// The connection ends without close_notify.
    pub fn read_to_end(&mut self) -> std::io::Result<Vec<u8>> {
        while self.fill()? > 0 && self.unread.len() <= RESPONSE_BYTES_MAX {}
        Ok(std::mem::take(&mut self.unread))
    }

    fn fill(&mut self) -> std::io::Result<usize> {
        let mut space = [0; 16 << 10];
        let mut stream = rustls::Stream::new(&mut self.connection, &mut self.stream);
        let count = stream.read(&mut space)?;
        self.unread.extend_from_slice(&space[..count]);
        Ok(count)
    }

    /// Ends the TCP connection without close_notify.
    pub fn abort(self) {
        drop(self.stream);
    }
}
