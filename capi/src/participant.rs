//! Participants: threads that have joined a region.

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

/// A thread's membership in a region. A participant may be passed to another thread together with
/// all handles that come from it (maps, entries, cursors, ranges, scans), but only one thread at a
/// time may use the participant or any of these handles.
#[derive(Debug)]
pub struct ParticipantHandle(pub(crate) Rc<forebay_ordmap::MapParticipant>);

/// Options of a new map. Set `struct_bytes` to `sizeof`, and the other fields to 0 for their
/// defaults.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AbiOptions {
    /// `sizeof(forebay_options)`.
    pub struct_bytes: usize,
    /// The most bytes that the map's entries and nodes may take. When they are used up, entries
    /// that were not used recently are evicted. 0: no limit but the region's size, and no eviction.
    pub budget_bytes: u64,
    /// Bytes of the map's hint table, which speeds up lookups of single keys; 16 bytes for each
    /// expected entry are a good size. They are taken from the region's `hint_bytes`. 0: no hint
    /// table.
    pub hint_bytes: u64,
    /// The largest number of shards of the map, at most 16. A map is split into shards when its
    /// writers wait for each other; then several writers can change it at the same time. The
    /// region's `splits_max` limits the splits, too. A map with a budget is never split. 0: never
    /// split.
    pub shards_max: u64,
}

// SAFETY: four numbers of 8 bytes; any numbers are valid.
unsafe impl SizedStruct for AbiOptions {}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AbiCheckReport {
    /// `sizeof(forebay_check_report)`.
    pub struct_bytes: usize,
    /// The number of maps that were checked.
    pub maps: u64,
    /// The number of entries in all maps.
    pub entries: u64,
    /// The number of tree nodes in all maps.
    pub nodes: u64,
    /// The number of entries that have left their map but are not freed, because a lease may hold
    /// them.
    pub waiting: u64,
    /// The number of chunks of 16 KiB that no map owns.
    pub free_chunks: u64,
    /// The number of problems that were found.
    pub findings: u64,
}

// SAFETY: seven numbers of 8 bytes; any numbers are valid.
unsafe impl SizedStruct for AbiCheckReport {}

const _: () = assert!(size_of::<usize>() == 8, "the structs would have padding");

/// Joins a region. Each thread joins for itself. The caller owns `participant` until
/// `forebay_participant_leave`.
///
/// `FOREBAY_CODE_PARTICIPANTS_FULL`: the region has its maximum number of living participants.
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

/// Leaves the region; null is allowed. Maps, entries, cursors, ranges and scans that are still open
/// stay usable, and the participant stays in the region until the last of these handles is closed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_participant_leave(participant: Option<Box<ParticipantHandle>>) -> Code {
    guard(|| {
        drop(participant);
        Ok(Code::Ok)
    })
}

/// Limits how many milliseconds a change, or the creation of a map, waits for a lock. After that
/// time it fails with `FOREBAY_CODE_BUSY`. A negative number, the default, is no limit, even if the
/// owner of the lock is stopped. A dead owner is not waited for. Readers never wait.
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

/// Opens the map of this name, or creates it if there is none. A name has 1 to 64 bytes of UTF-8.
/// `options` may be null, and apply only if the map is created. The caller owns `map` until
/// `forebay_map_close`.
///
/// `FOREBAY_CODE_FULL`: the region has too few bytes left for the hint table.
///
/// # Safety
/// - `participant` is null or a handle that is not closed. This applies to all functions below.
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
        // SAFETY: the caller meets the same contract.
        let name = unsafe { name_of(name)? };
        let options = if options.is_null() {
            AbiOptions::default()
        } else {
            // SAFETY: the caller meets the same contract.
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

/// Opens the map of this name; `FOREBAY_CODE_NO_MAP` if there is none. The caller owns `map` until
/// `forebay_map_close`.
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
        // SAFETY: the caller meets the same contract.
        let name = unsafe { name_of(name)? };
        let place = require(map, "map")?;
        let inner = WithParticipant::new(&require(participant, "participant")?.0, |participant| {
            Ok(participant.existing_map(name)?)
        })?;
        place.write(handle(MapHandle::new(inner)));
        Ok(Code::Ok)
    })
}

/// Copies the name of a map and a terminating NUL to `name`. `number` is the index of the map among
/// the maps of the region. 65 bytes are enough for any name. `FOREBAY_CODE_ABSENT`: the region has
/// no map with this index.
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
            return Err(CallFailure::new(
                Code::Buffer,
                "the buffer is too small for the name of the map",
            ));
        }
        let place = name.cast::<u8>();
        // SAFETY: the buffer has room for the name and one more byte (checked, and contract).
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), place, found.len()) };
        // SAFETY: the buffer has room for the name and one more byte (checked, and contract).
        let end = unsafe { place.add(found.len()) };
        // SAFETY: the buffer has room for this byte after the name (checked, and contract).
        unsafe { end.write(0) };
        Ok(Code::Ok)
    })
}

/// Checks all maps of the region, each under its lock: whether every node is valid, and whether
/// exactly one reference leads to every object in use. Unfinished changes of dead writers are
/// repaired first. `report` is written if the check completes, with or without problems.
///
/// `FOREBAY_CODE_DAMAGED`: there is a problem; `forebay_last_message` describes the first one.
///
/// # Safety
/// `report` is null or points to as many bytes as its field `struct_bytes` says. The caller sets
/// this field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_participant_check(
    participant: Option<&ParticipantHandle>,
    report: *mut AbiCheckReport,
) -> Code {
    guard(|| {
        let ParticipantHandle(participant) = require(participant, "participant")?;
        let found = participant.check()?;
        let answer = AbiCheckReport {
            struct_bytes: size_of::<AbiCheckReport>(),
            maps: found.maps,
            entries: found.entries,
            nodes: found.nodes,
            waiting: found.waiting,
            free_chunks: found.free_chunks,
            findings: found.findings.len() as u64,
        };
        // SAFETY: the caller meets the same contract.
        unsafe { sized::write(report, &answer, "report")? };
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
    // SAFETY: `name` is not null, and ends with a NUL (contract).
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map_err(|_| CallFailure::new(Code::Name, "the name of the map is not UTF-8"))
}
