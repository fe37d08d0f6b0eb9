//! Resolves the names of a profile's call sites, each name only once.
//!
//! A profile may come from an untrusted source. The size of its file is the only limit of its
//! number of rows, and each row may refer to the longest text and the deepest stack. Therefore the
//! memory for names is limited.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_sync::profile::{ModuleRead, ProfileSnapshot, SiteKind, SiteRead, plain_text};

use super::modules::{ModuleAt, ModuleMap};
use super::summary::LockSite;
use crate::symbols;

/// Largest total size of all names in bytes. The names of a large program with deep stacks take a
/// few megabytes.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// Upper bound of the memory that a name takes besides its text, in bytes.
const NAME_BYTES: usize = 64;

/// Largest number of functions in a stack, including inlined functions.
const STACK_MAX: usize = 128;

/// The functions of a call stack, the innermost first.
pub(super) type Frames = Rc<[Rc<str>]>;

/// Resolves keys of a profile to call sites and call stacks.
pub(super) struct SiteNames<'a> {
    pub(super) reading: &'a ProfileSnapshot,
    modules: ModuleMap<'a>,
    known: BTreeMap<u64, Rc<LockSite>>,
    frames: BTreeMap<u64, Frames>,
    /// Abbreviated frames by address.
    brief: BTreeMap<u64, Frames>,
    /// Call stacks by key.
    call_stacks: BTreeMap<u64, Frames>,
    unknown: Rc<LockSite>,
    room: usize,
}

