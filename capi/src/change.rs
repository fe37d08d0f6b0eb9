//! Functions that change a map. Every process sees each change whole or not at all, even if the
//! writer is killed. The caller's next read sees the change.

use std::mem::MaybeUninit;

use forebay_ordmap::ExpectedState;

use crate::bytes::AbiBytes;
use crate::code::Code;
use crate::entry::EntryHandle;
use crate::failure::{CallFailure, guard};
use crate::handle::{require, write_if_wanted};
use crate::map::MapHandle;

/// Stores a value under a key, and replaces the key's current value. `was_there` may be null; it
/// receives 1 if the key existed before, else 0. Key and value are copied into the region.
///
/// # Safety
/// - `map` is null or a handle that is not closed, and no other thread uses its participant. This
///   applies to all functions below.
/// - `key` and `value` are as `forebay_bytes` says. `was_there` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_put(
    map: Option<&MapHandle>,
    key: AbiBytes,
    value: AbiBytes,
    was_there: Option<&mut MaybeUninit<u8>>,
) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let key = unsafe { key.read("key")? };
        // SAFETY: the caller meets the same contract.
        let value = unsafe { value.read("value")? };
        let was = require(map, "map")?.inner.what.insert(key, value)?;
        write_if_wanted(was_there, was.into());
        Ok(Code::Ok)
    })
}

/// Stores a value under a key if the key does not exist; otherwise returns `FOREBAY_CODE_DIFFERS`.
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
        // SAFETY: the caller meets the same contract.
        let key = unsafe { key.read("key")? };
        // SAFETY: the caller meets the same contract.
        let value = unsafe { value.read("value")? };
        let map = &require(map, "map")?.inner.what;
        Ok(done(map.compare_and_insert(key, ExpectedState::Absent, value)?))
    })
}

/// Stores a value under a key if the key's current value is `expected`. If the value differs or the
/// key does not exist, returns `FOREBAY_CODE_DIFFERS`. Success does not mean that the key has had
/// this value all the time.
///
/// # Safety
/// As `forebay_map_put`; `expected` is as `forebay_bytes` says, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_put_if_value(
    map: Option<&MapHandle>,
    key: AbiBytes,
    expected: AbiBytes,
    value: AbiBytes,
) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let key = unsafe { key.read("key")? };
        // SAFETY: the caller meets the same contract.
        let expected = unsafe { expected.read("expected")? };
        // SAFETY: the caller meets the same contract.
        let value = unsafe { value.read("value")? };
        let map = &require(map, "map")?.inner.what;
        Ok(done(map.compare_and_insert(key, ExpectedState::Value(expected), value)?))
    })
}

/// Stores a value under the key of an entry if that same entry is still current and no split has
/// moved it; otherwise returns `FOREBAY_CODE_DIFFERS`. Success means that the key has not changed
/// since the entry was read. The entry must come from the same map. The caller still has to release
/// it.
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
        // SAFETY: the caller meets the same contract.
        let value = unsafe { value.read("value")? };
        let (map, entry) = pair(map, entry)?;
        Ok(done(map.compare_and_insert(entry.key(), ExpectedState::Entry(entry), value)?))
    })
}

/// Removes a key. `FOREBAY_CODE_ABSENT`: the key did not exist.
///
/// # Safety
/// As `forebay_map_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_remove(map: Option<&MapHandle>, key: AbiBytes) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let key = unsafe { key.read("key")? };
        let was_there = require(map, "map")?.inner.what.remove(key)?;
        Ok(if was_there { Code::Ok } else { Code::Absent })
    })
}

/// Removes a key if its current value is `expected`. If the value differs or the key does not
/// exist, returns `FOREBAY_CODE_DIFFERS`.
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
        // SAFETY: the caller meets the same contract.
        let key = unsafe { key.read("key")? };
        // SAFETY: the caller meets the same contract.
        let expected = unsafe { expected.read("expected")? };
        let map = &require(map, "map")?.inner.what;
        Ok(done(map.compare_and_remove(key, ExpectedState::Value(expected))?))
    })
}

/// Removes the key of an entry if that same entry is still current and no split has moved it;
/// otherwise returns `FOREBAY_CODE_DIFFERS`. The entry stays readable, and the caller still has to
/// release it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_map_remove_if_same(
    map: Option<&MapHandle>,
    entry: Option<&EntryHandle>,
) -> Code {
    guard(|| {
        let (map, entry) = pair(map, entry)?;
        Ok(done(map.compare_and_remove(entry.key(), ExpectedState::Entry(entry))?))
    })
}

/// Frees replaced and removed entries that no lease holds; `freed` receives the number of freed
/// entries and may be null. Changes free such entries from time to time; this function frees them
/// now.
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
