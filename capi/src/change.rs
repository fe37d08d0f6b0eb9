//! Changing a map: each change is there whole or not at all, for all processes and whoever is
//! killed; the next reading of the caller sees it.

use std::mem::MaybeUninit;

use forebay_ordmap::Expected;

use crate::bytes::AbiBytes;
use crate::code::Code;
use crate::entry::EntryHandle;
use crate::failure::{CallFailure, guard};
use crate::handle::{require, write_if_wanted};
use crate::map::MapHandle;

/// Stores a value under a key, whatever is there. 1 goes to `was_there`, if the key was there
/// before, else 0; it may be null. Both are copied into the region.
///
/// # Safety
/// - `map` is null or a handle that is not closed, and no other thread uses its participant: as
///   everywhere below.
/// - `key` and `value` are as `forebay_bytes` says. `was_there` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_put(
    map: Option<&MapHandle>,
    key: AbiBytes,
    value: AbiBytes,
    was_there: Option<&mut MaybeUninit<u8>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let key = unsafe { key.read("key")? };
        // SAFETY: the contract is the same.
        let value = unsafe { value.read("value")? };
        let was = require(map, "map")?.inner.what.insert(key, value)?;
        write_if_wanted(was_there, was.into());
        Ok(Code::Ok)
    })
}

/// Stores a value under a key that is not there; else `FOREBAY_CODE_DIFFERS`.
///
/// # Safety
/// As `forebay_map_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_put_if_absent(
    map: Option<&MapHandle>,
    key: AbiBytes,
    value: AbiBytes,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let key = unsafe { key.read("key")? };
        // SAFETY: the contract is the same.
        let value = unsafe { value.read("value")? };
        let map = &require(map, "map")?.inner.what;
        Ok(done(map.compare_and_insert(key, Expected::Absent, value)?))
    })
}

/// Stores a value under a key that has this value now; else `FOREBAY_CODE_DIFFERS`, also if the key
/// is not there. The key may have had others meanwhile.
///
/// # Safety
/// As `forebay_map_put`; `expected` too is as `forebay_bytes` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_put_if_value(
    map: Option<&MapHandle>,
    key: AbiBytes,
    expected: AbiBytes,
    value: AbiBytes,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let key = unsafe { key.read("key")? };
        // SAFETY: the contract is the same.
        let expected = unsafe { expected.read("expected")? };
        // SAFETY: the contract is the same.
        let value = unsafe { value.read("value")? };
        let map = &require(map, "map")?.inner.what;
        Ok(done(map.compare_and_insert(key, Expected::Value(expected), value)?))
    })
}

/// Stores a value under the key of an entry, if that very entry is still there, and has not moved
/// as the map was split; else `FOREBAY_CODE_DIFFERS`. Nobody has changed the key since the entry
/// was got, then. The entry stays the caller's. It has to come from the same map.
///
/// # Safety
/// As `forebay_map_put`; `entry` is null or a handle that is not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_put_if_same(
    map: Option<&MapHandle>,
    entry: Option<&EntryHandle>,
    value: AbiBytes,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let value = unsafe { value.read("value")? };
        let (map, entry) = pair(map, entry)?;
        Ok(done(map.compare_and_insert(entry.key(), Expected::Entry(entry), value)?))
    })
}

/// Takes a key out. `FOREBAY_CODE_ABSENT`, if it was not there.
///
/// # Safety
/// As `forebay_map_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_remove(map: Option<&MapHandle>, key: AbiBytes) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let key = unsafe { key.read("key")? };
        let was_there = require(map, "map")?.inner.what.remove(key)?;
        Ok(if was_there { Code::Ok } else { Code::Absent })
    })
}

/// Takes a key out that has this value now; else `FOREBAY_CODE_DIFFERS`, also if it is not there.
///
/// # Safety
/// As `forebay_map_put_if_value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_remove_if_value(
    map: Option<&MapHandle>,
    key: AbiBytes,
    expected: AbiBytes,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let key = unsafe { key.read("key")? };
        // SAFETY: the contract is the same.
        let expected = unsafe { expected.read("expected")? };
        let map = &require(map, "map")?.inner.what;
        Ok(done(map.compare_and_remove(key, Expected::Value(expected))?))
    })
}

/// Takes the key of an entry out, if that very entry is still there, and has not moved as the
/// map was split; else `FOREBAY_CODE_DIFFERS`.
/// The entry stays the caller's and readable.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_map_remove_if_same(
    map: Option<&MapHandle>,
    entry: Option<&EntryHandle>,
) -> Code {
    guard(|| {
        let (map, entry) = pair(map, entry)?;
        Ok(done(map.compare_and_remove(entry.key(), Expected::Entry(entry))?))
    })
}

/// Frees what was replaced or removed and what no lease holds any more; the number goes to `freed`,
/// unless it is null. Changes do so themselves from time to time: this is for who wants to see it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_map_reclaim(
    map: Option<&MapHandle>,
    freed: Option<&mut MaybeUninit<u64>>,
) -> Code {
    guard(|| {
        write_if_wanted(freed, require(map, "map")?.inner.what.reclaim()?);
        Ok(Code::Ok)
    })
}

type MapAndEntry<'a> = (&'a forebay_ordmap::Map<'static>, &'a forebay_ordmap::Entry<'static>);

fn pair<'a>(
    map: Option<&'a MapHandle>,
    entry: Option<&'a EntryHandle>,
) -> Result<MapAndEntry<'a>, CallFailure> {
    Ok((&require(map, "map")?.inner.what, &require(entry, "entry")?.0.what))
}

fn done(is_done: bool) -> Code {
    if is_done { Code::Ok } else { Code::Differs }
}
