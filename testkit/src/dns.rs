//! A name server for tests, over UDP and TCP at one port. It writes its messages itself, so that
//! the code under test does not check itself.
#![expect(clippy::big_endian_bytes, reason = "the byte order of DNS (RFC 1035 §2.3.2)")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::clock::PATIENCE;
use crate::script::locked;

/// The largest message that is sent over UDP; longer ones are truncated.
const DATAGRAM_BYTES_MAX: usize = 1_232;

const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_SRV: u16 = 33;
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

/// A running name server; it stops when dropped.
#[derive(Debug)]
pub struct DnsServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
}

#[derive(Debug)]
struct ServerState {
    zone: Mutex<DnsZone>,
    is_stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct DnsZone {
    /// The records of each name, in lower case.
    records: HashMap<String, Vec<DnsRecord>>,
    mode: DnsMode,
    /// The names for which no question is answered.
    silent_names: Vec<String>,
    questions: Vec<AskedQuestion>,
}

/// The data of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsRecord {
    /// An IPv4 address.
    Address(Ipv4Addr),
    /// A name for which the owner of the record is an alias.
    Alias(String),
    /// A target of a service: priority, weight, port and host; the host is empty for ".".
    Target(u16, u16, u16, String),
}

/// The behaviour of a name server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsMode {
    /// Answers with the records.
    #[default]
    Answers,
    /// Answers nothing.
    Silent,
    /// Answers that the server has failed.
    Fails,
    /// Truncates each answer over UDP.
    Truncates,
    /// Sends several wrong answers before each right one: with another number, with another
    /// question, and malformed ones. They all have a target at which nothing listens.
    Forges,
}

/// A question that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedQuestion {
    /// The name.
    pub name: String,
    /// The number of the record type.
    pub kind: u16,
    /// Whether it came over TCP.
    pub is_tcp: bool,
}

impl DnsServer {
    /// Starts a name server without records on a free port of loopback.
    pub fn start() -> DnsServer {
        let (tcp, udp) = (0..100)
            .find_map(|_| {
                let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
                let udp = UdpSocket::bind(tcp.local_addr().ok()?).ok()?;
                Some((tcp, udp))
            })
            .expect("loopback has a port that is free for TCP and UDP");
        let address = tcp.local_addr().expect("a bound listener has an address");
        let shared =
            Arc::new(ServerState { zone: Mutex::default(), is_stopping: AtomicBool::new(false) });
        let (over_udp, over_tcp) = (Arc::clone(&shared), Arc::clone(&shared));
        thread::spawn(move || serve_udp(&over_udp, &udp));
        thread::spawn(move || serve_tcp(&over_tcp, &tcp));
        DnsServer { address, shared }
    }

    /// The address for questions.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the records of a name; without records, the name exists, but has none.
    pub fn set(&self, name: &str, records: &[DnsRecord]) {
        locked(&self.shared.zone).records.insert(name.to_ascii_lowercase(), records.to_vec());
    }

    /// Makes the targets of a service those ports of 127.0.0.1, with priority 0 and weight 1.
    pub fn set_targets(&self, service: &str, ports: &[u16]) {
        let host = "origin.test";
        self.set(host, &[DnsRecord::Address(Ipv4Addr::LOCALHOST)]);
        let target = |port: &u16| DnsRecord::Target(0, 1, *port, host.to_owned());
        self.set(service, &ports.iter().map(target).collect::<Vec<_>>());
    }

    /// Removes a name, so that the answer is that it does not exist.
    pub fn remove(&self, name: &str) {
        locked(&self.shared.zone).records.remove(&name.to_ascii_lowercase());
    }

    /// Changes the behaviour of the server.
    pub fn set_mode(&self, mode: DnsMode) {
        locked(&self.shared.zone).mode = mode;
    }

    /// Answers no question for this name any more.
    pub fn silence(&self, name: &str) {
        locked(&self.shared.zone).silent_names.push(name.to_ascii_lowercase());
    }

    /// Returns every question so far.
    pub fn questions(&self) -> Vec<AskedQuestion> {
        locked(&self.shared.zone).questions.clone()
    }

    /// Returns how often a name was asked for.
    pub fn count(&self, name: &str) -> usize {
        self.questions().iter().filter(|question| question.name == name).count()
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Relaxed);
        // Wakes both threads, which then close their sockets.
        if let Ok(socket) = UdpSocket::bind("127.0.0.1:0") {
            let _ = socket.send_to(&[], self.address);
        }
        let _ = TcpStream::connect(self.address);
    }
}

fn serve_udp(shared: &ServerState, socket: &UdpSocket) {
    let mut buffer = [0; 4096];
    while let Ok((length, client)) = socket.recv_from(&mut buffer) {
        if shared.is_stopping.load(Relaxed) {
            return;
        }
        for answer in shared.answers(&buffer[..length], false) {
            let _ = socket.send_to(&answer, client);
        }
    }
}

