//! Maps: reading single keys.

use std::cell::RefCell;
use std::mem::MaybeUninit;

use crate::bytes::{Bytes, Item};
use crate::code::Code;
use crate::entry::Entry;
use crate::failure::{Failure, guard};
use crate::handle::{Lent, answer, given, handle, tell};

/// A map, as one participant uses it.
#[derive(Debug)]
pub struct Map {
    pub(crate) lent: Lent<forebay_ordmap::Map<'static>>,
    /// What is read is put together here before it is the caller's.
    read: RefCell<Vec<u8>>,
}

impl Map {
    pub(crate) fn new(lent: Lent<forebay_ordmap::Map<'static>>) -> Map {
        Map { lent, read: RefCell::default() }
    }
}

/// Closes a map; null is right, too. Entries, cursors and ranges that come from it stay usable.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_map_close(map: Option<Box<Map>>) -> Code {
    guard(|| {
        drop(map);
        Ok(Code::Ok)
    })
}

/// The entry of a key, to be read where it lies. It takes one of the participant's leases. `entry`
/// is the caller's, until `forebay_entry_release`; what `item` shows (it may be null) is valid as
/// long, even if the key is replaced, removed or evicted meanwhile.
///
/// `FOREBAY_CODE_ABSENT`: there is no such key; nothing was written then.
///
/// # Safety
/// - `map` is null or a handle that is not closed, and no other thread uses its participant: as
///   everywhere below.
/// - `key` is as `forebay_bytes` says. `entry` and `item` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_get(
    map: Option<&Map>,
    key: Bytes,
    entry: Option<&mut MaybeUninit<*mut Entry>>,
    item: Option<&mut MaybeUninit<Item>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let key = unsafe { key.read("key")? };
        let lent = &given(map, "map")?.lent;
        let place = given(entry, "entry")?;
        let Some(found) = lent.what.entry(key)? else { return Ok(Code::Absent) };
        tell(item, Item::of(&found));
        place.write(handle(Entry(lent.with(found))));
        Ok(Code::Ok)
    })
}

/// Copies the value of a key into the caller's memory. It takes no lease, and less time than
/// `forebay_map_get` where values are short. The length of the value goes to `value_len`, also if
/// the memory is too small: then nothing is copied, and the code is `FOREBAY_CODE_BUFFER`.
///
/// `FOREBAY_CODE_ABSENT`: there is no such key; nothing was written then.
///
/// # Safety
/// - `key` is as `forebay_bytes` says.
/// - `value` has room for `value_bytes`; it may be null if that is 0. `value_len` is null or can be
///   written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_read(
    map: Option<&Map>,
    key: Bytes,
    value: *mut u8,
    value_bytes: usize,
    value_len: Option<&mut MaybeUninit<usize>>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let key = unsafe { key.read("key")? };
        let map = given(map, "map")?;
        let place = given(value_len, "value_len")?;
        let mut read = map.read.try_borrow_mut().map_err(|_| in_use())?;
        read.clear();
        if !map.lent.what.read_into(key, &mut read)? {
            return Ok(Code::Absent);
        }
        place.write(read.len());
        if read.len() > value_bytes {
            return Err(Failure::new(Code::Buffer, "there is no room for the value"));
        }
        if value.is_null() && !read.is_empty() {
            return Err(Failure::null("value"));
        }
        if !read.is_empty() {
            // SAFETY: it is not null, and there is room (contract, and as was seen).
            unsafe { std::ptr::copy_nonoverlapping(read.as_ptr(), value, read.len()) };
        }
        Ok(Code::Ok)
    })
}

/// Is there such a key? `FOREBAY_CODE_OK` or `FOREBAY_CODE_ABSENT`.
///
/// # Safety
/// As `forebay_map_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_map_contains(map: Option<&Map>, key: Bytes) -> Code {
    guard(|| {
        // SAFETY: the contract is the same.
        let key = unsafe { key.read("key")? };
        let is_there = given(map, "map")?.lent.what.contains(key)?;
        Ok(if is_there { Code::Ok } else { Code::Absent })
    })
}

/// How many entries there are. It was right at some moment.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_map_len(map: Option<&Map>, len: Option<&mut MaybeUninit<u64>>) -> Code {
    guard(|| {
        answer(len, "len", given(map, "map")?.lent.what.len())?;
        Ok(Code::Ok)
    })
}

fn in_use() -> Failure {
    Failure::new(Code::Argument, "another thread uses the map")
}
