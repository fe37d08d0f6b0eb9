//! A closed loop of TLS connections with one request each: full handshakes, or resumed ones.
//!
//! The certificate is not verified, because only the server's processor time is measured.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, HandshakeKind, NamedGroup, SignatureScheme, version,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};
use tokio_rustls::TlsConnector;

use super::latency::Latencies;
use super::{Report, response};
use crate::clock::monotonic_ns;
use crate::net::connect;

/// How long a request may take beyond the planned end.
const GRACE: Duration = Duration::from_secs(10);

/// The key exchanges that the client offers.
#[derive(Clone, Copy, ValueEnum)]
enum Exchange {
    /// X25519
    X25519,
    /// X25519MLKEM768, and X25519 for servers without it
    Mlkem,
}

/// The options of the handshakes.
#[derive(Args, Clone)]
pub(crate) struct Plan {
    /// Port of the server on 127.0.0.1
    #[arg(long)]
    port: u16,
    /// Target of every request
    #[arg(long, default_value = "/1k/0")]
    target: String,
    /// Connections at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Seconds after which no connection begins
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Key exchanges that the client offers
    #[arg(long, value_enum, default_value = "x25519")]
    exchange: Exchange,
    /// Resumes the sessions of earlier connections
    #[arg(long)]
    resume: bool,
}

/// Connects as planned and prints the report.
pub(crate) fn run(plan: Plan) -> io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let start_ns = monotonic_ns();
    let end = Duration::from_secs(plan.seconds) + GRACE;
    let load = Rc::new(Load::new(plan, start_ns)?);
    let all = run_clients(Rc::clone(&load));
    let finished = LocalSet::new()
        .block_on(&runtime, async { tokio::time::timeout(end, all).await })
        .map_err(|_| io::Error::new(ErrorKind::TimedOut, "connections did not end in time"))?;
    finished?;
    load.report(monotonic_ns() - start_ns);
    Ok(())
}

async fn run_clients(load: Rc<Load>) -> io::Result<()> {
    let mut clients = JoinSet::new();
    for _ in 0..load.connections {
        let load = Rc::clone(&load);
        clients.spawn_local(async move {
            while monotonic_ns() < load.end_ns {
                let start_ns = monotonic_ns();
                let result = load.fetch().await;
                load.tally.borrow_mut().add(result, monotonic_ns() - start_ns);
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.map_err(io::Error::other)?;
    }
    Ok(())
}

/// The state that all connections share.
struct Load {
    port: u16,
    connections: u32,
    end_ns: u64,
    request: String,
    connector: TlsConnector,
    tally: RefCell<Tally>,
}

#[derive(Default)]
struct Tally {
    latencies: Latencies,
    not_ok: u64,
    failed: u64,
    resumed: u64,
    mlkem: u64,
}

/// The result of one connection.
struct Fetched {
    is_ok: bool,
    resumed: bool,
    mlkem: bool,
}

impl Tally {
    fn add(&mut self, result: io::Result<Fetched>, ns: u64) {
        let Ok(fetched) = result else {
            self.failed += 1;
            return;
        };
        self.latencies.add(ns);
        self.not_ok += u64::from(!fetched.is_ok);
        self.resumed += u64::from(fetched.resumed);
        self.mlkem += u64::from(fetched.mlkem);
    }
}

impl Load {
    fn new(plan: Plan, start_ns: u64) -> io::Result<Self> {
        let (port, target) = (plan.port, &plan.target);
        let head = format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
        Ok(Self {
            port,
            connections: plan.connections,
            end_ns: start_ns + plan.seconds * 1_000_000_000,
            request: format!("{head}Connection: close\r\n\r\n"),
            connector: Arc::new(config(&plan)?).into(),
            tally: RefCell::default(),
        })
    }

    async fn fetch(&self) -> io::Result<Fetched> {
        let stream = TcpStream::from_std(connect(self.port)?)?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let mut stream = self.connector.connect(name, stream).await?;
        stream.write_all(self.request.as_bytes()).await?;
        let mut input = Vec::new();
        match stream.read_to_end(&mut input).await {
            // Some servers close without close_notify.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
            read => drop(read?),
        }
        let head = response::parse(&input)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?
            .ok_or(ErrorKind::UnexpectedEof)?;
        let session = stream.get_ref().1;
        let group = session.negotiated_key_exchange_group().map(|group| group.name());
        Ok(Fetched {
            is_ok: head.status == 200 && input.len() == head.bytes + head.body_bytes,
            resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
            mlkem: group == Some(NamedGroup::X25519MLKEM768),
        })
    }

    fn report(&self, elapsed_ns: u64) {
        let mut tally = self.tally.borrow_mut();
        let done = tally.latencies.count();
        let mut report = Report::default();
        report.add("requests", done);
        report.add("per_second", done as f64 * 1e9 / elapsed_ns as f64);
        report.add("resumed", tally.resumed);
        report.add("mlkem", tally.mlkem);
        report.add("not_ok", tally.not_ok);
        report.add("failed", tally.failed);
        tally.latencies.report("", &mut report);
        report.print();
    }
}

fn config(plan: &Plan) -> io::Result<ClientConfig> {
    let mut provider = default_provider();
    provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
    provider.kx_groups = match plan.exchange {
        Exchange::X25519 => vec![kx_group::X25519],
        Exchange::Mlkem => vec![kx_group::X25519MLKEM768, kx_group::X25519],
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.resumption =
        if plan.resume { Resumption::in_memory_sessions(4096) } else { Resumption::disabled() };
    Ok(config)
}

/// Accepts every certificate: all servers are local, and each has made its own.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
