//! Certificates, and clients over TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SignatureAlgorithm,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use crate::clock::PATIENCE;

pub use rcgen;
pub use rustls;

/// The largest response that a client reads.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// A certificate authority of a test.
pub struct TestAuthority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct IssuedCertificate {
    /// The certificate.
    pub cert: String,
    /// The private key.
    pub key: String,
}

impl TestAuthority {
    /// Makes an authority.
    #[expect(clippy::new_without_default, reason = "each authority is another one")]
    pub fn new() -> TestAuthority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("randomness");
        TestAuthority(CertifiedIssuer::self_signed(params, key).expect("valid parameters"))
    }

    /// Issues an ECDSA certificate for these names.
    pub fn issue(&self, names: &[&str]) -> IssuedCertificate {
        self.issue_with(names, &rcgen::PKCS_ECDSA_P256_SHA256, |_| {})
    }

    /// Issues a certificate whose key is of this kind, after `change`.
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
        IssuedCertificate { cert: cert.pem(), key: key.serialize_pem() }
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
            .expect("versions that the provider has");
        Arc::new(config.with_root_certificates(roots).with_no_client_auth())
    }
}

impl std::fmt::Debug for TestAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestAuthority")
    }
}

impl IssuedCertificate {
    /// Writes both files into a folder, the key for this user alone; returns their paths.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        use std::os::unix::fs::PermissionsExt;
        let (cert, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        std::fs::write(&cert, &self.cert).expect("the folder is ours");
        std::fs::write(&key, &self.key).expect("the folder is ours");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&key, mode).expect("the file is ours");
        (cert, key)
    }
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
            let end = self.unread.windows(4).position(|part| part == b"\r\n\r\n");
            if let Some(end) = end {
                let head = String::from_utf8_lossy(&self.unread[..end]).into_owned();
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    let is_length = name.eq_ignore_ascii_case("content-length");
                    is_length.then(|| value.trim().parse::<usize>().ok())?
                });
                let whole = end + 4 + length.unwrap_or(0);
                if self.unread.len() >= whole {
                    let body = self.unread[end + 4..whole].to_vec();
                    self.unread.drain(..whole);
                    return Ok(TlsResponse { head, body });
                }
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
