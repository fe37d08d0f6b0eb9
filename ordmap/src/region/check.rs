//! The check of a whole region.

use std::collections::HashSet;
use std::fmt;

use forebay_sync::atomic::Relaxed;

use super::participant::MapParticipant;
use crate::error::MapError;
use crate::names::{MapShards, is_live};
use crate::object::ChunkWord;
use crate::shard;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Maps that were looked through.
    pub maps: u64,
    /// Entries in them.
    pub entries: u64,
    /// Nodes of their trees.
    pub nodes: u64,
    /// Entries that are in no map any more, and wait for leases.
    pub waiting: u64,
    /// Chunks that nobody has.
    pub free_chunks: u64,
    /// What is wrong; of each map the first hundred.
    pub findings: Vec<MapFinding>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapFinding {
    /// In which map; empty if in none.
    pub map: String,
    /// What.
    pub what: &'static str,
    /// Where, or which number; for who debugs.
    pub at: u64,
}

impl CheckReport {
    /// Is nothing wrong?
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{} maps, {} entries, {} nodes, {} entries waiting, {} chunks free",
            self.maps, self.entries, self.nodes, self.waiting, self.free_chunks
        )?;
        for MapFinding { map, what, at } in &self.findings {
            writeln!(out, "{map}: {what} ({at:#x})")?;
        }
        Ok(())
    }
}

impl MapParticipant {
    /// Looks through all maps, each under its lock: is every node right, is every object that is
    /// taken named once? What dead writers have left is repaired first.
    ///
    /// # Errors
    /// A lock was not taken, or a repair met damage.
    pub fn check(&self) -> Result<CheckReport, MapError> {
        let mut report = CheckReport::default();
        for name in self.map_names() {
            let name = String::from_utf8_lossy(&name).into_owned();
            // It was there, and looking for it takes no lock.
            let map = self.existing_map(&name);
            let map = map.map_err(|_| MapError::Damaged { what: "the directory of maps" })?;
            let audited = map.audit()?;
            report.maps += 1;
            report.entries += audited.entries;
            report.nodes += audited.nodes;
            report.waiting += audited.waiting;
            let found = audited.findings.into_iter();
            report.findings.extend(found.map(|(what, at)| MapFinding {
                map: name.clone(),
                what,
                at,
            }));
        }
        self.check_chunks(&mut report);
        Ok(report)
    }

    /// The shards of all maps.
    fn live_shards(&self) -> HashSet<usize> {
        let shared = self.shared();
        let rows = (0..shared.config.maps_max as usize).map(|map| shared.map_words(map));
        let shards = rows.filter(|row| is_live(row)).filter_map(|row| shared.shards_in(row));
        shards.flat_map(MapShards::numbers).collect()
    }

    fn check_chunks(&self, report: &mut CheckReport) {
        let mut live = self.live_shards();
        for (chunk, word) in self.shared().chunks().iter().enumerate() {
            let word = ChunkWord::of_word(word.load(Relaxed));
            if word.is_free() {
                report.free_chunks += 1;
                continue;
            }
            // The chunk's word has the number plus one.
            let shard = usize::from(word.owner()).wrapping_sub(1);
            if live.contains(&shard) {
                continue;
            }
            // Others make maps meanwhile.
            live = self.live_shards();
            if !live.contains(&shard) {
                let what = "a chunk belongs to no map";
                report.findings.push(MapFinding { map: String::new(), what, at: chunk as u64 });
            }
        }
    }
}

impl crate::map::Map<'_> {
    /// What an audit finds.
    pub(crate) fn audit(&self) -> Result<shard::AuditReport, MapError> {
        let mut all = shard::AuditReport::default();
        for slot in 0..self.shards().count {
            let (_guard, writer) = self.begin(slot)?;
            let range = self.routes().range_of(slot)?;
            all.add(shard::audit(&writer, self.shards(), &range));
        }
        Ok(all)
    }
}
