//! The files of a configuration and their states when they were read, for `config_watch_ms`.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::certificate_files::FileStamp;
use super::includes::matching_files;
use super::site::Site;

/// A file or a pattern, and its state when it was read.
#[derive(Clone, Debug)]
pub(crate) struct WatchedFile {
    place: WatchedPlace,
    read: FileState,
}

/// Two files are equal if they have the same name: their contents are compared elsewhere.
impl PartialEq for WatchedFile {
    fn eq(&self, other: &WatchedFile) -> bool {
        self.place == other.place
    }
}

impl Eq for WatchedFile {}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WatchedPlace {
    File(PathBuf),
    /// A directory, and the pattern of names of files there.
    Pattern(PathBuf, String),
}

/// The state of a file, or of the names that match a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    /// `None` if the file cannot be found.
    File(Option<FileStamp>),
    /// A hash of the names.
    Names(u64),
}

/// The files of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedFiles(Arc<[WatchedFile]>);

/// Two configurations with the same values are equal, wherever they were read from.
impl PartialEq for WatchedFiles {
    fn eq(&self, _: &WatchedFiles) -> bool {
        true
    }
}

impl WatchedFile {
    /// Returns a file, with its state before it was read.
    pub(super) fn new(path: &Path, stamp: FileStamp) -> WatchedFile {
        let place = WatchedPlace::File(path.to_owned());
        WatchedFile { place, read: FileState::File(Some(stamp)) }
    }

    /// Returns a pattern, with the files that match it.
    pub(super) fn of_pattern(dir: &Path, pattern: &str, paths: &[PathBuf]) -> WatchedFile {
        let place = WatchedPlace::Pattern(dir.to_owned(), pattern.to_owned());
        WatchedFile { place, read: FileState::Names(hash_of(paths)) }
    }
}

impl WatchedPlace {
    fn state(&self) -> FileState {
        match self {
            WatchedPlace::File(path) => FileState::File(FileStamp::now(path)),
            WatchedPlace::Pattern(dir, pattern) => {
                let paths = matching_files(dir, pattern).unwrap_or_default();
                FileState::Names(hash_of(&paths))
            }
        }
    }
}

impl fmt::Display for WatchedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchedPlace::File(path) => path.display().fmt(f),
            WatchedPlace::Pattern(dir, pattern) => dir.join(pattern).display().fmt(f),
        }
    }
}

fn hash_of(paths: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    paths.hash(&mut hasher);
    hasher.finish()
}

impl WatchedFiles {
    /// Collects the files that the reader has read, and those of the settings of routes.
    pub(super) fn collect(read: impl Iterator<Item = WatchedFile>, sites: &[Site]) -> WatchedFiles {
        let routes = sites.iter().flat_map(Site::routes);
        let of_routes = routes.flat_map(|route| {
            let settings = &route.settings;
            let pages = settings.error_pages.files().chain(settings.origin_error_pages.files());
            let users = settings.basic_auth.users().map(|users| users.file());
            let keys = settings.signed_urls.keys().map(|keys| keys.file());
            pages.chain(users).chain(keys).cloned()
        });
        // A file that is read several times has its first state, so that a change in between is
        // noticed.
        let mut files = BTreeMap::new();
        for file in read.chain(of_routes) {
            files.entry(file.place.clone()).or_insert(file);
        }
        WatchedFiles(files.into_values().collect())
    }

    /// Returns the states of the files when they were read.
    pub(crate) fn states_read(&self) -> Vec<FileState> {
        self.0.iter().map(|file| file.read).collect()
    }

    /// Whether both are the same files, in the same states when they were read.
    pub(crate) fn has_read_same(&self, other: &WatchedFiles) -> bool {
        let of_one = |file: &WatchedFile| (file.place.clone(), file.read);
        self.0.iter().map(of_one).eq(other.0.iter().map(of_one))
    }

    /// Returns the present states of the files.
    pub(crate) fn states_now(&self) -> Vec<FileState> {
        self.0.iter().map(|file| file.place.state()).collect()
    }

    /// Returns the names of the files whose states differ from those when they were read.
    pub(crate) fn changed(&self) -> String {
        let changed = self.0.iter().filter(|file| file.read != file.place.state());
        changed.map(|file| file.place.to_string()).collect::<Vec<_>>().join(", ")
    }
}
