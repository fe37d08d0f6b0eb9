//! `forebay sign`, which signs URLs.

use clap::{Arg, Command};

use super::json;

/// Returns the command `forebay sign`.
pub(super) fn sign() -> Command {
    Command::new("sign")
        .about("Sign URLs for a route with signed_urls, so that it serves them for a limited time")
        .arg(Arg::new("url").value_name("URL").num_args(1..).required(true).help("URLs to sign"))
        .arg(
            Arg::new("key-file")
                .long("key-file")
                .value_name("FILE")
                .required(true)
                .help("File of `signed_urls`; its first key signs"),
        )
        .arg(
            Arg::new("for")
                .long("for")
                .value_name("TIME")
                .required(true)
                .help("Time until the URLs expire, such as 30m, 1h or 7d"),
        )
        .arg(json())
        .after_help(
            "A program signs in the same way: the signature is HMAC-SHA-256, as hexadecimal \
             digits, of the path and the query up to and including expires=SECONDS, the time since \
             1970. The key is the text of the line.\n\n\
             Examples:\n  \
             forebay sign --key-file url-keys --for 1h https://example.org/film.mp4\n  \
             forebay sign --key-file url-keys --for 7d --json https://example.org/a \
             https://example.org/b",
        )
}
