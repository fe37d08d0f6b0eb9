//! Audits a whole shard under its lock: every node is valid, every object that is taken is named
//! exactly once.

mod hints;
mod memory;
mod nodes;

use std::collections::HashSet;

use super::intent::is_idle;
use super::moving::is_moving;
use super::words::ShardWords;
use super::writer::ShardWriter;
use crate::names::MapShards;
use crate::object::{Allocator, ObjectRef};
use crate::route::KeyRange;

/// The most findings that are recorded for a shard.
const FINDINGS_MAX: usize = 100;

/// The result of an audit.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditReport {
    pub(crate) entries: u64,
    pub(crate) nodes: u64,
    pub(crate) waiting: u64,
    pub(crate) findings: Vec<(&'static str, u64)>,
}

impl AuditReport {
    /// Adds the result of another shard of the map.
    pub(crate) fn add(&mut self, other: AuditReport) {
        self.entries += other.entries;
        self.nodes += other.nodes;
        self.waiting += other.waiting;
        self.findings.extend(other.findings);
    }
}

/// An audit of one shard.
struct ShardAudit<'a> {
    allocator: Allocator<'a>,
    shard: ShardWords<'a>,
    /// The units at which named objects begin.
    named: HashSet<usize>,
    audited: AuditReport,
}

/// Audits the shard, which is one of `shards` and has the keys of `range`. The caller holds its
/// lock, and has repaired it if necessary.
pub(crate) fn audit(writer: &ShardWriter<'_>, shards: MapShards, range: &KeyRange) -> AuditReport {
    let (allocator, shard, audited) = (writer.allocator, writer.shard, AuditReport::default());
    let mut audit = ShardAudit { allocator, shard, named: HashSet::new(), audited };
    if !is_idle(shard) {
        audit.find("a change of the shard is unfinished", 0);
    }
    if is_moving(shard) {
        audit.find("a move of entries from or to the shard is unfinished", 0);
    }
    audit.nodes(range);
    audit.memory();
    audit.hints(writer, shards);
    audit.audited
}

impl ShardAudit<'_> {
    fn find(&mut self, what: &'static str, at: u64) {
        if self.audited.findings.len() < FINDINGS_MAX {
            self.audited.findings.push((what, at));
        }
    }

    /// Records that a slot refers to an object. Returns true for the first slot; only then may the
    /// children of the object be visited.
    fn name(&mut self, object: ObjectRef) -> bool {
        let Some(unit) = object.unit() else {
            self.find("a slot refers to no object", object.word());
            return false;
        };
        if !self.allocator.is_taken(object) {
            self.find("an object to which a slot refers is not marked as in use", object.word());
        }
        let is_first = self.named.insert(unit);
        if !is_first {
            self.find("two slots refer to the same object", object.word());
        }
        is_first
    }
}
