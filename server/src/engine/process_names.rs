//! The names by which this process is known: its UUID, and its name in `Via`.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;

use crate::clock;

/// Returns a random UUID for this process.
pub(super) fn process_id() -> String {
    let random = || RandomState::new().build_hasher().finish();
    // UUID version 4 and variant (RFC 9562 §5.4).
    let (high, low) = (random() & !0xf000 | 0x4000, random() >> 2 | 1 << 63);
    let (first, second, third) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
    format!(
        "{first:08x}-{second:04x}-{third:04x}-{:04x}-{:012x}",
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// Returns a name for `Via` that no other server has. By this name the server recognises a request
/// that loops back (RFC 9110 §7.6.3).
pub(super) fn via_name(address: SocketAddr) -> String {
    let mut random = RandomState::new().build_hasher();
    random.write_u64(clock::unix_ms());
    format!("forebay-{:08x}-{}", random.finish() & 0xffff_ffff, address.port())
}
