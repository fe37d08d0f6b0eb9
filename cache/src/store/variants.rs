//! Resources with variants. A base is stored under the primary key, and a record for each variant.
//!
//! ```text
//! primary key ──► base: head = sets of field names, each behind its length (2 bytes),
//!                       body = the ids of its variants (24 bytes each)
//! primary key, NUL, id ──► variant: head = length of the selector (2 bytes), the selector,
//!                                   the response's head
//! id: number (8 bytes), hash of the selector (16 bytes)
//! ```
//!
//! Responses with different field names in `Vary` are stored side by side: the base has each of
//! these sets of field names. The empty set, whose selector is empty, belongs to the response that
//! does not vary. In the code, `names` is such a set, and `values` is a selector.
//!
//! A variant gets a new number each time that a base names it and did not name it before. So after
//! a base has dropped a variant, no lookup ever finds its record: if the base names the same
//! selector again, the variant has another key. Purges rely on this, because they reach only the
//! variants that a base names. A purge of a whole resource has to remove only the base.

use crate::segment::SEQUENCE_MAX;

const NUMBER_BYTES: usize = 8;
const HASH_BYTES: usize = 16;
const ID_BYTES: usize = NUMBER_BYTES + HASH_BYTES;
const LENGTH_BYTES: usize = 2;

/// The most sets of field names of a base. A lookup makes a selector for each. A response with a
/// further set replaces the base and its variants.
const NAME_SETS_MAX: usize = 8;

/// The most bytes of the head of a base with several sets of field names.
const NAME_SETS_BYTES_MAX: usize = 8 * 1024;

/// The sets of field names of a base, as its head holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameSets<'a>(&'a [u8]);

/// A variant as its base names it: its number, and the hash of its selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VariantId([u8; ID_BYTES]);

/// The decoded body of a base: the ids of the variants that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BaseBody<'a> {
    /// The ids, the oldest first.
    ids: &'a [[u8; ID_BYTES]],
}

/// An owned copy of the ids of a base's variants, for use after the base is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedVariants {
    primary: Vec<u8>,
    ids: Vec<[u8; ID_BYTES]>,
}

impl VariantId {
    /// Makes an id. `number` is a sequence of the store that is used for nothing else.
    pub(crate) fn new(number: u64, hash: &[u8; HASH_BYTES]) -> VariantId {
        let mut id = [0; ID_BYTES];
        id[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        id[NUMBER_BYTES..].copy_from_slice(hash);
        VariantId(id)
    }
}

impl<'a> NameSets<'a> {
    /// The sets of a base with this head.
    pub(crate) fn of(head: &'a [u8]) -> NameSets<'a> {
        NameSets(head)
    }

    /// The sets, in the order in which they were added.
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk::<LENGTH_BYTES>()?;
            let (names, after) =
                after.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            rest = after;
            Some(names)
        })
    }

    pub(crate) fn has(self, names: &[u8]) -> bool {
        self.iter().any(|own| own == names)
    }

    /// Whether a base with these sets has the set `names`, or can take it as a further set.
    pub(crate) fn takes(self, names: &[u8]) -> bool {
        let bytes = self.0.len() + LENGTH_BYTES + names.len();
        self.has(names) || self.iter().count() < NAME_SETS_MAX && bytes <= NAME_SETS_BYTES_MAX
    }

    /// Returns the head of a base that has the set `names` too; `None` if `names` is too long.
    pub(crate) fn with(self, names: &[u8]) -> Option<Vec<u8>> {
        let mut head = self.0.to_vec();
        if !self.has(names) {
            head.extend(values_prefix(names)?);
        }
        Some(head)
    }
}

impl NamedVariants {
    /// The keys of the variants.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        self.ids.iter().map(|id| {
            let mut key = Vec::new();
            write_key_of(&mut key, &self.primary, &VariantId(*id));
            key
        })
    }
}

