//! Size classes of objects, and the word that tells how a chunk is divided.
//!
//! | bits of a chunk's word | meaning |
//! |---|---|
//! | 0–27 | the lowest generation of its objects; each new division raises it |
//! | 28–35 | class: 0: none; from 1 on: number of a size; 254: first chunk of a span; 255: others |
//! | 36–51 | the shard that owns the chunk, plus one; 0: no shard |
//! | 52–63 | in the first chunk of a span: the number of its chunks |

use super::reference::{GENERATION_BITS, GENERATION_MASK, Generation, UNIT_WORDS};

/// The number of units of a chunk, which has 16 KiB. Models use small chunks.
pub(crate) const CHUNK_UNITS: usize = if cfg!(loom) { 4 } else { 1024 };
pub(crate) const CHUNK_WORDS: usize = CHUNK_UNITS * UNIT_WORDS;

/// The number of units of an object of each class, from class 1 on. Sizes above 256 bytes divide a
/// chunk without waste.
#[cfg(not(loom))]
pub(crate) const SIZES: [u16; 30] = [
    2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 78, 93, 113, 128, 146,
    170, 204, 256, 341, 512, 1024,
];
#[cfg(loom)]
pub(crate) const SIZES: [u16; 2] = [2, 4];
pub(crate) const CLASS_COUNT: usize = SIZES.len();

/// The number of chunks of the longest span, which has 2 MiB. A span is a run of chunks for one
/// object.
pub(crate) const SPAN_CHUNKS_MAX: usize = 128;

const CLASS_SHIFT: u32 = GENERATION_BITS;
const OWNER_SHIFT: u32 = 36;
const SPAN_SHIFT: u32 = 52;
const SPAN: u8 = 254;
const SPAN_REST: u8 = 255;

/// How the objects of a class lie in their chunk.
#[derive(Clone, Copy)]
struct ChunkDivision {
    size: u32,
    /// 2^20 / size, rounded up. An offset in a chunk, multiplied by this and divided by 2^20, gives
    /// the exact quotient of the offset and the size.
    reciprocal: u32,
    count: u32,
}

const DIVISIONS: [ChunkDivision; CLASS_COUNT] = {
    let mut all = [ChunkDivision { size: 0, reciprocal: 0, count: 0 }; CLASS_COUNT];
    let mut index = 0;
    while index < CLASS_COUNT {
        let size = SIZES[index] as u32;
        let reciprocal = (1_u32 << 20).div_ceil(size);
        all[index] = ChunkDivision { size, reciprocal, count: CHUNK_UNITS as u32 / size };
        index += 1;
    }
    all
};

/// The division of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkClass {
    /// The chunk is not divided.
    None,
    /// Objects of one size, given by the number of the size, from 1 on.
    Size(u8),
    /// The first chunk of one long object.
    Span,
    /// A chunk of a span other than its first.
    SpanRest,
}

impl ChunkClass {
    /// The class with the smallest objects of at least this many units; `None` if the object takes
    /// a span.
    pub(crate) fn for_units(units: usize) -> Option<u8> {
        let index = SIZES.iter().position(|size| *size as usize >= units)?;
        Some(index as u8 + 1)
    }

    /// The number of units that an object of this size occupies.
    pub(crate) fn taken_units(units: usize) -> usize {
        match ChunkClass::for_units(units).and_then(ChunkClass::size_units) {
            Some(size) => size,
            None => units.next_multiple_of(CHUNK_UNITS),
        }
    }

    /// The number of units of an object of the class with this number.
    pub(crate) fn size_units(number: u8) -> Option<usize> {
        SIZES.get(usize::from(number).checked_sub(1)?).map(|size| usize::from(*size))
    }

    /// The number of objects in a chunk of this class.
    pub(crate) fn object_count(self) -> usize {
        match self {
            ChunkClass::Size(number) => {
                ChunkClass::size_units(number).map_or(0, |size| CHUNK_UNITS / size)
            }
            ChunkClass::Span => 1,
            ChunkClass::None | ChunkClass::SpanRest => 0,
        }
    }
}

