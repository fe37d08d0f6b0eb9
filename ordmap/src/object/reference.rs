//! References between objects: a memory location and a generation in one word.

/// The number of bits of a generation, in a reference and in a header.
pub(crate) const GENERATION_BITS: u32 = 28;
pub(crate) const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;

/// The number of words of a unit. Locations are counted in units of 16 bytes.
pub(crate) const UNIT_WORDS: usize = 2;
const UNIT_BITS: u32 = 64 - GENERATION_BITS;
const UNIT_MASK: u64 = (1 << UNIT_BITS) - 1;

/// How often the memory of an object was freed, modulo 2^28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

impl Generation {
    pub(crate) fn of(bits: u64) -> Generation {
        Generation(bits & GENERATION_MASK)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn next(self) -> Generation {
        Generation::of(self.0 + 1)
    }

    /// The number of steps from `base` to this generation.
    pub(crate) fn since(self, base: Generation) -> u64 {
        self.0.wrapping_sub(base.0) & GENERATION_MASK
    }
}

/// Names an object until the object is freed; a reference of zero names no object.
///
/// Low 36 bits: unit + 1; high 28 bits: generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectRef(u64);

impl ObjectRef {
    pub(crate) const NONE: ObjectRef = ObjectRef(0);

    pub(crate) fn new(unit: usize, generation: Generation) -> ObjectRef {
        ObjectRef((unit as u64 + 1) & UNIT_MASK | generation.bits() << UNIT_BITS)
    }

    /// Accepts any word: references are checked where they are followed.
    pub(crate) const fn of_word(word: u64) -> ObjectRef {
        ObjectRef(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 & UNIT_MASK == 0
    }

    /// The unit at which the object begins, which may lie outside of the region.
    #[inline]
    pub(crate) fn unit(self) -> Option<usize> {
        (self.0 & UNIT_MASK).checked_sub(1).map(|unit| unit as usize)
    }

    #[inline]
    pub(crate) fn generation(self) -> Generation {
        Generation(self.0 >> UNIT_BITS)
    }
}
