//! Sequences of operations, the settings with which they are played, and the shortening of a
//! failing sequence.

use forebay_cache::{ConfigError, OpenError, Store, StoreConfig};

use crate::play::play;
use crate::store_common::BODY_BYTES_MAX;
use crate::{operation_count, oracle::Totals};
use forebay_testkit::Rng;

/// The number of operations on one store.
const OPERATIONS: usize = 5_000;

/// The largest number of keys in one store.
const KEYS_MAX: usize = 4000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Fetches and stores a response.
    Put,
    /// Fetches and stores a variant.
    PutVariant,
    /// Begins a fetch.
    Begin,
    /// Continues a fetch.
    Append,
    Finish,
    Abandon,
    Decline,
    Get,
    /// Takes a body handle, to be read later.
    Lend,
    ReadLent,
    DropLent,
    Renew,
    Purge,
    PurgeSoftly,
    /// Purges by a prefix of keys, or by a tag.
    PurgeSome,
    Forget,
    Turn,
    /// A worker leaves, and another one joins.
    Rejoin,
}

/// The frequency of each kind.
const SHARES: &[(Kind, usize)] = &[
    (Kind::Put, 260),
    (Kind::PutVariant, 60),
    (Kind::Begin, 25),
    (Kind::Append, 40),
    (Kind::Finish, 25),
    (Kind::Abandon, 3),
    (Kind::Decline, 3),
    (Kind::Get, 300),
    (Kind::Lend, 70),
    (Kind::ReadLent, 50),
    (Kind::DropLent, 20),
    (Kind::Renew, 40),
    (Kind::Purge, 12),
    (Kind::PurgeSoftly, 12),
    (Kind::PurgeSome, 6),
    (Kind::Forget, 10),
    (Kind::Turn, 90),
    (Kind::Rejoin, 1),
];

/// One operation. Its details follow from these numbers and from the state, so a valid sequence
/// stays valid if any operations are removed from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) worker: usize,
    pub(crate) key: u32,
    pub(crate) value: u32,
    pub(crate) bytes: usize,
    pub(crate) choice: usize,
}

/// The settings for a sequence.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) store: StoreConfig,
    pub(crate) workers: usize,
    /// The number of keys; each key is a number below this.
    pub(crate) keys: usize,
    body_bytes_max: usize,
    has_variants: bool,
    /// The largest number of body handles that are held at the same time.
    pub(crate) lent_max: usize,
}

impl Setting {
    pub(crate) fn random(random: &mut Rng) -> Setting {
        let workers = 1 + random.below(3);
        let mut store = StoreConfig::with_budget(0);
        store.worker_count = workers as u32;
        store.record_bytes_expected = [256, 1024, 4096, 16_384][random.below(4)];
        store.growing_percent = [6, 12, 40][random.below(3)];
        store.variants_max = [2, 3, 64][random.below(3)];
        let least_bytes = least_budget_bytes(&store);
        store.budget_bytes = match random.below(4) {
            0 => least_bytes,
            1 => least_bytes + random.below(least_bytes as usize) as u64,
            2 => 2 * least_bytes + random.below(1 << 20) as u64,
            _ => least_bytes + random.below(16 << 20) as u64,
        };
        store.object_bytes_max = store.budget_bytes / [4, 8, 16][random.below(3)];
        let body_bytes_max = [3000, 20_000, 70_000, BODY_BYTES_MAX][random.below(4)];
        let fitting = 2 * store.budget_bytes as usize / (body_bytes_max / 8 + 600);
        let keys = (fitting / 2 + random.below(fitting)).clamp(20, KEYS_MAX);
        let has_variants = random.below(2) == 0;
        let lent_max = [10, 1000][random.below(2)];
        Setting { store, workers, keys, body_bytes_max, has_variants, lent_max }
    }

    fn operation(&self, random: &mut Rng) -> Operation {
        let mut left = random.below(SHARES.iter().map(|(_, share)| share).sum());
        let find = |(kind, share): &(Kind, usize)| {
            let is_it = left < *share;
            left = left.wrapping_sub(*share);
            is_it.then_some(*kind)
        };
        let mut kind = SHARES.iter().find_map(find).expect("the shares' sum");
        if kind == Kind::PutVariant && !self.has_variants {
            kind = Kind::Put;
        }
        // Low numbers are requested more often.
        let keys = random.below(self.keys) + 1;
        let key = random.below(keys) as u32;
        let most_bytes = random.below(self.body_bytes_max) + 1;
        let bytes = match random.below(16) {
            0 => random.below(70),
            1 => random.below(self.body_bytes_max),
            2 => 16 * 1024 + random.below(600),
            _ => random.below(most_bytes),
        };
        Operation {
            kind,
            worker: random.below(self.workers),
            key,
            value: random.below(5) as u32,
            bytes: bytes.min(BODY_BYTES_MAX),
            choice: random.below(1 << 30),
        }
    }
}

/// The least budget that the store accepts.
pub(crate) fn least_budget_bytes(config: &StoreConfig) -> u64 {
    match Store::open(StoreConfig { budget_bytes: 4096, ..config.clone() }) {
        Err(OpenError::Config(ConfigError::BudgetTooSmall { minimum_bytes })) => minimum_bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_store_returns_the_last_stored_version_or_nothing() {
    let mut random = Rng::of("a_store_returns_the_last_stored_version_or_nothing");
    let mut totals = Totals::default();
    let mut played = 0;
    // A rare event may need more settings than usual to happen.
    let played_max = operation_count().max(1_000_000);
    while played < operation_count() || played < played_max && totals.missing().is_some() {
        let setting = Setting::random(&mut random);
        let operations: Vec<_> = (0..OPERATIONS).map(|_| setting.operation(&mut random)).collect();
        played += operations.len() as u64;
        match attempt(&setting, &operations) {
            Ok(sums) => totals.add(&sums),
            Err(why) => shorten(&setting, operations, &why),
        }
    }
    println!("{played} operations: {totals:?}");
    assert_eq!(totals.missing(), None, "of {totals:?}");
}

/// Plays a sequence; a panic of the store is an error, too.
fn attempt(setting: &Setting, operations: &[Operation]) -> Result<Totals, String> {
    let played = std::panic::catch_unwind(|| play(setting, operations));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("panic: {}", text.unwrap_or_else(|| "see above".to_owned())))
    })
}

/// Removes operations that the failure does not need, up to a number of attempts, and then fails
/// with the remaining sequence.
fn shorten(setting: &Setting, mut operations: Vec<Operation>, why: &str) -> ! {
    println!("fails: {why}\n{setting:?}");
    let mut why = why.to_owned();
    let mut attempts = 3000;
    let mut piece = operations.len() / 2;
    while piece > 0 && attempts > 0 {
        let mut start = 0;
        while start < operations.len() && attempts > 0 {
            attempts -= 1;
            let end = (start + piece).min(operations.len());
            let rest = [&operations[..start], &operations[end..]].concat();
            match attempt(setting, &rest) {
                Err(now) => (operations, why) = (rest, now),
                Ok(_) => start = end,
            }
        }
        piece /= 2;
    }
    for operation in operations.iter().take(200) {
        println!("{operation:?}");
    }
    panic!("{} operations fail: {why}", operations.len());
}