/// The word that describes a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkWord(u64);

impl ChunkWord {
    pub(crate) fn new(
        base: Generation,
        class: ChunkClass,
        owner: u16,
        span_chunks: usize,
    ) -> ChunkWord {
        let class = match class {
            ChunkClass::None => 0,
            ChunkClass::Size(number) => number,
            ChunkClass::Span => SPAN,
            ChunkClass::SpanRest => SPAN_REST,
        };
        let high = u64::from(owner) << OWNER_SHIFT | (span_chunks as u64) << SPAN_SHIFT;
        ChunkWord(base.bits() | u64::from(class) << CLASS_SHIFT | high)
    }

    #[inline]
    pub(crate) fn of_word(word: u64) -> ChunkWord {
        ChunkWord(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn base(self) -> Generation {
        Generation::of(self.0 & GENERATION_MASK)
    }

    /// The class of the chunk; `None` if no class has this number.
    pub(crate) fn class(self) -> Option<ChunkClass> {
        match (self.0 >> CLASS_SHIFT) as u8 {
            0 => Some(ChunkClass::None),
            SPAN => Some(ChunkClass::Span),
            SPAN_REST => Some(ChunkClass::SpanRest),
            number if usize::from(number) <= CLASS_COUNT => Some(ChunkClass::Size(number)),
            _ => None,
        }
    }

    /// The shard that owns the chunk, plus one.
    #[inline]
    pub(crate) fn owner(self) -> u16 {
        (self.0 >> OWNER_SHIFT) as u16
    }

    pub(crate) fn span_chunks(self) -> usize {
        (self.0 >> SPAN_SHIFT) as usize
    }

    /// Whether no shard owns the chunk.
    pub(crate) fn is_free(self) -> bool {
        self.owner() == 0
    }

    /// The index in the chunk, and the units, of the object that begins at this unit of the chunk;
    /// `None` if none begins there.
    #[inline]
    pub(crate) fn object_at(self, unit: usize) -> Option<(usize, usize)> {
        let number = (self.0 >> CLASS_SHIFT) as u8;
        if number == SPAN {
            let is_whole = (1..=SPAN_CHUNKS_MAX).contains(&self.span_chunks());
            return (unit == 0 && is_whole).then(|| (0, self.span_chunks() * CHUNK_UNITS));
        }
        let division = DIVISIONS.get(usize::from(number).wrapping_sub(1))?;
        let object = (unit as u32 * division.reciprocal) >> 20;
        let is_whole = object * division.size == unit as u32 && object < division.count;
        is_whole.then_some((object as usize, division.size as usize))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{CHUNK_UNITS, CLASS_COUNT, ChunkClass, ChunkWord, SIZES};
    use crate::object::reference::Generation;

    #[test]
    fn an_object_begins_where_a_multiple_of_its_size_does() {
        for number in 1..=CLASS_COUNT as u8 {
            let size = ChunkClass::size_units(number).unwrap();
            let word = ChunkWord::new(Generation::of(7), ChunkClass::Size(number), 3, 0);
            assert_eq!((word.class(), word.owner()), (Some(ChunkClass::Size(number)), 3));
            for unit in 0..CHUNK_UNITS {
                let fits = unit % size == 0 && unit + size <= CHUNK_UNITS;
                let expected = fits.then_some((unit / size, size));
                assert_eq!(word.object_at(unit), expected, "size {size}, unit {unit}");
            }
        }
    }

    #[test]
    fn a_size_has_the_next_larger_class() {
        assert!(SIZES.is_sorted());
        for (units, expected) in [(1, 2), (2, 2), (9, 10), (32, 32), (33, 40), (1024, 1024)] {
            let number = ChunkClass::for_units(units).unwrap();
            assert_eq!(ChunkClass::size_units(number), Some(expected), "{units}");
        }
        assert_eq!(ChunkClass::for_units(1025), None);
    }
}
