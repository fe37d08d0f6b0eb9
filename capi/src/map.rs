//! Functions that read single keys of a map.

use std::cell::RefCell;
use std::mem::MaybeUninit;

use crate::bytes::{AbiBytes, AbiItem};
use crate::code::Code;
use crate::entry::EntryHandle;
use crate::failure::{CallFailure, guard};
use crate::handle::{WithParticipant, handle, require, write_if_wanted, write_required};

/// The handle of a map for one participant.
#[derive(Debug)]
pub struct MapHandle {
    pub(crate) inner: WithParticipant<forebay_ordmap::Map<'static>>,
    /// The buffer into which `forebay_map_read` copies a value before it copies the value to the
    /// caller.
    read: RefCell<Vec<u8>>,
}

impl MapHandle {
    pub(crate) fn new(inner: WithParticipant<forebay_ordmap::Map<'static>>) -> MapHandle {
        MapHandle { inner, read: RefCell::default() }
    }
}

/// Closes a map; null is allowed. Entries, cursors, ranges and scans of the map stay usable.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_map_close(map: Option<Box<MapHandle>>) -> Code {
    guard(|| {
        drop(map);
        Ok(Code::Ok)
    })
}

/// Finds the entry of a key, to be read in place. The entry uses one of the participant's leases.
/// The caller owns `entry` until `forebay_entry_release`; `item` may be null, and stays valid for
/// the same time, even if the key is replaced, removed or evicted.
///
/// `FOREBAY_CODE_ABSENT`: there is no such key, and nothing was written.
///
/// # Safety
/// - `map` is null or a handle that is not closed, and no other thread uses its participant. This
///   applies to all functions below.
/// - `key` is as `forebay_bytes` says. `entry` and `item` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_get(
    map: Option<&MapHandle>,
    key: AbiBytes,
    entry: Option<&mut MaybeUninit<*mut EntryHandle>>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let key = unsafe { key.read("key")? };
        let inner = &require(map, "map")?.inner;
        let place = require(entry, "entry")?;
        let Some(found) = inner.what.entry(key)? else { return Ok(Code::Absent) };
        write_if_wanted(item, AbiItem::of(&found));
        place.write(handle(EntryHandle(inner.with(found))));
        Ok(Code::Ok)
    })
}

/// Copies the value of a key into a buffer of the caller. This takes no lease and, for short
/// values, less time than `forebay_map_get`. `value_len` receives the length of the value. If the
/// buffer is too small, nothing is copied, and the code is `FOREBAY_CODE_BUFFER`.
///
/// `FOREBAY_CODE_ABSENT`: there is no such key, and nothing was written.
///
/// # Safety
/// - `key` is as `forebay_bytes` says.
/// - `value` has room for `value_bytes`; it may be null if that is 0. `value_len` is null or can be
///   written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_read(
    map: Option<&MapHandle>,
    key: AbiBytes,
    value: *mut u8,
    value_bytes: usize,
    value_len: Option<&mut MaybeUninit<usize>>,
) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let key = unsafe { key.read("key")? };
        let map = require(map, "map")?;
        let place = require(value_len, "value_len")?;
        let mut read = map.read.try_borrow_mut().map_err(|_| in_use())?;
        read.clear();
        if !map.inner.what.read_into(key, &mut read)? {
            return Ok(Code::Absent);
        }
        place.write(read.len());
        if read.len() > value_bytes {
            return Err(CallFailure::new(
                Code::Buffer,
                "the buffer is too small for the value; value_len is the size that it needs",
            ));
        }
        if value.is_null() && !read.is_empty() {
            return Err(CallFailure::null("value"));
        }
        if !read.is_empty() {
            // SAFETY: the buffer is not null and has room (checked, and contract).
            unsafe { std::ptr::copy_nonoverlapping(read.as_ptr(), value, read.len()) };
        }
        Ok(Code::Ok)
    })
}

/// Returns `FOREBAY_CODE_OK` if a key exists, otherwise `FOREBAY_CODE_ABSENT`.
///
/// # Safety
/// As `forebay_map_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_contains(map: Option<&MapHandle>, key: AbiBytes) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let key = unsafe { key.read("key")? };
        let is_there = require(map, "map")?.inner.what.contains(key)?;
        Ok(if is_there { Code::Ok } else { Code::Absent })
    })
}

/// Writes the number of entries to `len`. The number was exact at a recent moment; in a map of
/// several shards, the entries of each shard are counted at a different moment.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_map_len(
    map: Option<&MapHandle>,
    len: Option<&mut MaybeUninit<u64>>,
) -> Code {
    guard(|| {
        write_required(len, "len", require(map, "map")?.inner.what.len())?;
        Ok(Code::Ok)
    })
}

fn in_use() -> CallFailure {
    CallFailure::new(
        Code::Argument,
        "another thread is using the map; one thread at a time may use a participant",
    )
}
