//! Audits the hint table: every word names the entry that the tree has for its key.

use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::ShardAudit;
use crate::names::MapShards;
use crate::object::{CHUNK_UNITS, ChunkWord, EntryKind, ObjectRef};
use crate::shard::words::HINT_BUCKETS;
use crate::shard::writer::ShardWriter;
use crate::tree::copy_key_of;

impl ShardAudit<'_> {
    /// Checks the words that name entries of this shard, or of no shard of the map.
    pub(super) fn hints(&mut self, writer: &ShardWriter<'_>, shards: MapShards) {
        let said = self.shard.load(HINT_BUCKETS);
        if said != 0 && said != writer.hints.bucket_count() {
            self.find("the map's hint table lies outside of the region's buckets", said);
        }
        for word in writer.hints.words() {
            let entry = ObjectRef::of_word(word.load(Relaxed));
            let is_wrong = !entry.is_none()
                && !self.is_others(entry, shards)
                && !is_found(writer, word, entry)
                // If the word has changed, another shard's owner has removed it, and may have given
                // the entry's chunk back.
                && word.load(Relaxed) == entry.word();
            if is_wrong {
                self.find("the hint table names an entry that is not in the tree", entry.word());
            }
        }
    }

    /// Whether the entry lies in a chunk of another shard of the map. The owner of that shard's
    /// lock may remove the word at any moment.
    fn is_others(&self, entry: ObjectRef, shards: MapShards) -> bool {
        let chunk = entry.unit().and_then(|unit| self.allocator.view.chunk(unit / CHUNK_UNITS));
        let owner = chunk.filter(|chunk| !chunk.is_free()).map(ChunkWord::owner);
        let is_of = |owner| shards.numbers().any(|number| number as u16 + 1 == owner);
        owner.is_some_and(|owner| owner != self.allocator.owner && is_of(owner))
    }
}

/// Whether the word lies in the bucket of its key, and the tree has its entry.
fn is_found(writer: &ShardWriter<'_>, word: &AtomicU64, entry: ObjectRef) -> bool {
    let mut key = Vec::new();
    copy_key_of(writer.tree.view, entry, EntryKind::Entry, &mut key).is_ok()
        && writer.hints.bucket(&key).is_some_and(|bucket| bucket.has(word))
        && writer.look(&key).is_ok_and(|position| position.entry == Some(entry))
}
