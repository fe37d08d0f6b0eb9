//! Looking for an entry in the shard where it would be, and in those behind it.
//!
//! What is found in a shard behind others is next only if nothing lay in those at that moment. So
//! each of them is asked again afterwards: what was so before and after was so meanwhile, and in
//! all of them at once. As in one shard only the ways count along which it looked.

use forebay_sync::atomic::spin_loop;

use super::look::{SeekOrigin, SeekSnapshot, look};
use super::{CursorPosition, EntryTaker};
use crate::error::MapError;
use crate::map::entry::HoldError;
use crate::map::reader::{DamageDetector, MapReader};
use crate::object::ObjectReadError;
use crate::route::RouteVersion;
use crate::tree::Direction;

/// What a try came to.
enum AttemptResult<F> {
    FoundEntry(F),
    Nothing,
    /// Something came into a shard that was passed.
    Changed,
}

/// What is found, and in which shard.
struct FoundEntry<'m, T> {
    taken: T,
    position: CursorPosition,
    reader: MapReader<'m>,
}

/// A shard in which nothing was.
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
        // Whatever was read by bounds that are others now, another try is to say.
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
        // A try fails only if somebody changed something meanwhile: so damage cannot hold a reader
        // because others write, and it may try as often as they do.
        if quiet.is_damage(reader.change_count()) {
            return Err(MapError::Damaged { what: "shards keep changing without a writer" });
        }
        spin_loop();
    }
}

/// Takes the rest of what is found; no, if it was freed meanwhile.
fn finish<'m, T: EntryTaker<'m>>(
    found: &FoundEntry<'m, T::Output>,
    taker: &mut T,
) -> Result<bool, MapError> {
    match found.reader.while_young(found.position.epoch, || taker.finish(&found.taken)) {
        Err(HoldError::Read(ObjectReadError::Changed)) => Ok(false),
        finished => Ok(finished.map(|()| true)?),
    }
}

/// Looks by bounds that may change meanwhile.
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
        // The bound between this one and the next.
        let above = shard_rank + usize::from(direction == Direction::Up);
        routes.copy_bound(version, above, bound.insert(Vec::new()));
        shard_rank = if direction == Direction::Up { above } else { shard_rank - 1 };
    }
}

/// Is there still nothing in the shards that were passed?
fn are_still_empty(passed: &[PassedShard<'_>]) -> Result<bool, MapError> {
    for PassedShard { reader, look } in passed {
        if !look.is_still_now(reader)? {
            return Ok(false);
        }
    }
    Ok(true)
}
