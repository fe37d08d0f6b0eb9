//! Reading the files of a configuration.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::{ConfigError, ConfigErrors, FileText, ProblemSpan, SourceSpan};
use super::setting::ValueProblem;
use crate::limits::CONFIG_BYTES_MAX;

/// Reads a configuration file.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or is larger than `CONFIG_BYTES_MAX`.
pub fn read_file(path: &Path) -> Result<String, ConfigErrors> {
    String::from_utf8(read_bytes(path)?).map_err(|error| {
        let bytes = error.as_bytes();
        let at = error.utf8_error().valid_up_to();
        let byte = bytes.get(at).copied().unwrap_or_default();
        let (name, text) = (path.display().to_string(), String::from_utf8_lossy(bytes));
        let place = FileText::new(&name, &text).place(ProblemSpan::Span(at..at + 1));
        let problem = ValueProblem::new(format!("the byte {byte:#04x} is not UTF-8"));
        ConfigError::new(place, problem.hint("save the file as UTF-8")).into()
    })
}

/// Reads a configuration file or a rule file.
///
/// # Errors
/// The file cannot be read, or is larger than `CONFIG_BYTES_MAX`.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, ConfigErrors> {
    let failed = |message: String| {
        let place = SourceSpan::File(path.display().to_string());
        ConfigErrors::from(ConfigError::new(place, ValueProblem::new(message)))
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(CONFIG_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| failed(format!("cannot read the file: {error}")))?;
    if bytes.len() > CONFIG_BYTES_MAX {
        return Err(failed(format!("the file is larger than {CONFIG_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}
