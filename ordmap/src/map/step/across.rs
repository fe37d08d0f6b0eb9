//! Searches for the next entry in the shard where it would be, and then in the shards behind that
//! one.
//!
//! If the search passes shards, the entry that it finds is the next one only if the passed shards
//! had no entry in the searched range at that moment. So each passed shard is checked again
//! afterwards. A shard that had no entry there before and after had none in between, so there is
//! one moment at which this is true of all of them. As within one shard, only changes on the
//! searched paths matter.

use forebay_sync::atomic::spin_loop;

use super::look::{SeekOrigin, SeekSnapshot, look};
use super::{CursorPosition, EntryTaker};
use crate::error::MapError;
use crate::map::entry::HoldError;
use crate::map::reader::{DamageDetector, MapReader};
use crate::object::ObjectReadError;
use crate::route::RouteVersion;
use crate::tree::Direction;

/// The result of one attempt.
enum AttemptResult<F> {
    FoundEntry(F),
    Nothing,
    /// An entry was inserted into a shard that the search had passed.
    Changed,
}

/// The entry that was found, and its shard.
struct FoundEntry<'m, T> {
    taken: T,
    position: CursorPosition,
    reader: MapReader<'m>,
}

/// A shard that the search passed because it had no entry in the searched range.
struct PassedShard<'m> {
    reader: MapReader<'m>,
    look: SeekSnapshot,
}

pub(super) fn find<'m, T: EntryTaker<'m>>(
    reader: &mut MapReader<'m>,
    from: SeekOrigin<'_>,
    direction: Direction,
    taker: &mut T,
) -> Result<Option<(T::Output, CursorPosition)>, MapError> {
    let mut quiet = DamageDetector::default();
    loop {
        let version = reader.routes.now()?;
        let tried = find_by(reader, version, from, direction, taker);
        // If the bounds have changed, the result is not valid and the search is repeated.
        if reader.routes.is_now(version) {
            match tried? {
                AttemptResult::FoundEntry(found) if finish(&found, taker)? => {
                    *reader = found.reader;
                    return Ok(Some((found.taken, found.position)));
                }
                AttemptResult::Nothing => return Ok(None),
                _ => {}
            }
        }
        // Without damage, an attempt fails only if another participant changed something. So a
        // reader repeats its search while others write, but damage does not hold it for ever.
        if quiet.is_damage(reader.change_count()) {
            return Err(MapError::Damaged { what: "shards keep changing without a writer" });
        }
        spin_loop();
    }
}

/// Runs the final step of the taker for the found entry; false if the entry was freed before.
fn finish<'m, T: EntryTaker<'m>>(
    found: &FoundEntry<'m, T::Output>,
    taker: &mut T,
) -> Result<bool, MapError> {
    match found.reader.while_young(found.position.epoch, || taker.finish(&found.taken)) {
        Err(HoldError::Read(ObjectReadError::Changed)) => Ok(false),
        finished => Ok(finished.map(|()| true)?),
    }
}

/// Makes one attempt to find the entry, by bounds that may change during the search.
fn find_by<'m, T: EntryTaker<'m>>(
    reader: &MapReader<'m>,
    version: RouteVersion,
    from: SeekOrigin<'_>,
    direction: Direction,
    taker: &mut T,
) -> Result<AttemptResult<FoundEntry<'m, T::Output>>, MapError> {
    let routes = reader.routes;
    let mut shard_rank = match (from, direction) {
        (SeekOrigin::Key(key, _), _) => routes.position(version, key),
        (SeekOrigin::End, Direction::Up) => 0,
        (SeekOrigin::End, Direction::Down) => version.count(),
    };
    let last = if direction == Direction::Up { version.count() } else { 0 };
    let mut bound: Option<Vec<u8>> = None;
    let mut passed = Vec::new();
    loop {
        let here = reader.at(routes.slot(version, shard_rank)?);
        let from =
            bound.as_ref().map_or(from, |bound| SeekOrigin::Key(bound, direction == Direction::Up));
        let (look, taken) = here.read(|| look(&here, from, direction, taker))?;
        let taken = taken.filter(|taken| routes.has(version, shard_rank, taker.key(taken)));
        if taken.is_some() || shard_rank == last {
            if !are_still_empty(&passed)? {
                return Ok(AttemptResult::Changed);
            }
            let found = taken.zip(look.position(version, shard_rank));
            return Ok(found.map_or(AttemptResult::Nothing, |(taken, position)| {
                AttemptResult::FoundEntry(FoundEntry { taken, position, reader: here })
            }));
        }
        passed.push(PassedShard { reader: here, look });
        // The bound between this shard and the next one.
        let above = shard_rank + usize::from(direction == Direction::Up);
        routes.copy_bound(version, above, bound.insert(Vec::new()));
        shard_rank = if direction == Direction::Up { above } else { shard_rank - 1 };
    }
}

/// Whether the passed shards still have no entry in the searched range.
fn are_still_empty(passed: &[PassedShard<'_>]) -> Result<bool, MapError> {
    for PassedShard { reader, look } in passed {
        if !look.is_still_now(reader)? {
            return Ok(false);
        }
    }
    Ok(true)
}
