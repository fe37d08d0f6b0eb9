//! Traces, which are lists of requests: made from a seed, or read from a file.

mod file;
mod made;
mod zipf;

pub(crate) use file::read;
pub(crate) use made::{Draw, SPECS, Spec};

/// A list of requests. A key is a small number, which is an index into the vectors of properties.
pub(crate) struct Trace {
    pub(crate) name: String,
    /// The key of each request.
    pub(crate) requests: Vec<u32>,
    /// The length of each key's object, including the head.
    pub(crate) bytes: Vec<u32>,
    /// How long each key's object is fresh, in requests. Empty if all objects stay fresh for ever.
    pub(crate) lifetimes: Vec<u32>,
    /// The number of bytes of which a budget is a share.
    pub(crate) footprint_bytes: u64,
}

impl Trace {
    /// The mean length of the objects, weighted by their requests.
    pub(crate) fn mean_bytes(&self) -> u64 {
        let sum: u64 = self.requests.iter().map(|key| u64::from(self.bytes[*key as usize])).sum();
        sum / (self.requests.len() as u64).max(1)
    }
}
