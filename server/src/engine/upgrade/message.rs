//! The messages of an upgrade, and their encoding.
//!
//! A message consists of its kind and the length of its contents (four bytes each), followed by the
//! contents. All numbers are little-endian. In every version of the protocol, `Hello` begins with
//! the version, and the form of `Refused` never changes, so that a server can refuse a process of
//! another version.

use std::net::SocketAddr;

use forebay_shm::DirId;

use crate::limits::UPGRADE_MESSAGE_BYTES_MAX;
use crate::transport::tls::{TICKET_KEYS_BYTES, TicketKeys};

/// Size of a message's head, which has the kind and the length of the contents.
pub(super) const HEAD_BYTES: usize = 8;

/// A message between the two processes of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UpgradeMessage {
    /// The new process asks to take over.
    Hello(Hello),
    /// The sender ends the upgrade; the text is the reason, for people to read.
    Refused(String),
    /// The old process agrees to the upgrade; descriptors follow.
    Offer(Offer),
    /// The message has this many descriptors.
    Descriptors(u32),
    /// The new process is ready to serve.
    Ready(Readiness),
    /// The new process serves from now on.
    Yours,
}

/// The request of the new process, with its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) listen: SocketAddr,
    /// The cache directory of the new process.
    pub(super) cache_dir: CacheDirId,
}

/// Identity of a server's cache directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheDirId {
    /// The server has no cache directory.
    None,
    /// The directory does not exist yet, so no server uses it.
    Absent,
    /// The directory exists.
    Is(DirId),
}

/// The offer of the old process. Its descriptors follow in this order: the socket for upgrades, the
/// admin socket, the lock of the cache directory (if `has_guard`), and the listening sockets,
/// including those for TLS; the address of a socket tells its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) has_guard: bool,
    pub(super) socket_count: u32,
    pub(super) totals: UpgradeTotals,
    /// The keys of session tickets, so that clients can resume their sessions.
    pub(super) ticket_keys: TicketKeys,
}

/// The parts of the old process that the new process continues to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// Whether the new process continues with the admin socket.
    pub(crate) has_admin: bool,
    /// Whether both processes use one store. Otherwise each has its own while both run.
    pub(crate) shares_store: bool,
}

/// Counts that each process passes to its successor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UpgradeTotals {
    pub(crate) upgrades: u64,
    pub(crate) upgrades_failed: u64,
}

impl UpgradeMessage {
    /// Returns the message as bytes: its head and its contents.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, contents) = match self {
            UpgradeMessage::Hello(hello) => (1u32, hello.encode()),
            UpgradeMessage::Refused(reason) => (2, cut(reason).as_bytes().to_vec()),
            UpgradeMessage::Offer(offer) => (3, offer.encode()),
            UpgradeMessage::Descriptors(count) => (4, count.to_le_bytes().to_vec()),
            UpgradeMessage::Ready(ready) => {
                (5, vec![u8::from(ready.has_admin), u8::from(ready.shares_store)])
            }
            UpgradeMessage::Yours => (6, Vec::new()),
        };
        let length = u32::try_from(contents.len()).unwrap_or(u32::MAX);
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), &contents].concat()
    }

    /// Decodes a message's head: its kind and the length of its contents; `None` if the length is
    /// over the limit.
    pub(super) fn head(head: [u8; HEAD_BYTES]) -> Option<(u32, usize)> {
        let mut rest = ContentsReader(&head);
        let (kind, length) = (rest.u32()?, rest.u32()?);
        let length = usize::try_from(length).ok()?;
        (length <= UPGRADE_MESSAGE_BYTES_MAX).then_some((kind, length))
    }

    /// Decodes a message; `None` if the kind is unknown or the contents are invalid.
    pub(super) fn decode(kind: u32, contents: &[u8]) -> Option<UpgradeMessage> {
        let mut rest = ContentsReader(contents);
        let message = match kind {
            1 => return Hello::decode(contents).map(UpgradeMessage::Hello),
            2 => return Some(UpgradeMessage::Refused(printable(contents))),
            3 => UpgradeMessage::Offer(Offer {
                has_guard: rest.bool()?,
                socket_count: rest.u32()?,
                totals: UpgradeTotals { upgrades: rest.u64()?, upgrades_failed: rest.u64()? },
                ticket_keys: TicketKeys::decode(&rest.take::<TICKET_KEYS_BYTES>()?),
            }),
            4 => UpgradeMessage::Descriptors(rest.u32()?),
            5 => UpgradeMessage::Ready(Readiness {
                has_admin: rest.bool()?,
                shares_store: rest.bool()?,
            }),
            6 => UpgradeMessage::Yours,
            _ => return None,
        };
        rest.0.is_empty().then_some(message)
    }
}

impl Hello {
    fn encode(&self) -> Vec<u8> {
        let (kind, device, inode) = match self.cache_dir {
            CacheDirId::None => (0, 0, 0),
            CacheDirId::Absent => (1, 0, 0),
            CacheDirId::Is(id) => (2, id.device, id.inode),
        };
        let mut contents = self.version.to_le_bytes().to_vec();
        contents.push(kind);
        contents.extend(device.to_le_bytes());
        contents.extend(inode.to_le_bytes());
        contents.extend(self.listen.to_string().bytes());
        contents
    }

