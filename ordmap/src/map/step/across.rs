//! Looking for an entry in the shard where it would be, and in those behind it.

use super::{Place, Taker, find_end_within, find_within};
use crate::error::MapError;
use crate::map::reader::Reader;
use crate::object::follow;
use crate::route::Version;
use crate::tree::{Path, Way};

/// From where something is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum From<'k> {
    /// From this key; is it what is looked for, too?
    Key(&'k [u8], bool),
    End,
}

/// So often it is looked for again: as [`Reader::read`] does.
const TRIES_MAX: u32 = 1 << 16;

/// What a try came to.
type Tried<F> = Result<Option<F>, MapError>;

/// A shard in which nothing was: the ways to where it would have been, from before that was seen.
/// As long as they are current nothing came there, whatever is changed elsewhere in the shard.
struct Passed<'m> {
    here: Reader<'m>,
    /// The turn before all of it.
    turn: u64,
    /// To the key; none: the tree was empty.
    before: Option<Path>,
    /// To what lies outside of the bounds, where that is what comes next.
    outside: Option<Path>,
}

pub(super) fn find<'m, T: Taker<'m>>(
    reader: &mut Reader<'m>,
    from: From<'_>,
    way: Way,
    taker: &mut T,
) -> Result<Option<(T::Taken, Place)>, MapError> {
    for _ in 0..TRIES_MAX {
        let version = reader.routes.now()?;
        let mut passed = Vec::new();
        let found = find_by(reader, version, from, way, taker, &mut passed);
        // What was found or not is right if neither bounds nor what was passed changed meanwhile:
        // else something may have come into a shard before it was in the next one.
        let is_same = passed.iter().all(Passed::is_same);
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
    passed: &mut Vec<Passed<'m>>,
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
        let before = way_to(&here, bound.as_deref(), from, way)?;
        let found = match (&bound, from) {
            (Some(bound), _) => find_within(&here, bound, way, way == Way::Up, taker)?,
            (None, From::Key(key, may_equal)) => find_within(&here, key, way, may_equal, taker)?,
            (None, From::End) => find_end_within(&here, way, taker)?,
        };
        let mut outside = None;
        if let Some((taken, place)) = found {
            if routes.has(version, position, taker.key(&taken)) {
                return Ok(Some((taken, Place { version, position, ..place }, slot)));
            }
            outside = Some(place.path);
        }
        passed.push(Passed { here, turn, before, outside });
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

/// The way to where a search begins; none: the tree is empty.
fn way_to(
    here: &Reader<'_>,
    bound: Option<&[u8]>,
    from: From<'_>,
    way: Way,
) -> Result<Option<Path>, MapError> {
    here.read(|| {
        let key = match (bound, from) {
            (Some(key), _) | (None, From::Key(key, _)) => key,
            (None, From::End) => return Ok(here.tree.descend_to_end(way)?),
        };
        Ok(here.tree.descend(key)?.map(|(path, _)| path))
    })
}

impl Passed<'_> {
    /// Did nothing come since?
    fn is_same(&self) -> bool {
        let tree = self.here.tree;
        let is_current = |path: &Path| tree.is_current(path).unwrap_or(false);
        let is_before = match &self.before {
            Some(path) => is_current(path),
            // Something may have come and gone.
            None => follow(tree.root).is_none() && self.here.shard.turn() == self.turn,
        };
        is_before && self.outside.as_ref().is_none_or(is_current)
    }
}
