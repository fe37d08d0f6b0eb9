//! One of many actors that store, read and purge at the same time.

use std::collections::VecDeque;
use std::ops::Range;

use forebay_cache::{
    BodyHandle, ConnectionTag, JoinTerms, Lookup, RecordTimes, Selection, StoreWorker, StoredBody,
};
use forebay_sync::Words;

use super::ledger::{Ledger, PLAIN, VALUES};
use super::{Label, Seen};
use forebay_testkit::Rng;

/// A record, and the selectors of the request that it answers.
type SelectedRecord = (Seen, Option<Vec<u8>>);

/// The time at which each test starts.
const START: u64 = 1_000_000;

/// The largest number of body handles that an actor holds at a time.
const LENT_MAX: usize = 12;

/// The settings that all actors share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast {
    pub(crate) actors: u32,
    pub(crate) keys: u32,
    pub(crate) body_bytes_max: usize,
    pub(crate) variants: Variants,
}

/// The keys that have variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variants {
    OfSomeKeys,
    /// All keys have variants, and most purges are by the tag of a value, so that the bases stay.
    OfAllKeys,
}

/// A body handle, and its expected content.
struct Piece {
    lent: BodyHandle,
    label: Label,
    part: Range<usize>,
}

pub(crate) struct Actor<W> {
    pub(crate) worker: StoreWorker,
    ledger: Ledger<W>,
    cast: Cast,
    number: u32,
    random: Rng,
    pieces: VecDeque<Piece>,
    steps: u64,
    pub(crate) hits: u64,
    pub(crate) stored: u64,
}

type Done = Result<(), String>;

impl<W: Words> Actor<W> {
    pub(crate) fn new(
        worker: StoreWorker,
        ledger: Ledger<W>,
        cast: Cast,
        number: u32,
        random: Rng,
    ) -> Actor<W> {
        let pieces = VecDeque::new();
        Actor { worker, ledger, cast, number, random, pieces, steps: 0, hits: 0, stored: 0 }
    }

    /// Does one operation. An error means that the store violated a promise.
    pub(crate) fn step(&mut self) -> Done {
        self.steps += 1;
        if self.steps.is_multiple_of(4) {
            self.worker.turn(START + self.steps / 256, |_: ConnectionTag| ());
        }
        let keys = self.random.below(self.cast.keys as usize) + 1;
        let key = self.random.below(keys) as u32;
        let value =
            if self.cast.has_variants(key) { self.random.below(VALUES as usize) as u32 } else { 0 };
        let own = key / self.cast.actors * self.cast.actors + self.number;
        let is_own =
            own < self.cast.keys && self.cast.has_variants(own) == self.cast.has_variants(key);
        if self.cast.variants == Variants::OfAllKeys && self.random.below(128) == 0 {
            return self.purge_value(value.max(1));
        }
        match self.random.below(100) {
            0..35 if is_own => self.put(own, value),
            35..40 if is_own => self.renew(own, value),
            40..42 if self.cast.variants == Variants::OfSomeKeys => self.purge(key),
            42..43 => self.purge_softly(key),
            43 if self.cast.variants == Variants::OfSomeKeys => self.purge_some(key, value),
            44..50 => self.lend(key),
            50..56 => self.read_lent(),
            _ => self.get(key, value).map(|_| ()),
        }
    }

    fn put(&mut self, key: u32, value: u32) -> Done {
        let of = (value, self.takes_plain(key, value));
        let Some(leader) = super::lead(&self.worker, &super::key_bytes(key), of, self.steps) else {
            return Ok(());
        };
        let version = self.ledger.begun(key, value) + 1;
        self.ledger.begin(key, value, version);
        let most_bytes = self.random.below(self.cast.body_bytes_max) + 1;
        let body_bytes = self.random.below(most_bytes) as u32;
        let label = Label { key, version, body_bytes, value, renewed: 0 };
        let stale_from = START + 1 + self.random.below(2000) as u64;
        let times = RecordTimes { response_time: START as u32, stale_from };
        let varies = self.cast.has_variants(key) && value != PLAIN;
        let names = varies.then_some((self.random.below(20) == 0).into());
        let is_known = self.random.below(3) > 0;
        let Some(mut filling) = super::begin(leader, label, names, is_known, times) else {
            return Ok(());
        };
        if super::append(&mut filling, label, usize::MAX / 2) && filling.finish() {
            self.ledger.end_before(key, value, version);
            self.stored += 1;
        }
        Ok(())
    }

    /// Whether a response that does not vary answers a request with this value. Each value has
    /// versions of its own, so the response answers no request with another value of a key with
    /// variants.
    fn takes_plain(&self, key: u32, value: u32) -> bool {
        value == PLAIN || !self.cast.has_variants(key)
    }

