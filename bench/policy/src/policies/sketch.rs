//! Estimates how often keys were requested lately, by a count-min sketch of four-bit counters.

const ROWS: usize = 4;
const COUNT_MAX: u8 = 15;
const SEEDS: [u64; ROWS] =
    [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0xD6E8_FEB8_6659_FD93];

pub(super) struct Sketch {
    counters: Vec<[u8; ROWS]>,
    noted: u64,
    /// The number of requests after which all counts are halved, so that past popularity fades.
    noted_max: u64,
}

impl Sketch {
    /// Makes a sketch for a cache of about this many objects.
    pub(super) fn new(objects: u64) -> Self {
        let columns = (2 * objects.max(64)).next_power_of_two();
        Self { counters: vec![[0; ROWS]; columns as usize], noted: 0, noted_max: 10 * objects }
    }

    fn column(&self, key: u32, row: usize) -> usize {
        let hash = (u64::from(key) + 1).wrapping_mul(SEEDS[row]);
        (hash >> 32) as usize & (self.counters.len() - 1)
    }

    pub(super) fn note(&mut self, key: u32) {
        for row in 0..ROWS {
            let column = self.column(key, row);
            let counter = &mut self.counters[column][row];
            *counter = COUNT_MAX.min(*counter + 1);
        }
        self.noted += 1;
        if self.noted >= self.noted_max {
            self.noted /= 2;
            self.counters.iter_mut().flatten().for_each(|counter| *counter /= 2);
        }
    }

    pub(super) fn estimate(&self, key: u32) -> u8 {
        let of_row = |row| self.counters[self.column(key, row)][row];
        (0..ROWS).map(of_row).min().unwrap_or(0)
    }
}
