//! Answers of routes whose responses are files: an exchange with a directory instead of an origin.
//!
//! The answer has the form of an origin's answer, and everything after the exchange treats it as
//! one: it is stored, validated, fetched in parts and shared by the rules for origins. The exchange
//! takes a permit of the directory, as other exchanges take one of their origin, so the client
//! networks share its descriptors fairly.

mod answer;
mod body;
mod exchange;
mod open;
mod path;
mod readers;

pub(crate) use body::FileBody;
pub(crate) use path::FilePath;
pub(crate) use readers::FileReaders;

use path::PathRefusal;

use crate::key::RouteMatch;

/// Returns the path of the file for a request to this route, or the reason why there is none.
pub(crate) fn file_path(route: RouteMatch<'_>, path_query: &[u8]) -> Result<FilePath, PathRefusal> {
    let route = route.route;
    let prefix = route.paths.decoded_prefix().filter(|_| route.settings.files_strip_prefix);
    FilePath::of(path_query, prefix)
}