impl<'a> SiteNames<'a> {
    pub(super) fn of(reading: &'a ProfileSnapshot) -> SiteNames<'a> {
        SiteNames::with_room(reading, NAMES_BYTES_MAX)
    }

    fn with_room(reading: &'a ProfileSnapshot, room: usize) -> SiteNames<'a> {
        SiteNames {
            reading,
            modules: ModuleMap::of(&reading.modules),
            known: BTreeMap::new(),
            frames: BTreeMap::new(),
            brief: BTreeMap::new(),
            call_stacks: BTreeMap::new(),
            unknown: Rc::default(),
            room,
        }
    }

    /// Returns the call site of a row. Key 0 stands for all call sites that have no rows of their
    /// own because the tables are full.
    pub(super) fn site(&mut self, key: u64) -> Rc<LockSite> {
        if let Some(known) = self.known.get(&key) {
            return Rc::clone(known);
        }
        let place = Rc::new(self.look_up(key));
        self.known.insert(key, Rc::clone(&place));
        place
    }

    /// Returns the call site of a holder. Key 0 stands for an unknown holder.
    pub(super) fn holder(&mut self, key: u64) -> Rc<LockSite> {
        match key {
            0 => Rc::clone(&self.unknown),
            key => self.site(key),
        }
    }

    /// Returns the call stack of a sample. Each stack is resolved only once. The result is empty if
    /// the stack exceeded the profile's capacity, or the bounds of the thread's stack were unknown.
    pub(super) fn call_stack(
        &mut self,
        stack: u64,
        brief: impl Fn(&str) -> String,
        made: impl FnOnce(Vec<Rc<str>>) -> Vec<Rc<str>>,
    ) -> Frames {
        if let Some(known) = self.call_stacks.get(&stack) {
            return Rc::clone(known);
        }
        let frames = self.brief_stack(stack, brief).map(made).and_then(|stack| {
            self.take_room(stack.len() * size_of::<Rc<str>>())?;
            Some(Frames::from(stack))
        });
        let frames =
            frames.unwrap_or_else(|| [Rc::from("(no room for the names of this stack)")].into());
        self.call_stacks.insert(stack, Rc::clone(&frames));
        frames
    }

    fn brief_stack(&mut self, stack: u64, brief: impl Fn(&str) -> String) -> Option<Vec<Rc<str>>> {
        let frames = self.reading.stacks.get(&stack).map_or(&[][..], |stack| &stack.frames);
        let mut names = Vec::new();
        for address in frames.iter().take(STACK_MAX) {
            // An address outside of all modules is not a frame, and neither are the addresses after
            // it.
            if self.modules.at(*address).is_none() {
                break;
            }
            let frames = self.brief_at(*address, &brief)?;
            names.extend(frames.iter().take(STACK_MAX - names.len()).cloned());
        }
        Some(names)
    }

    fn brief_at(&mut self, address: u64, brief: impl Fn(&str) -> String) -> Option<Frames> {
        if let Some(known) = self.brief.get(&address) {
            return Some(Rc::clone(known));
        }
        let frames = self.frames_at(address)?;
        let names = self.kept(frames.iter().map(|name| brief(name)).collect())?;
        self.brief.insert(address, Rc::clone(&names));
        Some(names)
    }

    fn look_up(&mut self, key: u64) -> LockSite {
        let site = match (key, self.reading.sites.get(&key)) {
            (0, _) => return LockSite::others(),
            (_, None) => None,
            (_, Some(site)) => self.resolve(site),
        };
        site.unwrap_or_else(|| LockSite {
            lock: format!("(no room for the name of call site {key:016x})"),
            stack: Vec::new(),
        })
    }

    /// Resolves a call site; `None` if its names exceed the limit.
    fn resolve(&mut self, site: &SiteRead) -> Option<LockSite> {
        let name = symbols::shortened(&site.name);
        self.take_room(name.len())?;
        let lock = match site.lock {
            0 => name.into_owned(),
            lock => format!("{name} {lock:#x}"),
        };
        Some(LockSite { lock, stack: self.stack_of(site)? })
    }

    fn stack_of(&mut self, site: &SiteRead) -> Option<Vec<Rc<str>>> {
        if self.reading.about.kind == SiteKind::Places {
            let place = symbols::shortened(&site.place);
            self.take_room(place.len())?;
            return Some(vec![format!("{place}:{}", site.line).into()]);
        }
        let mut stack = Vec::new();
        for address in site.frames.iter().take(STACK_MAX) {
            let frames = self.frames_at(*address)?;
            stack.extend(frames.iter().take(STACK_MAX - stack.len()).cloned());
        }
        self.take_room(stack.len() * size_of::<Rc<str>>())?;
        // Without compiler optimisation, each wrapper is a call of its own.
        Some(symbols::without_wrappers(stack))
    }

    /// Returns the function of the call that returns to this address; several functions if calls
    /// were inlined.
    fn frames_at(&mut self, address: u64) -> Option<Frames> {
        if let Some(known) = self.frames.get(&address) {
            return Some(Rc::clone(known));
        }
        let lies = self.modules.at(address);
        let names = match lies.and_then(|lies| Some((lies, lies.module?))) {
            None => vec![format!("{address:#x}")],
            Some((lies, module)) => callers(address, lies, module),
        };
        let names = self.kept(names)?;
        self.frames.insert(address, Rc::clone(&names));
        Some(names)
    }

    fn kept(&mut self, names: Vec<String>) -> Option<Frames> {
        self.take_room(names.iter().map(|name| name.len() + NAME_BYTES).sum())?;
        Some(names.into_iter().map(Rc::from).collect())
    }

    fn take_room(&mut self, bytes: usize) -> Option<()> {
        self.room = self.room.checked_sub(bytes + NAME_BYTES)?;
        Some(())
    }
}

/// Returns the names of the callers at an address. The names mention an earlier module at the
/// address, because the profile does not record which of the modules took the lock.
fn callers(address: u64, lies: ModuleAt<'_>, module: &ModuleRead) -> Vec<String> {
    let file_offset = (address - module.start).saturating_add(module.file_offset);
    let mut callers = symbols::callers(&module.path, file_offset);
    if let (Some(before), Some(first)) = (lies.before, callers.first_mut()) {
        let name = before.path.rsplit('/').next().unwrap_or_default();
        let name = plain_text(&symbols::shortened(name));
        *first += &format!(", or {name}, which was loaded there before");
    }
    if let Some(first) = callers.first_mut().filter(|_| lies.is_gone) {
        *first += ", unloaded since";
    }
    callers
}

#[cfg(test)]
mod tests {
    use forebay_sync::profile::StackRead;

    use super::super::summary::tests::reading;
    use super::*;

    fn module(start: u64, end: u64, file_offset: u64, path: &str) -> ModuleRead {
        ModuleRead { start, end, file_offset, path: path.into() }
    }

    fn stack_at(names: &mut SiteNames<'_>, frame: u64) -> Vec<String> {
        let site = SiteRead { frames: vec![frame], ..SiteRead::default() };
        let stack = names.stack_of(&site).expect("there is room");
        stack.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_return_address_is_named_by_its_module() {
        let mut reading = reading();
        reading.about.kind = SiteKind::Stacks;
        reading.modules = vec![
            module(0x5000, 0x6000, 0x1000, "/usr/lib/libx.so"),
            module(0x1000, 0x2000, 0x1000, "/bin/y"),
        ];
        let mut names = SiteNames::of(&reading);
        for (frame, expected) in [
            (0x5010, "libx.so+0x1010"),
            (0x6000, "0x6000"),
            (0x4fff, "0x4fff"),
            (0x1000, "y+0x1000"),
            (0, "0x0"),
        ] {
            assert_eq!(stack_at(&mut names, frame), [expected]);
        }
    }

    #[test]
    fn the_last_module_names_an_address_and_earlier_ones_are_mentioned() {
        let mut reading = reading();
        reading.about.kind = SiteKind::Stacks;
        reading.modules = vec![
            module(0x5000, 0x7000, 0, "/lib/a\u{1b}.so"),
            module(0x6000, 0x8000, 0, "/lib/b.so"),
            module(0x7000, 0x8000, 0, "/lib/b.so"),
            module(0x7800, 0x8000, 0, ""),
            module(0x8000, 0x9000, 0, ""),
        ];
        let mut names = SiteNames::of(&reading);
        for (frame, expected) in [
            (0x5010, "a\u{fffd}.so+0x10"),
            (0x6010, "b.so+0x10, or a\u{fffd}.so, which was loaded there before"),
            (0x7010, "b.so+0x10"),
            (0x7810, "b.so+0x810, unloaded since"),
            (0x8010, "0x8010"),
        ] {
            assert_eq!(stack_at(&mut names, frame), [expected]);
        }
    }

    #[test]
    fn call_sites_without_room_for_names_stay_distinct() {
        let mut reading = reading();
        reading.about.kind = SiteKind::Stacks;
        reading.modules = vec![module(0, 1 << 40, 0, "/bin/y")];
        let name: std::sync::Arc<str> = "x".repeat(4096).into();
        for key in 100..200 {
            let frames = vec![key; 64];
            let site = SiteRead { name: name.clone(), frames, ..SiteRead::default() };
            reading.stacks.insert(key, StackRead { site: key, frames: site.frames.clone() });
            reading.sites.insert(key, site);
        }
        const ROOM: usize = 100_000;
        let mut names = SiteNames::with_room(&reading, ROOM);
        let places: Vec<_> = (100..200).map(|key| names.site(key)).collect();
        let bytes = |place: &LockSite| place.lock.len() + place.stack.len() * size_of::<Rc<str>>();
        let (with, without): (Vec<_>, Vec<_>) =
            places.iter().partition(|place| !place.lock.contains("no room"));
        assert!(with.iter().map(|place| bytes(place)).sum::<usize>() <= ROOM);
        assert!(with.len() > 10 && without.len() > 10, "{} {}", with.len(), without.len());
        assert_eq!(
            without.last().expect("many").lock,
            "(no room for the name of call site 00000000000000c7)"
        );
        assert!(with.iter().all(|place| place.stack.len() == 64));

        let mut names = SiteNames::with_room(&reading, ROOM);
        let call_stacks: Vec<_> =
            (100..200).map(|key| names.call_stack(key, str::to_owned, |names| names)).collect();
        let without = call_stacks
            .iter()
            .filter(|stack| *stack[0] == *"(no room for the names of this stack)")
            .count();
        let with: Vec<_> = call_stacks.iter().filter(|stack| stack.len() == 64).collect();
        assert!(with.len() > 10 && without > 10 && with.len() + without == 100);
        assert!(with.len() * 64 * size_of::<Rc<str>>() <= ROOM);
    }

    #[test]
    fn a_name_is_resolved_once() {
        let reading = reading();
        let mut names = SiteNames::of(&reading);
        for key in [0, 11, 7_777] {
            assert!(Rc::ptr_eq(&names.site(key), &names.site(key)), "{key}");
        }
    }

    #[test]
    fn a_stack_has_a_limit() {
        let mut reading = reading();
        reading.about.kind = SiteKind::Stacks;
        reading.modules = vec![module(0, 1 << 40, 0, "/bin/y")];
        let frames = vec![5; 10 * STACK_MAX];
        reading.stacks.insert(1, StackRead { site: 1, frames: frames.clone() });
        let site = SiteRead { frames, ..SiteRead::default() };
        let mut names = SiteNames::of(&reading);
        assert_eq!(names.stack_of(&site).expect("there is room").len(), STACK_MAX);
        assert_eq!(names.call_stack(1, str::to_owned, |names| names).len(), STACK_MAX);
    }
}