impl<'a> BaseBody<'a> {
    /// Decodes the body of a base; `None` if the bytes are not such a body.
    pub(crate) fn decode(body: &'a [u8]) -> Option<BaseBody<'a>> {
        let (ids, rest) = body.as_chunks();
        rest.is_empty().then_some(BaseBody { ids })
    }

    /// Makes an owned copy. `primary` is the key of the base.
    pub(crate) fn named(&self, primary: &[u8]) -> NamedVariants {
        NamedVariants { primary: primary.to_vec(), ids: self.ids.to_vec() }
    }

    /// The id of the variant whose selector has this hash, if the base names it.
    pub(crate) fn id_of(&self, hash: &[u8; HASH_BYTES]) -> Option<VariantId> {
        self.ids.iter().find(|id| id.ends_with(hash)).map(|id| VariantId(*id))
    }

    /// Whether the base names this variant under this number.
    pub(crate) fn has(&self, id: &VariantId) -> bool {
        self.ids.contains(&id.0)
    }

    /// The variants that the base names, the oldest first.
    pub(crate) fn variants(&self) -> impl Iterator<Item = VariantId> + use<'a> {
        self.ids.iter().map(|id| VariantId(*id))
    }

    /// The variants that a base has to drop before it names another, to stay within `variants_max`:
    /// those with the fewest uses, and of these the oldest.
    pub(crate) fn victims(
        &self,
        variants_max: usize,
        uses: impl Fn(&VariantId) -> u8,
    ) -> Vec<VariantId> {
        let too_many = (self.ids.len() + 1).saturating_sub(variants_max.max(1));
        if too_many == 0 {
            return Vec::new();
        }
        let mut victims: Vec<_> = self.variants().collect();
        // The sort is stable, so the oldest stay first.
        victims.sort_by_cached_key(uses);
        victims.truncate(too_many);
        victims
    }

    /// Returns the body with one more variant, and without the victims.
    pub(crate) fn with(&self, id: &VariantId, victims: &[VariantId]) -> Vec<u8> {
        let kept = self.variants().filter(|variant| !victims.contains(variant));
        kept.chain([*id]).flat_map(|variant| variant.0).collect()
    }
}

/// The body of a base that names these variants.
pub(crate) fn first_body(ids: &[VariantId]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.0).collect()
}

/// Writes the key of a variant into `key`.
pub(crate) fn write_key_of(key: &mut Vec<u8>, primary: &[u8], id: &VariantId) {
    key.clear();
    key.extend_from_slice(primary);
    key.push(0);
    key.extend_from_slice(&id.0);
}

/// The parts of a variant's key: primary key, number, hash. `None` for keys of other records.
///
/// A primary key can have a NUL at the position at which a variant's key has one. But then the
/// eight bytes behind it are text, and read as a number they exceed every sequence of a store.
pub(crate) fn split_variant_key(key: &[u8]) -> Option<(&[u8], u64, &[u8; HASH_BYTES])> {
    let (rest, hash) = key.split_last_chunk()?;
    let (rest, number) = rest.split_last_chunk()?;
    let number = u64::from_le_bytes(*number);
    let primary = rest.strip_suffix(&[0])?;
    (number != 0 && number <= SEQUENCE_MAX).then_some((primary, number, hash))
}

/// The bytes that a variant's record has before the response's head; `None` if the selector
/// `values` is too long for a record. Also encodes a set of field names in the head of a base.
pub(crate) fn values_prefix(values: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(values.len()).ok()?;
    let mut prefix = length.to_le_bytes().to_vec();
    prefix.extend_from_slice(values);
    Some(prefix)
}

/// The offset of the response's head in a variant's head; `None` if the variant has another
/// selector than `values`.
pub(crate) fn head_start(head: &[u8], values: &[u8]) -> Option<usize> {
    let found = values_of(head)?;
    (found == values).then_some(LENGTH_BYTES + found.len())
}

/// The selector at the start of a variant's head; `None` if the head is too short.
pub(crate) fn values_of(head: &[u8]) -> Option<&[u8]> {
    let (length, rest) = head.split_first_chunk::<LENGTH_BYTES>()?;
    rest.get(..usize::from(u16::from_le_bytes(*length)))
}
