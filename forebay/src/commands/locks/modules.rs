//! Maps addresses of a program to its modules. If several modules were reported for an address, the
//! last one counts.

use std::collections::{BTreeMap, BTreeSet};

use forebay_sync::profile::ModuleRead;

/// The module at an address, and an earlier module there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ModuleAt<'a> {
    /// The module; `None` if its file is unknown.
    pub(super) module: Option<&'a ModuleRead>,
    /// A different module that was mapped at the address earlier.
    pub(super) before: Option<&'a ModuleRead>,
    /// Whether the module has been unloaded.
    pub(super) is_gone: bool,
}

/// Pieces of the address space by start address. Each piece ends where the next begins.
pub(super) struct ModuleMap<'a>(Vec<(u64, Option<ModuleAt<'a>>)>);

impl<'a> ModuleMap<'a> {
    /// Makes the map. The time is O(n log n), however the modules overlap.
    pub(super) fn of(modules: &'a [ModuleRead]) -> ModuleMap<'a> {
        let mut ends = Vec::new();
        for (index, module) in modules.iter().enumerate() {
            if module.start < module.end {
                ends.extend([(module.start, true, index), (module.end, false, index)]);
            }
        }
        ends.sort_unstable();
        let mut open = OpenModules {
            modules,
            all: BTreeSet::new(),
            of: BTreeMap::new(),
            last: BTreeSet::new(),
        };
        let mut pieces: Vec<(u64, Option<ModuleAt<'a>>)> = Vec::new();
        for (at, begins, index) in ends {
            open.turn(index, begins);
            pieces.pop_if(|(start, _)| *start == at);
            pieces.push((at, open.lies()));
        }
        ModuleMap(pieces)
    }

    pub(super) fn at(&self, address: u64) -> Option<ModuleAt<'a>> {
        let behind = self.0.partition_point(|(start, _)| *start <= address);
        self.0.get(behind.checked_sub(1)?)?.1
    }
}

/// The modules at the current address of the sweep, by index.
struct OpenModules<'a> {
    modules: &'a [ModuleRead],
    all: BTreeSet<usize>,
    /// The modules at the current address of the sweep, for each file.
    of: BTreeMap<&'a str, BTreeSet<usize>>,
    /// For each file, the module that was reported last among those at the current address.
    last: BTreeSet<usize>,
}

impl<'a> OpenModules<'a> {
    fn turn(&mut self, index: usize, is_open: bool) {
        let Some(module) = self.modules.get(index) else { return };
        let same = self.of.entry(&module.path).or_default();
        same.last().map(|last| self.last.remove(last));
        if is_open {
            self.all.insert(index);
            same.insert(index);
        } else {
            self.all.remove(&index);
            same.remove(&index);
        }
        // A module without a path records that a module was unloaded.
        let last = same.last().filter(|_| !module.path.is_empty());
        self.last.extend(last);
    }

    fn lies(&self) -> Option<ModuleAt<'a>> {
        let newest = self.modules.get(*self.all.last()?)?;
        let mut named = self.last.iter().rev().filter_map(|index| self.modules.get(*index));
        let (module, before) = (named.next(), named.next());
        Some(ModuleAt { module, before, is_gone: newest.path.is_empty() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_finds_the_same_as_a_scan_of_all_modules() {
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = forebay_sync::profile::hash_words(&[random]);
            random % below
        };
        for round in 0..300 {
            let modules: Vec<_> = (0..next(12))
                .map(|_| ModuleRead {
                    start: next(30),
                    end: next(30),
                    file_offset: 0,
                    path: ["", "a", "b", "c"][next(4) as usize].into(),
                })
                .collect();
            let found = ModuleMap::of(&modules);
            for address in 0..32 {
                let covers = |module: &&ModuleRead| (module.start..module.end).contains(&address);
                let all: Vec<_> = modules.iter().rev().filter(covers).collect();
                let mut named = all.iter().copied().filter(|module| !module.path.is_empty());
                let module = named.next();
                let before = named.find(|before| Some(&before.path) != module.map(|m| &m.path));
                let lies = found.at(address);
                let case = format!("round {round}, {address}: {modules:?}");
                assert_eq!(lies.is_some(), !all.is_empty(), "{case}");
                let lies = lies.unwrap_or_default();
                assert_eq!((lies.module, lies.before), (module, before), "{case}");
                assert_eq!(lies.is_gone, all.first().is_some_and(|m| m.path.is_empty()), "{case}");
            }
        }
    }
}
