//! `forebay sign`: signs URLs.

use std::path::Path;

use clap::ArgMatches;
use forebay_server::sign_urls;
use serde_json::json;

use super::is_set;
use crate::stdout::outln;

/// # Errors
/// The text is a message for the user. Nothing has been printed then.
pub(super) fn run(args: &ArgMatches) -> Result<(), String> {
    let text = |name| args.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let (key_file, lifetime) = (Path::new(text("key-file")), text("for"));
    let urls = args.get_many::<String>("url").into_iter().flatten().map(String::as_str);
    let signed = sign_urls(key_file, &urls.collect::<Vec<_>>(), lifetime)?;
    if is_set(args, "json") {
        outln!("{}", json!({ "urls": signed }));
    } else {
        signed.iter().for_each(|url| outln!("{url}"));
    }
    Ok(())
}
