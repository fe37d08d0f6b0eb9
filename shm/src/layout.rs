//! The bytes of a counter file: header, name table, slots. `docs/format/counters.md` describes them
//! for other programs; a test compares the two.
//!
//! All numbers are little-endian. Decoding trusts nothing: each count, size and offset is checked
//! against its limit and against the length of the file before it is used.

use crate::definition::{CounterDef, CounterKind, ReadDef, bounds_are_valid};
use crate::error::{CounterError, CounterErrorKind};
use crate::process::Writer;

/// The first bytes of a counter file.
pub(crate) const MAGIC: [u8; 8] = *b"FBYCOUNT";
/// The version changes whenever an older reader would misread the file, or call it damaged. Version
/// 1 is version 2 without histograms.
pub(crate) const LAYOUT_VERSION: u32 = 2;
/// The size of the header, and so the offset of the name table.
pub(crate) const HEADER_BYTES: usize = 128;
/// Slots begin at multiples of two cache lines: processors fetch lines in pairs, so slots one line
/// apart would still disturb each other.
pub(crate) const SLOT_ALIGN_BYTES: usize = 128;
/// The size of the part of fixed size at the start of an entry of the name table: name length, help
/// length, kind and number of bounds.
pub(crate) const NAME_ENTRY_HEAD_BYTES: usize = 6;

/// The largest number of words in a slot: more counters, or words of histograms, than any program
/// needs. It limits the reader's memory.
pub const COUNTERS_MAX: usize = 4096;
/// The largest number of slots: more workers than any machine has processors.
pub const SLOTS_MAX: usize = 4096;
/// The longest name of a counter: it must fit on a line of a terminal.
pub const NAME_BYTES_MAX: usize = 96;
/// The longest help text: one or two sentences.
pub const HELP_BYTES_MAX: usize = 512;
/// The largest number of bounds of a histogram: the number of powers of two.
pub const BOUNDS_MAX: usize = 64;

/// The fields of the header: name, offset, bytes.
#[cfg(test)]
pub(crate) const HEADER_FIELDS: &[(&str, usize, usize)] = &[
    ("magic", offset::MAGIC, 8),
    ("layout_version", offset::LAYOUT_VERSION, 4),
    ("header_bytes", offset::HEADER_BYTES, 4),
    ("pid", offset::PID, 4),
    ("slot_count", offset::SLOT_COUNT, 4),
    ("counter_count", offset::COUNTER_COUNT, 4),
    ("slot_stride_bytes", offset::SLOT_STRIDE_BYTES, 4),
    ("start_ticks", offset::START_TICKS, 8),
    ("boot_id", offset::BOOT_ID, 16),
    ("names_offset", offset::NAMES_OFFSET, 8),
    ("names_bytes", offset::NAMES_BYTES, 8),
    ("slots_offset", offset::SLOTS_OFFSET, 8),
    ("file_bytes", offset::FILE_BYTES, 8),
    ("reserved", offset::RESERVED, 40),
];

mod offset {
    pub(super) const MAGIC: usize = 0;
    pub(super) const LAYOUT_VERSION: usize = 8;
    pub(super) const HEADER_BYTES: usize = 12;
    pub(super) const PID: usize = 16;
    pub(super) const SLOT_COUNT: usize = 20;
    pub(super) const COUNTER_COUNT: usize = 24;
    pub(super) const SLOT_STRIDE_BYTES: usize = 28;
    pub(super) const START_TICKS: usize = 32;
    pub(super) const BOOT_ID: usize = 40;
    pub(super) const NAMES_OFFSET: usize = 56;
    pub(super) const NAMES_BYTES: usize = 64;
    pub(super) const SLOTS_OFFSET: usize = 72;
    pub(super) const FILE_BYTES: usize = 80;
    #[cfg(test)]
    pub(super) const RESERVED: usize = 88;
}

/// The header, with every size and offset known to fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) writer: Writer,
    pub(crate) slot_count: usize,
    pub(crate) counter_count: usize,
    pub(crate) slot_stride_bytes: usize,
    pub(crate) names_offset: usize,
    pub(crate) names_bytes: usize,
    pub(crate) slots_offset: usize,
    pub(crate) file_bytes: usize,
}

