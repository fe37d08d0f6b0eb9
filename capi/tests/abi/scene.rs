//! A region with a map behind handles of the C interface, and helpers to call it.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::ptr::null;

use forebay_capi::*;
use tempfile::TempDir;

/// A region with a participant and a map.
pub(crate) struct Scene {
    dir: TempDir,
    pub(crate) region: *mut RegionHandle,
    pub(crate) participant: *mut ParticipantHandle,
    pub(crate) map: *mut MapHandle,
}

/// The place for the output of a call.
pub(crate) type OutPlace<'p, T> = Option<&'p mut MaybeUninit<T>>;

/// Returns the output of a call, which is written if the code is OK.
pub(crate) fn answered<T>(ask: impl FnOnce(OutPlace<'_, T>) -> Code) -> Result<T, Code> {
    let mut answer = MaybeUninit::uninit();
    match ask(Some(&mut answer)) {
        // SAFETY: every function writes its output when it returns this code.
        Code::Ok => Ok(unsafe { answer.assume_init() }),
        code => Err(code),
    }
}

pub(crate) fn bytes(bytes: &[u8]) -> AbiBytes {
    AbiBytes { data: bytes.as_ptr(), len: bytes.len() }
}

/// Copies the bytes that a call returned. They must still be valid.
pub(crate) fn text(shown: AbiBytes) -> String {
    // SAFETY: the tests hold the handle that keeps the bytes valid while they read them.
    let shown = unsafe { std::slice::from_raw_parts(shown.data, shown.len) };
    String::from_utf8_lossy(shown).into_owned()
}

pub(crate) fn last_message() -> String {
    // SAFETY: the message is never null, and no call fails in between.
    unsafe { CStr::from_ptr(forebay_last_message()) }.to_string_lossy().into_owned()
}

/// The handle in the form in which a function takes it.
pub(crate) fn by<'a, T>(handle: *mut T) -> Option<&'a T> {
    // SAFETY: handles of these tests are null or open.
    unsafe { handle.as_ref() }
}

pub(crate) fn by_mut<'a, T>(handle: *mut T) -> Option<&'a mut T> {
    // SAFETY: handles of these tests are null or open, and there is only one such reference at a
    // time.
    unsafe { handle.as_mut() }
}

pub(crate) fn closing<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: the handles come from `Box`, and the tests close each of them once.
    Some(unsafe { Box::from_raw(handle) })
}

pub(crate) fn stats_of(map: *mut MapHandle) -> AbiStats {
    let mut stats = AbiStats { struct_bytes: size_of::<AbiStats>(), ..AbiStats::default() };
    // SAFETY: the struct can be written.
    assert_eq!(unsafe { forebay_map_stats(by(map), &raw mut stats) }, Code::Ok);
    stats
}

pub(crate) fn config(participants_max: u32) -> AbiConfig {
    let struct_bytes = size_of::<AbiConfig>();
    let config = AbiConfig { struct_bytes, bytes: 4 << 20, maps_max: 4, ..AbiConfig::default() };
    AbiConfig { participants_max, splits_max: 6, ..config }
}

impl Scene {
    pub(crate) fn open(participants_max: u32) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let path = CString::new(path_in(&dir).to_str().unwrap()).unwrap();
        let config = config(participants_max);
        // SAFETY: the string and the struct are valid during the call.
        let open =
            |place: OutPlace<'_, _>| unsafe { forebay_region_open(path.as_ptr(), &config, place) };
        let region = answered(open).unwrap();
        let participant = answered(|place| forebay_participant_join(by(region), place)).unwrap();
        // SAFETY: the string is valid during the call.
        let map = |place: OutPlace<'_, _>| unsafe {
            forebay_participant_map(by(participant), c"map".as_ptr(), null(), place)
        };
        Scene { dir, region, participant, map: answered(map).unwrap() }
    }

    pub(crate) fn path(&self) -> CString {
        CString::new(path_in(&self.dir).to_str().unwrap()).unwrap()
    }

    pub(crate) fn put(&self, key: &str, value: &str) {
        let (key, value) = (bytes(key.as_bytes()), bytes(value.as_bytes()));
        // SAFETY: the bytes are valid during the call.
        assert_eq!(unsafe { forebay_map_put(by(self.map), key, value, None) }, Code::Ok);
    }

    pub(crate) fn entry(&self, key: &str) -> Result<*mut EntryHandle, Code> {
        let key = bytes(key.as_bytes());
        // SAFETY: the bytes are valid during the call.
        answered(|place| unsafe { forebay_map_get(by(self.map), key, place, None) })
    }

    pub(crate) fn cursor(&self) -> *mut CursorHandle {
        answered(|place| forebay_map_cursor(by(self.map), place)).unwrap()
    }

    pub(crate) fn stats(&self) -> AbiStats {
        stats_of(self.map)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        forebay_map_close(take(&mut self.map));
        forebay_participant_leave(take(&mut self.participant));
        forebay_region_close(take(&mut self.region));
    }
}

/// Takes the handle in order to close it, and leaves null in its place.
pub(crate) fn take<T>(handle: &mut *mut T) -> Option<Box<T>> {
    let taken = std::mem::replace(handle, std::ptr::null_mut());
    if taken.is_null() { None } else { closing(taken) }
}

fn path_in(dir: &TempDir) -> PathBuf {
    dir.path().join("own/region")
}
