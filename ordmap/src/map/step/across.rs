//! Looking for an entry in the shard where it would be, and in those behind it.

use super::{Place, Taker, find_end_within, find_within};
use crate::error::MapError;
use crate::map::reader::Reader;
use crate::route::{SHARDS_MAX, Version};
use crate::shard::TURN;
use crate::tree::Way;

/// From where something is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum From<'k> {
    /// From this key; is it what is looked for, too?
    Key(&'k [u8], bool),
    End,
}

/// So often it is looked for again: as [`Reader::read`] does.
const TRIES_MAX: u32 = 1 << 16;

/// Then a writer that was stopped as it published something is not waited for any more.
const ODD_TRIES_MAX: u32 = 64;

/// What a try came to.
type Tried<F> = Result<Option<F>, MapError>;

/// The shards in which nothing was, and their turns before that was seen.
struct Passed {
    turns: [(usize, u64); SHARDS_MAX],
    count: usize,
}

pub(super) fn find<'m, T: Taker<'m>>(
    reader: &mut Reader<'m>,
    from: From<'_>,
    way: Way,
    taker: &mut T,
) -> Result<Option<(T::Taken, Place)>, MapError> {
    for tries in 0..TRIES_MAX {
        let version = reader.routes.now()?;
        let mut passed = Passed { turns: [(0, 0); SHARDS_MAX], count: 0 };
        let found = find_by(reader, version, from, way, taker, &mut passed);
        // What was found or not is right if neither bounds nor what was passed changed meanwhile:
        // else something may have come into a shard before it was in the next one.
        let is_same = passed.is_same(reader, tries > ODD_TRIES_MAX);
        if !reader.routes.is_now(version) || found.is_ok() && !is_same {
            continue;
        }
        let Some((taken, place, slot)) = found? else { return Ok(None) };
        *reader = reader.at(slot);
        return Ok(Some((taken, place)));
    }
    Err(MapError::Damaged { what: "bounds move for ever" })
}

/// The same by bounds that may change meanwhile; gives the shard, too.
fn find_by<'m, T: Taker<'m>>(
    reader: &Reader<'m>,
    version: Version,
    from: From<'_>,
    way: Way,
    taker: &mut T,
    passed: &mut Passed,
) -> Tried<(T::Taken, Place, usize)> {
    let routes = reader.routes;
    let mut position = match (from, way) {
        (From::Key(key, _), _) => routes.position(version, key),
        (From::End, Way::Up) => 0,
        (From::End, Way::Down) => version.count(),
    };
    let mut bound: Option<Vec<u8>> = None;
    loop {
        let slot = routes.slot(version, position)?;
        let here = reader.at(slot);
        let turn = here.shard.turn();
        let found = match (&bound, from) {
            (Some(bound), _) => find_within(&here, bound, way, way == Way::Up, taker)?,
            (None, From::Key(key, may_equal)) => find_within(&here, key, way, may_equal, taker)?,
            (None, From::End) => find_end_within(&here, way, taker)?,
        };
        if let Some((taken, place)) = found
            && routes.has(version, position, taker.key(&taken))
        {
            return Ok(Some((taken, Place { version, position, ..place }, slot)));
        }
        passed.add(slot, turn);
        let is_last = position == if way == Way::Up { version.count() } else { 0 };
        if is_last {
            return Ok(None);
        }
        // The bound between this one and the next.
        let above = position + usize::from(way == Way::Up);
        routes.copy_bound(version, above, bound.insert(Vec::new()));
        position = if way == Way::Up { above } else { position - 1 };
    }
}

impl Passed {
    fn add(&mut self, slot: usize, turn: u64) {
        if let Some(place) = self.turns.get_mut(self.count) {
            *place = (slot, turn);
            self.count += 1;
        }
    }

    /// Was nothing published in them since? If one was being published, that may have been since.
    fn is_same(&self, reader: &Reader<'_>, may_be_odd: bool) -> bool {
        self.turns[..self.count].iter().all(|(slot, turn)| {
            let now = reader.at(*slot).shard.load(TURN);
            now == *turn && (may_be_odd || turn.is_multiple_of(2))
        })
    }
}
