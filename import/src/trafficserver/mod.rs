//! Configurations of Apache Traffic Server 9 and 10.

mod cache_control;
mod files;
mod filter;
mod host;
mod ip_allow;
mod lines;
mod mapping;
mod parents;
mod plugins;
mod records;
mod route;
mod server;
mod settings;
mod sites;
mod sni;
mod source;
#[cfg(test)]
mod tests;
mod translate;
mod url;
mod yaml;

use std::path::PathBuf;

use self::files::ConfigFiles;
use self::source::TsSource;
use crate::{Import, ImportError, ImportOptions};

/// Translates a configuration of Traffic Server: a directory such as `/etc/trafficserver`, or
/// single files of it.
///
/// # Errors
/// A file cannot be read, is malformed, or is too large.
pub fn trafficserver(paths: &[PathBuf], options: &ImportOptions) -> Result<Import, ImportError> {
    let mut files = ConfigFiles::find(paths)?;
    let etc = options.prefix.clone().unwrap_or_else(|| files.folder());
    let stem = options.rules_stem.clone().unwrap_or_else(|| "forebay".to_owned());
    let source = TsSource::new(etc, options.drop_access_rules, stem);
    let toml = translate::translate(&source, &mut files)?;
    let (notes, rule_files) = source.finish();
    Ok(Import { toml, rule_files, notes })
}
