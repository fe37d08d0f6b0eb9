//! Names of the places of a profile, each looked up once.
//!
//! A profile may come from anybody: its rows are as many as its file has room for, and each may
//! mean the longest text and the deepest stack. Names are kept while there is room for them.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_sync::profile::{ModuleRead, Reading, SiteKind, SiteRead};

use super::summary::Place;
use crate::symbols;

/// Bytes of all names together. Those of a large program with deep stacks take a few megabytes.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// More than a name takes beside its letters.
const NAME_BYTES: usize = 64;

/// Functions of one stack; those that were put into one another count.
const STACK_MAX: usize = 128;

/// Modules that may lie across one another, as those do that took the place of others.
const OVERLAPS_MAX: usize = 16;

/// Gives keys their places.
pub(super) struct Names<'a> {
    reading: &'a Reading,
    /// By where they begin.
    modules: Vec<&'a ModuleRead>,
    known: BTreeMap<u64, Rc<Place>>,
    frames: BTreeMap<u64, Rc<[Rc<str>]>>,
    unknown: Rc<Place>,
    room: usize,
}

impl<'a> Names<'a> {
    pub(super) fn of(reading: &'a Reading) -> Names<'a> {
        Names::with_room(reading, NAMES_BYTES_MAX)
    }

    fn with_room(reading: &'a Reading, room: usize) -> Names<'a> {
        let mut modules: Vec<_> = reading.modules.iter().collect();
        modules.sort_by_key(|module| module.start);
        let (known, frames) = (BTreeMap::new(), BTreeMap::new());
        Names { reading, modules, known, frames, unknown: Rc::default(), room }
    }

    /// The place of a row; key 0 is for what found no row of its own.
    pub(super) fn place(&mut self, key: u64) -> Rc<Place> {
        if let Some(known) = self.known.get(&key) {
            return Rc::clone(known);
        }
        let place = Rc::new(self.look_up(key));
        self.known.insert(key, Rc::clone(&place));
        place
    }

    /// The place of a holder; key 0 is for what nobody knows.
    pub(super) fn holder(&mut self, key: u64) -> Rc<Place> {
        match key {
            0 => Rc::clone(&self.unknown),
            key => self.place(key),
        }
    }

    fn look_up(&mut self, key: u64) -> Place {
        let site = match (key, self.reading.sites.get(&key)) {
            (0, _) => return Place::others(),
            (_, None) => None,
            (_, Some(site)) => self.place_of(site),
        };
        site.unwrap_or_else(|| Place {
            lock: format!("(no room for its name: {key:016x})"),
            stack: Vec::new(),
        })
    }

    /// None without room for it.
    fn place_of(&mut self, site: &SiteRead) -> Option<Place> {
        let name = symbols::shortened(&site.name);
        self.take_room(name.len())?;
        let lock = match site.lock {
            0 => name.into_owned(),
            lock => format!("{name} {lock:#x}"),
        };
        Some(Place { lock, stack: self.stack_of(site)? })
    }

    fn stack_of(&mut self, site: &SiteRead) -> Option<Vec<Rc<str>>> {
        if self.reading.about.kind == SiteKind::Places {
            let place = symbols::shortened(&site.place);
            self.take_room(place.len())?;
            return Some(vec![format!("{place}:{}", site.line).into()]);
        }
        let mut stack = Vec::new();
        for frame in &site.frames {
            let frames = self.frames_at(*frame)?;
            stack.extend(frames.iter().take(STACK_MAX - stack.len()).cloned());
        }
        self.take_room(stack.len() * size_of::<Rc<str>>())?;
        Some(stack)
    }

    /// Where a call was made that returns to this address: several, if functions were put into one
    /// another.
    fn frames_at(&mut self, address: u64) -> Option<Rc<[Rc<str>]>> {
        if let Some(known) = self.frames.get(&address) {
            return Some(Rc::clone(known));
        }
        let names = match self.module_of(address) {
            None => vec![format!("{address:#x}")],
            Some(module) => {
                let at = (address - module.start).saturating_add(module.file_offset);
                symbols::callers(&module.path, at)
            }
        };
        self.take_room(names.iter().map(|name| name.len() + NAME_BYTES).sum())?;
        let names: Rc<[Rc<str>]> = names.into_iter().map(Rc::from).collect();
        self.frames.insert(address, Rc::clone(&names));
        Some(names)
    }

    fn module_of(&self, address: u64) -> Option<&'a ModuleRead> {
        let behind = self.modules.partition_point(|module| module.start <= address);
        let before = self.modules.get(..behind)?.iter().rev().take(OVERLAPS_MAX);
        before.copied().find(|module| address < module.end)
    }

    fn take_room(&mut self, bytes: usize) -> Option<()> {
        self.room = self.room.checked_sub(bytes + NAME_BYTES)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::reading;
    use super::*;

    fn module(start: u64, path: &str) -> ModuleRead {
        ModuleRead { start, end: start + 0x1000, file_offset: 0x1000, path: path.into() }
    }

    #[test]
    fn a_return_address_is_a_place_in_its_module() {
        let mut reading = reading();
        reading.about.kind = SiteKind::Stacks;
        reading.modules = vec![module(0x5000, "/usr/lib/libx.so"), module(0x1000, "/bin/y")];
        let mut names = Names::of(&reading);
        for (frame, expected) in [
            (0x5010, "libx.so+0x1010"),
            (0x6000, "0x6000"),
            (0x4fff, "0x4fff"),
            (0x1000, "y+0x1000"),
            (0, "0x0"),
        ] {
            let site = SiteRead { frames: vec![frame], ..SiteRead::default() };
            let stack = names.stack_of(&site).expect("there is room");
            assert_eq!(stack.iter().map(|name| &**name).collect::<Vec<_>>(), [expected]);
        }
    }

    #[test]
    fn names_without_room_are_said_to_have_none_and_keep_their_counts() {
        let mut reading = reading();
        reading.about.kind = SiteKind::Stacks;
        let name: std::sync::Arc<str> = "x".repeat(4096).into();
        for key in 100..200 {
            let site =
                SiteRead { name: name.clone(), frames: vec![key; 64], ..SiteRead::default() };
            reading.sites.insert(key, site);
        }
        const ROOM: usize = 100_000;
        let mut names = Names::with_room(&reading, ROOM);
        let places: Vec<_> = (100..200).map(|key| names.place(key)).collect();
        let bytes = |place: &Place| place.lock.len() + place.stack.len() * size_of::<Rc<str>>();
        let (with, without): (Vec<_>, Vec<_>) =
            places.iter().partition(|place| !place.lock.contains("no room"));
        assert!(with.iter().map(|place| bytes(place)).sum::<usize>() <= ROOM);
        assert!(with.len() > 10 && without.len() > 10, "{} {}", with.len(), without.len());
        assert_eq!(without.last().expect("many").lock, "(no room for its name: 00000000000000c7)");
        assert!(with.iter().all(|place| place.stack.len() == 64));
    }

    #[test]
    fn a_stack_has_an_end() {
        let mut reading = reading();
        reading.about.kind = SiteKind::Stacks;
        let site = SiteRead { frames: vec![5; 10 * STACK_MAX], ..SiteRead::default() };
        let stack = Names::of(&reading).stack_of(&site).expect("there is room");
        assert_eq!(stack.len(), STACK_MAX);
    }
}
