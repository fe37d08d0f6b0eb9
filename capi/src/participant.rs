//! Participants: what a thread joins as.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::time::Duration;

use forebay_ordmap::MapOptions;

use crate::code::Code;
use crate::failure::{CallFailure, guard};
use crate::handle::{WithParticipant, handle, require};
use crate::map::MapHandle;
use crate::region::RegionHandle;
use crate::sized::{self, SizedStruct};

/// A thread that takes part in a region. It may be handed to another thread together with all that
/// comes from it (maps, entries, cursors, ranges), but one thread at a time uses any of them.
#[derive(Debug)]
pub struct ParticipantHandle(pub(crate) Rc<forebay_ordmap::MapParticipant>);

/// How a map is to be made. Set `struct_bytes` to `sizeof`, and the rest to 0 where the usual is
/// right.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AbiOptions {
    /// `sizeof(forebay_options)`.
    pub struct_bytes: usize,
    /// Bytes that the map may take; then entries that were not used are evicted. 0: as many as the
    /// region has, and nothing is evicted.
    pub budget_bytes: u64,
    /// Bytes of a hash in front of the tree, by which single keys are looked up: 16 for each entry
    /// that is expected, of those that the region has for it. 0: none.
    pub hint_bytes: u64,
    /// Into how many parts the map may be split, up to 16, when its writers wait for each other:
    /// then several change it at a time. Not with a budget, and not into more than the region has
    /// left of its `splits_max`. 0: it is not split.
    pub shards_max: u64,
}

// SAFETY: three numbers of 8 bytes; any numbers are valid.
unsafe impl SizedStruct for AbiOptions {}

/// What a check found.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AbiCheckReport {
    /// `sizeof(forebay_check_report)`.
    pub struct_bytes: usize,
    /// Maps that were looked through.
    pub maps: u64,
    /// Entries in them.
    pub entries: u64,
    /// Nodes of their trees.
    pub nodes: u64,
    /// Entries that are in no map any more, and wait for leases.
    pub waiting: u64,
    /// Chunks of 16 KiB that no map has.
    pub free_chunks: u64,
    /// How much is wrong.
    pub findings: u64,
}

// SAFETY: seven numbers of 8 bytes; any numbers are valid.
unsafe impl SizedStruct for AbiCheckReport {}

const _: () = assert!(size_of::<usize>() == 8, "the structs would have padding");

/// Takes part in a region. Each thread joins for itself. `participant` is the caller's, until
/// `forebay_participant_leave`.
///
/// `FOREBAY_CODE_PARTICIPANTS_FULL`: the living have all places.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_participant_join(
    region: Option<&RegionHandle>,
    participant: Option<&mut MaybeUninit<*mut ParticipantHandle>>,
) -> Code {
    guard(|| {
        let RegionHandle(region) = require(region, "region")?;
        let place = require(participant, "participant")?;
        place.write(handle(ParticipantHandle(Rc::new(region.join()?))));
        Ok(Code::Ok)
    })
}

/// Leaves; null is right, too. Maps, entries, cursors and ranges that are still open stay usable,
/// and keep the participant's place until the last of them is closed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_participant_leave(participant: Option<Box<ParticipantHandle>>) -> Code {
    guard(|| {
        drop(participant);
        Ok(Code::Ok)
    })
}

/// How long a change of the participant waits for the lock of its map, in milliseconds; then it
/// fails with `FOREBAY_CODE_BUSY`. Below 0, as at first: as long as the owner needs, who may be
/// stopped. Who is dead is not waited for, and readers wait for nobody.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_participant_set_wait_max(
    participant: Option<&ParticipantHandle>,
    wait_ms_max: i64,
) -> Code {
    guard(|| {
        let ParticipantHandle(participant) = require(participant, "participant")?;
        let wait_max = u64::try_from(wait_ms_max).ok().map(Duration::from_millis);
        participant.set_wait_max(wait_max);
        Ok(Code::Ok)
    })
}

