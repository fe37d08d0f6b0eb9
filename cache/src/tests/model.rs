//! Random histories against an obvious store: a map, lists, and no limits.

use std::collections::HashMap;

use super::*;

const KEYS: u64 = 24;
const OPERATIONS: u64 = 100_000;
/// Bodies up to here can become windows.
const BODY_BYTES_MAX: u64 = 12_000;

/// What the obvious store has under a key: names (empty without variants) and versions by variant,
/// oldest first.
#[derive(Default)]
struct Known {
    names: String,
    versions: Vec<(Option<String>, u64)>,
}

/// A fill under way.
struct Fill {
    filling: Filling,
    readers: Vec<(Reader, Vec<u8>)>,
    /// The key of the flight.
    flight: (u64, Option<String>),
    base: Option<Base>,
    version: u64,
    body_bytes: usize,
    sent_bytes: usize,
    /// It can be joined, and will be stored.
    registered: bool,
}

struct Model {
    store: Arc<Store>,
    rng: Rng,
    /// Nothing is evicted: the store must have all that the model has.
    ample: bool,
    variants_max: usize,
    known: HashMap<u64, Known>,
    fills: Vec<Fill>,
    version: u64,
}

impl Model {
    fn new(seed: u64, config: StoreConfig, ample: bool) -> Self {
        // A store that evicts may keep variants longer than one that is full.
        let variants_max = if ample { config.variants_max } else { usize::MAX };
        let (store, rng) = (seeded_store(config, seed), Rng(seed));
        Self { store, rng, ample, variants_max, known: HashMap::new(), fills: vec![], version: 0 }
    }

    fn step(&mut self) {
        let key = self.rng.below(KEYS);
        match self.rng.below(100) {
            0..25 => self.look_up(key),
            25..45 => self.start(key),
            45..70 => self.append(),
            70..84 => self.finish(),
            84..87 => self.abort(),
            87..93 => self.read(),
            93..96 => self.validate(key),
            96..99 => self.purge(key),
            _ => self.store.forget_declined(&key.to_le_bytes()),
        }
    }

    /// Compares one record with what the model knows.
    fn expect(&self, key: u64, variant: Option<&str>, found: Option<&Record>) {
        let known = self.known.get(&key).into_iter().flat_map(|known| &known.versions);
        let mut version =
            known.filter(|(v, _)| v.as_deref() == variant).map(|&(_, version)| version);
        let version = version.next();
        let Some(record) = found else {
            assert!(!self.ample || version.is_none(), "{key} {variant:?}: {version:?} is lost");
            return;
        };
        let found = String::from_utf8_lossy(record.head()).into_owned();
        let expected = format!("{key} {variant:?} {version:?}");
        assert!(found.starts_with(&expected), "{found} instead of {expected}");
        let length = record.body().len() as usize;
        assert_eq!(body_of(record), content(version.unwrap(), length), "{found}");
    }

    fn look_up(&mut self, key: u64) {
        let primary = key.to_le_bytes();
        let known_names = self.known.get(&key).map(|known| known.names.clone());
        match self.store.lookup(&primary) {
            Lookup::Miss => assert!(!self.ample || known_names.is_none(), "{key} is lost"),
            Lookup::Record(record) => {
                assert_eq!(known_names.as_deref(), Some(""), "{key}");
                self.expect(key, None, Some(&record));
            }
            Lookup::Base(names) => {
                assert_eq!(known_names.as_deref().map(str::as_bytes), Some(&*names), "{key}");
                for variant in (0..8).map(|variant| variant.to_string()) {
                    let found = self.store.lookup_variant(&primary, &names, variant.as_bytes());
                    self.expect(key, Some(&variant), found.as_deref());
                }
            }
        }
    }

