//! Random histories of flights, compared with an obvious table of flights, in which nothing is
//! shared or limited.

use std::collections::{HashMap, HashSet};

use super::shelf::{Kept, Shelf};
use super::*;
use crate::flight::declined::SETS;

const KEYS: u64 = 16;
const VARIANTS: u64 = 3;
const OPERATIONS: u64 = 100_000;
/// The length of the longest body. Long bodies can become windows.
const BODY_BYTES_MAX: u64 = 12_000;

/// The key and the variant of a flight.
type Name = (u64, Option<Vec<u8>>);

/// A fetch in progress.
struct Fetch {
    writer: BodyWriter,
    name: Name,
    readers: Vec<(BodyReader, Vec<u8>)>,
    head: Vec<u8>,
    version: u64,
    body_bytes: usize,
    sent_bytes: usize,
    /// Whether the fetch was neither detached nor given up.
    registered: bool,
    /// Whether another process purged the key: the next caller that joins detaches the fetch.
    purged: bool,
}

struct Model {
    flights: Arc<Flights>,
    shelf: Shelf,
    rng: Rng,
    /// The primary keys. They are such that their declined variants never replace each other in the
    /// table.
    numbers: Vec<u64>,
    fetches: Vec<Fetch>,
    /// The declined keys, and the time until which each is declined.
    declined: HashMap<Name, u64>,
    /// The version of the last fetch. It also serves as the clock.
    version: u64,
}

impl Model {
    fn new(seed: u64, config: FlightConfig) -> Self {
        let mut sets = HashSet::new();
        let is_apart = |number: &u64| sets.insert(hash(&number.to_le_bytes()) as usize % SETS);
        Self {
            numbers: (0..).filter(is_apart).take(KEYS as usize).collect(),
            flights: new_flights(config),
            shelf: Shelf::new(),
            rng: Rng(seed),
            fetches: Vec::new(),
            declined: HashMap::new(),
            version: 0,
        }
    }

    fn step(&mut self) {
        self.version += 1;
        let number = self.numbers[self.rng.below(KEYS) as usize];
        match self.rng.below(100) {
            0..30 => self.start(number),
            30..60 => self.append(),
            60..75 => self.finish(),
            75..79 => self.abort(),
            79..87 => self.read(),
            87..90 => self.give_up(),
            90..92 => self.shelf.evict(&number.to_le_bytes()),
            92..97 => self.purge(number),
            97 => self.purge_where(),
            _ => {
                self.flights.forget_declined(hash(&number.to_le_bytes()));
                self.forget_declined(number);
            }
        }
    }

    /// Joins a fetch, as a request does whose lookup has found the stored record or an older one.
    fn start(&mut self, number: u64) {
        let primary = number.to_le_bytes();
        let found = self.shelf.find(&primary);
        let variant = (self.rng.below(2) == 0).then(|| vec![self.rng.below(VARIANTS) as u8]);
        let is_stale = self.rng.below(10) == 0 && found.is_some();
        let known = found.clone().filter(|_| !is_stale);
        let gate = self.shelf.gate(&primary, known.as_ref());
        let joined =
            self.flights.join(key(&primary, variant.as_deref()), terms_at(self.version), &gate);
        let name = (number, variant);
        let led = self.fetches.iter().position(|fetch| fetch.registered && fetch.name == name);
        let followed = led.filter(|&index| !self.fetches[index].purged);
        match joined {
            JoinResult::Changed => {
                assert!(is_stale, "{name:?}: the record that was found is current")
            }
            JoinResult::Declined(_) => {
                assert!(self.version < self.declined_until(&name), "{name:?}")
            }
            JoinResult::Follow(follower) => {
                let fetch = followed.map(|index| &mut self.fetches[index]);
                fetch.expect("a leader").follow(reader(follower));
            }
            JoinResult::Lead(lead, follower) => {
                assert!(!is_stale && followed.is_none(), "{name:?}: two leaders");
                assert!(self.version >= self.declined_until(&name), "{name:?} is declined");
                if let Some(purged) = led {
                    self.fetches[purged].registered = false;
                }
                self.lead(lead, follower, known, name);
            }
        }
    }

    /// The time until which a key is declined; zero if it is not.
    fn declined_until(&self, name: &Name) -> u64 {
        self.declined.get(name).copied().unwrap_or(0)
    }

