//! What stands under one primary key: one plain record, or a base with variants.
//!
//! Invariants: a base has at least one variant, at most `variants_max`, oldest first, each with
//! another key; every record has a place in its shard's queues.

use std::sync::Arc;

use crate::budget::{ALLOCATION_BYTES, Charge};
use crate::evict::Place;
use crate::record::Record;

/// What a response says about its variants, in bytes that the store does not interpret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The names that select a variant; one set of names per resource.
    pub names: Vec<u8>,
    /// The values that select this variant.
    pub variant: Vec<u8>,
}

/// Beside its bytes, a resource costs its place in the table, which is less than half full after
/// it has grown (7/16, and a control byte), and its key's and its base's allocations.
pub(crate) const RESOURCE_OVERHEAD_BYTES: u64 =
    (size_of::<Resource>() * 16 / 7 + 3) as u64 + size_of::<Varied>() as u64 + 3 * ALLOCATION_BYTES;

/// Beside its bytes, a variant key costs its place in the list of variants, which may be half
/// empty, and its allocation.
pub(crate) const VARIANT_OVERHEAD_BYTES: u64 = 2 * size_of::<Variant>() as u64 + ALLOCATION_BYTES;

/// A record and its place in the queues.
pub(crate) struct Stored {
    pub(crate) record: Arc<Record>,
    pub(crate) place: Place,
}

pub(crate) struct Variant {
    pub(crate) key: Box<[u8]>,
    pub(crate) stored: Stored,
}

pub(crate) struct Varied {
    pub(crate) names: Arc<[u8]>,
    pub(crate) variants: Vec<Variant>,
}

pub(crate) enum Kind {
    Plain(Stored),
    Varied(Box<Varied>),
}

pub(crate) struct Resource {
    pub(crate) hash: u64,
    pub(crate) key: Box<[u8]>,
    pub(crate) kind: Kind,
    /// For key, names and the place in the table.
    pub(crate) charge: Charge,
}

impl Resource {
    /// All records of this resource.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Stored> {
        let (plain, variants) = match &self.kind {
            Kind::Plain(stored) => (Some(stored), &[][..]),
            Kind::Varied(varied) => (None, &varied.variants[..]),
        };
        plain.into_iter().chain(variants.iter().map(|variant| &variant.stored))
    }

    /// The record at `place` of the queues.
    pub(crate) fn at(&self, place: Place) -> Option<&Stored> {
        self.stored().find(|stored| stored.place == place)
    }

    /// The record of a variant; without one, the plain record.
    pub(crate) fn record_mut(&mut self, variant: Option<&[u8]>) -> Option<&mut Stored> {
        match (&mut self.kind, variant) {
            (Kind::Plain(stored), None) => Some(stored),
            (Kind::Varied(varied), Some(key)) => {
                varied.variants.iter_mut().find(|v| *v.key == *key).map(|v| &mut v.stored)
            }
            _ => None,
        }
    }
}

impl Varied {
    /// The record of a variant.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Stored> {
        self.variants.iter().find(|variant| *variant.key == *key).map(|v| &v.stored)
    }

    /// Takes out what a new record of variant `key` displaces: the old record of that variant, or
    /// the oldest one when there are `variants_max`.
    pub(crate) fn make_room(&mut self, key: &[u8], variants_max: usize) -> Option<Variant> {
        let same = self.variants.iter().position(|variant| *variant.key == *key);
        let full = self.variants.len() >= variants_max;
        same.or(full.then_some(0)).map(|index| self.variants.remove(index))
    }
}
