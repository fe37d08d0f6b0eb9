//! The steps of a process on the map.

use forebay_ordmap::{Cursor, Map, MapError};

use crate::scene::{
    FILLS, KEYS, RUN, Scene, WORKERS, belongs_to, fill_key, key_of, run_key, value_of,
};
use forebay_testkit::Rng;

/// The number of steps for which a cursor is held.
const HELD_STEPS: usize = 40;

pub(crate) struct Worker<'m> {
    scene: &'m Scene,
    map: &'m Map<'m>,
    number: usize,
    random: Rng,
    cursor: Option<Cursor<'m>>,
    held_steps: usize,
}

impl<'m> Worker<'m> {
    pub(crate) fn new(
        scene: &'m Scene,
        map: &'m Map<'m>,
        number: usize,
        random: Rng,
    ) -> Worker<'m> {
        Worker { scene, map, number, random, cursor: None, held_steps: 0 }
    }

    pub(crate) fn step(&mut self) {
        match self.random.below(40) {
            0..24 => self.change(),
            24..28 => self.look(),
            28..30 => self.walk(),
            30..32 => self.scan(),
            32 => self.fill(),
            33..35 => self.run(),
            35..37 => self.split_or_move(),
            _ => self.hold(),
        }
        self.scene.count_step(self.number);
    }

    fn change(&mut self) {
        let key = self.random.below(KEYS);
        let (done, begun) = self.scene.versions(self.number, key);
        assert_eq!(done, begun, "key {key}: another worker changes it");
        let version = done + 1;
        self.scene.begin_version(self.number, key, version);
        let name = key_of(self.number, key);
        let is_there = value_of(self.number, key, done).is_some();
        let was_there = match value_of(self.number, key, version) {
            Some(value) => self.map.insert(&name, &value),
            None => self.map.remove(&name),
        };
        if was_there == Err(MapError::Full) {
            assert_eq!(self.map.get(&name).unwrap(), value_of(self.number, key, done));
            return self.scene.begin_version(self.number, key, done);
        }
        assert_eq!(was_there.unwrap(), is_there);
        self.scene.end_version(self.number, key, version);
        assert_eq!(self.map.get(&name).unwrap(), value_of(self.number, key, version));
    }

    /// Fills the region with large values from time to time.
    fn fill(&mut self) {
        let key = fill_key(self.number, self.random.below(FILLS));
        if self.random.below(5) < 3 {
            match self.map.insert(&key, &[7; 1 << 20]) {
                Ok(_) | Err(MapError::Full) => {}
                other => panic!("{other:?}"),
            }
        } else {
            self.map.remove(&key).unwrap();
        }
    }

    /// Inserts a run of keys, or removes a part of it in a few changes. After a death, any part of
    /// the run may exist.
    fn run(&mut self) {
        let first = self.random.below(RUN);
        let end = (first + 1 + self.random.below(RUN)).min(RUN);
        let names: Vec<_> = (first..end).map(|number| run_key(self.number, number)).collect();
        if self.random.below(2) == 0 {
            for name in &names {
                match self.map.insert(name, b"run") {
                    Ok(_) | Err(MapError::Full) => {}
                    other => panic!("{other:?}"),
                }
            }
            return;
        }
        let there = names.iter().filter(|name| self.map.contains(name).unwrap()).count();
        let keys: Vec<_> = names.iter().map(|name| &name[..]).collect();
        assert_eq!(self.map.remove_all(&keys).unwrap(), there as u64);
        assert!(!names.iter().any(|name| self.map.contains(name).unwrap()));
    }

    /// Moves some entries into another shard, unless others move some, or there is no memory.
    fn split_or_move(&mut self) {
        let key = key_of(self.random.below(WORKERS), self.random.below(KEYS));
        let moved = match self.random.below(4) {
            0 => self.map.split_at(&key),
            1 => self.map.move_up(&key),
            _ => self.map.move_down(&key),
        };
        match moved {
            Ok(_) | Err(MapError::Full | MapError::Busy) => {}
            other => panic!("{other:?}"),
        }
    }

    /// Looks up keys of other workers: each has the value of some version.
    fn look(&mut self) {
        let name = key_of(self.random.below(WORKERS), self.random.below(KEYS));
        if let Some(value) = self.map.get(&name).unwrap() {
            assert!(belongs_to(&name, &value), "{:?}", value.escape_ascii().to_string());
        }
        if let Some(entry) = self.map.entry(&name).unwrap() {
            assert_eq!(entry.key(), name);
            assert!(belongs_to(entry.key(), entry.value()), "{entry:?}");
        }
    }

    fn walk(&mut self) {
        let is_up = self.random.below(2) == 0;
        let prefix = format!("org.example.host{}\0", self.random.below(7));
        let mut range = self.map.prefix(prefix.as_bytes());
        let mut last = Vec::new();
        for _ in 0..self.random.below(60) {
            let found = if is_up { range.next() } else { range.previous() };
            let Some(entry) = found.unwrap() else { return };
            let is_next = last.is_empty()
                || if is_up { entry.key() > &last[..] } else { entry.key() < &last[..] };
            assert!(is_next, "{entry:?} after {:?}", last.escape_ascii().to_string());
            assert!(belongs_to(entry.key(), entry.value()), "{entry:?}");
            last = entry.key().to_vec();
        }
    }

    /// Reads keys in order by a scan, which copies entries.
    fn scan(&mut self) {
        let mut scan = self.map.scan(&key_of(self.number, self.random.below(KEYS))[..]..);
        let mut last = Vec::new();
        for _ in 0..self.random.below(60) {
            let Some((key, value)) = scan.next().unwrap() else { return };
            assert!(key > &last[..], "{key:?} after {last:?}");
            assert!(belongs_to(key, value), "{key:?}");
            last = key.to_vec();
        }
    }

    /// Holds the entry of a cursor for long; it stays readable whatever happens.
    fn hold(&mut self) {
        self.held_steps += 1;
        if self.held_steps >= HELD_STEPS {
            (self.held_steps, self.cursor) = (0, None);
        }
        let mut cursor = self.cursor.take().unwrap_or_else(|| self.map.cursor());
        if let Some(entry) = cursor.entry() {
            assert!(belongs_to(entry.key(), entry.value()), "held: {entry:?}");
        }
        if self.random.below(4) == 0 {
            cursor.next().unwrap();
        }
        self.cursor = Some(cursor);
    }
}
