//! Keys, values and requests, which are drawn before the clock starts.

/// The length of the keys. They are like those of a cache of web pages: hosts with reversed labels,
/// then paths.
pub(crate) const KEY_BYTES: usize = 60;

/// A requested key and its number, in one cache line next to the previous request. The key's bytes
/// are therefore in the processor's cache, as in a program that has just built the key.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) number: u32,
    pub(crate) key: [u8; KEY_BYTES],
}

/// The keys and values that all engines hold.
pub(crate) struct Data {
    pub(crate) keys: Vec<[u8; KEY_BYTES]>,
    pub(crate) value_bytes: usize,
    pub(crate) seed: u64,
}

impl Data {
    pub(crate) fn new(key_count: usize, value_bytes: usize, seed: u64) -> Data {
        assert!(value_bytes >= 8, "a value begins with the number of its key");
        Data { keys: (0..key_count).map(key).collect(), value_bytes, seed }
    }

    /// Writes the value of a key: its number, and then filler.
    pub(crate) fn value(&self, number: u32, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&u64::from(number).to_le_bytes());
        value.resize(self.value_bytes, b'v');
    }

    /// Draws keys with equal probability.
    pub(crate) fn draw(&self, count: usize, turn: u64) -> Vec<Asked> {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_mul(1_000_003) + turn);
        (0..count).map(|_| self.asked(random.u32(..self.keys.len() as u32))).collect()
    }

    /// Draws keys, each at most once.
    pub(crate) fn pick(&self, count: usize, turn: u64) -> Vec<Asked> {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_mul(1_000_003) + turn);
        let mut all: Vec<u32> = (0..self.keys.len() as u32).collect();
        random.shuffle(&mut all);
        all.into_iter().take(count).map(|number| self.asked(number)).collect()
    }

    /// Returns all keys in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Asked> {
        (0..self.keys.len() as u32).map(|number| self.asked(number)).collect()
    }

    fn asked(&self, number: u32) -> Asked {
        Asked { number, key: self.keys[number as usize] }
    }
}

/// Returns the key of a page on one of a hundred hosts.
fn key(number: usize) -> [u8; KEY_BYTES] {
    let host = number % 100;
    let key = format!("main\0https\0com.example.shop{host:02}\0443\0/img/2026/{number:012}.jpg");
    key.into_bytes().try_into().expect("all keys have the same length")
}

/// A checksum of a value. It proves that the value was read, and compares the engines.
pub(crate) fn digest(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)).wrapping_add(1)
}