/// The map of this name, of 1 to 64 bytes of UTF-8; made if there is none. `options` may be null;
/// those of the one who made it stand. `map` is the caller's, until `forebay_map_close`.
///
/// `FOREBAY_CODE_FULL`: the region has not so much left for a hash in front.
///
/// # Safety
/// - `participant` is null or a handle that is not closed, as everywhere below.
/// - `name` is null or a string with a NUL at its end; `options` is null or has as many bytes as
///   `struct_bytes` says. Both are only read during the call.
/// - `map` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_participant_map(
    participant: Option<&ParticipantHandle>,
    name: *const c_char,
    options: *const AbiOptions,
    map: Option<&mut MaybeUninit<*mut MapHandle>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let name = unsafe { name_of(name)? };
        let options = if options.is_null() {
            AbiOptions::default()
        } else {
            // SAFETY: the contract is the same.
            unsafe { sized::read(options, "options")? }
        };
        let budget_bytes = Some(options.budget_bytes).filter(|bytes| *bytes > 0);
        let shards_max = u32::try_from(options.shards_max).unwrap_or(u32::MAX);
        let options = MapOptions { budget_bytes, hint_bytes: options.hint_bytes, shards_max };
        let place = require(map, "map")?;
        let inner = WithParticipant::new(&require(participant, "participant")?.0, |participant| {
            Ok(participant.map(name, &options)?)
        })?;
        place.write(handle(MapHandle::new(inner)));
        Ok(Code::Ok)
    })
}

/// The map of this name, which has to be there: else `FOREBAY_CODE_NO_MAP`. `map` is the caller's,
/// until `forebay_map_close`.
///
/// # Safety
/// As `forebay_participant_map`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_participant_existing_map(
    participant: Option<&ParticipantHandle>,
    name: *const c_char,
    map: Option<&mut MaybeUninit<*mut MapHandle>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let name = unsafe { name_of(name)? };
        let place = require(map, "map")?;
        let inner = WithParticipant::new(&require(participant, "participant")?.0, |participant| {
            Ok(participant.existing_map(name)?)
        })?;
        place.write(handle(MapHandle::new(inner)));
        Ok(Code::Ok)
    })
}

/// Copies the name of the map with this number, from 0 on, with a NUL behind it. 65 bytes are
/// enough for any. `FOREBAY_CODE_ABSENT`: there are not so many maps.
///
/// # Safety
/// `name` is null or has room for `name_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_participant_map_name(
    participant: Option<&ParticipantHandle>,
    number: usize,
    name: *mut c_char,
    name_bytes: usize,
) -> Code {
    guard(|| {
        let ParticipantHandle(participant) = require(participant, "participant")?;
        if name.is_null() {
            return Err(CallFailure::null("name"));
        }
        let names = participant.map_names();
        let Some(found) = names.get(number) else { return Ok(Code::Absent) };
        if found.len() >= name_bytes {
            return Err(CallFailure::new(Code::Buffer, "there is no room for the name of the map"));
        }
        let place = name.cast::<u8>();
        // SAFETY: there is room for one byte more than the name has (contract, and as was seen).
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), place, found.len()) };
        // SAFETY: as above.
        let end = unsafe { place.add(found.len()) };
        // SAFETY: as above.
        unsafe { end.write(0) };
        Ok(Code::Ok)
    })
}

/// Looks through all maps of the region, each under its lock: is every node right, is every piece
/// of memory that is taken named once? What dead writers have left is repaired first. `report` is
/// written in any case in which the check came to its end.
///
/// `FOREBAY_CODE_DAMAGED`: something is wrong; `forebay_last_message` says what was found first.
///
/// # Safety
/// `report` is null or has as many bytes as its `struct_bytes`, which the caller sets, says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_participant_check(
    participant: Option<&ParticipantHandle>,
    report: *mut AbiCheckReport,
) -> Code {
    guard(|| {
        let ParticipantHandle(participant) = require(participant, "participant")?;
        let found = participant.check()?;
        let write_required = AbiCheckReport {
            struct_bytes: size_of::<AbiCheckReport>(),
            maps: found.maps,
            entries: found.entries,
            nodes: found.nodes,
            waiting: found.waiting,
            free_chunks: found.free_chunks,
            findings: found.findings.len() as u64,
        };
        // SAFETY: the contract is the same.
        unsafe { sized::write(report, &write_required, "report")? };
        let Some(first) = found.findings.first() else { return Ok(Code::Ok) };
        let message = format!("map {:?}: {} ({:#x})", first.map, first.what, first.at);
        Err(CallFailure::new(Code::Damaged, message))
    })
}

/// # Safety
/// `name` is null or a string with a NUL at its end, which lives as long as the result.
unsafe fn name_of<'a>(name: *const c_char) -> Result<&'a str, CallFailure> {
    if name.is_null() {
        return Err(CallFailure::null("name"));
    }
    // SAFETY: it is not null, and ends with a NUL (contract).
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map_err(|_| CallFailure::new(Code::Name, "the name of a map is not UTF-8"))
}
