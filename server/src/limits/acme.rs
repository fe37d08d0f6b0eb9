//! Limits of orders of certificates by ACME. A certificate authority is not under the control of
//! the operator, so its answers are bounded like those of any other server.

/// Maximum number of names in one certificate; Let's Encrypt permits as many.
pub(crate) const ACME_NAMES_MAX: usize = 100;

/// Maximum number of mail addresses of an account.
pub(crate) const ACME_CONTACTS_MAX: usize = 4;

/// Longest file name that contains the name of a site. File systems permit 255 bytes.
pub(crate) const ACME_FILE_NAME_BYTES_MAX: usize = 200;

/// Largest answer of a certificate authority: an order with 100 names has about 20 KiB.
pub(crate) const ACME_ANSWER_BYTES_MAX: usize = 256 << 10;

/// Largest head of an answer of a certificate authority.
pub(crate) const ACME_HEAD_BYTES_MAX: usize = 32 << 10;

/// Time for one request to a certificate authority, from the resolution of its name to the end of
/// the answer.
pub(crate) const ACME_REQUEST_MS_MAX: u64 = 30_000;

/// Time for the certificate authority to check the challenges of an order, and for it to issue the
/// certificate.
pub(crate) const ACME_POLL_MS_MAX: u64 = 180_000;

/// Time for a whole order. With 100 names an order has some 300 requests.
pub(crate) const ACME_ORDER_MS_MAX: u64 = 900_000;

/// Longest token of a challenge. A token has at least 22 characters (RFC 8555 §8.3); authorities
/// use 43.
pub(crate) const ACME_TOKEN_BYTES_MAX: usize = 128;

/// Longest text of a certificate authority's error that is reported.
pub(crate) const ACME_PROBLEM_BYTES_MAX: usize = 400;

/// Largest file with an account, or with the failures of a certificate.
pub(crate) const ACME_FILE_BYTES_MAX: u64 = 64 << 10;

/// Interval at which the files of certificates are looked at, because another process may have
/// replaced or removed them.
pub(crate) const ACME_CHECK_S: u64 = 60;

/// Interval at which a process that waits for the order of another process looks again.
pub(crate) const ACME_LOCKED_S: u64 = 5;

/// Longest time between two orders after failures.
pub(crate) const ACME_RETRY_S_MAX: u64 = 6 * 3600;

/// Least time between two orders of a certificate if the first one succeeds. A third of the
/// certificate's life is enough if it is shorter.
pub(crate) const ACME_ORDER_S_MIN: u64 = 3600;

/// Most that the clocks of this server and of the authority may differ: a certificate whose life
/// begins later is refused.
pub(crate) const ACME_CLOCK_S_MAX: u64 = 3600;

/// Time without requests to an authority that cannot be reached or is overloaded, and the longest
/// one that it can ask for. A limit of the authority may concern one site only, so it must not put
/// off the orders of others for long.
pub(crate) const ACME_PAUSE_S: std::ops::RangeInclusive<u64> = 60..=3600;

/// Delay of the next order after one that was cut off because the server stopped.
pub(crate) const ACME_CUT_OFF_MS: u64 = 60_000;

/// Delay until the thread that orders certificates is started again if it has failed.
pub(crate) const ACME_RESTART_MS: u64 = 60_000;

/// Longest time for which a certificate authority can put off the next order. No time on disk may
/// lie further ahead.
pub(crate) const ACME_RETRY_AFTER_S_MAX: u64 = 24 * 3600;

/// Interval at which the authority is asked when to renew a certificate, unless it states one
/// (RFC 9773 §4.3.3), and the bounds of the interval that it may state.
pub(crate) const ACME_RENEWAL_INFO_S: std::ops::RangeInclusive<u64> = 21_600..=86_400;
