//! The bytes of header and directory. `docs/format/region.md` describes them; a test compares the
//! two.
//!
//! Decoding trusts nothing: each number is checked against its limit and against the length of the
//! file before it is used.

use std::ops::Range;

use super::error::RegionErrorKind;
use super::spec::{AreaSpec, RegionSpec};
use crate::map::WORD_BYTES;
use crate::participant::{ROW_WORDS, RegionId};

pub(crate) const MAGIC: [u8; 8] = *b"FBREGION";
pub(crate) const LAYOUT_VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 128;
pub(crate) const AREA_ENTRY_BYTES: usize = 32;
/// Areas begin on pages, so that each can be advised, locked and written to a disk on its own.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// The largest size of header and directory together.
pub(crate) const HEAD_BYTES_MAX: usize = HEADER_BYTES + AREAS_MAX * AREA_ENTRY_BYTES;

/// The kind of the area that holds the participants' rows.
pub(crate) const PARTICIPANTS_KIND: u32 = 1;
pub(crate) const PARTICIPANTS_VERSION: u32 = 1;
/// The first kind for areas of programs; lower kinds are the region's own.
pub(crate) const FIRST_PROGRAM_KIND: u32 = 16;

/// The largest number of participants: more workers than any machine has processors.
pub const PARTICIPANTS_MAX: u32 = 4096;
/// The largest number of areas: more than any program needs. It limits the number of bytes that are
/// read before they are checked.
pub const AREAS_MAX: usize = 64;

pub(crate) const BARRIER_FENCE: u32 = 1;
pub(crate) const BARRIER_MEMBARRIER: u32 = 2;

pub(crate) mod offset {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const LAYOUT_VERSION: usize = 8;
    pub(crate) const HEADER_BYTES: usize = 12;
    pub(crate) const REGION_BYTES: usize = 16;
    pub(crate) const PARTICIPANTS_MAX: usize = 24;
    pub(crate) const BARRIER: usize = 28;
    pub(crate) const BOOT_ID: usize = 32;
    pub(crate) const SEED: usize = 48;
    pub(crate) const AREA_COUNT: usize = 64;
    pub(crate) const AREA_ENTRY_BYTES: usize = 68;
    #[cfg(test)]
    pub(crate) const RESERVED: usize = 72;
    pub(crate) const CHECKSUM: usize = 120;

    /// The offsets in an entry of the directory.
    pub(crate) const KIND: usize = 0;
    pub(crate) const VERSION: usize = 4;
    pub(crate) const AREA_OFFSET: usize = 8;
    pub(crate) const AREA_BYTES: usize = 16;
}

/// The place of one area in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AreaPlace {
    pub(crate) kind: u32,
    pub(crate) version: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl AreaPlace {
    /// The range of the area's words among the words of the region.
    pub(crate) fn words(&self) -> Range<usize> {
        let first = self.offset as usize / WORD_BYTES;
        first..first + self.bytes as usize / WORD_BYTES
    }
}

/// The barrier that the header names. Each participating process makes a `Barrier` from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierCode {
    Fence,
    Membarrier,
}

impl BarrierCode {
    fn number(self) -> u32 {
        match self {
            BarrierCode::Fence => BARRIER_FENCE,
            BarrierCode::Membarrier => BARRIER_MEMBARRIER,
        }
    }
}

/// Header and directory, with every size and offset known to fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) region_bytes: u64,
    pub(crate) participants_max: u32,
    pub(crate) barrier: BarrierCode,
    pub(crate) boot_id: [u8; 16],
    pub(crate) seed: [u8; 16],
    pub(crate) areas: Vec<AreaPlace>,
}

/// The reason why the bytes are not a region that this program can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotUsable {
    /// A program with another layout version wrote the file.
    OtherLayout { found: u32 },
    /// The file is not a region, or is damaged.
    Damaged { what: &'static str },
}

impl Layout {
    /// Lays out a region, with fences as its barrier. The caller fills in `boot_id` and `seed`.
    pub(crate) fn plan(spec: &RegionSpec) -> Result<Layout, RegionErrorKind> {
        let rows = AreaSpec {
            kind: PARTICIPANTS_KIND,
            version: PARTICIPANTS_VERSION,
            bytes: rows_bytes(spec.participants_max),
        };
        check_spec(spec)?;
        let area_count = spec.areas.len() + 1;
        let mut end = (HEADER_BYTES + area_count * AREA_ENTRY_BYTES) as u64;
        let mut areas = Vec::with_capacity(area_count);
        for AreaSpec { kind, version, bytes } in std::iter::once(&rows).chain(spec.areas).copied() {
            let too_large = || broken(format!("area {kind} is larger than any file can be"));
            let offset = end.checked_next_multiple_of(PAGE_BYTES).ok_or_else(too_large)?;
            end = offset.checked_add(bytes).ok_or_else(too_large)?;
            areas.push(AreaPlace { kind, version, offset, bytes });
        }
        let pages = |bytes: u64| bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
        let (need, have) = (pages(end), pages(spec.bytes));
        if need > have {
            return Err(RegionErrorKind::TooSmall { need, have });
        }
        if have > isize::MAX as u64 {
            return Err(broken(format!(
                "a region of {have} bytes is larger than any mapping can be"
            )));
        }
        Ok(Layout {
            region_bytes: have,
            participants_max: spec.participants_max,
            barrier: BarrierCode::Fence,
            boot_id: [0; 16],
            seed: [0; 16],
            areas,
        })
    }