    /// Joins as a request would: with the variant if the names are known.
    fn start(&mut self, key: u64) {
        let varies = self.known.get(&key).is_some_and(|known| !known.names.is_empty());
        let variant = varies.then(|| self.rng.below(8).to_string());
        let primary = key.to_le_bytes();
        let found = match &variant {
            None => found_any(&self.store, &primary),
            Some(variant) => {
                let names = self.known[&key].names.as_bytes();
                self.store.lookup_variant(&primary, names, variant.as_bytes())
            }
        };
        let asked = variant.as_deref().map(str::as_bytes);
        let flight = (key, variant.clone());
        let led = self.fills.iter().any(|fill| fill.registered && fill.flight == flight);
        match self.store.join(&primary, asked, found.as_ref(), self.version) {
            Join::Stored => panic!("{key} {variant:?}: what was found is all there is"),
            Join::Declined => {}
            Join::Follower(follower) => {
                assert!(led, "{key} {variant:?}: follows nobody");
                let fill = self.fills.iter_mut().find(|f| f.registered && f.flight == flight);
                let reader = reader(follower);
                fill.unwrap().readers.push((reader, Vec::new()));
            }
            Join::Leader(leader, follower) => {
                assert!(!led, "{key} {variant:?}: two leaders");
                self.begin(leader, follower, flight);
            }
        }
    }

    fn begin(&mut self, leader: Leader, follower: Follower, flight: (u64, Option<String>)) {
        match self.rng.below(12) {
            0 => return leader.fail(),
            1 => return leader.decline(self.version),
            2 => return leader.decline_once(),
            _ => {}
        }
        self.version += 1;
        let base = (self.rng.below(3) == 0 || flight.1.is_some()).then(|| {
            let names = if self.rng.below(8) == 0 { "m" } else { "n" };
            let variant = flight.1.clone().unwrap_or_else(|| self.rng.below(8).to_string());
            base(names, &variant).unwrap()
        });
        let variant = base.as_ref().map(|base| String::from_utf8_lossy(&base.variant).into_owned());
        let head = format!("{} {variant:?} {:?}", flight.0, Some(self.version));
        let body_bytes = self.rng.size(BODY_BYTES_MAX) as usize;
        let length = (self.rng.below(2) == 0).then_some(body_bytes as u64);
        let Ok(filling) = leader.begin(head.as_bytes(), base.clone(), length) else {
            return;
        };
        let readers = vec![(reader(follower), Vec::new())];
        let version = self.version;
        let (sent_bytes, registered) = (0, true);
        self.fills.push(Fill {
            filling,
            readers,
            flight,
            base,
            version,
            body_bytes,
            sent_bytes,
            registered,
        });
    }

    fn pick(&mut self) -> Option<usize> {
        (!self.fills.is_empty()).then(|| self.rng.below(self.fills.len() as u64) as usize)
    }

    fn append(&mut self) {
        let Some(index) = self.pick() else { return };
        let bytes = self.rng.size(4000) as usize;
        self.fills[index].append(bytes, &self.store);
    }

    fn finish(&mut self) {
        let Some(index) = self.pick() else { return };
        let mut fill = self.fills.swap_remove(index);
        if !fill.append(usize::MAX, &self.store) {
            return;
        }
        let complete = fill.sent_bytes == fill.body_bytes;
        let stored = fill.filling.finish();
        assert_eq!(stored, fill.registered && complete, "{:?}", fill.flight);
        for (mut reader, mut read) in fill.readers {
            let (rest, end) = read_now(&mut reader);
            read.extend(rest);
            assert_eq!(
                end,
                Poll::Ready(if complete { ReadEvent::Done } else { ReadEvent::Aborted })
            );
            assert!(!complete || read == content(fill.version, fill.body_bytes));
        }
        if stored {
            self.note(fill.flight.0, fill.base, fill.version);
        }
    }