    /// Looks up and checks the record of a key and value. Returns the record, and the selectors of
    /// the request.
    fn get(&mut self, key: u32, value: u32) -> Result<Option<SelectedRecord>, String> {
        let oldest = self.ledger.oldest(key, value);
        let takes_plain = self.takes_plain(key, value);
        let looked = super::look(&self.worker, &super::key_bytes(key), value, takes_plain)?;
        let Some((names, seen)) = looked.chosen() else {
            return Ok(None);
        };
        let label = seen.label;
        if names.is_none() && !takes_plain {
            let is_plain = (label.key, label.value) == (key, PLAIN);
            return if is_plain { Ok(None) } else { Err(format!("{label:?} under key {key}")) };
        }
        self.hits += 1;
        let possible = oldest..=self.ledger.begun(key, value);
        if (label.key, label.value) != (key, value) || !possible.contains(&label.version) {
            return Err(format!("{label:?} under key {key}, value {value}; now {possible:?}"));
        }
        Ok(Some((seen, looked.list)))
    }

    fn renew(&mut self, key: u32, value: u32) -> Done {
        let Some((seen, list)) = self.get(key, value)? else {
            return Ok(());
        };
        let (bytes, terms) = (super::key_bytes(key), JoinTerms::at(self.steps));
        let joined = self.worker.collapse(&bytes, list.as_deref(), Some(seen.known), terms);
        if let forebay_cache::CollapseResult::Leader(leader, _) = joined {
            let label = Label { renewed: seen.label.renewed + 1, ..seen.label };
            let times = RecordTimes { response_time: START as u32, stale_from: START + 5000 };
            let tags = label.tags();
            let are_told = self.random.below(2) == 0;
            leader.validated(&label.head(), times, are_told.then_some(&tags));
        }
        Ok(())
    }

    fn purge(&mut self, key: u32) -> Done {
        let begun: Vec<u32> = (0..VALUES).map(|value| self.ledger.begun(key, value)).collect();
        self.worker.purge(&super::key_bytes(key)).map_err(|busy| busy.to_string())?;
        for (value, begun) in (0..).zip(begun) {
            self.ledger.end_before(key, value, begun + 1);
        }
        Ok(())
    }

    /// Purges a key softly: records that stay must be validated, and fills in progress are not
    /// stored.
    fn purge_softly(&mut self, key: u32) -> Done {
        let purged = self.worker.purge_softly(&super::key_bytes(key));
        purged.map(|_| ()).map_err(|busy| busy.to_string())
    }

    /// Purges by a tag, or by a prefix of keys.
    fn purge_some(&mut self, key: u32, value: u32) -> Done {
        let is_soft = self.random.below(4) == 0;
        if value == 0 {
            let (selection, is_meant) = super::beginning(key);
            return self.purge_selected(&selection, |key, _| is_meant(key), is_soft);
        }
        let group = key % super::GROUPS;
        let is_meant = |key, _| Label::is_in_group(key, group);
        self.purge_selected(&super::group(group), is_meant, is_soft)
    }

    /// Purges the variants of all keys with one value.
    fn purge_value(&mut self, value: u32) -> Done {
        let is_meant = |key, other| other == value && Label::has_value_tag(key, other);
        self.purge_selected(&super::all_of_value(value), is_meant, false)
    }

    fn purge_selected(
        &mut self,
        selection: &Selection,
        is_meant: impl Fn(u32, u32) -> bool,
        is_soft: bool,
    ) -> Done {
        let all = (0..self.cast.keys).flat_map(|key| (0..VALUES).map(move |value| (key, value)));
        let meant = all.filter(|(key, value)| is_meant(*key, *value));
        let begun: Vec<_> = meant.map(|(key, v)| (key, v, self.ledger.begun(key, v))).collect();
        let purged = self.worker.purge_selected(selection, is_soft, &mut |_| ());
        purged.map_err(|busy| busy.to_string())?;
        for (key, value, begun) in begun.into_iter().filter(|_| !is_soft) {
            self.ledger.end_before(key, value, begun + 1);
        }
        Ok(())
    }

    fn lend(&mut self, key: u32) -> Done {
        if self.pieces.len() >= LENT_MAX {
            self.pieces.pop_front();
        }
        let bytes = super::key_bytes(key);
        let Lookup::Record(found) = self.worker.lookup(&bytes) else {
            return Ok(());
        };
        let label = Label::of(found.head())?;
        let (lent, part) = match found.body() {
            StoredBody::Whole(bytes) => (found.pin_body(0..bytes as u32, 0), 0..bytes as usize),
            StoredBody::Long(long) => {
                let part = long.part_of(0, &(0..long.bytes()));
                let all = 0..part.len();
                match self.worker.pin_fragment(&long, 0, part, 0) {
                    Some(lent) => (lent, all),
                    None => return Ok(()),
                }
            }
        };
        self.pieces.push_back(Piece { lent, label, part });
        Ok(())
    }

    fn read_lent(&mut self) -> Done {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let piece = &self.pieces[self.random.below(self.pieces.len())];
        let reading = self.worker.send_guard();
        match piece.lent.bytes(&reading) {
            Ok(bytes) => piece.label.check_part(piece.part.clone(), bytes),
            Err(_) if piece.lent.is_revoked() => Ok(()),
            Err(_) => {
                Err("the bytes of a handle are lost, but it was not reported as revoked".to_owned())
            }
        }
    }
}

impl Cast {
    fn has_variants(&self, key: u32) -> bool {
        match self.variants {
            Variants::OfSomeKeys => key % 16 >= 12,
            Variants::OfAllKeys => true,
        }
    }
}