    /// Whether both layouts have the same sizes, areas and number of participants. Barrier, boot id
    /// and seed may differ.
    pub(crate) fn is_same_plan(&self, other: &Layout) -> bool {
        (self.region_bytes, self.participants_max, &self.areas)
            == (other.region_bytes, other.participants_max, &other.areas)
    }

    pub(crate) fn id(&self) -> RegionId {
        RegionId::of_seed(self.seed)
    }

    pub(crate) fn area(&self, kind: u32) -> Option<&AreaPlace> {
        self.areas.iter().find(|area| area.kind == kind)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES + self.areas.len() * AREA_ENTRY_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset::MAGIC, &MAGIC);
        put(offset::LAYOUT_VERSION, &LAYOUT_VERSION.to_le_bytes());
        put(offset::HEADER_BYTES, &(HEADER_BYTES as u32).to_le_bytes());
        put(offset::REGION_BYTES, &self.region_bytes.to_le_bytes());
        put(offset::PARTICIPANTS_MAX, &self.participants_max.to_le_bytes());
        put(offset::BARRIER, &self.barrier.number().to_le_bytes());
        put(offset::BOOT_ID, &self.boot_id);
        put(offset::SEED, &self.seed);
        put(offset::AREA_COUNT, &(self.areas.len() as u32).to_le_bytes());
        put(offset::AREA_ENTRY_BYTES, &(AREA_ENTRY_BYTES as u32).to_le_bytes());
        for (index, area) in self.areas.iter().enumerate() {
            let at = HEADER_BYTES + index * AREA_ENTRY_BYTES;
            put(at + offset::KIND, &area.kind.to_le_bytes());
            put(at + offset::VERSION, &area.version.to_le_bytes());
            put(at + offset::AREA_OFFSET, &area.offset.to_le_bytes());
            put(at + offset::AREA_BYTES, &area.bytes.to_le_bytes());
        }
        seal(&mut out);
        out
    }

    /// Decodes header and directory from the first bytes of a file of `file_bytes` bytes.
    pub(crate) fn decode(bytes: &[u8], file_bytes: u64) -> Result<Layout, NotUsable> {
        let fields = Fields(bytes);
        ensure(
            fields.array(offset::MAGIC)? == MAGIC,
            "the file does not begin with the magic bytes of a region",
        )?;
        let found = fields.u32(offset::LAYOUT_VERSION)?;
        if found != LAYOUT_VERSION {
            return Err(NotUsable::OtherLayout { found });
        }
        let area_count = fields.u32(offset::AREA_COUNT)? as usize;
        ensure(
            (1..=AREAS_MAX).contains(&area_count),
            "the header states an impossible number of areas",
        )?;
        let head_bytes = HEADER_BYTES + area_count * AREA_ENTRY_BYTES;
        let head = bytes.get(..head_bytes).ok_or(CUT_OFF)?;
        ensure(
            fields.u64(offset::CHECKSUM)? == checksum(head),
            "the checksum of the header is wrong",
        )?;
        let layout = Layout {
            region_bytes: fields.u64(offset::REGION_BYTES)?,
            participants_max: fields.u32(offset::PARTICIPANTS_MAX)?,
            barrier: decode_barrier(fields.u32(offset::BARRIER)?)?,
            boot_id: fields.array(offset::BOOT_ID)?,
            seed: fields.array(offset::SEED)?,
            areas: decode_areas(&fields, area_count)?,
        };
        let sizes = (fields.u32(offset::HEADER_BYTES)?, fields.u32(offset::AREA_ENTRY_BYTES)?);
        ensure(
            sizes == (HEADER_BYTES as u32, AREA_ENTRY_BYTES as u32),
            "the header has an unexpected size",
        )?;
        layout.check(head_bytes as u64)?;
        if layout.region_bytes > file_bytes {
            return Err(CUT_OFF);
        }
        Ok(layout)
    }

    /// Checks that each area is behind the directory and behind the area before it, and that the
    /// last area ends inside the region.
    fn check(&self, head_bytes: u64) -> Result<(), NotUsable> {
        let size_is_possible =
            self.region_bytes.is_multiple_of(PAGE_BYTES) && self.region_bytes <= isize::MAX as u64;
        ensure(size_is_possible, "the header states an impossible size")?;
        let max = self.participants_max;
        ensure(
            (1..=PARTICIPANTS_MAX).contains(&max),
            "the header states an impossible number of participants",
        )?;
        let mut end = head_bytes;
        for area in &self.areas {
            let is_aligned = area.offset.is_multiple_of(PAGE_BYTES)
                && area.bytes.is_multiple_of(WORD_BYTES as u64);
            ensure(is_aligned && area.offset >= end, "an area is at an impossible place")?;
            end = area.offset.checked_add(area.bytes).ok_or(BAD_AREA)?;
            ensure(end <= self.region_bytes, "an area has an impossible size")?;
            let same_kind = self.areas.iter().filter(|other| other.kind == area.kind).count();
            ensure(same_kind == 1, "two areas have the same kind")?;
        }
        let rows = self.area(PARTICIPANTS_KIND).map(|rows| (rows.version, rows.bytes));
        ensure(
            rows == Some((PARTICIPANTS_VERSION, rows_bytes(max))),
            "the area of participants is missing or has an unexpected size",
        )
    }
}