    /// What the obvious store does with a new record.
    fn note(&mut self, key: u64, base: Option<Base>, version: u64) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let names = base.as_ref().map_or(String::new(), |base| text(&base.names));
        let variant = base.as_ref().map(|base| text(&base.variant));
        let known = self.known.entry(key).or_default();
        if known.names != names || names.is_empty() {
            *known = Known { names, versions: vec![] };
        }
        known.versions.retain(|(other, _)| *other != variant);
        if known.versions.len() >= self.variants_max {
            known.versions.remove(0);
        }
        known.versions.push((variant, version));
    }

    fn abort(&mut self) {
        let Some(index) = self.pick() else { return };
        let fill = self.fills.swap_remove(index);
        drop(fill.filling);
        for (mut reader, _) in fill.readers {
            assert_eq!(read_now(&mut reader).1, Poll::Ready(ReadEvent::Aborted));
        }
    }

    fn read(&mut self) {
        let Some(index) = self.pick() else { return };
        let leaves = self.rng.below(10) == 0;
        let fill = &mut self.fills[index];
        fill.read();
        if leaves {
            fill.readers.pop();
        }
    }

    fn validate(&mut self, key: u64) {
        let Some(known) = found_any(&self.store, &key.to_le_bytes()) else {
            return;
        };
        let join = self.store.join(&key.to_le_bytes(), None, Some(&known), self.version);
        let Join::Leader(leader, mut follower) = join else {
            return;
        };
        let head = [known.head(), b" validated"].concat();
        leader.validated(&head[..head.len().min(100)]);
        let Outcome::Validated(new) = outcome(&mut follower) else { panic!("{key}") };
        self.expect(key, None, Some(&new));
    }

    fn purge(&mut self, key: u64) {
        let purged = self.store.purge(&key.to_le_bytes());
        let known = self.known.remove(&key).map_or(0, |known| known.versions.len() as u64);
        assert!(purged.records <= known && (!self.ample || purged.records == known), "{key}");
        let of_key = self.fills.iter_mut().filter(|fill| fill.registered && fill.flight.0 == key);
        let flights = of_key.map(|fill| fill.registered = false).count() as u64;
        assert_eq!(purged.flights, flights, "{key}");
        assert!(matches!(self.store.lookup(&key.to_le_bytes()), Lookup::Miss));
    }
}

impl Fill {
    /// Appends some of the rest; false if nobody listens any more.
    fn append(&mut self, bytes_max: usize, store: &Store) -> bool {
        let body = content(self.version, self.body_bytes);
        let to = self.sent_bytes.saturating_add(bytes_max).min(self.body_bytes);
        while self.sent_bytes < to {
            let mut cx = Context::from_waker(Waker::noop());
            if self.filling.poll_room(&mut cx, self.version).is_pending() {
                assert!(self.read() > 0, "a window is full, and there is nothing to read");
                continue;
            }
            let part = &body[self.sent_bytes..to.min(self.sent_bytes + 3000)];
            let outgrown = store.stats().outgrown;
            if self.filling.append(part).is_err() {
                self.registered = false;
                return false;
            }
            self.registered &= store.stats().outgrown == outgrown;
            self.sent_bytes += part.len();
        }
        true
    }

    /// All readers read what there is; returns how much.
    fn read(&mut self) -> usize {
        let content = content(self.version, self.body_bytes);
        let mut read_bytes = 0;
        for (reader, read) in &mut self.readers {
            let (more, end) = read_now(reader);
            read_bytes += more.len();
            read.extend(more);
            assert_eq!(end, Poll::Pending);
            assert!(*read == content[..self.sent_bytes], "{:?}", self.flight);
        }
        read_bytes
    }
}

/// The plain record, if there is one.
fn found_any(store: &Store, primary: &[u8]) -> Option<Arc<Record>> {
    match store.lookup(primary) {
        Lookup::Record(record) => Some(record),
        Lookup::Miss | Lookup::Base(_) => None,
    }
}

#[test]
fn random_histories_agree_with_the_obvious_store() {
    let mut rng = Rng::from_environment("model");
    let ample = StoreConfig { object_bytes_max: 5000, ..config(64 << 20) };
    let tight = StoreConfig { object_bytes_max: 5000, ..config(128 * 1024) };
    for (config, ample) in [(ample, true), (tight, false)] {
        for _ in 0..50 {
            let mut model = Model::new(rng.next(), config.clone(), ample);
            for _ in 0..OPERATIONS / 50 {
                model.step();
            }
            check(&model.store);
            model.fills.clear();
            check_at_rest(&model.store);
        }
    }
}
