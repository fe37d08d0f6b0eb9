//! The ordinary map, with a journal of its changes for the other processes.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::ops::Deref;

/// A key, and its new value or none.
pub(crate) type Change = (Vec<u8>, Option<Vec<u8>>);

/// In place of the length of a value: the key was removed.
const REMOVED: u32 = u32::MAX;

#[derive(Default)]
pub(crate) struct Oracle {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    changes: Vec<Change>,
}

impl Deref for Oracle {
    type Target = BTreeMap<Vec<u8>, Vec<u8>>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl Oracle {
    pub(crate) fn insert(&mut self, key: Vec<u8>, value: Vec<u8>) -> Option<Vec<u8>> {
        self.changes.push((key.clone(), Some(value.clone())));
        self.map.insert(key, value)
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.changes.push((key.to_vec(), None));
        self.map.remove(key)
    }

    /// The changes since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Applies the changes of another process.
    pub(crate) fn follow(&mut self, changes: Vec<Change>) {
        for (key, value) in changes {
            match value {
                Some(value) => self.map.insert(key, value),
                None => self.map.remove(&key),
            };
        }
    }
}

pub(crate) fn write_changes(out: &mut impl Write, changes: &[Change]) -> io::Result<()> {
    out.write_all(&(changes.len() as u32).to_le_bytes())?;
    for (key, value) in changes {
        let value_bytes = value.as_ref().map_or(REMOVED, |value| value.len() as u32);
        out.write_all(&(key.len() as u32).to_le_bytes())?;
        out.write_all(&value_bytes.to_le_bytes())?;
        out.write_all(key)?;
        out.write_all(value.as_deref().unwrap_or_default())?;
    }
    out.flush()
}

pub(crate) fn read_changes(from: &mut impl Read) -> io::Result<Vec<Change>> {
    let count = read_number(from)?;
    (0..count).map(|_| read_change(from)).collect()
}

fn read_change(from: &mut impl Read) -> io::Result<Change> {
    let (key_bytes, value_bytes) = (read_number(from)?, read_number(from)?);
    let key = read_bytes(from, key_bytes)?;
    let value = (value_bytes != REMOVED).then(|| read_bytes(from, value_bytes));
    Ok((key, value.transpose()?))
}

fn read_bytes(from: &mut impl Read, bytes: u32) -> io::Result<Vec<u8>> {
    let mut read = vec![0; bytes as usize];
    from.read_exact(&mut read)?;
    Ok(read)
}

pub(crate) fn read_number(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}
