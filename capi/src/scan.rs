//! Scans: copies of the entries between two keys, without leases.

use std::mem::MaybeUninit;

use forebay_ordmap::KeyValue;

use crate::bytes::{AbiBound, AbiBytes, AbiItem};
use crate::code::Code;
use crate::failure::guard;
use crate::handle::{WithParticipant, handle, require, write_if_wanted};
use crate::map::MapHandle;

/// A walk over the entries between two keys, up or down, which shows a copy of each entry. A scan
/// takes no lease. It suits programs that read many entries and hold none.
#[derive(Debug)]
pub struct ScanHandle(WithParticipant<forebay_ordmap::Scan<'static>>);

/// Creates a scan over the entries between two ends; null means no end. The caller owns `scan`
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
        // SAFETY: the caller meets the same contract.
        let low = unsafe { AbiBound::read(low, "low")? };
        // SAFETY: the caller meets the same contract.
        let high = unsafe { AbiBound::read(high, "high")? };
        let inner = &require(map, "map")?.inner;
        let place = require(scan, "scan")?;
        place.write(handle(ScanHandle(inner.with(inner.what.scan((low, high))))));
        Ok(Code::Ok)
    })
}

/// Creates a scan over the entries whose keys begin with `prefix`. The caller owns `scan` until
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
        // SAFETY: the caller meets the same contract.
        let prefix = unsafe { prefix.read("prefix")? };
        let inner = &require(map, "map")?.inner;
        let place = require(scan, "scan")?;
        place.write(handle(ScanHandle(inner.with(inner.what.scan_prefix(prefix)))));
        Ok(Code::Ok)
    })
}

/// Moves up to the next entry, and shows a copy in `item`, which may be null. A new scan moves to
/// its lowest entry. The copy is valid until the scan moves or is closed. `FOREBAY_CODE_ABSENT`:
/// there is no further entry, and the scan has ended in both directions.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_scan_next(
    scan: Option<&mut ScanHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    guard(|| Ok(copied(require(scan, "scan")?.0.what.next()?, item)))
}

/// Moves down to the next entry. A new scan moves to its highest entry. The item and the code are
/// as for `forebay_scan_next`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_scan_previous(
    scan: Option<&mut ScanHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    guard(|| Ok(copied(require(scan, "scan")?.0.what.previous()?, item)))
}

/// Closes a scan; null is allowed. The item that the scan showed must no longer be read.
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
