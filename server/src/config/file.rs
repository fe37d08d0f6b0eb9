//! Reading a configuration and its files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use forebay_rules::filter::Filters;

use super::Config;
use super::certificate_files::FileStamp;
use super::error::{ConfigError, ConfigErrors, FileText, ProblemSpan, SourceSpan};
use super::read::{self, ConfigSource, FlagValue};
use super::setting::ValueProblem;
use crate::limits::CONFIG_BYTES_MAX;

impl Config {
    /// Reads the text of a TOML file.
    ///
    /// # Errors
    /// All errors of the file and of its rule files; of invalid TOML only its syntax errors.
    pub fn from_toml(text: &str, file: &str) -> Result<Config, ConfigErrors> {
        Config::load(ConfigSource::Toml { text, file }, &[])
    }

    /// Reads a source, then flags. A flag overrides the same setting at the top of the file; the
    /// flag `rules` adds to the setting.
    ///
    /// # Errors
    /// All errors of the source, flags and rule files; of invalid TOML only its syntax errors.
    pub fn load(source: ConfigSource<'_>, flags: &[FlagValue<'_>]) -> Result<Config, ConfigErrors> {
        Config::load_with(source, flags, &Filters::default())
    }

    /// Like [`Config::load`], but with filters that header rules may run.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn load_with(
        source: ConfigSource<'_>,
        flags: &[FlagValue<'_>],
        filters: &Filters,
    ) -> Result<Config, ConfigErrors> {
        read::read(source, flags, filters)
    }
}

/// Reads a configuration file.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or is larger than `CONFIG_BYTES_MAX`.
pub fn read_file(path: &Path) -> Result<String, ConfigErrors> {
    read_text(path).map(|(text, _)| text)
}

/// Reads a configuration file. Returns its text, and its state before it was read.
///
/// # Errors
/// See [`read_file`].
pub(super) fn read_text(path: &Path) -> Result<(String, FileStamp), ConfigErrors> {
    let (bytes, stamp) = read_bytes(path)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let bytes = error.as_bytes();
        let at = error.utf8_error().valid_up_to();
        if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
            let place = SourceSpan::File(path.display().to_string());
            let problem = ValueProblem::new("the file is UTF-16");
            return ConfigErrors::from(ConfigError::new(
                place,
                problem.hint("save the file as UTF-8"),
            ));
        }
        let byte = bytes.get(at).copied().unwrap_or_default();
        let (name, text) = (path.display().to_string(), String::from_utf8_lossy(bytes));
        let place = FileText::new(&name, &text).place(ProblemSpan::Span(at..at + 1), &[]);
        let problem = ValueProblem::new(format!("the byte {byte:#04x} is not UTF-8"));
        ConfigErrors::from(ConfigError::new(place, problem.hint("save the file as UTF-8")))
    });
    Ok((text?, stamp))
}

/// Reads a configuration file or a rule file. Returns its content, and its state before it was
/// read.
///
/// # Errors
/// The file cannot be read, or is larger than `CONFIG_BYTES_MAX`.
pub(super) fn read_bytes(path: &Path) -> Result<(Vec<u8>, FileStamp), ConfigErrors> {
    let failed = |message: String, hint: &str| {
        let place = SourceSpan::File(path.display().to_string());
        ConfigErrors::from(ConfigError::new(place, ValueProblem::new(message).hint(hint)))
    };
    let mut bytes = Vec::new();
    let stamp = File::open(path)
        .and_then(|file| {
            let stamp = FileStamp::of(&file.metadata()?);
            file.take(CONFIG_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
            Ok(stamp)
        })
        .map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "correct the path, or create the file",
                io::ErrorKind::IsADirectory => "name a file in this directory",
                _ => "let the user of the server read the file",
            };
            failed(format!("cannot read the file: {error}"), hint)
        })?;
    if bytes.len() > CONFIG_BYTES_MAX {
        let large = format!("the file is larger than {CONFIG_BYTES_MAX} bytes");
        return Err(failed(large, "name a configuration, which is a short text"));
    }
    Ok((bytes, stamp))
}