const CUT_OFF: NotUsable = NotUsable::Damaged { what: "the file is cut off" };
const BAD_AREA: NotUsable = NotUsable::Damaged { what: "an area has an impossible size" };

fn rows_bytes(participants_max: u32) -> u64 {
    u64::from(participants_max) * (ROW_WORDS * WORD_BYTES) as u64
}

fn broken(what: String) -> RegionErrorKind {
    RegionErrorKind::Spec { what }
}

fn check_spec(spec: &RegionSpec) -> Result<(), RegionErrorKind> {
    if !(1..=PARTICIPANTS_MAX).contains(&spec.participants_max) {
        return Err(broken(format!("a region can have 1 to {PARTICIPANTS_MAX} participants")));
    }
    if spec.areas.len() >= AREAS_MAX {
        return Err(broken(format!("at most {} areas fit into a region", AREAS_MAX - 1)));
    }
    for (index, area) in spec.areas.iter().enumerate() {
        let kind = area.kind;
        if kind < FIRST_PROGRAM_KIND {
            return Err(broken(format!(
                "areas of kind {kind} are reserved for the region's own use"
            )));
        }
        if spec.areas[..index].iter().any(|earlier| earlier.kind == kind) {
            return Err(broken(format!("there are two areas of kind {kind}")));
        }
        if !area.bytes.is_multiple_of(WORD_BYTES as u64) {
            return Err(broken(format!("area {kind} does not consist of whole words")));
        }
    }
    Ok(())
}

fn decode_areas(fields: &Fields, area_count: usize) -> Result<Vec<AreaPlace>, NotUsable> {
    let entry = |index: usize| {
        let at = HEADER_BYTES + index * AREA_ENTRY_BYTES;
        Ok(AreaPlace {
            kind: fields.u32(at + offset::KIND)?,
            version: fields.u32(at + offset::VERSION)?,
            offset: fields.u64(at + offset::AREA_OFFSET)?,
            bytes: fields.u64(at + offset::AREA_BYTES)?,
        })
    };
    (0..area_count).map(entry).collect()
}

fn decode_barrier(code: u32) -> Result<BarrierCode, NotUsable> {
    match code {
        BARRIER_FENCE => Ok(BarrierCode::Fence),
        BARRIER_MEMBARRIER => Ok(BarrierCode::Membarrier),
        _ => Err(NotUsable::Damaged { what: "the kind of barrier is unknown" }),
    }
}

fn ensure(holds: bool, what: &'static str) -> Result<(), NotUsable> {
    if holds { Ok(()) } else { Err(NotUsable::Damaged { what }) }
}

/// Writes the checksum of a whole head into it.
pub(crate) fn seal(head: &mut [u8]) {
    let sum = checksum(head).to_le_bytes();
    head[offset::CHECKSUM..offset::CHECKSUM + sum.len()].copy_from_slice(&sum);
}

/// FNV-1a of everything except the checksum's own field. It detects accidents, not intent: a
/// process that can write the file can write any checksum.
fn checksum(head: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let covered = head.iter().take(offset::CHECKSUM).chain(head.iter().skip(HEADER_BYTES));
    covered.fold(BASIS, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// Bytes of unknown length, read by offset.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&self, offset: usize) -> Result<[u8; N], NotUsable> {
        let rest = self.0.get(offset..).and_then(|rest| rest.first_chunk::<N>());
        rest.copied().ok_or(CUT_OFF)
    }

    fn u32(&self, offset: usize) -> Result<u32, NotUsable> {
        self.array(offset).map(u32::from_le_bytes)
    }

    fn u64(&self, offset: usize) -> Result<u64, NotUsable> {
        self.array(offset).map(u64::from_le_bytes)
    }
}
