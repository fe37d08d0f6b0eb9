//! Cursors: positions in a map that survive every change.

use std::mem::MaybeUninit;

use forebay_ordmap::MapError;

use crate::bytes::{AbiBytes, AbiItem};
use crate::code::Code;
use crate::entry::EntryHandle;
use crate::failure::{CallFailure, guard};
use crate::handle::{WithParticipant, handle, require, write_if_wanted};
use crate::map::MapHandle;

type InnerCursor = forebay_ordmap::Cursor<'static>;

/// A position in a map: at an entry, or at no entry. A cursor holds its entry, which stays readable
/// whatever changes in the map. A move starts from the key of that entry. A move needs two of the
/// participant's leases; a cursor at an entry uses one.
#[derive(Debug)]
pub struct CursorHandle(WithParticipant<InnerCursor>);

/// Creates a cursor that stands at no entry. The caller owns `cursor` until `forebay_cursor_close`
/// or `forebay_cursor_into_entry`.
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

/// Moves to the first entry and shows it in `item`, which may be null. As with all moves, the item
/// is valid until the cursor moves again or is closed. `FOREBAY_CODE_ABSENT`: there is no such
/// entry, and the cursor stands at no entry now. If a move fails, the cursor does not move.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_first(
    cursor: Option<&mut CursorHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    moved(cursor, item, |cursor| cursor.first())
}

/// Moves to the last entry.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_last(
    cursor: Option<&mut CursorHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    moved(cursor, item, |cursor| cursor.last())
}

/// Moves to the next entry, or to the first one if the cursor stands at no entry.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_next(
    cursor: Option<&mut CursorHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    moved(cursor, item, |cursor| cursor.next())
}

/// Moves to the previous entry, or to the last one if the cursor stands at no entry.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_previous(
    cursor: Option<&mut CursorHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    moved(cursor, item, |cursor| cursor.previous())
}

/// Moves to the first entry whose key is at or above `key`.
///
/// # Safety
/// - `cursor` is null or a handle that is not closed, and no other thread uses its participant.
///   This applies to all functions of cursors.
/// - `key` is as `forebay_bytes` says; it may be the key that the cursor shows. `item` is null or
///   can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_cursor_at_or_above(
    cursor: Option<&mut CursorHandle>,
    key: AbiBytes,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    // SAFETY: the caller meets the same contract.
    unsafe { sought(cursor, key, item, |cursor, key| cursor.at_or_above(key)) }
}

/// Moves to the first entry whose key is above `key`.
///
/// # Safety
/// As `forebay_cursor_at_or_above`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_cursor_above(
    cursor: Option<&mut CursorHandle>,
    key: AbiBytes,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    // SAFETY: the caller meets the same contract.
    unsafe { sought(cursor, key, item, |cursor, key| cursor.above(key)) }
}

/// Moves to the last entry whose key is at or below `key`.
///
/// # Safety
/// As `forebay_cursor_at_or_above`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_cursor_at_or_below(
    cursor: Option<&mut CursorHandle>,
    key: AbiBytes,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    // SAFETY: the caller meets the same contract.
    unsafe { sought(cursor, key, item, |cursor, key| cursor.at_or_below(key)) }
}

/// Moves to the last entry whose key is below `key`.
///
/// # Safety
/// As `forebay_cursor_at_or_above`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_cursor_below(
    cursor: Option<&mut CursorHandle>,
    key: AbiBytes,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    // SAFETY: the caller meets the same contract.
    unsafe { sought(cursor, key, item, |cursor, key| cursor.below(key)) }
}

/// The entry at which the cursor stands, as it was when the cursor moved there.
/// `FOREBAY_CODE_ABSENT`: the cursor stands at no entry.
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

/// Closes the cursor and returns its entry with the lease: the item that the cursor showed stays
/// valid until `forebay_entry_release`. `FOREBAY_CODE_ABSENT`: the cursor stood at no entry; the
/// cursor is closed all the same. If `entry` is null, the cursor is not closed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_cursor_into_entry(
    cursor: Option<Box<CursorHandle>>,
    entry: Option<&mut MaybeUninit<*mut EntryHandle>>,
) -> Code {
    guard(|| {
        let cursor = require(cursor, "cursor")?;
        let Some(place) = entry else {
            // The caller keeps the cursor.
            let _ = Box::into_raw(cursor);
            return Err(CallFailure::null("entry"));
        };
        let Some(entry) = cursor.0.into(InnerCursor::into_entry) else { return Ok(Code::Absent) };
        place.write(handle(EntryHandle(entry)));
        Ok(Code::Ok)
    })
}

/// Closes a cursor; null is allowed. The item that the cursor showed must no longer be read.
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
/// `key` meets the contract of [`AbiBytes::read`].
unsafe fn sought(
    cursor: Option<&mut CursorHandle>,
    key: AbiBytes,
    item: Option<&mut MaybeUninit<AbiItem>>,
    go: impl for<'c> FnOnce(&'c mut InnerCursor, &[u8]) -> Result<ShownEntry<'c>, MapError>,
) -> Code {
    guard(|| {
        // SAFETY: the caller meets the same contract. If `key` is the key that the cursor shows, it
        // stays readable until the cursor holds the entry to which it moves.
        let key = unsafe { key.read("key")? };
        Ok(shown(go(&mut require(cursor, "cursor")?.0.what, key)?, item))
    })
}