    fn forget_declined(&mut self, number: u64) {
        self.declined.retain(|name, _| name.0 != number);
    }

    fn lead(&mut self, lead: LeaderGuard, mut follower: Follower, known: Option<Kept>, name: Name) {
        let primary = name.0.to_le_bytes();
        match (self.rng.below(12), known) {
            (0, _) => return lead.fail(502),
            (1, _) => {
                self.declined.insert(name, self.version + DECLINED_MS);
                return lead.decline(self.version, DeclineReason::TooLarge);
            }
            (2, _) => return lead.decline_once(DeclineReason::TooLarge),
            (3..6, Some(known)) => {
                let sequence = self.shelf.renew(&primary, &known);
                lead.validated(RenewedHead { head: known.head.clone(), base: None, sequence });
                let FollowOutcome::Validated(renewed) = outcome(&mut follower) else {
                    panic!("the outcome is not a validated head")
                };
                assert_eq!((renewed.head, renewed.sequence), (known.head, sequence));
                return assert!(sequence.is_some(), "a record that nothing replaced is renewed");
            }
            _ => {}
        }
        let head = format!("{name:?} {}", self.version).into_bytes();
        let body_bytes = self.rng.size(BODY_BYTES_MAX) as usize;
        let length = (self.rng.below(2) == 0).then_some(body_bytes as u64);
        let Ok(writer) = lead.begin(&head, None, length) else {
            return;
        };
        let mut fetch = Fetch {
            writer,
            name,
            readers: Vec::new(),
            head,
            version: self.version,
            body_bytes,
            sent_bytes: 0,
            registered: true,
            purged: false,
        };
        fetch.follow(reader(follower));
        self.fetches.push(fetch);
    }

    fn pick(&mut self) -> Option<usize> {
        (!self.fetches.is_empty()).then(|| self.rng.below(self.fetches.len() as u64) as usize)
    }

    fn append(&mut self) {
        let Some(index) = self.pick() else { return };
        let bytes = self.rng.size(4000) as usize;
        let given_up = self.fetches[index].append(bytes, &self.flights);
        self.note_decline(index, given_up);
    }

    /// Records that the key is declined from the time of the append that made the body too long.
    fn note_decline(&mut self, index: usize, given_up: GivenUp) {
        if let GivenUp::Declined(at_ms) = given_up {
            self.declined.insert(self.fetches[index].name.clone(), at_ms + DECLINED_MS);
        }
    }

    fn finish(&mut self) {
        let Some(index) = self.pick() else { return };
        let given_up = self.fetches[index].append(usize::MAX, &self.flights);
        self.note_decline(index, given_up);
        let fetch = self.fetches.swap_remove(index);
        if !fetch.readers.is_empty() || fetch.registered {
            fetch.finish(&self.shelf);
        }
    }

    fn abort(&mut self) {
        let Some(index) = self.pick() else { return };
        let fetch = self.fetches.swap_remove(index);
        drop(fetch.writer);
        for (mut reader, _) in fetch.readers {
            assert_eq!(read_now(&mut reader).1, Poll::Ready(ReadEvent::Aborted));
        }
    }

    fn read(&mut self) {
        let Some(index) = self.pick() else { return };
        let leaves = self.rng.below(10) == 0;
        let fetch = &mut self.fetches[index];
        fetch.read();
        if leaves {
            fetch.readers.pop();
        }
    }

    fn give_up(&mut self) {
        let Some(index) = self.pick() else { return };
        let fetch = &mut self.fetches[index];
        // A flight that was detached and has not appended since is not a window yet.
        let declined = self.flights.stats().declined;
        fetch.writer.give_up_storing(self.version);
        fetch.registered = false;
        if self.flights.stats().declined > declined {
            self.note_decline(index, GivenUp::Declined(self.version));
        }
    }

    fn purge(&mut self, number: u64) {
        let primary = number.to_le_bytes();
        self.shelf.purge(&primary);
        let is_elsewhere = self.rng.below(2) == 0;
        let of_key = self.fetches.iter_mut().filter(|f| f.registered && f.name.0 == number);
        if is_elsewhere {
            return of_key.for_each(|fetch| fetch.purged = true);
        }
        let expected = of_key.map(|fetch| fetch.registered = false).count() as u64;
        assert_eq!(self.flights.detach(hash(&primary), &primary), expected, "{number}");
        self.forget_declined(number);
    }

