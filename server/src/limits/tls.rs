//! Limits of the addresses for clients, and of TLS, for clients and for origins.

/// Maximum number of addresses of `listen`, and of `listen_tls`: two address families in two
/// networks. Each worker has one socket for each address.
pub(crate) const LISTEN_ADDRESSES_MAX: usize = 4;

/// Maximum number of certificates of one site: one for each signature algorithm, and room for a
/// change of algorithm.
pub(crate) const CERTIFICATES_MAX: usize = 4;

/// Bytes of a file with a certificate chain or a key. Usual chains have 3 to 6 KiB.
pub(crate) const CERTIFICATE_BYTES_MAX: usize = 64 << 10;

/// Bytes of a file with lists of revoked certificates: room for 6,000 of them. The TLS library
/// verifies the signature of the whole list for each certificate of each handshake, which takes a
/// millisecond for 1 MiB.
pub(crate) const REVOCATION_LIST_BYTES_MAX: usize = 256 << 10;

/// Largest number of certificates that a client may send. The number of ways from a client's
/// certificate to an authority grows with the factorial of this number, and each costs the
/// verification of a signature.
pub(crate) const CLIENT_CHAIN_MAX: usize = 4;

/// Bytes of a client's own certificate; usual ones have 1 to 2 KiB. Each connection keeps it, and
/// `forward_client_certificate` sends it with each request.
pub(crate) const CLIENT_CERTIFICATE_BYTES_MAX: usize = 8 << 10;

/// Maximum number of public keys of one origin: the present one, the next one, and those of several
/// servers behind one name. Each handshake compares all of them.
pub(crate) const ORIGIN_PINS_MAX: usize = 16;

/// Longest name of a certificate as text, and longest list of its alternative names of one kind.
/// Usual names have less than 200 bytes; rules and the access log copy them.
pub(crate) const CERTIFICATE_NAMES_BYTES_MAX: usize = 2048;

/// Bytes of a certificate's serial number; RFC 5280 §4.1.2.2 permits 20.
pub(crate) const CERTIFICATE_SERIAL_BYTES_MAX: usize = 32;

/// How long a ticket key seals tickets. For a second period of the same length it only opens them.
/// A thief of the key can decrypt the sessions of both periods, so they are short; browsers return
/// within hours.
pub(crate) const TICKET_KEY_MS: u64 = 6 * 3_600_000;

/// One network gets at most one in this many handshake slots of a worker. So seven networks that
/// begin handshakes and never finish them leave slots to other networks.
pub(crate) const TLS_NETWORK_SHARE: u32 = 8;

/// Bytes that a TLS connection encrypts before the kernel can take them: as many as an idle kernel
/// accepts in one write. A client that does not read makes a connection hold at most this much.
pub(crate) const TLS_WRITE_BYTES_MAX: usize = 64 << 10;

/// Bytes that a TLS connection sends in short records when it starts, and after a pause of
/// [`TLS_COLD_MS`]: the initial window of TCP is about 14 KiB (RFC 6928).
pub(crate) const TLS_COLD_BYTES: usize = 8 << 10;

/// Pause after which records are short again, see [`TLS_COLD_BYTES`]. TCP halves its window after
/// about this time.
pub(crate) const TLS_COLD_MS: u64 = 1_000;

/// Bytes of plaintext in a short record, which fits into one packet: 1,500 bytes without the heads
/// of IPv6, TCP with options, and TLS.
pub(crate) const TLS_COLD_RECORD_BYTES: usize = 1_370;

/// Maximum number of TLS configurations for origins that one worker keeps, each with up to 256
/// sessions to resume. At the limit, all of them are discarded and made again.
pub(crate) const ORIGIN_TLS_MAX: usize = 1024;
