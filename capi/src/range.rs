//! Ranges: the entries between two keys, from either end.

use std::mem::MaybeUninit;

use crate::bytes::{AbiBound, AbiBytes, AbiItem};
use crate::code::Code;
use crate::cursor::shown;
use crate::failure::guard;
use crate::handle::{WithParticipant, handle, require, write_required};
use crate::map::MapHandle;

/// A walk over the entries between two keys, up or down. A range holds the current entry, and needs
/// as many leases as a cursor.
#[derive(Debug)]
pub struct RangeHandle(WithParticipant<forebay_ordmap::Range<'static>>);

/// Creates a range over the entries between two ends; null means no end. The caller owns `range`
/// until `forebay_range_close`; the keys of the ends are copied.
///
/// # Safety
/// - `map` is null or a handle that is not closed, and no other thread uses its participant.
/// - `low` and `high` are null, or bounds whose keys are as `forebay_bytes` says.
/// - `range` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_range(
    map: Option<&MapHandle>,
    low: Option<&AbiBound>,
    high: Option<&AbiBound>,
    range: Option<&mut MaybeUninit<*mut RangeHandle>>,
) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let low = unsafe { AbiBound::read(low, "low")? };
        // SAFETY: the caller meets the same contract.
        let high = unsafe { AbiBound::read(high, "high")? };
        let inner = &require(map, "map")?.inner;
        let place = require(range, "range")?;
        place.write(handle(RangeHandle(inner.with(inner.what.range((low, high))))));
        Ok(Code::Ok)
    })
}

/// Creates a range over the entries whose keys begin with `prefix`. The caller owns `range` until
/// `forebay_range_close`.
///
/// # Safety
/// As `forebay_map_range`; `prefix` is as `forebay_bytes` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_prefix(
    map: Option<&MapHandle>,
    prefix: AbiBytes,
    range: Option<&mut MaybeUninit<*mut RangeHandle>>,
) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let prefix = unsafe { prefix.read("prefix")? };
        let inner = &require(map, "map")?.inner;
        let place = require(range, "range")?;
        place.write(handle(RangeHandle(inner.with(inner.what.prefix(prefix)))));
        Ok(Code::Ok)
    })
}

/// Estimates the number of entries between two ends, which are given as to `forebay_map_range`. The
/// result is exact up to at least a hundred entries. Beyond that it is off by less than a quarter;
/// rarely, after random inserts and removals, by up to a half. The call reads at most a few hundred
/// nodes of each shard, whatever the size of the range.
///
/// # Safety
/// As `forebay_map_range`; `count` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_estimate(
    map: Option<&MapHandle>,
    low: Option<&AbiBound>,
    high: Option<&AbiBound>,
    count: Option<&mut MaybeUninit<u64>>,
) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let low = unsafe { AbiBound::read(low, "low")? };
        // SAFETY: the caller meets the same contract.
        let high = unsafe { AbiBound::read(high, "high")? };
        let map = &require(map, "map")?.inner.what;
        write_required(count, "count", map.estimate((low, high))?)?;
        Ok(Code::Ok)
    })
}

/// Moves up to the next entry, and shows it in `item`, which may be null. A new range moves to its
/// lowest entry. The item is valid until the range moves or is closed. `FOREBAY_CODE_ABSENT`: there
/// is no further entry, and the range has ended in both directions.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_range_next(
    range: Option<&mut RangeHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    guard(|| Ok(shown(require(range, "range")?.0.what.next()?, item)))
}

/// Moves down to the next entry. A new range moves to its highest entry. The item and the code are
/// as for `forebay_range_next`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_range_previous(
    range: Option<&mut RangeHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    guard(|| Ok(shown(require(range, "range")?.0.what.previous()?, item)))
}

/// Closes a range; null is allowed. The item that the range showed must no longer be read.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_range_close(range: Option<Box<RangeHandle>>) -> Code {
    guard(|| {
        drop(range);
        Ok(Code::Ok)
    })
}
