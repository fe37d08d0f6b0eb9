//! The files of a configuration, found in a directory or named one by one.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::lines::{ConfigLine, config_lines};
use super::source::SourceLine;
use super::yaml::{YamlNode, yaml};
use crate::ImportError;

/// Largest number of bytes of all files.
const BYTES_MAX: u64 = 8 << 20;
/// Largest number of files.
const FILES_MAX: usize = 1000;

/// The files that are read, by their usual names.
const NAMES: &[&str] = &[
    "remap.config",
    "records.config",
    "records.yaml",
    "cache.config",
    "parent.config",
    "strategies.yaml",
    "ip_allow.config",
    "ip_allow.yaml",
    "ssl_multicert.config",
    "ssl_multicert.yaml",
    "storage.config",
    "storage.yaml",
    "plugin.config",
    "sni.yaml",
    "hosting.config",
    "volume.config",
    "splitdns.config",
    "logging.yaml",
];

/// Finds and reads files.
#[derive(Default)]
pub(super) struct ConfigFiles {
    found: Vec<(&'static str, PathBuf)>,
    bytes: u64,
    count: usize,
}

impl ConfigFiles {
    /// Finds the files of directories, and takes files by their names.
    ///
    /// # Errors
    /// A path does not exist, or a file has a name that is not known.
    pub(super) fn find(paths: &[PathBuf]) -> Result<ConfigFiles, ImportError> {
        let mut files = ConfigFiles::default();
        for path in paths {
            if path.is_dir() {
                let all = NAMES.iter().map(|name| (*name, path.join(name)));
                files.found.extend(all.filter(|(_, path)| path.is_file()));
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(known) = NAMES.iter().find(|known| **known == name) else {
                return Err(failed(
                    path,
                    match path.exists() {
                        true => {
                            "not a file of Traffic Server; files are known by their names, such \
                             as remap.config"
                        }
                        false => "no such file or directory",
                    },
                ));
            };
            files.found.push((known, path.clone()));
        }
        match (files.found.is_empty(), paths.first()) {
            (true, Some(first)) => Err(failed(first, "no file of Traffic Server is in it")),
            _ => Ok(files),
        }
    }

    /// The directory of relative paths: that of the first file.
    pub(super) fn folder(&self) -> PathBuf {
        let first = self.found.first().and_then(|(_, path)| path.parent());
        first.map(Path::to_owned).unwrap_or_default()
    }

    /// The lines of a file; none if it is not there.
    pub(super) fn lines(&mut self, name: &str) -> Result<Vec<ConfigLine>, ImportError> {
        let mut lines = Vec::new();
        for path in self.paths(name) {
            let (text, file) = self.read(&path)?;
            lines.extend(config_lines(&text, &file)?);
        }
        Ok(lines)
    }

    /// The value of a file, if it is there and not empty.
    pub(super) fn yaml(&mut self, name: &str) -> Result<Option<YamlNode>, ImportError> {
        match self.paths(name).pop() {
            None => Ok(None),
            Some(path) => {
                let (text, file) = self.read(&path)?;
                yaml(&text, &file)
            }
        }
    }

    /// The first line of a file that is there.
    pub(super) fn first_line(&self, name: &str) -> Option<SourceLine> {
        let path = self.paths(name).pop()?;
        Some(SourceLine { file: Rc::from(path.display().to_string()), line: 1 })
    }

    /// The lines of a file, or of each file of a directory, that a line names.
    ///
    /// # Errors
    /// The path cannot be read.
    pub(super) fn included(
        &mut self,
        path: &Path,
        at: &SourceLine,
    ) -> Result<Vec<Vec<ConfigLine>>, ImportError> {
        let mut paths = vec![path.to_owned()];
        if path.is_dir() {
            let entries = fs::read_dir(path).map_err(|error| at.error(1, error.to_string()))?;
            paths = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
        }
        let mut all = Vec::new();
        for path in paths {
            let (text, file) = self.read(&path)?;
            all.push(config_lines(&text, &file)?);
        }
        Ok(all)
    }

    /// The text of a file that a line names; `None` if it cannot be read.
    pub(super) fn text(&mut self, path: &str) -> Option<String> {
        self.read(Path::new(path)).ok().map(|(text, _)| text)
    }

    fn paths(&self, name: &str) -> Vec<PathBuf> {
        let all = self.found.iter().filter(|(known, _)| *known == name);
        all.map(|(_, path)| path.clone()).collect()
    }

    fn read(&mut self, path: &Path) -> Result<(String, Rc<str>), ImportError> {
        self.count += 1;
        let length = fs::metadata(path).map_err(|error| failed(path, error.to_string()))?;
        if !length.is_file() {
            return Err(failed(path, "not a file"));
        }
        self.bytes = self.bytes.saturating_add(length.len());
        if self.count > FILES_MAX || self.bytes > BYTES_MAX {
            let message = format!("the configuration has more than {FILES_MAX} files or 8 MiB");
            return Err(failed(path, message));
        }
        let bytes = fs::read(path).map_err(|error| failed(path, error.to_string()))?;
        let file = Rc::from(path.display().to_string());
        Ok((String::from_utf8_lossy(&bytes).into_owned(), file))
    }
}

fn failed(path: &Path, message: impl Into<String>) -> ImportError {
    let file = path.display().to_string();
    ImportError { file, line: 0, column: 0, message: message.into() }
}