    /// Decodes the contents of a `Hello`. If its protocol version differs from ours, only the
    /// version in the result is valid, because the other fields may have another form.
    fn decode(contents: &[u8]) -> Option<Hello> {
        let mut rest = ContentsReader(contents);
        let version = rest.u32()?;
        if version != super::VERSION {
            let listen = SocketAddr::from(([0, 0, 0, 0], 0));
            return Some(Hello { version, listen, cache_dir: CacheDirId::None });
        }
        let (kind, device, inode) = (rest.u8()?, rest.u64()?, rest.u64()?);
        let cache_dir = match kind {
            0 => CacheDirId::None,
            1 => CacheDirId::Absent,
            2 => CacheDirId::Is(DirId { device, inode }),
            _ => return None,
        };
        let listen = str::from_utf8(rest.0).ok()?.parse().ok()?;
        Some(Hello { version, listen, cache_dir })
    }
}

impl Offer {
    fn encode(self) -> Vec<u8> {
        let mut contents = vec![u8::from(self.has_guard)];
        contents.extend(self.socket_count.to_le_bytes());
        contents.extend(self.totals.upgrades.to_le_bytes());
        contents.extend(self.totals.upgrades_failed.to_le_bytes());
        contents.extend(self.ticket_keys.encode());
        contents
    }
}

/// Reads a message's contents from front to back; holds the bytes that have not been read yet.
struct ContentsReader<'a>(&'a [u8]);

impl ContentsReader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// Returns the longest prefix of a text that fits into a message.
fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(UPGRADE_MESSAGE_BYTES_MAX);
    text.get(..end).unwrap_or_default()
}

/// Returns a text from another process without control characters, safe for a terminal and a log.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<UpgradeMessage> {
        let listen = "[::1]:8080".parse().unwrap();
        let hello = |cache_dir| {
            UpgradeMessage::Hello(Hello { version: super::super::VERSION, listen, cache_dir })
        };
        let id = DirId { device: 7, inode: u64::MAX };
        let totals = UpgradeTotals { upgrades: 3, upgrades_failed: 1 };
        let ticket_keys = TicketKeys::decode(&std::array::from_fn(|at| at as u8));
        vec![
            hello(CacheDirId::None),
            hello(CacheDirId::Absent),
            hello(CacheDirId::Is(id)),
            UpgradeMessage::Refused("it does not want to".to_owned()),
            UpgradeMessage::Offer(Offer {
                has_guard: true,
                socket_count: 1024,
                totals,
                ticket_keys,
            }),
            UpgradeMessage::Descriptors(64),
            UpgradeMessage::Ready(Readiness { has_admin: true, shares_store: false }),
            UpgradeMessage::Ready(Readiness { has_admin: false, shares_store: true }),
            UpgradeMessage::Yours,
        ]
    }

    fn decode(bytes: &[u8]) -> Option<UpgradeMessage> {
        let (head, contents) = bytes.split_first_chunk()?;
        let (kind, length) = UpgradeMessage::head(*head)?;
        (length == contents.len()).then(|| UpgradeMessage::decode(kind, contents))?
    }

    #[test]
    fn a_message_is_what_was_said() {
        for message in all() {
            assert_eq!(decode(&message.encode()), Some(message.clone()), "{message:?}");
        }
    }

    #[test]
    fn no_cut_or_changed_byte_causes_a_panic() {
        for message in all() {
            let bytes = message.encode();
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut]), None, "{message:?} cut at {cut}");
            }
            for place in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = bytes.clone();
                    changed[place] = value;
                    decode(&changed);
                }
            }
            let longer = [&bytes[HEAD_BYTES..], &[0]].concat();
            let (kind, _) = UpgradeMessage::head(*bytes.first_chunk().unwrap()).unwrap();
            let is_text = matches!(message, UpgradeMessage::Refused(_));
            assert_eq!(UpgradeMessage::decode(kind, &longer).is_some(), is_text, "{message:?}");
        }
    }

    #[test]
    fn a_refusal_is_bounded_and_safe_to_show() {
        let long = "ü".repeat(UPGRADE_MESSAGE_BYTES_MAX);
        let bytes = UpgradeMessage::Refused(format!("a{long}")).encode();
        assert!(bytes.len() <= HEAD_BYTES + UPGRADE_MESSAGE_BYTES_MAX);
        let Some(UpgradeMessage::Refused(reason)) = decode(&bytes) else { panic!("{bytes:?}") };
        assert!(reason.starts_with("aü") && reason.ends_with('ü'));
        let refused = UpgradeMessage::decode(2, b"no\x1b[2J\n\xff");
        assert_eq!(refused, Some(UpgradeMessage::Refused("no?[2J\n\u{fffd}".to_owned())));
    }

    #[test]
    fn another_version_is_understood_as_such() {
        let contents = [&9u32.to_le_bytes()[..], b"whatever it says"].concat();
        let Some(UpgradeMessage::Hello(hello)) = UpgradeMessage::decode(1, &contents) else {
            panic!("no hello")
        };
        assert_eq!(hello.version, 9);
    }
}
