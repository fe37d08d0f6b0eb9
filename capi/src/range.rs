//! Ranges: the entries between two keys, from either end.

use std::mem::MaybeUninit;

use crate::bytes::{Bound, Bytes, Item};
use crate::code::Code;
use crate::cursor::shown;
use crate::failure::guard;
use crate::handle::{Lent, answer, given, handle};
use crate::map::Map;

/// Goes over the entries between two keys, up or down, and holds the one that it shows. It needs
/// leases as a cursor does.
#[derive(Debug)]
pub struct Range(Lent<forebay_ordmap::Range<'static>>);

/// The entries whose keys are between two ends; null is no end. `range` is the caller's, until
/// `forebay_range_close`; the keys of the ends are copied.
///
/// # Safety
/// - `map` is null or a handle that is not closed, and no other thread uses its participant.
/// - `low` and `high` are null, or bounds whose keys are as `forebay_bytes` says.
/// - `range` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_range(
    map: Option<&Map>,
    low: Option<&Bound>,
    high: Option<&Bound>,
    range: Option<&mut MaybeUninit<*mut Range>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let low = unsafe { Bound::read(low, "low")? };
        // SAFETY: the contract is the same.
        let high = unsafe { Bound::read(high, "high")? };
        let lent = &given(map, "map")?.lent;
        let place = given(range, "range")?;
        place.write(handle(Range(lent.with(lent.what.range((low, high))))));
        Ok(Code::Ok)
    })
}

/// The entries whose keys begin with these bytes. `range` is the caller's, until
/// `forebay_range_close`.
///
/// # Safety
/// As `forebay_map_range`; `prefix` is as `forebay_bytes` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_prefix(
    map: Option<&Map>,
    prefix: Bytes,
    range: Option<&mut MaybeUninit<*mut Range>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let prefix = unsafe { prefix.read("prefix")? };
        let lent = &given(map, "map")?.lent;
        let place = given(range, "range")?;
        place.write(handle(Range(lent.with(lent.what.prefix(prefix)))));
        Ok(Code::Ok)
    })
}

/// About how many entries lie between two ends, which are as in `forebay_map_range`: exact up to a
/// hundred or more, else off by less than a quarter, and seldom by more, up to a half, where keys
/// come and go at random. It takes the time of some look-ups, whatever lies between.
///
/// # Safety
/// As `forebay_map_range`; `count` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_estimate(
    map: Option<&Map>,
    low: Option<&Bound>,
    high: Option<&Bound>,
    count: Option<&mut MaybeUninit<u64>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let low = unsafe { Bound::read(low, "low")? };
        // SAFETY: the contract is the same.
        let high = unsafe { Bound::read(high, "high")? };
        let map = &given(map, "map")?.lent.what;
        answer(count, "count", map.estimate((low, high))?)?;
        Ok(Code::Ok)
    })
}

/// The next entry up, at first the lowest, shown in `item`, which may be null: valid until the
/// range moves or is closed. `FOREBAY_CODE_ABSENT`: there is no further one, and none will come any
/// more in either direction.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_range_next(
    range: Option<&mut Range>,
    item: Option<&mut MaybeUninit<Item>>,
) -> Code {
    guard(|| Ok(shown(given(range, "range")?.0.what.next()?, item)))
}

/// The next entry down, at first the highest, as `forebay_range_next`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_range_previous(
    range: Option<&mut Range>,
    item: Option<&mut MaybeUninit<Item>>,
) -> Code {
    guard(|| Ok(shown(given(range, "range")?.0.what.previous()?, item)))
}

/// Closes a range; null is right, too. What it showed must not be read any more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_range_close(range: Option<Box<Range>>) -> Code {
    guard(|| {
        drop(range);
        Ok(Code::Ok)
    })
}
