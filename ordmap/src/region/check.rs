//! Checks a whole region.

use std::collections::HashSet;
use std::fmt;

use forebay_sync::atomic::Relaxed;

use super::participant::MapParticipant;
use crate::error::MapError;
use crate::names::{MapShards, is_live};
use crate::object::ChunkWord;
use crate::shard;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The number of maps that were checked.
    pub maps: u64,
    /// The number of entries in all maps.
    pub entries: u64,
    /// The number of tree nodes in all maps.
    pub nodes: u64,
    /// The number of entries that have left their map but are not freed, because a lease may hold
    /// them.
    pub waiting: u64,
    /// The number of chunks that no map owns.
    pub free_chunks: u64,
    /// The problems that were found: of each shard of a map, the first hundred.
    pub findings: Vec<MapFinding>,
}

/// A problem that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapFinding {
    /// The name of the map; empty if the problem is in no map.
    pub map: String,
    /// A description of the problem.
    pub what: &'static str,
    /// A reference, number or count of the problem, for debugging.
    pub at: u64,
}

impl CheckReport {
    /// Whether the check found no problems.
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
    /// Checks all maps, each under its lock: every node is valid, and every object in use is named
    /// exactly once. Unfinished changes of dead writers are repaired first.
    ///
    /// # Errors
    /// A lock could not be taken, the directory is damaged, or a repair found damage.
    pub fn check(&self) -> Result<CheckReport, MapError> {
        let mut report = CheckReport::default();
        for name in self.map_names() {
            let name = String::from_utf8_lossy(&name).into_owned();
            // The map exists, and looking it up takes no lock.
            let map = self.existing_map(&name);
            let map =
                map.map_err(|_| MapError::Damaged { what: "the directory of maps is damaged" })?;
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
            // Another process may have created a map since the first look.
            live = self.live_shards();
            if !live.contains(&shard) {
                let what = "a chunk belongs to no map";
                report.findings.push(MapFinding { map: String::new(), what, at: chunk as u64 });
            }
        }
    }
}

impl crate::map::Map<'_> {
    /// Audits all shards of the map, each under its lock.
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
