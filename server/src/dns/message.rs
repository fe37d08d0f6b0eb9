//! Questions and answers as bytes. Everything that is used of an answer is checked here.
#![expect(clippy::big_endian_bytes, reason = "the byte order of DNS (RFC 1035 §2.3.2)")]

use std::net::IpAddr;

use simple_dns::rdata::{OPT, RData};
use simple_dns::{
    CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, RCODE, ResourceRecord, TYPE, header_buffer,
};

use super::ServiceTarget;
use crate::limits::{DNS_ALIASES_MAX, DNS_DATAGRAM_BYTES_MAX, DNS_RECORDS_MAX};

/// The question of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct DnsQuestion<'a> {
    /// The whole name; no domain is appended to it.
    pub(super) name: &'a str,
    pub(super) kind: QuestionKind,
}

/// The type of the records that a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionKind {
    A,
    Aaaa,
    Srv,
}

/// The records that answer a question; none if the name does not exist, or has no such record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DnsAnswer {
    pub(super) records: Vec<RecordData>,
    /// How long the records are valid, in seconds.
    pub(super) valid_s: u32,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordData {
    Address(IpAddr),
    Target(ServiceTarget),
    /// An SRV record with the target ".", which says that the service is not available.
    NoTarget,
    /// An SRV record whose target is no host name, or whose port is 0.
    UnusableTarget,
}

/// The meaning of a message that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerReading {
    /// It is no answer to the request, and may be forged.
    Foreign,
    /// The answer did not fit, and has to be requested over TCP.
    Truncated,
    /// The server reports an error.
    Refused(String),
    /// The answer.
    Whole(DnsAnswer),
}

impl QuestionKind {
    fn record_type(self) -> TYPE {
        match self {
            QuestionKind::A => TYPE::A,
            QuestionKind::Aaaa => TYPE::AAAA,
            QuestionKind::Srv => TYPE::SRV,
        }
    }
}

impl DnsQuestion<'_> {
    /// Returns the request with this number; `None` if the name cannot be a DNS name.
    pub(super) fn request(&self, id: u16) -> Option<Vec<u8>> {
        let mut packet = Packet::new_query(id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        packet.questions.push(simple_dns::Question::new(
            Name::new(self.name).ok()?,
            QTYPE::TYPE(self.kind.record_type()),
            QCLASS::CLASS(CLASS::IN),
            false,
        ));
        *packet.opt_mut() = Some(OPT {
            udp_packet_size: DNS_DATAGRAM_BYTES_MAX,
            version: 0,
            opt_codes: Vec::new(),
        });
        packet.build_bytes_vec().ok()
    }

    /// Reads a message that may answer the request with this number.
    pub(super) fn read(&self, id: u16, bytes: &[u8]) -> AnswerReading {
        let counts = [
            header_buffer::questions(bytes),
            header_buffer::answers(bytes),
            header_buffer::name_servers(bytes),
            header_buffer::additional_records(bytes),
        ];
        let is_small = |count: Result<u16, _>| count.is_ok_and(|count| count <= DNS_RECORDS_MAX);
        if !counts.into_iter().all(is_small) {
            return AnswerReading::Foreign;
        }
        let is_cut = header_buffer::has_flags(bytes, PacketFlag::TRUNCATION).unwrap_or(false);
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            // A message may be cut within a record.
            Err(_) if is_cut && header_buffer::id(bytes) == Ok(id) => {
                return AnswerReading::Truncated;
            }
            Err(_) => return AnswerReading::Foreign,
        };
        let is_error = !matches!(packet.rcode(), RCODE::NoError | RCODE::NameError);
        // An error may come without the question, since the server need not have read it.
        let is_of = self.is_of(&packet) || is_error && packet.questions.is_empty();
        if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) || !is_of {
            return AnswerReading::Foreign;
        }
        match packet.rcode() {
            _ if is_cut => AnswerReading::Truncated,
            RCODE::NoError | RCODE::NameError => AnswerReading::Whole(self.answer(&packet)),
            code => AnswerReading::Refused(format!("the name server answers {code:?}")),
        }
    }

    /// Whether the message has this question, and no other.
    fn is_of(&self, packet: &Packet<'_>) -> bool {
        let [question] = &packet.questions[..] else { return false };
        let is_type = question.qtype == QTYPE::TYPE(self.kind.record_type());
        let is_name = Name::new(self.name).is_ok_and(|name| name == question.qname);
        is_type && is_name && question.qclass == QCLASS::CLASS(CLASS::IN)
    }

    /// Returns the records of the name, or of the name for which it is an alias.
    fn answer(&self, packet: &Packet<'_>) -> DnsAnswer {
        let Ok(mut owner) = Name::new(self.name) else { return DnsAnswer::default() };
        let mut valid_s = u32::MAX;
        let of = |owner: &Name<'_>| {
            let owner = owner.clone().into_owned();
            let is_of =
                move |one: &&ResourceRecord<'_>| one.class == CLASS::IN && one.name == owner;
            packet.answers.iter().filter(is_of)
        };
        for _ in 0..DNS_ALIASES_MAX {
            let alias = of(&owner).find_map(|record| match &record.rdata {
                RData::CNAME(alias) => Some((alias.0.clone(), record.ttl)),
                _ => None,
            });
            let Some((next, alias_valid_s)) = alias else { break };
            valid_s = valid_s.min(alias_valid_s);
            owner = next;
        }
        let mut records = Vec::new();
        for record in of(&owner) {
            if let Some(data) = self.data(&record.rdata) {
                records.push(data);
                valid_s = valid_s.min(record.ttl);
            }
        }
        // A validity with its highest bit set counts as 0 (RFC 2181 §8).
        let valid_s = if valid_s > i32::MAX as u32 { 0 } else { valid_s };
        DnsAnswer { records, valid_s }
    }

    fn data(&self, data: &RData<'_>) -> Option<RecordData> {
        match (self.kind, data) {
            (QuestionKind::A, RData::A(a)) => {
                Some(RecordData::Address(IpAddr::from(a.address.to_be_bytes())))
            }
            (QuestionKind::Aaaa, RData::AAAA(aaaa)) => {
                Some(RecordData::Address(IpAddr::from(aaaa.address.to_be_bytes())))
            }
            (QuestionKind::Srv, RData::SRV(srv)) => Some(match host_of(&srv.target) {
                _ if srv.target.get_labels().is_empty() => RecordData::NoTarget,
                Some(host) if srv.port != 0 => RecordData::Target(ServiceTarget {
                    host,
                    port: srv.port,
                    priority: srv.priority,
                    weight: srv.weight,
                }),
                _ => RecordData::UnusableTarget,
            }),
            _ => None,
        }
    }
}

/// Returns the name as text, in lower case; `None` if it is not the name of a host. A name whose
/// last label begins with a digit is refused, because it may be taken for an IP address.
fn host_of(name: &Name<'_>) -> Option<String> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let mut host = String::new();
    for label in name.as_bytes() {
        if !label.iter().all(allowed) {
            return None;
        }
        host.push_str(if host.is_empty() { "" } else { "." });
        host.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_like_an_address = last.starts_with(|first: char| first.is_ascii_digit());
    (!is_like_an_address).then_some(host)
}
