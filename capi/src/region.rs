//! Regions: what a process opens.

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

/// A region of maps as a process has it open. Any number of threads may use it at one time.
#[derive(Debug)]
pub struct RegionHandle(pub(crate) OrdRegion);

/// Sizes of a region, fixed when it is made. Set `struct_bytes` to `sizeof`, and the rest to 0
/// where the usual is right.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AbiConfig {
    /// `sizeof(forebay_config)`.
    pub struct_bytes: usize,
    /// Size of the file: all maps with everything that belongs to them. There is no usual one.
    pub bytes: u64,
    /// How many maps there can be; usually 128.
    pub maps_max: u32,
    /// How many participants there can be, of all processes, at one time; usually 64.
    pub participants_max: u32,
    /// How many entries a participant can hold at one time; usually 16. A cursor needs two while it
    /// moves, and one else.
    pub leases_max: u32,
    /// How often maps can be split, all together; 0: never. A map that may have eight parts needs
    /// seven of them (`forebay_options`).
    pub splits_max: u32,
    /// How many of the bytes are for hashes in front of maps; usually none.
    pub hint_bytes: u64,
}

// SAFETY: three numbers of 8 bytes and four of 4, without padding; any numbers are valid.
unsafe impl SizedStruct for AbiConfig {}

/// How a region came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum OpenedHow {
    /// Nothing was there.
    Created = 0,
    /// It was there.
    Attached = 1,
    /// Something else was there, as a region of other sizes or from before the machine was started
    /// anew; what was in it is lost.
    Replaced = 2,
}

// Threads share it.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<RegionHandle>();
};

/// Opens the region under this path, and makes it if there is none with these sizes. Processes that
/// do so at the same time get the same region.
///
/// A region of *other* sizes is replaced if nobody takes part in it; else the code is
/// `FOREBAY_CODE_IN_USE`. Who does not know the sizes attaches.
///
/// The directory has to be the caller's alone (mode 0700); it is made if there is none. A file
/// system in memory is the right one. `region` is the caller's, until `forebay_region_close`.
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
        // SAFETY: the contract is the same.
        let path = unsafe { path_of(path)? };
        // SAFETY: the contract is the same.
        let config = unsafe { sized::read(config, "config")? };
        opened(OrdRegion::open_or_create(path, &config.sizes()), region)
    })
}

/// Opens the region under this path, which has to be there, with whatever sizes it was made.
/// `region` is the caller's, until `forebay_region_close`.
///
/// # Safety
/// As `forebay_region_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_region_attach(
    path: *const c_char,
    region: Option<&mut MaybeUninit<*mut RegionHandle>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let path = unsafe { path_of(path)? };
        opened(OrdRegion::attach(path), region)
    })
}

/// How the region came to be there: one of `forebay_opened_how` goes to `how`.
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

/// Takes back what dead participants held; their number goes to `swept`, unless it is null. Who
/// joins or changes a map does so by itself where the dead take room: this is for who wants it at
/// once.
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

/// Closes the region for who opened it; participants that have joined go on. Null is right, too.
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
    // SAFETY: it is not null, and ends with a NUL (contract).
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
