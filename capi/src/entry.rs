//! Entries that are held.

use std::mem::MaybeUninit;

use crate::bytes::AbiItem;
use crate::code::Code;
use crate::failure::guard;
use crate::handle::{WithParticipant, require, write_required};

/// A key with its value as they were when they were found. They stay, whatever becomes of the key
/// in its map, until this is released; it takes one of the participant's leases.
#[derive(Debug)]
pub struct EntryHandle(pub(crate) WithParticipant<forebay_ordmap::Entry<'static>>);

/// Key and value, where they lie: valid until the entry is released.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_entry_item(
    entry: Option<&EntryHandle>,
    item: Option<&mut MaybeUninit<AbiItem>>,
) -> Code {
    guard(|| {
        write_required(item, "item", AbiItem::of(&require(entry, "entry")?.0.what))?;
        Ok(Code::Ok)
    })
}

/// Are both the same entry, and not only equal? No entry is the same as one that was stored later.
/// `FOREBAY_CODE_OK` or `FOREBAY_CODE_DIFFERS`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_entry_is_same(
    entry: Option<&EntryHandle>,
    other: Option<&EntryHandle>,
) -> Code {
    guard(|| {
        let (entry, other) = (&require(entry, "entry")?.0.what, &require(other, "other")?.0.what);
        let is_same = entry.is_same(other);
        Ok(if is_same { Code::Ok } else { Code::Differs })
    })
}

/// Releases an entry, and the lease with it; null is right, too. What it showed must not be read
/// any more.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_entry_release(entry: Option<Box<EntryHandle>>) -> Code {
    guard(|| {
        drop(entry);
        Ok(Code::Ok)
    })
}
