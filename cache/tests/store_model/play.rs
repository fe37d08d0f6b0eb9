//! Plays a sequence of operations on a store.

use std::collections::BTreeSet;
use std::ops::Range;
use std::task::{Context, Poll, Waker};

use forebay_cache::{
    BodyHandle, CollapseResult, ConnectionTag, DeclineReason, Fill, FollowOutcome, JoinTerms,
    Lookup, RecordTimes, Selection, Store, StoreWorker, StoredBody,
};

use crate::finish;
use crate::oracle::{Possible, Totals};
use crate::sequence::{Kind, Operation, Setting};
use crate::store_common::{self as common, Label, Looked, Seen};

/// The time at which a sequence starts.
const START: u64 = 1_000_000;

/// The largest number of fetches that are in progress at the same time.
const FILLS_MAX: usize = 6;

/// The largest number of turns, which is more than reclaiming ever needs.
const TURNS_MAX: usize = 5000;

/// The number of operations between two checks of the whole store.
const CHECK_EVERY: usize = 1000;

/// A fetch that has begun.
struct OpenFill {
    filling: Fill,
    label: Label,
    names: Option<u32>,
    /// The number of purges of the key when the fetch began.
    purge_count: u32,
}

/// The record that a lookup uses, the argument of `names` for its field names, and the selectors of
/// the request.
struct Choice {
    names: Option<u32>,
    seen: Seen,
    list: Option<Vec<u8>>,
}

/// A body handle.
struct Piece {
    worker: usize,
    lent: BodyHandle,
    tag: ConnectionTag,
    label: Label,
    left: Range<usize>,
}

pub(crate) struct Play<'a> {
    pub(crate) setting: &'a Setting,
    pub(crate) store: Store,
    pub(crate) workers: Vec<StoreWorker>,
    possible: Vec<Possible>,
    fills: Vec<OpenFill>,
    pieces: Vec<Piece>,
    lost: BTreeSet<ConnectionTag>,
    version: u32,
    pub(crate) now: u64,
    pub(crate) totals: Totals,
}

type Done = Result<(), String>;

/// Plays the sequence; a wrong answer is an error.
pub(crate) fn play(setting: &Setting, operations: &[Operation]) -> Result<Totals, String> {
    let mut play = Play::new(setting);
    for (number, operation) in operations.iter().enumerate() {
        let done = play.one(*operation);
        done.map_err(|why| format!("operation {number}, {operation:?}: {why}"))?;
        if number % CHECK_EVERY == 0 {
            play.rest()?;
            finish::check_live(&play.store, &play.workers[0])?;
        }
    }
    play.fills.clear();
    play.pieces.clear();
    for key in 0..setting.keys as u32 {
        play.purge(key as usize % play.workers.len(), key)?;
    }
    play.workers.truncate(1);
    finish::check_empty(&play.store, &play.workers[0])?;
    let stats = play.store.stats();
    play.totals.count_stats(&stats);
    Ok(play.totals)
}

