//! Files of a configuration.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::{ConfigError, ConfigErrors, Place};
use super::setting::Problem;
use crate::limits::CONFIG_BYTES_MAX;

/// Reads a configuration file.
///
/// # Errors
/// It cannot be read, is not UTF-8, or is larger than any configuration.
pub fn read_file(path: &Path) -> Result<String, ConfigErrors> {
    let failed = |message: String| {
        let place = Place::File(path.display().to_string());
        ConfigErrors::from(ConfigError::new(place, Problem::new(message)))
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(CONFIG_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| failed(format!("cannot read the file: {error}")))?;
    if bytes.len() > CONFIG_BYTES_MAX {
        return Err(failed(format!("is larger than {CONFIG_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        failed(format!("is not UTF-8: see byte {}", error.utf8_error().valid_up_to()))
    })
}
