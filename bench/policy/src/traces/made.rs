//! Traces that are made from a seed.

use std::ops::Range;

use fastrand::Rng;

use super::Trace;
use super::zipf::Zipf;

/// The number of keys that are requested repeatedly, in every made trace except the traces of mixed
/// sizes.
const KEYS: u32 = 1_000_000;

/// The number of keys in the traces of mixed sizes. It is about the number of a store's records.
const SIZED_KEYS: u32 = 100_000;

/// The length of an object in traces whose objects all have the same length.
const EVEN_BYTES: u32 = 1024;

/// The number of requests to draw, and the seed.
pub(crate) struct Draw {
    pub(crate) requests: u32,
    pub(crate) seed: u64,
}

/// A trace that can be made, and its parameters.
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    make: fn(&mut Maker),
    keys: u32,
    exponent: f64,
}

const ZIPF: Spec = Spec {
    name: "zipf-1.0",
    about: "Zipf's law with exponent 1.0 over 1,000,000 keys of 1 KiB",
    make: popular,
    keys: KEYS,
    exponent: 1.0,
};

/// The traces of the standard set.
pub(crate) const SPECS: &[Spec] = &[
    Spec { name: "zipf-0.8", about: "as zipf-1.0, with exponent 0.8", exponent: 0.8, ..ZIPF },
    ZIPF,
    Spec { name: "zipf-1.2", about: "as zipf-1.0, with exponent 1.2", exponent: 1.2, ..ZIPF },
    Spec {
        name: "one-hit-25",
        about: "zipf-1.0; 25 % of the requests are for keys that are requested only once",
        make: |maker| one_hits(maker, 25),
        ..ZIPF
    },
    Spec {
        name: "one-hit-50",
        about: "as one-hit-25, with 50 % of the requests",
        make: |maker| one_hits(maker, 50),
        ..ZIPF
    },
    Spec {
        name: "one-hit-75",
        about: "as one-hit-25, with 75 % of the requests",
        make: |maker| one_hits(maker, 75),
        ..ZIPF
    },
    Spec {
        name: "scan",
        about: "zipf-1.0, interrupted ten times by a walk over 60,000 new keys",
        make: scan,
        ..ZIPF
    },
    Spec {
        name: "loop",
        about: "a walk over 60,000 keys, repeated again and again",
        make: |maker| walk(maker, 100),
        ..ZIPF
    },
    Spec {
        name: "zipf+loop",
        about: "zipf-1.0; every second request belongs to the walk of loop",
        make: |maker| walk(maker, 50),
        ..ZIPF
    },
    Spec {
        name: "shift",
        about: "zipf-1.0; after every 20 requests a popular key changes places with another",
        make: shift,
        ..ZIPF
    },
    Spec {
        name: "burst",
        about: "half zipf-1.0, half new keys, each requested 6 times within 20,000 requests",
        make: burst,
        ..ZIPF
    },
    Spec {
        name: "sizes",
        about: "zipf-1.0 over 100,000 keys, sizes log-normal from 1 KiB to 1 MiB",
        make: sizes,
        keys: SIZED_KEYS,
        ..ZIPF
    },
    Spec {
        name: "sizes+one-hit",
        about: "sizes; 30 % of the requests are for keys that are requested only once",
        make: |maker| {
            one_hits(maker, 30);
            sizes_of_all(maker);
        },
        keys: SIZED_KEYS,
        exponent: 0.9,
    },
    Spec {
        name: "short-lived",
        about: "sizes with exponent 0.9; half the keys are stale after 20,000 to 200,000 requests",
        make: |maker| short_lived(maker, 20_000..200_000),
        keys: SIZED_KEYS,
        exponent: 0.9,
    },
    Spec {
        name: "replaced",
        about: "as short-lived, but stale after 500 to 5,000 requests",
        make: |maker| short_lived(maker, 500..5000),
        keys: SIZED_KEYS,
        exponent: 0.9,
    },
];

impl Spec {
    pub(crate) fn make(&self, draw: &Draw) -> Trace {
        let mut maker = Maker {
            random: Rng::with_seed(draw.seed),
            zipf: Zipf::new(self.keys, self.exponent),
            left: draw.requests,
            trace: Trace {
                name: self.name.into(),
                requests: Vec::with_capacity(draw.requests as usize),
                bytes: vec![EVEN_BYTES; self.keys as usize],
                lifetimes: Vec::new(),
                footprint_bytes: 0,
            },
        };
        (self.make)(&mut maker);
        let popular = &maker.trace.bytes[..self.keys as usize];
        maker.trace.footprint_bytes = popular.iter().map(|bytes| u64::from(*bytes)).sum();
        maker.trace
    }
}

/// A trace that is being made.
struct Maker {
    random: Rng,
    zipf: Zipf,
    left: u32,
    trace: Trace,
}

impl Maker {
    /// Appends requests until the trace has the requested number.
    fn fill(&mut self, mut key: impl FnMut(&mut Self) -> u32) {
        while self.left > 0 {
            let key = key(self);
            self.push(key);
        }
    }