    fn purge_where(&mut self) {
        let bound = self.numbers[self.rng.below(KEYS) as usize];
        (0..bound).for_each(|number| self.shelf.purge(&number.to_le_bytes()));
        let below = self.fetches.iter_mut().filter(|f| f.registered && f.name.0 < bound);
        let expected = below.map(|fetch| fetch.registered = false).count() as u64;
        let matches =
            |primary: &[u8]| u64::from_le_bytes(primary.try_into().expect("a key")) < bound;
        assert_eq!(self.flights.detach_where(matches), expected, "below {bound}");
    }
}

/// The result of an append: whether the fetch gave up storing.
enum GivenUp {
    No,
    /// The body became too long. The key is declined from this time.
    Declined(u64),
}

impl Fetch {
    fn follow(&mut self, reader: BodyReader) {
        assert_eq!(reader.head(), self.head);
        self.readers.push((reader, Vec::new()));
    }

    /// Appends some of the remaining bytes, or stops if the flight has no readers any more.
    fn append(&mut self, bytes_max: usize, flights: &Flights) -> GivenUp {
        let body = content(self.version, self.body_bytes);
        let to = self.sent_bytes.saturating_add(bytes_max).min(self.body_bytes);
        let mut given_up = GivenUp::No;
        while self.sent_bytes < to {
            let mut cx = Context::from_waker(Waker::noop());
            if self.writer.poll_room(&mut cx, self.version).is_pending() {
                assert!(self.read() > 0, "a window is full, and there is nothing to read");
                continue;
            }
            let part = &body[self.sent_bytes..to.min(self.sent_bytes + 3000)];
            let before = flights.stats();
            let appended = self.writer.append(part);
            let after = flights.stats();
            self.registered &= after.outgrown == before.outgrown;
            if after.declined > before.declined {
                given_up = GivenUp::Declined(self.version);
            }
            if appended.is_err() {
                assert!(self.readers.is_empty() && !self.registered, "{:?}", self.name);
                break;
            }
            self.sent_bytes += part.len();
        }
        given_up
    }

    /// Lets all readers read the bytes that have arrived. Returns the number of bytes that they
    /// read in total.
    fn read(&mut self) -> usize {
        let content = content(self.version, self.body_bytes);
        let mut read_bytes = 0;
        for (reader, read) in &mut self.readers {
            let (more, end) = read_now(reader);
            read_bytes += more.len();
            read.extend(more);
            assert_eq!(end, Poll::Pending);
            assert!(*read == content[..self.sent_bytes], "{:?}", self.name);
        }
        read_bytes
    }

    fn finish(self, shelf: &Shelf) {
        let complete = self.sent_bytes == self.body_bytes;
        let body = content(self.version, self.body_bytes);
        assert_eq!(self.writer.is_storing(), self.registered, "{:?}", self.name);
        if self.registered {
            assert!(complete && self.writer.is_complete(), "{:?}", self.name);
            assert!(body_of(&self.writer) == body, "{:?}", self.name);
            let (primary, noted) = (self.name.0.to_le_bytes(), self.writer.purge_noted());
            let stored = shelf.store(&primary, noted, &self.head, &body);
            assert_eq!(stored, !self.purged, "{:?}", self.name);
        }
        self.writer.finish(None);
        for (mut reader, mut read) in self.readers {
            let (rest, end) = read_now(&mut reader);
            read.extend(rest);
            assert_eq!(end, Poll::Ready(ReadEvent::Done), "{:?}", self.name);
            assert!(read == body, "{:?}", self.name);
        }
    }
}

#[test]
fn random_histories_agree_with_the_obvious_table() {
    let mut rng = Rng::from_environment("model");
    let ample = FlightConfig { object_bytes_max: 5000, ..config() };
    let tight = FlightConfig { growing_bytes_max: 32 * 1024, ..ample.clone() };
    for config in [ample, tight] {
        for _ in 0..50 {
            let mut model = Model::new(rng.next(), config.clone());
            for _ in 0..OPERATIONS / 50 {
                model.step();
            }
            check(&model.flights);
            model.fetches.clear();
            check_at_rest(&model.flights);
        }
    }
}
