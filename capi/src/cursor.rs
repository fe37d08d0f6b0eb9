//! Cursors: places in a map that survive every change.

use std::mem::MaybeUninit;

use forebay_ordmap::MapError;

use crate::bytes::{AbiBytes, AbiItem};
use crate::code::Code;
use crate::entry::EntryHandle;
use crate::failure::{CallFailure, guard};
use crate::handle::{WithParticipant, handle, require, write_if_wanted};
use crate::map::MapHandle;

type InnerCursor = forebay_ordmap::Cursor<'static>;

/// Stands at an entry of a map, or nowhere. It holds that entry, so it stays readable whatever
/// becomes of the map, and the cursor goes on from its key; two of the participant's leases are
/// needed while it moves, one while it stands.
#[derive(Debug)]
pub struct CursorHandle(WithParticipant<InnerCursor>);

/// A cursor that stands nowhere yet. `cursor` is the caller's, until `forebay_cursor_close` or
/// `forebay_cursor_into_entry`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_map_cursor(
    map: Option<&MapHandle>,
    cursor: Option<&mut MaybeUninit<*mut CursorHandle>>,
) -> Code {
    guard(|| {
        let inner = &require(map, "map")?.inner;
        let place = require(cursor, "cursor")?;
        place.write(handle(CursorHandle(inner.with(inner.what.cursor()))));
        Ok(Code::Ok)
    })
}

/// Goes to the first entry, and shows it in `item`, which may be null: valid until the cursor moves
/// or is closed, as with all moves. `FOREBAY_CODE_ABSENT`: there is none, and the cursor stands
/// nowhere. After a failure it stands where it did.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_first(
    cursor: Option<&mut CursorHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    moved(cursor, item, |cursor| cursor.first())
}

/// Goes to the last entry.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_last(
    cursor: Option<&mut CursorHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    moved(cursor, item, |cursor| cursor.last())
}

/// Goes to the next entry; from nowhere to the first.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_next(
    cursor: Option<&mut CursorHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    moved(cursor, item, |cursor| cursor.next())
}

/// Goes to the entry before; from nowhere to the last.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_previous(
    cursor: Option<&mut CursorHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    moved(cursor, item, |cursor| cursor.previous())
}

/// Goes to the first entry whose key is not below this one.
///
/// # Safety
/// - `cursor` is null or a handle that is not closed, and no other thread uses its participant: as
///   everywhere here.
/// - `key` is as `forebay_bytes` says; it may be the one that the cursor shows. `item` is null or
///   can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_cursor_at_or_above(
    cursor: Option<&mut CursorHandle>,
    key: AbiBytes,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    // SAFETY: the contract is the same.
    unsafe { sought(cursor, key, item, |cursor, key| cursor.at_or_above(key)) }
}

/// Goes to the first entry whose key is above this one.
///
/// # Safety
/// As `forebay_cursor_at_or_above`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_cursor_above(
    cursor: Option<&mut CursorHandle>,
    key: AbiBytes,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    // SAFETY: the contract is the same.
    unsafe { sought(cursor, key, item, |cursor, key| cursor.above(key)) }
}

/// Goes to the last entry whose key is not above this one.
///
/// # Safety
/// As `forebay_cursor_at_or_above`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_cursor_at_or_below(
    cursor: Option<&mut CursorHandle>,
    key: AbiBytes,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    // SAFETY: the contract is the same.
    unsafe { sought(cursor, key, item, |cursor, key| cursor.at_or_below(key)) }
}

/// Goes to the last entry whose key is below this one.
///
/// # Safety
/// As `forebay_cursor_at_or_above`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_cursor_below(
    cursor: Option<&mut CursorHandle>,
    key: AbiBytes,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    // SAFETY: the contract is the same.
    unsafe { sought(cursor, key, item, |cursor, key| cursor.below(key)) }
}

/// The entry at which the cursor stands, as it was found; `FOREBAY_CODE_ABSENT`: it stands nowhere.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_item(
    cursor: Option<&CursorHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    guard(|| {
        let entry = require(cursor, "cursor")?.0.what.entry();
        Ok(shown(entry, item))
    })
}

/// Closes the cursor and gives away the entry at which it stands, with its lease: what the cursor
/// showed stays valid until `forebay_entry_release`. `FOREBAY_CODE_ABSENT`: it stood nowhere. The
/// cursor is closed in any case, unless it or `entry` is null.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_into_entry(
    cursor: Option<Box<CursorHandle>>,
    entry: Option<&mut MaybeUninit<*mut EntryHandle>>,
) -> Code {
    guard(|| {
        let cursor = require(cursor, "cursor")?;
        let Some(place) = entry else {
            // It stays the caller's.
            let _ = Box::into_raw(cursor);
            return Err(CallFailure::null("entry"));
        };
        let Some(entry) = cursor.0.into(InnerCursor::into_entry) else { return Ok(Code::Absent) };
        place.write(handle(EntryHandle(entry)));
        Ok(Code::Ok)
    })
}

/// Closes a cursor; null is right, too. What it showed must not be read any more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_close(cursor: Option<Box<CursorHandle>>) -> Code {
    guard(|| {
        drop(cursor);
        Ok(Code::Ok)
    })
}

type ShownEntry<'c> = Option<&'c forebay_ordmap::Entry<'static>>;

pub(crate) fn shown(entry: ShownEntry<'_>, item: Option<&mut MaybeUninit<AbiItem>>) -> Code {
    let Some(entry) = entry else { return Code::Absent };
    write_if_wanted(item, AbiItem::of(entry));
    Code::Ok
}

fn moved(
    cursor: Option<&mut CursorHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
    go: impl for<'c> FnOnce(&'c mut InnerCursor) -> Result<ShownEntry<'c>, MapError>,
) -> Code {
    guard(|| Ok(shown(go(&mut require(cursor, "cursor")?.0.what)?, item)))
}

/// # Safety
/// `key` is as [`AbiBytes::read`] wants it.
unsafe fn sought(
    cursor: Option<&mut CursorHandle>,
    key: AbiBytes,
    item: Option<&mut MaybeUninit<AbiItem>>,
    go: impl for<'c> FnOnce(&'c mut InnerCursor, &[u8]) -> Result<ShownEntry<'c>, MapError>,
) -> Code {
    guard(|| {
        // SAFETY: the contract is the same. If the cursor shows it, it stays until the cursor has
        // the entry to which it goes.
        let key = unsafe { key.read("key")? };
        Ok(shown(go(&mut require(cursor, "cursor")?.0.what, key)?, item))
    })
}
