//! Functions of held entries.

use std::mem::MaybeUninit;

use crate::bytes::AbiItem;
use crate::code::Code;
use crate::failure::guard;
use crate::handle::{WithParticipant, require, write_required};

/// A key with its value at the time of the read. Both stay readable until the entry is released,
/// even if the key is replaced, removed or evicted in its map. The entry uses one of the
/// participant's leases.
#[derive(Debug)]
pub struct EntryHandle(pub(crate) WithParticipant<forebay_ordmap::Entry<'static>>);

/// Writes the key and the value of an entry to `item`. Both are shown in place, and stay valid
/// until the entry is released.
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

/// Returns `FOREBAY_CODE_OK` if both handles hold the same stored entry, otherwise
/// `FOREBAY_CODE_DIFFERS`. Equal entries are not the same if they were stored at different times.
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

/// Releases an entry and its lease; null is allowed. The item of the entry must no longer be read.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_entry_release(entry: Option<Box<EntryHandle>>) -> Code {
    guard(|| {
        drop(entry);
        Ok(Code::Ok)
    })
}
