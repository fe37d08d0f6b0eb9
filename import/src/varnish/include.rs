//! Files and the files that they include.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::lexer::{VclPlace, tokens};
use super::parser::{Include, Parser};
use super::syntax::Vcl;
use crate::ImportError;

/// Largest number of bytes of all files.
const BYTES_MAX: usize = 8 << 20;
/// Largest number of files.
const FILES_MAX: usize = 200;
/// Deepest nesting of includes.
const DEPTH_MAX: usize = 16;

/// Folders of Varnish's `vcl_path`.
const VCL_PATH: &[&str] = &["/etc/varnish", "/usr/share/varnish/vcl"];

/// Reads VCL files into one tree.
#[derive(Default)]
pub(super) struct VclFiles {
    pub(super) vcl: Vcl,
    prefix: Option<PathBuf>,
    bytes: usize,
    files: usize,
}

impl VclFiles {
    pub(super) fn new(prefix: Option<PathBuf>) -> VclFiles {
        VclFiles { prefix, ..VclFiles::default() }
    }

    pub(super) fn read(&mut self, path: &Path, depth: usize) -> Result<(), ImportError> {
        let shown = path.display().to_string();
        let failed =
            |message: String| ImportError { file: shown.clone(), line: 0, column: 0, message };
        self.files += 1;
        let found = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
        if !found.is_file() {
            return Err(failed("not a file".to_owned()));
        }
        self.bytes = self.bytes.saturating_add(usize::try_from(found.len()).unwrap_or(usize::MAX));
        if self.files > FILES_MAX || self.bytes > BYTES_MAX {
            return Err(failed(format!("the VCL has more than {FILES_MAX} files or 8 MiB")));
        }
        let bytes = fs::read(path).map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes);
        let tokens = tokens(&text, &shown)?;
        let lines = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
        let end = VclPlace { file: Rc::from(shown.as_str()), line: lines.max(1), column: 1 };
        let mut parser = Parser::new(&tokens, end);
        while let Some(include) = parser.declarations(&mut self.vcl)? {
            self.include(&include, path, depth)?;
        }
        Ok(())
    }

    fn include(&mut self, include: &Include, from: &Path, depth: usize) -> Result<(), ImportError> {
        let failed = |message: String| include.place.error(message);
        if depth >= DEPTH_MAX {
            return Err(failed("files include one another too deeply".to_owned()));
        }
        let shown = include.path.display();
        if include.is_pattern {
            return Err(failed(format!("{shown}: patterns are not supported; name each file")));
        }
        let here = from.parent().unwrap_or(Path::new(""));
        let is_local = include.path.starts_with(".");
        let mut folders = vec![];
        if !is_local {
            folders.extend(self.prefix.clone());
        }
        folders.push(here.to_owned());
        if !is_local {
            folders.extend(VCL_PATH.iter().map(PathBuf::from));
        }
        let found = folders.iter().map(|folder| folder.join(&include.path)).find(|it| it.is_file());
        let Some(path) = found else {
            let hint = "give the directory of vcl_path as --prefix";
            return Err(failed(format!("{shown}: no such file; {hint}")));
        };
        self.read(&path, depth + 1)
    }
}
