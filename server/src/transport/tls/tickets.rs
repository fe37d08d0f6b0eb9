//! Session tickets (RFC 8446 §4.6.1, RFC 5077), sealed with keys that all workers share.
//!
//! The keys are immutable bytes. The control thread creates new keys and passes them to the
//! workers, and to its successor in an upgrade, so a client can resume its session on any worker. A
//! ticket begins with the name of its key. A ticket opens only in the scope in which it was sealed,
//! see [`TicketScope`].

use std::fmt::Write as _;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;

use crate::config::TrustId;
use crate::limits::TICKET_KEY_MS;

/// Bytes of a key's name.
const NAME_BYTES: usize = 16;

/// Bytes of a key with its name.
const KEY_BYTES: usize = NAME_BYTES + 32;

/// Bytes that [`TicketKeys::encode`] returns.
pub(crate) const TICKET_KEYS_BYTES: usize = 2 * KEY_BYTES;

/// The keys for session tickets: the current key, which seals new tickets, and the previous key,
/// which still opens older tickets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TicketKeys {
    current: [u8; KEY_BYTES],
    previous: [u8; KEY_BYTES],
}

/// Seals and opens tickets with the keys of one worker's settings.
pub(super) struct Tickets {
    /// The scope of the tickets, as text.
    scope: String,
    current: TicketKey,
    previous: TicketKey,
}

/// The connections on which a ticket may be used. A client that resumes its session is not shown
/// the certificates of the sites, and does not show its own again.
#[derive(Clone, Debug, Default)]
pub(super) struct TicketScope {
    /// The address at which the tickets are opened; empty for addresses that no site names.
    pub(super) address: String,
    /// The terms for the certificates of clients, if clients are asked for any.
    pub(super) trust: Option<TrustId>,
}

struct TicketKey {
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
}

impl TicketKeys {
    /// Returns new random keys; `None` if the system cannot supply random bytes.
    pub(crate) fn generate() -> Option<TicketKeys> {
        Some(TicketKeys { current: random()?, previous: random()? })
    }

    /// Returns keys with a new current key. Tickets sealed with the replaced key stay valid until
    /// the next rotation.
    pub(crate) fn rotated(&self) -> Option<TicketKeys> {
        Some(TicketKeys { current: random()?, previous: self.current })
    }

    /// Returns the keys as bytes, for the successor in an upgrade.
    pub(crate) fn encode(&self) -> [u8; TICKET_KEYS_BYTES] {
        let mut bytes = [0; TICKET_KEYS_BYTES];
        let (current, previous) = bytes.split_at_mut(KEY_BYTES);
        current.copy_from_slice(&self.current);
        previous.copy_from_slice(&self.previous);
        bytes
    }

    /// Returns the keys from bytes that [`TicketKeys::encode`] has written.
    pub(crate) fn decode(bytes: &[u8; TICKET_KEYS_BYTES]) -> TicketKeys {
        let (mut current, mut previous) = ([0; KEY_BYTES], [0; KEY_BYTES]);
        let (first, second) = bytes.split_at(KEY_BYTES);
        current.copy_from_slice(first);
        previous.copy_from_slice(second);
        TicketKeys { current, previous }
    }
}

/// Formats the keys without showing any.
impl std::fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKeys")
    }
}

impl Tickets {
    /// Creates the ciphers of the keys; `None` if the library refuses a key.
    pub(super) fn new(keys: &TicketKeys, scope: TicketScope) -> Option<Tickets> {
        let mut text = scope.address;
        for byte in scope.trust.iter().flatten() {
            let _ = write!(text, "/{byte:02x}");
        }
        Some(Tickets {
            scope: text,
            current: TicketKey::new(&keys.current)?,
            previous: TicketKey::new(&keys.previous)?,
        })
    }
}

impl TicketKey {
    fn new(bytes: &[u8; KEY_BYTES]) -> Option<TicketKey> {
        let (name, key) = bytes.split_first_chunk::<NAME_BYTES>()?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?);
        Some(TicketKey { name: *name, key })
    }

    /// Returns the text that a sealed ticket is bound to.
    fn bound_to(&self, scope: &str) -> Aad<Vec<u8>> {
        Aad::from([&self.name[..], scope.as_bytes()].concat())
    }

    fn seal(&self, plain: &[u8], scope: &str) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let aad = self.bound_to(scope);
        let nonce_value = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce_value, aad, &mut sealed).ok()?;
        Some([&self.name[..], &nonce, &sealed].concat())
    }

    fn open(&self, (nonce, sealed): ([u8; NONCE_LEN], &[u8]), scope: &str) -> Option<Vec<u8>> {
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let aad = self.bound_to(scope);
        let opened = self.key.open_in_place(nonce, aad, &mut plain).ok()?.len();
        plain.truncate(opened);
        Some(plain)
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    /// Returns the lifetime of tickets in seconds: one period of a key. A key opens tickets for one
    /// period after the period in which it seals them.
    fn lifetime(&self) -> u32 {
        (TICKET_KEY_MS / 1000) as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.current.seal(plain, &self.scope)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = [&self.current, &self.previous].into_iter().find(|key| key.name == *name)?;
        key.open((*nonce, sealed), &self.scope)
    }
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tickets")
    }
}

fn random() -> Option<[u8; KEY_BYTES]> {
    let mut bytes = [0; KEY_BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(keys: &TicketKeys) -> Tickets {
        Tickets::new(keys, TicketScope::default()).expect("keys of the right length")
    }

    #[test]
    fn a_ticket_opens_only_in_its_scope() {
        let keys = TicketKeys::generate().expect("randomness");
        let scope = |address: &str, trust: Option<u8>| TicketScope {
            address: address.to_owned(),
            trust: trust.map(|byte| [byte; 32]),
        };
        let scopes = [
            scope("[::1]:443", Some(1)),
            scope("[::1]:443", Some(2)),
            scope("[::1]:443", None),
            scope("[::1]:444", Some(1)),
            scope("", Some(1)),
            scope("", None),
        ];
        for (index, sealed) in scopes.iter().enumerate() {
            let tickets = Tickets::new(&keys, sealed.clone()).expect("good keys");
            let ticket = tickets.encrypt(b"session").expect("sealed");
            for (other, opened) in scopes.iter().enumerate() {
                let tickets = Tickets::new(&keys, opened.clone()).expect("good keys");
                let is_open = tickets.decrypt(&ticket).is_some();
                assert_eq!(is_open, index == other, "{sealed:?} in {opened:?}");
            }
        }
    }

    #[test]
    fn a_ticket_opens_until_its_key_was_replaced_twice() {
        let first = TicketKeys::generate().expect("randomness");
        let second = first.rotated().expect("randomness");
        let third = second.rotated().expect("randomness");
        let ticket = tickets(&first).encrypt(b"session").expect("sealed");
        for (keys, opens) in [(first, true), (second, true), (third, false)] {
            let handed_over = TicketKeys::decode(&keys.encode());
            assert!(handed_over == keys, "the keys change on the way");
            let opened = tickets(&handed_over).decrypt(&ticket);
            assert_eq!(opened.as_deref(), opens.then_some(&b"session"[..]));
        }
    }

    #[test]
    fn a_changed_ticket_does_not_open() {
        let tickets = tickets(&TicketKeys::generate().expect("randomness"));
        let ticket = tickets.encrypt(b"session").expect("sealed");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(tickets.decrypt(&changed), None, "byte {at}");
            assert_eq!(tickets.decrypt(&ticket[..at]), None, "cut at {at}");
        }
    }
}