fn serve_tcp(shared: &ServerState, listener: &TcpListener) {
    while let Ok((mut stream, _)) = listener.accept() {
        if shared.is_stopping.load(Relaxed) {
            return;
        }
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let mut length = [0; 2];
        if stream.read_exact(&mut length).is_err() {
            continue;
        }
        let mut request = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut request).is_err() {
            continue;
        }
        // A client of TCP knows the other side, so it gets only the right answer.
        if let Some(answer) = shared.answers(&request, true).pop() {
            let length = u16::try_from(answer.len()).expect("tests have shorter answers");
            let _ =
                stream.write_all(&length.to_be_bytes()).and_then(|()| stream.write_all(&answer));
        }
    }
}

impl ServerState {
    /// Returns the messages that are sent for a request.
    fn answers(&self, request: &[u8], is_tcp: bool) -> Vec<Vec<u8>> {
        let Some((name, kind, question)) = read_question(request) else { return Vec::new() };
        let mut zone = locked(&self.zone);
        zone.questions.push(AskedQuestion { name: name.clone(), kind, is_tcp });
        let id = [request[0], request[1]];
        let records = zone.records.get(&name);
        let (code, body) = match records {
            _ if zone.mode == DnsMode::Fails => (SERVFAIL, Vec::new()),
            None => (NXDOMAIN, Vec::new()),
            Some(_) => (0, zone.chain(&name, kind)),
        };
        let whole = message(id, code, false, question, &body);
        let is_cut =
            !is_tcp && (whole.len() > DATAGRAM_BYTES_MAX || zone.mode == DnsMode::Truncates);
        let right = if is_cut { message(id, code, true, question, &[]) } else { whole };
        match zone.mode {
            DnsMode::Silent => Vec::new(),
            _ if zone.silent_names.contains(&name) => Vec::new(),
            DnsMode::Forges => {
                let forged = [(name.clone(), DnsRecord::Target(0, 1, 1, "forged.test".to_owned()))];
                let other_id = [id[0], id[1] ^ 1];
                let other_question =
                    [&wire_name("other.test")[..], &question[question.len() - 4..]];
                vec![
                    message(other_id, 0, false, question, &forged),
                    message(id, 0, false, &other_question.concat(), &forged),
                    Vec::new(),
                    [&id[..], &[0xff; 40]].concat(),
                    right[..right.len() - 1].to_vec(),
                    right,
                ]
            }
            _ => vec![right],
        }
    }
}

impl DnsZone {
    /// Returns the records of this type, after those of the aliases that lead to them.
    fn chain(&self, name: &str, kind: u16) -> Vec<(String, DnsRecord)> {
        let (mut owner, mut chain) = (name.to_owned(), Vec::new());
        while let Some(DnsRecord::Alias(to)) =
            self.records.get(&owner).and_then(|records| records.first())
        {
            chain.push((owner.clone(), DnsRecord::Alias(to.clone())));
            owner.clone_from(to);
        }
        let own = self.records.get(&owner).into_iter().flatten();
        let own = own.filter(|record| record.kind() == kind);
        chain.extend(own.map(|record| (owner.clone(), record.clone())));
        chain
    }
}

impl DnsRecord {
    fn kind(&self) -> u16 {
        match self {
            DnsRecord::Address(_) => TYPE_A,
            DnsRecord::Alias(_) => TYPE_CNAME,
            DnsRecord::Target(..) => TYPE_SRV,
        }
    }

    fn data(&self) -> Vec<u8> {
        match self {
            DnsRecord::Address(address) => address.octets().to_vec(),
            DnsRecord::Alias(name) => wire_name(name),
            DnsRecord::Target(priority, weight, port, host) => {
                let numbers = [priority, weight, port].map(|number| number.to_be_bytes());
                [numbers.concat(), wire_name(host)].concat()
            }
        }
    }
}

/// Returns the name, the type and the bytes of the question of a request.
fn read_question(request: &[u8]) -> Option<(String, u16, &[u8])> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*request.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(request.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*request.get(at)?, *request.get(at + 1)?]);
    Some((labels.join("."), kind, request.get(12..at + 4)?))
}

fn wire_name(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let mut bytes = Vec::new();
    for label in labels {
        bytes.push(u8::try_from(label.len()).expect("a label is short"));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// Returns an answer with these records, each of which is valid for one second.
fn message(
    id: [u8; 2],
    code: u8,
    is_cut: bool,
    question: &[u8],
    records: &[(String, DnsRecord)],
) -> Vec<u8> {
    let count = u16::try_from(records.len()).expect("tests have few records").to_be_bytes();
    let flags = [0x81 | if is_cut { 0x02 } else { 0 }, 0x80 | code];
    let mut bytes = [&id[..], &flags, &[0, 1], &count, &[0; 4], question].concat();
    for (owner, record) in records {
        let data = record.data();
        let length = u16::try_from(data.len()).expect("data is short");
        bytes.extend(wire_name(owner));
        bytes.extend(record.kind().to_be_bytes());
        bytes.extend([0, 1, 0, 0, 0, 1]);
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
    }
    bytes
}