impl<'a> Play<'a> {
    fn new(setting: &'a Setting) -> Play<'a> {
        let store = Store::open(setting.store.clone()).expect("a store");
        let workers = (0..setting.workers).map(|_| store.join().expect("a place")).collect();
        Play {
            setting,
            store,
            workers,
            possible: vec![Possible::default(); setting.keys],
            fills: Vec::new(),
            pieces: Vec::new(),
            lost: BTreeSet::new(),
            version: 0,
            now: START,
            totals: Totals::default(),
        }
    }

    fn one(&mut self, operation: Operation) -> Done {
        match operation.kind {
            Kind::Put | Kind::PutVariant => self.put(operation),
            Kind::Begin => self.begin(operation),
            Kind::Append => self.append(operation),
            Kind::Finish => self.take_fill(operation.choice).map_or(Ok(()), |f| self.finish(f)),
            Kind::Abandon => {
                self.take_fill(operation.choice);
                Ok(())
            }
            Kind::Decline => self.decline(operation),
            Kind::Get => self.get(operation).map(|_| ()),
            Kind::Lend => self.lend(operation),
            Kind::ReadLent => self.read_lent(operation),
            Kind::DropLent => {
                self.take_piece(operation.choice);
                Ok(())
            }
            Kind::Renew => self.renew(operation),
            Kind::Purge => self.purge(operation.worker, operation.key),
            Kind::PurgeSoftly => self.purge_softly(operation.worker, operation.key),
            Kind::PurgeSome => self.purge_some(operation),
            Kind::Forget => self.forget(operation),
            Kind::Turn => self.turn(operation),
            Kind::Rejoin => self.rejoin(operation.worker),
        }
    }

    fn now_ms(&self) -> u64 {
        (self.now - START) * 1000
    }

    fn open_fill(&mut self, operation: Operation) -> Option<OpenFill> {
        let Operation { worker, key, value, bytes, choice, .. } = operation;
        let names = (operation.kind == Kind::PutVariant).then_some((choice % 50 == 0).into());
        let value = if names.is_some() { value } else { 0 };
        let now_ms = self.now_ms();
        let leader =
            common::lead(&self.workers[worker], &common::key_bytes(key), (value, true), now_ms)?;
        self.version += 1;
        let (version, body_bytes) = (self.version, bytes as u32);
        let label = Label { key, version, body_bytes, value, renewed: 0 };
        let fresh_seconds = if choice % 4 == 0 { choice % 64 } else { 100_000 } as u64;
        let times =
            RecordTimes { response_time: self.now as u32, stale_from: self.now + fresh_seconds };
        let purge_count = self.possible[key as usize].purge_count;
        let filling = common::begin(leader, label, names, choice % 3 > 0, times)?;
        Some(OpenFill { filling, label, names, purge_count })
    }

    fn put(&mut self, operation: Operation) -> Done {
        let Some(mut fill) = self.open_fill(operation) else {
            return Ok(());
        };
        if common::append(&mut fill.filling, fill.label, usize::MAX / 2) {
            return self.finish(fill);
        }
        Ok(())
    }

    fn begin(&mut self, operation: Operation) -> Done {
        if self.fills.len() < FILLS_MAX
            && let Some(fill) = self.open_fill(operation)
        {
            self.fills.push(fill);
        }
        Ok(())
    }

    fn append(&mut self, operation: Operation) -> Done {
        let Some(mut fill) = self.take_fill(operation.choice) else {
            return Ok(());
        };
        if common::append(&mut fill.filling, fill.label, operation.bytes) {
            self.fills.push(fill);
        }
        Ok(())
    }

    fn take_fill(&mut self, choice: usize) -> Option<OpenFill> {
        let at = choice.checked_rem(self.fills.len())?;
        Some(self.fills.swap_remove(at))
    }

    fn finish(&mut self, fill: OpenFill) -> Done {
        let OpenFill { filling, label, names, purge_count } = fill;
        let is_complete = filling.bytes() == u64::from(label.body_bytes);
        if !is_complete {
            // A fill without a known length would accept the bytes so far as a whole response, so
            // it is not finished here.
            return Ok(());
        }
        let is_stored = filling.finish();
        let possible = &mut self.possible[label.key as usize];
        if is_stored && possible.purge_count != purge_count {
            return Err(format!("{label:?} was stored after its purge"));
        }
        if is_stored {
            possible.stored(names, label);
        }
        self.totals.count(if is_stored { "stored" } else { "not stored" }, 1);
        if !is_stored {
            return Ok(());
        }
        let is_long = u64::from(label.body_bytes) > 64 * 1024;
        self.totals.count("long", is_long.into());
        self.look(0, label.key, label.value).map(|_| ())
    }

    fn decline(&mut self, operation: Operation) -> Done {
        let Operation { worker, key, value, choice, .. } = operation;
        let (worker, bytes, now_ms) =
            (&self.workers[worker], common::key_bytes(key), self.now_ms());
        match common::lead(worker, &bytes, (value, true), now_ms) {
            Some(leader) if choice % 3 == 0 => leader.decline_once(DeclineReason::TooLarge),
            Some(leader) if choice % 3 == 1 => leader.fail(0),
            Some(leader) => leader.decline(now_ms, DeclineReason::TooLarge),
            None => worker.forget_declined(&bytes),
        }
        Ok(())
    }

    /// Looks up a key and reads all records that a request for the value selects. The oracle must
    /// allow each of them.
    fn look(&mut self, worker: usize, key: u32, value: u32) -> Result<Looked, String> {
        let bytes = common::key_bytes(key);
        let looked = common::look(&self.workers[worker], &bytes, value, true)?;
        let possible = &self.possible[key as usize];
        looked.found.iter().try_for_each(|(names, seen)| possible.check(*names, seen))?;
        let kinds: BTreeSet<_> = looked.found.iter().map(|(names, _)| names.is_some()).collect();
        self.totals.count("with and without names side by side", (kinds.len() > 1).into());
        Ok(looked)
    }

    /// Looks up a key like a server, and returns the record that it would use.
    fn get(&mut self, operation: Operation) -> Result<Option<Choice>, String> {
        let Operation { worker, key, value, .. } = operation;
        let looked = self.look(worker, key, value)?;
        let chosen = looked.chosen();
        self.totals.count(if chosen.is_some() { "hits" } else { "misses" }, 1);
        let Some((names, seen)) = chosen else { return Ok(None) };
        if !seen.is_whole {
            // A server does the same if fragments are missing.
            self.totals.count("fragments missing", 1);
            let bytes = common::key_bytes(key);
            self.workers[worker].forget(&bytes, looked.list.as_deref(), seen.known);
            return Ok(None);
        }
        Ok(Some(Choice { names, seen, list: looked.list }))
    }

    fn lend(&mut self, operation: Operation) -> Done {
        let Operation { worker, key, choice, .. } = operation;
        if self.pieces.len() >= self.setting.lent_max {
            return Ok(());
        }
        let owner = &self.workers[worker];
        let keys: Vec<_> = (key..key + 8).map(common::key_bytes).collect();
        let records = keys.iter().filter_map(|key| match owner.lookup(key) {
            Lookup::Record(found) => Some(found),
            _ => None,
        });
        let Some(found) = records.into_iter().next() else {
            return Ok(());
        };
        self.version += 1;
        let tag = ConnectionTag::from(self.version);
        let label = Label::of(found.head())?;
        let (lent, left) = match found.body() {
            StoredBody::Whole(bytes) => {
                let start = choice as u64 % (bytes + 1);
                let part = start as u32..bytes as u32;
                (found.pin_body(part, tag), start as usize..bytes as usize)
            }
            StoredBody::Long(long) => {
                let all = 0..long.bytes();
                let number = choice as u32 % long.fragments(all.clone()).end;
                let start: usize = (0..number).map(|number| long.part_of(number, &all).len()).sum();
                let part = long.part_of(number, &all);
                let left = start..start + part.len();
                let Some(lent) = owner.pin_fragment(&long, number, part, tag) else {
                    return Ok(());
                };
                (lent, left)
            }
        };
        self.pieces.push(Piece { worker, lent, tag, label, left });
        Ok(())
    }

    fn read_lent(&mut self, operation: Operation) -> Done {
        let Some(at) = operation.choice.checked_rem(self.pieces.len()) else {
            return Ok(());
        };
        let piece = &mut self.pieces[at];
        let is_lost = piece.lent.is_revoked();
        if is_lost && !self.lost.contains(&piece.tag) {
            // The handle was revoked since this worker's last turn. A turn reports it.
            let lost = &mut self.lost;
            self.workers[piece.worker].turn(self.now, |tag| _ = lost.insert(tag));
        }
        if self.lost.contains(&piece.tag) != is_lost || piece.lent.len() != piece.left.len() {
            return Err(format!(
                "lost: {is_lost}, but the turn reported otherwise; {:?}",
                piece.lent
            ));
        }
        if is_lost {
            return Ok(());
        }
        let reading = self.workers[piece.worker].send_guard();
        let bytes = piece.lent.bytes(&reading).map_err(|_| "lost without notice")?;
        piece.label.check_part(piece.left.clone(), bytes)?;
        let sent = (operation.bytes / 4).min(piece.left.len());
        piece.lent.advance(sent);
        piece.left.start += sent;
        self.totals.count("read later", 1);
        Ok(())
    }

    fn take_piece(&mut self, choice: usize) {
        if let Some(at) = choice.checked_rem(self.pieces.len()) {
            self.pieces.swap_remove(at);
        }
    }

    fn renew(&mut self, operation: Operation) -> Done {
        let Operation { worker, key, value, .. } = operation;
        let Some(Choice { names, seen, list }) = self.get(operation)? else {
            return Ok(());
        };
        let (bytes, terms) = (common::key_bytes(key), JoinTerms::at(self.now_ms()));
        let joined =
            self.workers[worker].collapse(&bytes, list.as_deref(), Some(seen.known), terms);
        let (leader, mut follower) = match joined {
            CollapseResult::Leader(leader, follower) => (leader, follower),
            CollapseResult::Stored => {
                return Err("the record that a lookup has just found is not current".to_owned());
            }
            CollapseResult::Follower(_) | CollapseResult::Declined(_) => return Ok(()),
        };
        match operation.choice % 16 {
            0 => self.purge(worker, key)?,
            1 => self.purge_softly(worker, key)?,
            _ => {}
        }
        let label = Label { renewed: seen.label.renewed + 1, ..seen.label };
        let times =
            RecordTimes { response_time: self.now as u32, stale_from: self.now + 1 + key as u64 };
        leader.validated(&label.head(), times, None);
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(FollowOutcome::Validated(renewed)) = follower.poll_outcome(&mut cx) else {
            return Err("the validation did not reach its follower".to_owned());
        };
        if renewed.sequence.is_some() {
            if operation.choice % 16 < 2 {
                return Err(format!("{label:?} was validated after its purge"));
            }
            self.possible[key as usize].stored(names, label);
            self.totals.count("renewed", 1);
            self.look(worker, key, value)?;
        }
        Ok(())
    }

    pub(crate) fn purge(&mut self, worker: usize, key: u32) -> Done {
        let bytes = common::key_bytes(key);
        self.workers[worker].purge(&bytes).map_err(|busy| busy.to_string())?;
        self.possible[key as usize].purged();
        match self.workers[worker].lookup(&bytes) {
            Lookup::Miss => Ok(()),
            found => Err(format!("{found:?} was found after its purge")),
        }
    }

    fn purge_softly(&mut self, worker: usize, key: u32) -> Done {
        let purged = self.workers[worker].purge_softly(&common::key_bytes(key));
        let purged = purged.map_err(|busy| busy.to_string())?;
        self.totals.count("softened", purged.records);
        self.possible[key as usize].purged_softly();
        (0..5).try_for_each(|value| self.look(worker, key, value).map(|_| ()))
    }

    fn purge_some(&mut self, operation: Operation) -> Done {
        let Operation { worker, key, choice, .. } = operation;
        let is_soft = choice.is_multiple_of(4);
        if choice.is_multiple_of(2) {
            let (selection, is_meant) = common::beginning(key);
            return self.purge_selected(worker, &selection, is_meant, is_soft);
        }
        let group = key % common::GROUPS;
        let is_meant = |key| Label::is_in_group(key, group);
        self.purge_selected(worker, &common::group(group), is_meant, is_soft)
    }

    fn purge_selected(
        &mut self,
        worker: usize,
        selection: &Selection,
        is_meant: impl Fn(u32) -> bool,
        is_soft: bool,
    ) -> Done {
        let weighed = self.workers[worker].weigh_selected(selection, 3, &mut |_| ());
        let weighed = weighed.map_err(|error| error.to_string())?.walked;
        let purged = self.workers[worker].purge_selected(selection, is_soft, &mut |_| ());
        let purged = purged.map_err(|busy| busy.to_string())?;
        if (weighed.records, weighed.bytes) != (purged.records, purged.bytes) {
            return Err(format!("{weighed:?} were counted, but then {purged:?} were purged"));
        }
        self.totals.count("purged by prefix or tag", purged.records);
        let meant: Vec<_> = (0..self.setting.keys as u32).filter(|key| is_meant(*key)).collect();
        for key in &meant {
            match is_soft {
                true => self.possible[*key as usize].purged_softly(),
                false => self.possible[*key as usize].purged(),
            }
        }
        let left = self.workers[worker].weigh_selected(selection, 3, &mut |_| ());
        let left = left.map_err(|error| error.to_string())?;
        if !is_soft && left.walked.records > 0 {
            return Err(format!("{left:?} were found after their purge"));
        }
        meant.iter().try_for_each(|key| match (self.look(worker, *key, 0)?.chosen(), is_soft) {
            (Some(found), false) => Err(format!("{found:?} was found after its purge")),
            _ => Ok(()),
        })
    }

    fn forget(&mut self, operation: Operation) -> Done {
        let Operation { worker, key, value, .. } = operation;
        let Some(Choice { seen, list, .. }) = self.get(operation)? else {
            return Ok(());
        };
        self.workers[worker].forget(&common::key_bytes(key), list.as_deref(), seen.known);
        let looked = self.look(worker, key, value)?;
        match looked.found.iter().find(|(_, found)| found.known == seen.known) {
            None => Ok(()),
            Some((_, found)) => Err(format!("{found:?} was found after it was forgotten")),
        }
    }

    fn turn(&mut self, operation: Operation) -> Done {
        self.now += u64::from(operation.choice.is_multiple_of(16));
        let lost = &mut self.lost;
        self.workers[operation.worker].turn(self.now, |tag| _ = lost.insert(tag));
        Ok(())
    }

    /// Completes all operations in progress.
    fn rest(&mut self) -> Done {
        let lost = &mut self.lost;
        for worker in &self.workers {
            let turn = || worker.turn(self.now, |tag| _ = lost.insert(tag));
            if std::iter::repeat_with(turn).take(TURNS_MAX).all(|is_more| is_more) {
                return Err(format!("maintenance never ends: {:?}", self.store.stats()));
            }
        }
        Ok(())
    }

    fn rejoin(&mut self, worker: usize) -> Done {
        // Body handles and fetches in progress keep the worker that leaves alive, so they are
        // dropped first.
        self.pieces.retain(|piece| piece.worker != worker);
        self.fills.clear();
        self.workers.remove(worker);
        self.workers.insert(worker, self.store.join().map_err(|error| error.to_string())?);
        Ok(())
    }
}
