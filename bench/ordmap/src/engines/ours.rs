//! The ordered map of this project.

use std::path::{Path, PathBuf};

use forebay_ordmap::{Cursor, Entry, Map, MapOptions, MapParticipant, OrdConfig, OrdRegion};

use super::{Engine, RANGE, Shared, Work};
use crate::data::{Asked, Data, digest};

pub(crate) struct Ours {
    form: Form,
    map: Map<'static>,
    value: Vec<u8>,
}

/// The form of the map: with or without a hint table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The tree alone.
    Tree,
    /// The tree with a hint table.
    Hash,
}

/// The bytes of the hint table per key, as the documentation recommends.
const FRONT_BYTES_EACH: u64 = 16;

impl Form {
    /// The path of the region.
    fn path(self, folder: &Path) -> PathBuf {
        folder.join(if self == Form::Tree { "ours" } else { "hash" })
    }
}

impl Ours {
    /// Creates a region with room for replaced entries.
    pub(crate) fn create(form: Form, folder: &Path, data: &Data) -> Ours {
        Ours::create_for(form, folder, data, 1)
    }

    /// Creates a map that may be split into this many shards.
    pub(crate) fn create_for(form: Form, folder: &Path, data: &Data, shards_max: u32) -> Ours {
        let record_bytes = (data.keys[0].len() + data.value_bytes + 64) as u64;
        let bytes = (64 << 20) + 2 * record_bytes * data.keys.len() as u64;
        let hash_bytes = FRONT_BYTES_EACH * data.keys.len() as u64;
        let hint_bytes = if form == Form::Hash { hash_bytes } else { 0 };
        let splits_max = shards_max - 1;
        let all_bytes = bytes + hint_bytes;
        let config = OrdConfig { hint_bytes, splits_max, ..OrdConfig::with_bytes(all_bytes) };
        let region = OrdRegion::open_or_create(&form.path(folder), &config);
        Ours::of(form, region.expect("the folder has room"), shards_max)
    }

    pub(crate) fn attach(form: Form, folder: &Path) -> Ours {
        let region = OrdRegion::attach(&form.path(folder));
        Ours::of(form, region.expect("the other process has created the region"), 1)
    }

    /// Makes the engine on a region. `shards_max` applies only when the map is created.
    fn of(form: Form, region: OrdRegion, shards_max: u32) -> Ours {
        let hint_bytes = region.config().hint_bytes;
        // Region and participant are never freed, since the map borrows them.
        let participant: &'static MapParticipant =
            Box::leak(Box::new(region.join().expect("the region has room for a participant")));
        let options = MapOptions { hint_bytes, shards_max, ..MapOptions::default() };
        let map = participant.map("bench", &options).expect("the region has room for a map");
        Ours { form, map, value: Vec::new() }
    }

    /// The number of shards.
    pub(crate) fn shard_count(&self) -> u64 {
        self.map.stats().shard_count
    }

    /// Returns a cursor in the middle of the map.
    pub(crate) fn cursor_at(&self, key: &[u8]) -> Cursor<'static> {
        let mut cursor = self.map.cursor();
        cursor.at_or_above(key).expect("a lease is free");
        cursor
    }

    fn get(&mut self, key: &[u8]) -> u64 {
        self.value.clear();
        let found = self.map.read_into(key, &mut self.value).expect("the map is sound");
        if found { digest(&self.value) } else { 0 }
    }

    fn hold(&self, key: &[u8]) -> u64 {
        let found = self.map.entry(key).expect("a lease is free");
        found.map_or(0, |entry| digest(entry.value()))
    }

    fn range(&self, key: &[u8]) -> u64 {
        let mut range = self.map.range(key..);
        let mut sum = 0_u64;
        for _ in 0..RANGE {
            let Some(entry) = range.next().expect("leases are free") else { break };
            sum = sum.wrapping_add(digest(entry.value()));
        }
        sum
    }

    fn scan(&self, key: &[u8]) -> u64 {
        let mut scan = self.map.scan(key..);
        let mut sum = 0_u64;
        for _ in 0..RANGE {
            let Some((_, value)) = scan.next().expect("the map is sound") else { break };
            sum = sum.wrapping_add(digest(value));
        }
        sum
    }

    fn range_by_key(&self, key: &[u8], last: &mut Vec<u8>) -> u64 {
        let mut cursor = self.map.cursor();
        let mut sum = 0_u64;
        let mut see = |entry: &Entry<'_>, last: &mut Vec<u8>| {
            sum = sum.wrapping_add(digest(entry.value()));
            last.clear();
            last.extend_from_slice(entry.key());
        };
        let Some(first) = cursor.at_or_above(key).expect("leases are free") else { return 0 };
        see(first, last);
        for _ in 1..RANGE {
            let Some(entry) = cursor.above(last).expect("leases are free") else { break };
            see(entry, last);
        }
        sum
    }

    fn insert(&mut self, data: &Data, asked: &Asked) -> u64 {
        data.value(asked.number, &mut self.value);
        let key = &asked.key;
        u64::from(self.map.insert(key, &self.value).expect("the store or map has room"))
    }

    fn remove(&self, key: &[u8]) -> u64 {
        u64::from(self.map.remove(key).expect("the map is sound"))
    }
}

impl Engine for Ours {
    fn name(&self) -> &'static str {
        match self.form {
            Form::Tree => "ordmap",
            Form::Hash => "ordmap, hint table",
        }
    }

    fn run(&mut self, work: Work, data: &Data, asked: &[Asked]) -> Option<u64> {
        let mut last = Vec::new();
        let sum = asked.iter().map(|asked| match work {
            Work::Get => Some(self.get(&asked.key)),
            Work::Hold => Some(self.hold(&asked.key)),
            Work::Range => Some(self.range(&asked.key)),
            Work::Scan => Some(self.scan(&asked.key)),
            Work::RangeByKey => Some(self.range_by_key(&asked.key, &mut last)),
            Work::Insert => Some(self.insert(data, asked)),
            Work::Remove => Some(self.remove(&asked.key)),
            Work::InsertBatched | Work::RemoveBatched => None,
        });
        sum.reduce(|sum, one| Some(sum?.wrapping_add(one?)))?
    }

    fn used_bytes(&self) -> u64 {
        let stats = self.map.stats();
        stats.used_bytes + stats.hint_bytes
    }

    fn taken_bytes(&self) -> u64 {
        let stats = self.map.stats();
        stats.owned_bytes + stats.hint_bytes
    }

    fn shared(&self) -> Option<Shared> {
        Some(match self.form {
            Form::Tree => Shared::Ours,
            Form::Hash => Shared::OursByHash,
        })
    }
}