impl Header {
    /// Lays out a file for these counters, which take `word_count` words of a slot; `names_bytes`
    /// is the size of their encoded name table.
    pub(crate) fn plan(
        slot_count: usize,
        counter_count: usize,
        word_count: usize,
        names_bytes: usize,
    ) -> Header {
        let slots_offset = (HEADER_BYTES + names_bytes).next_multiple_of(SLOT_ALIGN_BYTES);
        let slot_stride_bytes = (word_count * size_of::<u64>()).next_multiple_of(SLOT_ALIGN_BYTES);
        Header {
            writer: Writer::this_process(),
            slot_count,
            counter_count,
            slot_stride_bytes,
            names_offset: HEADER_BYTES,
            names_bytes,
            slots_offset,
            file_bytes: slots_offset + slot_count * slot_stride_bytes,
        }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset::MAGIC, &MAGIC);
        put(offset::LAYOUT_VERSION, &LAYOUT_VERSION.to_le_bytes());
        put(offset::HEADER_BYTES, &(HEADER_BYTES as u32).to_le_bytes());
        put(offset::PID, &self.writer.pid.to_le_bytes());
        put(offset::SLOT_COUNT, &(self.slot_count as u32).to_le_bytes());
        put(offset::COUNTER_COUNT, &(self.counter_count as u32).to_le_bytes());
        put(offset::SLOT_STRIDE_BYTES, &(self.slot_stride_bytes as u32).to_le_bytes());
        put(offset::START_TICKS, &self.writer.start_ticks.to_le_bytes());
        put(offset::BOOT_ID, &self.writer.boot_id);
        put(offset::NAMES_OFFSET, &(self.names_offset as u64).to_le_bytes());
        put(offset::NAMES_BYTES, &(self.names_bytes as u64).to_le_bytes());
        put(offset::SLOTS_OFFSET, &(self.slots_offset as u64).to_le_bytes());
        put(offset::FILE_BYTES, &(self.file_bytes as u64).to_le_bytes());
        out
    }

    /// Reads a header from the first bytes of a file of `file_bytes` bytes.
    pub(crate) fn decode(bytes: &[u8], file_bytes: u64) -> Result<Header, CounterErrorKind> {
        if bytes.get(..MAGIC.len()) != Some(&MAGIC[..]) {
            return Err(CounterErrorKind::NotCounters);
        }
        let fields = Bytes(bytes);
        let found = fields.u32(offset::LAYOUT_VERSION)?;
        if found > LAYOUT_VERSION {
            return Err(CounterErrorKind::NewerLayout { found, known: LAYOUT_VERSION });
        }
        let header = Header {
            writer: Writer {
                pid: fields.u32(offset::PID)?,
                start_ticks: fields.u64(offset::START_TICKS)?,
                boot_id: fields.array(offset::BOOT_ID)?,
            },
            slot_count: fields.u32(offset::SLOT_COUNT)? as usize,
            counter_count: fields.u32(offset::COUNTER_COUNT)? as usize,
            slot_stride_bytes: fields.u32(offset::SLOT_STRIDE_BYTES)? as usize,
            names_offset: fields.size(offset::NAMES_OFFSET)?,
            names_bytes: fields.size(offset::NAMES_BYTES)?,
            slots_offset: fields.size(offset::SLOTS_OFFSET)?,
            file_bytes: fields.size(offset::FILE_BYTES)?,
        };
        let header_bytes = fields.u32(offset::HEADER_BYTES)? as usize;
        ensure((1..=LAYOUT_VERSION).contains(&found), "the layout version is wrong")?;
        ensure(header_bytes == HEADER_BYTES, "the header's size is wrong")?;
        header.check()?;
        if (header.file_bytes as u64) > file_bytes {
            let expected = header.file_bytes as u64;
            return Err(CounterErrorKind::Truncated { expected, found: file_bytes });
        }
        Ok(header)
    }

    /// Checks that all sizes are within their limits, and that name table, slots and end of file
    /// follow each other.
    fn check(&self) -> Result<(), CounterErrorKind> {
        ensure((1..=SLOTS_MAX).contains(&self.slot_count), "the slot count is wrong")?;
        ensure((1..=COUNTERS_MAX).contains(&self.counter_count), "the counter count is wrong")?;
        let stride = self.slot_stride_bytes;
        let stride_max = COUNTERS_MAX * size_of::<u64>();
        ensure(
            stride.is_multiple_of(SLOT_ALIGN_BYTES) && stride <= stride_max,
            "the slot stride is wrong",
        )?;
        ensure(self.has_room_for(self.counter_count), "the slot stride is wrong")?;
        ensure(
            self.names_bytes <= names_bytes_max(self.counter_count),
            "the name table's size is wrong",
        )?;
        ensure(self.names_offset == HEADER_BYTES, "the name table's offset is wrong")?;
        let names_end = self.names_offset + self.names_bytes;
        let slots_offset = names_end.next_multiple_of(SLOT_ALIGN_BYTES);
        ensure(self.slots_offset == slots_offset, "the slots' offset is wrong")?;
        let slots_end = slots_offset + self.slot_count * stride;
        ensure(self.file_bytes == slots_end, "the file's size is wrong")
    }

    /// Whether this many words fit into a slot.
    fn has_room_for(&self, word_count: usize) -> bool {
        word_count * size_of::<u64>() <= self.slot_stride_bytes
    }
}

fn names_bytes_max(counter_count: usize) -> usize {
    let bounds_bytes_max = BOUNDS_MAX * size_of::<u64>();
    counter_count * (NAME_ENTRY_HEAD_BYTES + NAME_BYTES_MAX + HELP_BYTES_MAX + bounds_bytes_max)
}

fn ensure(holds: bool, what: &'static str) -> Result<(), CounterErrorKind> {
    if holds { Ok(()) } else { Err(CounterErrorKind::Damaged { what }) }
}

