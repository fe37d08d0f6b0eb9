//! Held entries.

use std::mem::MaybeUninit;

use crate::bytes::AbiItem;
use crate::code::Code;
use crate::failure::guard;
use crate::handle::{WithParticipant, require, write_required};

/// A key with its value at the time of the read. Both stay readable until the entry is released,
/// even if the key is replaced, removed or evicted in its map. The entry takes one of the
/// participant's leases.
#[derive(Debug)]
pub struct EntryHandle(pub(crate) WithParticipant<forebay_ordmap::Entry<'static>>);

/// Key and value in place: valid until the entry is released.
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

/// Whether both handles hold the same entry, not only equal ones: an entry that was stored later is
/// never the same. `FOREBAY_CODE_OK` or `FOREBAY_CODE_DIFFERS`.
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

/// Releases an entry and its lease; null is allowed. The item that it showed must no longer be
/// read.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_entry_release(entry: Option<Box<EntryHandle>>) -> Code {
    guard(|| {
        drop(entry);
        Ok(Code::Ok)
    })
}