    fn push(&mut self, key: u32) {
        self.trace.requests.push(key);
        self.left = self.left.saturating_sub(1);
    }

    fn draw(&mut self) -> u32 {
        self.zipf.draw(&mut self.random)
    }

    fn is_one_of(&mut self, percent: u32) -> bool {
        self.random.u32(..100) < percent
    }

    /// Adds a new key.
    fn fresh(&mut self) -> u32 {
        self.trace.bytes.push(EVEN_BYTES);
        self.trace.bytes.len() as u32 - 1
    }
}

fn popular(maker: &mut Maker) {
    maker.fill(Maker::draw);
}

fn one_hits(maker: &mut Maker, percent: u32) {
    maker.fill(|maker| if maker.is_one_of(percent) { maker.fresh() } else { maker.draw() });
}

fn scan(maker: &mut Maker) {
    const SCANS: u32 = 10;
    const LENGTH: u32 = 60_000;
    let between = (maker.left / SCANS).max(1);
    maker.fill(|maker| {
        if maker.left % between < LENGTH.min(between / 2) { maker.fresh() } else { maker.draw() }
    });
}

fn walk(maker: &mut Maker, percent: u32) {
    const LENGTH: usize = 60_000;
    let walked: Vec<u32> = (0..LENGTH).map(|_| maker.fresh()).collect();
    let mut at = 0;
    maker.fill(|maker| {
        if !maker.is_one_of(percent) {
            return maker.draw();
        }
        at = (at + 1) % LENGTH;
        walked[at]
    });
}

fn shift(maker: &mut Maker) {
    const EVERY: u32 = 20;
    let count = maker.trace.bytes.len();
    let mut key_of_rank: Vec<u32> = (0..count as u32).collect();
    maker.fill(|maker| {
        if maker.left % EVERY == 0 {
            // Ranks are drawn evenly over their logarithm, so that each decade of ranks changes
            // equally often.
            let popular = (count as f64).powf(maker.random.f64()) as usize - 1;
            key_of_rank.swap(popular, maker.random.usize(..count));
        }
        key_of_rank[maker.draw() as usize]
    });
}

fn burst(maker: &mut Maker) {
    const TIMES: u32 = 6;
    const WITHIN: usize = 20_000;
    // A ring of the keys that are due at each time.
    let mut due: Vec<Vec<u32>> = vec![Vec::new(); WITHIN];
    let mut now = 0;
    maker.fill(|maker| {
        now = (now + 1) % WITHIN;
        if let Some(key) = due[now].pop() {
            let waiting = std::mem::take(&mut due[now]);
            due[(now + 1) % WITHIN].extend(waiting);
            return key;
        }
        // One in seven begins a burst of six, so bursts are half of all requests.
        if maker.random.u32(..TIMES + 1) > 0 {
            return maker.draw();
        }
        let key = maker.fresh();
        for _ in 1..TIMES {
            due[maker.random.usize(..WITHIN)].push(key);
        }
        key
    });
}

fn sizes(maker: &mut Maker) {
    popular(maker);
    sizes_of_all(maker);
}

/// Draws sizes from a log-normal distribution: half are below 12 KiB, and the mean is about 36 KiB.
fn sizes_of_all(maker: &mut Maker) {
    const MEDIAN: f64 = 12.0 * 1024.0;
    const SIGMA: f64 = 1.5;
    const RANGE: (f64, f64) = (1024.0, 1024.0 * 1024.0);
    for bytes in &mut maker.trace.bytes {
        let (angle, radius) = (maker.random.f64(), 1.0 - maker.random.f64());
        let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
        *bytes = (MEDIAN * (SIGMA * normal).exp()).clamp(RANGE.0, RANGE.1) as u32;
    }
}

fn short_lived(maker: &mut Maker, range: Range<u32>) {
    sizes(maker);
    let lifetimes = maker.trace.bytes.iter().map(|_| {
        let is_short = maker.random.bool();
        if is_short { maker.random.u32(range.clone()) } else { u32::MAX }
    });
    maker.trace.lifetimes = lifetimes.collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
        for spec in SPECS.iter().filter(|spec| spec.keys == SIZED_KEYS || spec.name == "burst") {
            let make = |seed| spec.make(&Draw { requests: 10_000, seed });
            let (one, same, other) = (make(1), make(1), make(2));
            assert_eq!(one.requests.len(), 10_000, "{}", spec.name);
            assert_eq!((&one.requests, &one.bytes), (&same.requests, &same.bytes), "{}", spec.name);
            assert_ne!(one.requests, other.requests, "{}", spec.name);
            let is_known = |key: &u32| (*key as usize) < one.bytes.len();
            assert!(one.requests.iter().all(is_known), "{}", spec.name);
        }
    }

    #[test]
    fn half_of_burst_are_bursts() {
        let spec = SPECS.iter().find(|spec| spec.name == "burst").expect("it is in the table");
        let trace = spec.make(&Draw { requests: 400_000, seed: 1 });
        let bursts = trace.requests.iter().filter(|key| **key >= KEYS).count();
        assert!((180_000..220_000).contains(&bursts), "{bursts} of 400,000");
    }
}