/// Bytes of unknown length, read by offset.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn array<const N: usize>(&self, offset: usize) -> Result<[u8; N], CounterErrorKind> {
        let rest = self.0.get(offset..).and_then(|rest| rest.first_chunk::<N>());
        rest.copied().ok_or(CounterErrorKind::Truncated {
            expected: HEADER_BYTES as u64,
            found: self.0.len() as u64,
        })
    }

    fn u32(&self, offset: usize) -> Result<u32, CounterErrorKind> {
        self.array(offset).map(u32::from_le_bytes)
    }

    fn u64(&self, offset: usize) -> Result<u64, CounterErrorKind> {
        self.array(offset).map(u64::from_le_bytes)
    }

    fn size(&self, offset: usize) -> Result<usize, CounterErrorKind> {
        let value = self.u64(offset)?;
        usize::try_from(value).map_err(|_| CounterErrorKind::Damaged {
            what: "a size in the header is too large for this machine",
        })
    }
}

/// Encodes the name table, and checks the caller's names and help texts.
pub(crate) fn encode_names(defs: &[CounterDef]) -> Result<Vec<u8>, CounterError> {
    let mut out = Vec::new();
    for (index, def) in defs.iter().enumerate() {
        if !name_is_valid(def.name) {
            return Err(CounterError::definition(format!(
                "{:?} is not a counter name: use at most {NAME_BYTES_MAX} lower-case \
                 letters, digits and _, and begin with a letter",
                def.name
            )));
        }
        if !help_is_valid(def.help) {
            return Err(CounterError::definition(format!(
                "the help of {} has more than {HELP_BYTES_MAX} bytes, or control characters",
                def.name
            )));
        }
        if defs[..index].iter().any(|earlier| earlier.name == def.name) {
            return Err(CounterError::definition(format!("counter {} is defined twice", def.name)));
        }
        let bounds = def.kind.bounds();
        if matches!(def.kind, CounterKind::Histogram(_)) && !bounds_are_valid(bounds) {
            let what = format!(
                "the bounds of {} must be 1 to {BOUNDS_MAX} numbers in ascending order",
                def.name
            );
            return Err(CounterError::definition(what));
        }
        out.extend_from_slice(&(def.name.len() as u16).to_le_bytes());
        out.extend_from_slice(&(def.help.len() as u16).to_le_bytes());
        out.extend_from_slice(&[def.kind.encode(), bounds.len() as u8]);
        out.extend_from_slice(def.name.as_bytes());
        out.extend_from_slice(def.help.as_bytes());
        bounds.iter().for_each(|bound| out.extend_from_slice(&bound.to_le_bytes()));
    }
    Ok(out)
}

/// Decodes the name table of a file, and checks that its counters fit into a slot.
pub(crate) fn decode_names(
    mut rest: &[u8],
    header: &Header,
) -> Result<Vec<ReadDef>, CounterErrorKind> {
    let mut defs = Vec::with_capacity(header.counter_count.min(COUNTERS_MAX));
    let mut word_count = 0;
    for _ in 0..header.counter_count {
        let damaged = CounterErrorKind::Damaged { what: "the name table is wrong" };
        let Some((def, behind)) = decode_name(rest) else {
            return Err(damaged);
        };
        word_count += def.kind.word_count();
        ensure(header.has_room_for(word_count), "the slot stride is wrong")?;
        defs.push(def);
        rest = behind;
    }
    Ok(defs)
}

fn decode_name(entry: &[u8]) -> Option<(ReadDef, &[u8])> {
    let (head, rest) = entry.split_first_chunk::<NAME_ENTRY_HEAD_BYTES>()?;
    let [name_low, name_high, help_low, help_high, kind, bound_count] = *head;
    let (name, rest) = rest.split_at_checked(u16::from_le_bytes([name_low, name_high]).into())?;
    let (help, rest) = rest.split_at_checked(u16::from_le_bytes([help_low, help_high]).into())?;
    let bounds_bytes = usize::from(bound_count) * size_of::<u64>();
    let (bounds, rest) = rest.split_at_checked(bounds_bytes)?;
    let name = std::str::from_utf8(name).ok().filter(|name| name_is_valid(name))?;
    let help = std::str::from_utf8(help).ok().filter(|help| help_is_valid(help))?;
    let (bounds, _) = bounds.as_chunks();
    let bounds = bounds.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let kind = CounterKind::decode(kind, bounds)?;
    Some((CounterDef { name: name.to_owned(), kind, help: help.to_owned() }, rest))
}

/// Whether a name consists of lower-case letters, digits and `_`, begins with a letter, and is not
/// too long: monitoring systems accept such names.
fn name_is_valid(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= NAME_BYTES_MAX
        && name.bytes().all(word)
        && name.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
}

/// Whether a help text is not too long, and has no control characters: it is shown on terminals.
fn help_is_valid(help: &str) -> bool {
    help.len() <= HELP_BYTES_MAX && !help.chars().any(char::is_control)
}
