//! Reads a counter file repeatedly, and continues with the new file when a server replaces it.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_shm::{CounterReader, CounterValue, ReadDef};

/// A counter file that is read repeatedly.
pub(super) struct FileFollower {
    path: PathBuf,
    reader: Rc<CounterReader>,
    /// The process that wrote the previous file.
    earlier_pid: Option<u32>,
}

/// The values of a counter file at one time.
pub(super) struct CounterSnapshot {
    reader: Rc<CounterReader>,
    values: Vec<CounterValue>,
    pub(super) pid: u32,
    pub(super) is_alive: bool,
    /// The process that wrote the previous file, if the file was replaced.
    pub(super) earlier_pid: Option<u32>,
    /// Whether the file was deleted. Its mapping is still readable.
    pub(super) is_removed: bool,
}

impl FileFollower {
    /// Opens the counter file at `path`.
    ///
    /// # Errors
    /// The file cannot be opened or is not a counter file; the text is a message for the user.
    pub(super) fn open(path: PathBuf) -> Result<FileFollower, String> {
        let reader = open(&path)?;
        Ok(FileFollower { path, reader, earlier_pid: None })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file that is at the path now, because a server that restarts creates a new file
    /// there.
    ///
    /// # Errors
    /// The new file is damaged or not a counter file.
    pub(super) fn read(&mut self) -> Result<CounterSnapshot, String> {
        let place = self.reader.is_at(&self.path);
        if place == Some(false) {
            let newer = open(&self.path)?;
            self.earlier_pid = Some(self.reader.writer().pid);
            self.reader = newer;
        }
        // The values are read before the writer's state: if the writer is alive afterwards, these
        // are not its last values.
        let values = self.reader.values().map(|(_, value)| value).collect();
        let writer = self.reader.writer();
        Ok(CounterSnapshot {
            reader: Rc::clone(&self.reader),
            values,
            pid: writer.pid,
            is_alive: writer.is_alive(),
            earlier_pid: self.earlier_pid,
            is_removed: place.is_none(),
        })
    }
}

fn open(path: &Path) -> Result<Rc<CounterReader>, String> {
    CounterReader::open(path).map(Rc::new).map_err(|error| error.to_string())
}

impl CounterSnapshot {
    /// Whether both snapshots are of the same file, so that their values can be compared.
    pub(super) fn is_of_same_file(&self, other: &CounterSnapshot) -> bool {
        Rc::ptr_eq(&self.reader, &other.reader)
    }

    /// Iterates over the counters with their values.
    pub(super) fn counters(&self) -> impl Iterator<Item = (&ReadDef, &CounterValue)> {
        self.reader.defs().iter().zip(&self.values)
    }

    /// The values in the order of [`CounterSnapshot::counters`].
    pub(super) fn values(&self) -> &[CounterValue] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use forebay_shm::{CounterDef, CounterFile, CounterKind};
    use forebay_testkit::server::Folder;

    use super::*;

    const DEFS: &[CounterDef] =
        &[CounterDef { name: "a_total", kind: CounterKind::Counter, help: "" }];

    #[test]
    fn a_file_is_followed_through_replacement_damage_and_removal() {
        let folder = Folder::new();
        let path = folder.path("run/1.counters");
        let make = |count: u64| {
            let file = CounterFile::create(Some(&path), DEFS, 1).expect("a file");
            file.slot(0).add(0, count);
            file
        };
        let number = |reading: &CounterSnapshot| reading.values()[0].clone();
        let old = make(1);
        let mut follower = FileFollower::open(path.clone()).expect("it is there");
        let first = follower.read().expect("whole");
        assert_eq!((first.earlier_pid, first.is_removed), (None, false));
        old.slot(0).add(0, 1);
        let second = follower.read().expect("whole");
        assert!(second.is_of_same_file(&first));
        assert_eq!(
            (number(&first), number(&second)),
            (CounterValue::Number(1), CounterValue::Number(2))
        );

        let _new = make(10);
        let third = follower.read().expect("whole");
        assert!(!third.is_of_same_file(&second) && third.is_alive);
        assert_eq!(
            (number(&third), third.earlier_pid),
            (CounterValue::Number(10), Some(first.pid))
        );

        let other = folder.path("other");
        std::fs::write(&other, "FBYCOUNT").expect("the folder is ours");
        std::fs::rename(&other, &path).expect("the folder is ours");
        let error = follower.read().err().expect("it is damaged");
        assert!(error.contains("1.counters") && error.contains("cut off"), "{error}");

        std::fs::remove_file(&path).expect("it is there");
        let fourth = follower.read().expect("it is mapped");
        assert!(fourth.is_removed && fourth.is_of_same_file(&third));
        let _newest = make(20);
        let fifth = follower.read().expect("whole");
        assert_eq!((number(&fifth), fifth.is_removed), (CounterValue::Number(20), false));
    }
}
