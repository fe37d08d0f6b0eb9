//! `forebay try`: Forebay in front of the built-in example site.

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::filter::Filters;
use forebay_server::engine::{Running, restrict_privileges};

use super::serve::{ConfigInputs, SiteSource, addresses, finish, flags, start_with};
use crate::{example, stdout};

pub(super) fn run(args: &ArgMatches, filters: &Filters) -> Result<ExitCode, String> {
    restrict_privileges();
    let site =
        example::start().map_err(|error| format!("cannot start the example site: {error}"))?;
    let flags = flags(args);
    let any_port = flags.iter().all(|(name, _)| name != "listen");
    let source = SiteSource::Origins(vec![format!("http://{site}")]);
    let running = start_with(ConfigInputs { source, flags, any_port, filters: filters.clone() })?;
    stdout::announce(addresses(&running) + &explanation(&running));
    finish(running)
}

/// An address to open, and commands that show a miss, a hit, a collapse and a purge.
fn explanation(running: &Running) -> String {
    let url = format!("http://{}", running.address);
    let me = std::env::args().next().unwrap_or_else(|| "forebay".to_owned());
    let admin = &running.admin;
    format!(
        "
Open {url}/ in a browser, or try this in another terminal:

  a miss, then a hit   curl -si {url}/ | grep -i -e cache-status -e age
                       (twice: first fwd=uri-miss; stored, then hit)
  never stored         curl -si {url}/time | grep -i cache-status
  a collapse           for i in 1 2 3 4; do curl -s {url}/slow & done; wait
                       (four clients, one request to the origin, every line as it arrives)
  a range              curl -s -r 0-99 {url}/
  a purge              {me} purge --admin {admin} {url}/
  256 MiB              curl -o /dev/null {url}/large
  what happened        {me} stats --admin {admin}

Stop with Ctrl-C.
"
    )
}
