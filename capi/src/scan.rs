//! Scans: the entries between two keys, copied, without leases.

use std::mem::MaybeUninit;

use forebay_ordmap::KeyValue;

use crate::bytes::{AbiBound, AbiBytes, AbiItem};
use crate::code::Code;
use crate::failure::guard;
use crate::handle::{WithParticipant, handle, require, write_if_wanted};
use crate::map::MapHandle;

/// Goes over the entries between two keys, up or down, and shows a copy of each. It takes no lease:
/// for who reads much and keeps nothing.
#[derive(Debug)]
pub struct ScanHandle(WithParticipant<forebay_ordmap::Scan<'static>>);

/// Copies of the entries whose keys are between two ends; null is no end. `scan` is the caller's,
/// until `forebay_scan_close`; the keys of the ends are copied.
///
/// # Safety
/// As `forebay_map_range`; `scan` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_scan(
    map: Option<&MapHandle>,
    low: Option<&AbiBound>,
    high: Option<&AbiBound>,
    scan: Option<&mut MaybeUninit<*mut ScanHandle>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let low = unsafe { AbiBound::read(low, "low")? };
        // SAFETY: the contract is the same.
        let high = unsafe { AbiBound::read(high, "high")? };
        let inner = &require(map, "map")?.inner;
        let place = require(scan, "scan")?;
        place.write(handle(ScanHandle(inner.with(inner.what.scan((low, high))))));
        Ok(Code::Ok)
    })
}

/// Copies of the entries whose keys begin with these bytes. `scan` is the caller's, until
/// `forebay_scan_close`.
///
/// # Safety
/// As `forebay_map_scan`; `prefix` is as `forebay_bytes` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_scan_prefix(
    map: Option<&MapHandle>,
    prefix: AbiBytes,
    scan: Option<&mut MaybeUninit<*mut ScanHandle>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let prefix = unsafe { prefix.read("prefix")? };
        let inner = &require(map, "map")?.inner;
        let place = require(scan, "scan")?;
        place.write(handle(ScanHandle(inner.with(inner.what.scan_prefix(prefix)))));
        Ok(Code::Ok)
    })
}

/// A copy of the next entry up, at first of the lowest, shown in `item`, which may be null: valid
/// until the scan moves or is closed. `FOREBAY_CODE_ABSENT`: there is no further one, and none will
/// come any more in either direction.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_scan_next(
    scan: Option<&mut ScanHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    guard(|| Ok(copied(require(scan, "scan")?.0.what.next()?, item)))
}

/// A copy of the next entry down, at first of the highest, as `forebay_scan_next`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_scan_previous(
    scan: Option<&mut ScanHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    guard(|| Ok(copied(require(scan, "scan")?.0.what.previous()?, item)))
}

/// Closes a scan; null is right, too. What it showed must not be read any more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_scan_close(scan: Option<Box<ScanHandle>>) -> Code {
    guard(|| {
        drop(scan);
        Ok(Code::Ok)
    })
}

fn copied(shown: Option<KeyValue<'_>>, item: Option<&mut MaybeUninit<AbiItem>>) -> Code {
    let Some((key, value)) = shown else { return Code::Absent };
    write_if_wanted(item, AbiItem { key: AbiBytes::of(key), value: AbiBytes::of(value) });
    Code::Ok
}
