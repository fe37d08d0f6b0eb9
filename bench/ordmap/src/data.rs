//! Keys, values, and which of them are asked for: drawn before the clock starts.

/// Keys of 60 bytes as a cache of web pages has them: hosts with reversed labels, then paths.
pub(crate) const KEY_BYTES: usize = 60;

/// What all engines hold.
pub(crate) struct Data {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) value_bytes: usize,
    pub(crate) seed: u64,
}

impl Data {
    pub(crate) fn new(key_count: usize, value_bytes: usize, seed: u64) -> Data {
        assert!(value_bytes >= 8, "a value begins with the number of its key");
        Data { keys: (0..key_count).map(key).collect(), value_bytes, seed }
    }

    /// Puts the value of a key together: its number, and filling.
    pub(crate) fn value(&self, number: u32, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&u64::from(number).to_le_bytes());
        value.resize(self.value_bytes, b'v');
    }

    /// Numbers of keys, all alike often.
    pub(crate) fn draw(&self, count: usize, turn: u64) -> Vec<u32> {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_mul(1_000_003) + turn);
        (0..count).map(|_| random.u32(..self.keys.len() as u32)).collect()
    }

    /// Numbers of keys, none of them twice.
    pub(crate) fn pick(&self, count: usize, turn: u64) -> Vec<u32> {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_mul(1_000_003) + turn);
        let mut all: Vec<u32> = (0..self.keys.len() as u32).collect();
        random.shuffle(&mut all);
        all.truncate(count);
        all
    }
}

/// A hundred hosts, each with pages.
fn key(number: usize) -> Vec<u8> {
    let host = number % 100;
    let key = format!("main\0https\0com.example.shop{host:02}\0443\0/img/2026/{number:012}.jpg");
    let key = key.into_bytes();
    assert_eq!(key.len(), KEY_BYTES);
    key
}

/// What is made of a value that was read: enough to have read it, and to compare the engines.
pub(crate) fn digest(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)).wrapping_add(1)
}
