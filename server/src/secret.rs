//! Random numbers that peers cannot guess.

use aws_lc_rs::rand;

/// Returns a secret random number.
pub(crate) fn secret_number() -> u128 {
    #[cfg(test)]
    if let Some(number) = simulated::next() {
        return number;
    }
    let mut bytes = [0; size_of::<u128>()];
    rand::fill(&mut bytes).expect("the system supplies random bytes");
    u128::from_le_bytes(bytes)
}

/// Random numbers for a thread that simulates a server: they follow from a seed.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;

    thread_local! {
        static NUMBER: Cell<Option<u128>> = const { Cell::new(None) };
    }

    /// A guard: while it exists, its thread gets fixed numbers.
    pub(crate) struct FixedNumbers;

    impl FixedNumbers {
        pub(crate) fn start(seed: u64) -> FixedNumbers {
            NUMBER.set(Some(u128::from(seed) << 64));
            FixedNumbers
        }
    }

    impl Drop for FixedNumbers {
        fn drop(&mut self) {
            NUMBER.set(None);
        }
    }

    pub(super) fn next() -> Option<u128> {
        let next = NUMBER.get()?.wrapping_add(1);
        NUMBER.set(Some(next));
        Some(next)
    }
}
