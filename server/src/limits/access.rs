//! Limits of the addresses that proxies state, of requests, of answers and files that routes give,
//! and of rate limits.

/// Addresses of `X-Forwarded-For` that are read, from the last one on. A request passes few
/// proxies; each address is compared with the networks of `trusted_proxies`.
pub(crate) const FORWARDED_HOPS_MAX: usize = 32;

/// Longest value of `redirect`: as long as a URL that every browser accepts.
pub(crate) const REDIRECT_BYTES_MAX: usize = 2 << 10;

/// Longest body in `respond`. It is copied into the send queue of each request that gets it.
pub(crate) const FIXED_ANSWER_BYTES_MAX: usize = 64 << 10;

/// Longest value of `respond_type`; registered types have at most 127 characters on each side.
pub(crate) const MEDIA_TYPE_BYTES_MAX: usize = 255;

/// Highest cost of a bcrypt hash: about a second of a processor. A check must not take longer than
/// users wait.
pub(crate) const BCRYPT_COST_MAX: u32 = 14;

/// Most rounds of a SHA-crypt hash: about a second of a processor for a short password, like
/// `BCRYPT_COST_MAX`.
pub(crate) const SHA_CRYPT_ROUNDS_MAX: u32 = 1_000_000;

/// Longest user name in a file with users.
pub(crate) const USER_BYTES_MAX: usize = 255;

/// Largest file with users: about 40,000 users. More belong in a service of their own.
pub(crate) const USER_FILE_BYTES_MAX: usize = 4 << 20;

/// Shortest key of `signed_urls`: 128 bits as hexadecimal digits, which cannot be guessed.
pub(crate) const URL_KEY_BYTES_MIN: usize = 32;

/// Keys of one file of `signed_urls`: the current one, and those whose URLs have not expired yet.
/// Each is tried for a URL whose signature is wrong.
pub(crate) const URL_KEYS_MAX: usize = 8;

/// Largest file with keys, with comments.
pub(crate) const URL_KEY_FILE_BYTES_MAX: usize = 64 << 10;

/// Longest `basic_auth_realm`, which browsers show in one line.
pub(crate) const REALM_BYTES_MAX: usize = 255;

/// Longest user name and password of a request together. The time to check a password grows with
/// its length.
pub(crate) const CREDENTIALS_BYTES_MAX: usize = 512;

/// Right passwords that a worker remembers: less than 1 MiB.
pub(crate) const LOGINS_KEPT_MAX: usize = 4096;

/// Passwords of one worker that wait for their check, or are being checked. At 50 ms for a check,
/// the last waits for less than two seconds.
pub(crate) const LOGIN_CHECKS_MAX: usize = 32;

/// Longest time for which a request waits for the check of its password. Checks of hashes with a
/// high cost may take longer altogether.
pub(crate) const LOGIN_WAIT_MS_MAX: u64 = 10_000;

/// The part of `LOGIN_CHECKS_MAX` that one client network can use: a client that guesses passwords
/// leaves room for others. If several networks use up `LOGIN_CHECKS_MAX`, another network displaces
/// a check of theirs.
pub(crate) const LOGIN_CHECKS_PER_NETWORK_MAX: usize = 8;

/// Client networks of which a worker remembers the order of their last checks: more than can wait.
pub(crate) const LOGIN_TURNS_KEPT_MAX: usize = 64;

/// Niceness of a thread that checks a password. A worker that needs the same processor gets about
/// nine tenths of it.
pub(crate) const LOGIN_NICENESS: i32 = 10;

/// Tags of one PURGE request. Magento sends a few hundred; each is looked up by itself.
pub(crate) const PURGE_TAGS_MAX: usize = 4096;

/// Rate limits of one route. Each is looked up for each request, in a line of memory that all
/// workers write.
pub(crate) const RATE_LIMITS_MAX: usize = 4;

/// Limits on requests in progress of one route. Each is looked up for each request, in a line of
/// memory that all workers write.
pub(crate) const CONCURRENCY_LIMITS_MAX: usize = 4;

/// Clients, routes and field values whose requests in progress are counted, in four bytes each. An
/// entry is in use only while a request is in progress. A key can use 16 of them: with 100,000 keys
/// in progress, about one new key in 1,600 finds all 16 in use, and shares one.
pub(crate) const CONCURRENCY_ENTRIES: u32 = 1 << 18;

/// The seconds after which a client that has reached a `concurrency_limit` may try again. The end
/// of a request in progress cannot be foreseen.
pub(crate) const CONCURRENCY_RETRY_S: u64 = 1;

/// Longest time over which a rate is given. A longer one is a quota, and would have to survive
/// restarts.
pub(crate) const RATE_PERIOD_S_MAX: u64 = 86_400;

/// Names in `files_index`. Each may cost a system call for a request of a directory.
pub(crate) const FILES_INDEX_MAX: usize = 8;

/// Types in `files_types`. Each is compared with the extension of a file that is read.
pub(crate) const FILES_TYPES_MAX: usize = 256;

/// Threads of one worker that read the files of one directory at the same time. Local disks need
/// few; if a network file system hangs, each thread hangs with it, and so do later reads of this
/// directory alone.
pub(crate) const FILE_READERS_MAX: usize = 4;

/// Bytes of a file that are read in one piece, of which each response has one in flight. A larger
/// piece saves little: handing it over costs some microseconds.
pub(crate) const FILE_PIECE_BYTES: usize = 256 << 10;

/// How long after its last change a file may change again and keep the same time of change: a few
/// ticks of the kernel's clock (1 to 10 ms).
pub(crate) const FILE_TICK_MS: u64 = 20;

/// The same for a file system whose times are whole seconds, as those of FAT are (2 s).
pub(crate) const FILE_COARSE_MS: u64 = 2_000;

/// How often a file that is just being written is opened again before the request fails.
pub(crate) const FILE_OPENS_MAX: usize = 6;
