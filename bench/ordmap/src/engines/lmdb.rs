//! LMDB through heed, on a file system in memory, without sync, with one transaction per operation.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithTls};

use super::{BATCH, Engine, RANGE, Shared, Work};
use crate::data::{Asked, Data, digest};

pub(crate) struct Lmdb {
    env: Env,
    table: Database<Bytes, Bytes>,
    value: Vec<u8>,
}

/// The reserved address space. The file grows as needed.
const MAP_BYTES: usize = 64 << 30;
const PAGE_BYTES: u64 = 4096;

impl Lmdb {
    /// Opens the environment in this folder, and creates it if necessary.
    pub(crate) fn open(dir: &Path) -> Lmdb {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: the data need not survive a crash of the machine, because its file system is in
        // memory.
        unsafe { options.flags(EnvFlags::NO_SYNC) };
        // SAFETY: only LMDB changes the file.
        let env = unsafe { options.open(dir) }.expect("LMDB opens the folder");
        let mut txn = env.write_txn().expect("a transaction begins");
        let table = env.create_database(&mut txn, None).expect("LMDB creates the main table");
        txn.commit().expect("the table is created");
        Lmdb { env, table, value: Vec::new() }
    }

    pub(crate) fn read_txn(&self) -> RoTxn<'_, WithTls> {
        self.env.read_txn().expect("the table of readers has room")
    }

    fn get(&self, key: &[u8]) -> u64 {
        let txn = self.read_txn();
        self.table.get(&txn, key).expect("the table is sound").map_or(0, digest)
    }

    fn range(&self, key: &[u8]) -> u64 {
        let txn = self.read_txn();
        let from: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(key), Bound::Unbounded);
        let range = self.table.range(&txn, &from).expect("the table is sound").take(RANGE);
        let values = range.map(|entry| digest(entry.expect("the table is sound").1));
        values.fold(0, u64::wrapping_add)
    }

    /// Makes changes in transactions of `batch` keys each.
    fn change(&mut self, data: &Data, asked: &[Asked], batch: usize, is_put: bool) -> u64 {
        let mut were_there = 0;
        for batch in asked.chunks(batch) {
            let mut txn = self.env.write_txn().expect("a transaction begins");
            for asked in batch {
                let key = &asked.key[..];
                if is_put {
                    data.value(asked.number, &mut self.value);
                    self.table.put(&mut txn, key, &self.value).expect("the file has room");
                } else {
                    were_there +=
                        u64::from(self.table.delete(&mut txn, key).expect("the table is sound"));
                }
            }
            txn.commit().expect("the commit succeeds");
        }
        were_there
    }
}

impl Engine for Lmdb {
    fn name(&self) -> &'static str {
        "LMDB"
    }

    fn run(&mut self, work: Work, data: &Data, asked: &[Asked]) -> Option<u64> {
        let keys = asked.iter().map(|asked| &asked.key[..]);
        Some(match work {
            // LMDB returns values in place, without a copy.
            Work::Get | Work::Hold => keys.map(|key| self.get(key)).fold(0, u64::wrapping_add),
            Work::Range => keys.map(|key| self.range(key)).fold(0, u64::wrapping_add),
            Work::Scan | Work::RangeByKey => return None,
            Work::Insert => self.change(data, asked, 1, true),
            Work::Remove => self.change(data, asked, 1, false),
            Work::InsertBatched => self.change(data, asked, BATCH, true),
            Work::RemoveBatched => self.change(data, asked, BATCH, false),
        })
    }

    fn used_bytes(&self) -> u64 {
        let stat = self.table.stat(&self.read_txn()).expect("the table is sound");
        (stat.branch_pages + stat.leaf_pages + stat.overflow_pages) as u64 * PAGE_BYTES
    }

    fn taken_bytes(&self) -> u64 {
        (self.env.info().last_page_number as u64 + 1) * PAGE_BYTES
    }

    fn shared(&self) -> Option<Shared> {
        Some(Shared::Lmdb)
    }
}
