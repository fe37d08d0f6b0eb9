//! Regions of maps, and how a process opens them.

use std::ffi::{CStr, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use forebay_ordmap::{OrdConfig, OrdOpenError, OrdRegion};
use forebay_shm::Opened;

use crate::code::Code;
use crate::failure::{CallFailure, guard};
use crate::handle::{handle, require, write_if_wanted, write_required};
use crate::sized::{self, SizedStruct};

/// A region of maps that a process has open. Any number of threads may use it at the same time.
#[derive(Debug)]
pub struct RegionHandle(pub(crate) OrdRegion);

/// Sizes of a new region. Set `struct_bytes` to `sizeof`, and the other fields to 0 for their
/// defaults.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AbiConfig {
    /// `sizeof(forebay_config)`.
    pub struct_bytes: usize,
    /// The size of the file, which holds all maps and everything that belongs to them. This field
    /// has no default.
    pub bytes: u64,
    /// The largest number of maps; by default 128.
    pub maps_max: u32,
    /// The largest number of participants of all processes at one time; by default 64.
    pub participants_max: u32,
    /// The largest number of leases of a participant at one time; by default 16. An entry that is
    /// held uses one lease. A cursor uses one, and two while it moves.
    pub leases_max: u32,
    /// The largest number of splits of all maps together; 0: no map is split. A map that may have
    /// eight shards (`shards_max` in `forebay_options`) needs seven splits.
    pub splits_max: u32,
    /// The part of `bytes` that is reserved for the hint tables of all maps; by default 0.
    pub hint_bytes: u64,
}

// SAFETY: three numbers of 8 bytes and four of 4, without padding; any numbers are valid.
unsafe impl SizedStruct for AbiConfig {}

/// How a region was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum OpenedHow {
    /// No file existed, and the region was created.
    Created = 0,
    /// The region existed, and was opened.
    Attached = 1,
    /// Another file was replaced, such as a region of other sizes or from before the last boot; its
    /// contents are lost.
    Replaced = 2,
}

// Threads share the handle of a region.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<RegionHandle>();
};

/// Opens the region at this path, or creates it if there is none with these sizes. Processes that
/// call this at the same time get the same region.
///
/// A region of *other* sizes is replaced if it has no participants; otherwise the code is
/// `FOREBAY_CODE_IN_USE`. To open a region of unknown sizes, call `forebay_region_attach`.
///
/// The directory must belong to the caller alone (mode 0700); it is created if missing. It should
/// be on a file system in memory. The caller owns `region` until `forebay_region_close`.
///
/// # Safety
/// - `path` is null or a string with a NUL at its end; `config` is null or has as many bytes as
///   `struct_bytes` says. Both are only read during the call.
/// - `region` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_open(
    path: *const c_char,
    config: *const AbiConfig,
    region: Option<&mut MaybeUninit<*mut RegionHandle>>,
) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let path = unsafe { path_of(path)? };
        // SAFETY: the caller meets the same contract.
        let config = unsafe { sized::read(config, "config")? };
        opened(OrdRegion::open_or_create(path, &config.sizes()), region)
    })
}

/// Opens an existing region at this path, whatever its sizes. The caller owns `region` until
/// `forebay_region_close`.
///
/// # Safety
/// As `forebay_region_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_attach(
    path: *const c_char,
    region: Option<&mut MaybeUninit<*mut RegionHandle>>,
) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract.
        let path = unsafe { path_of(path)? };
        opened(OrdRegion::attach(path), region)
    })
}

/// How the region was opened: `how` receives one of `forebay_opened_how`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_region_opened(
    region: Option<&RegionHandle>,
    how: Option<&mut MaybeUninit<OpenedHow>>,
) -> Code {
    guard(|| {
        let opened = match require(region, "region")?.0.opened() {
            Opened::Created => OpenedHow::Created,
            Opened::Attached => OpenedHow::Attached,
            Opened::Replaced { .. } => OpenedHow::Replaced,
        };
        write_required(how, "how", opened)?;
        Ok(Code::Ok)
    })
}

/// Takes back the leases and locks of dead participants. `swept` receives the number of these
/// participants and may be null. Joining the region and changing a map do this only when they need
/// something that a dead participant holds; this function does it now.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_region_sweep(
    region: Option<&RegionHandle>,
    swept: Option<&mut MaybeUninit<u32>>,
) -> Code {
    guard(|| {
        let RegionHandle(region) = require(region, "region")?;
        write_if_wanted(swept, region.sweep()?);
        Ok(Code::Ok)
    })
}

/// Closes the caller's handle of the region; null is allowed. Participants that have joined stay
/// usable.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_region_close(region: Option<Box<RegionHandle>>) -> Code {
    guard(|| {
        drop(region);
        Ok(Code::Ok)
    })
}

fn opened(
    region: Result<OrdRegion, OrdOpenError>,
    place: Option<&mut MaybeUninit<*mut RegionHandle>>,
) -> Result<Code, CallFailure> {
    let place = require(place, "region")?;
    place.write(handle(RegionHandle(region?)));
    Ok(Code::Ok)
}

/// # Safety
/// `path` is null or a string with a NUL at its end, which lives as long as the result.
unsafe fn path_of<'a>(path: *const c_char) -> Result<&'a Path, CallFailure> {
    if path.is_null() {
        return Err(CallFailure::null("path"));
    }
    // SAFETY: `path` is not null, and ends with a NUL (contract).
    let path = unsafe { CStr::from_ptr(path) };
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

impl AbiConfig {
    fn sizes(&self) -> OrdConfig {
        let usual = OrdConfig::with_bytes(self.bytes);
        let or = |require: u32, usual: u32| if require == 0 { usual } else { require };
        OrdConfig {
            bytes: self.bytes,
            maps_max: or(self.maps_max, usual.maps_max),
            participants_max: or(self.participants_max, usual.participants_max),
            leases_max: or(self.leases_max, usual.leases_max),
            hint_bytes: self.hint_bytes,
            splits_max: self.splits_max,
        }
    }
}
