//! `forebay try`: Forebay in front of the built-in example site.

use std::process::ExitCode;

use clap::ArgMatches;
use forebay_rules::filter::Filters;
use forebay_server::engine::{Running, restrict_privileges};

use super::is_set;
use super::serve::{ConfigInputs, SiteSource, addresses, finish, flags, start_with};
use super::try_certificate::TryCertificate;
use crate::{example, stdout};

pub(super) fn run(args: &ArgMatches, filters: &Filters) -> Result<ExitCode, String> {
    restrict_privileges();
    let site =
        example::start().map_err(|error| format!("cannot start the example site: {error}"))?;
    let mut flags = flags(args);
    // The files exist until the end of this function.
    let certificate = match is_set(args, "tls") {
        true => Some(TryCertificate::add_to(&mut flags)?),
        false => None,
    };
    let any_port = flags.iter().all(|(name, _)| name != "listen");
    let source = SiteSource::Origins(vec![format!("http://{site}")]);
    let running = start_with(ConfigInputs { source, flags, any_port, filters: filters.clone() })?;
    let more = certificate.as_ref().map(|certificate| tls_explanation(&running, certificate));
    stdout::announce(addresses(&running) + &explanation(&running, &more.unwrap_or_default()));
    finish(running)
}

/// Commands that show TLS. The certificate is valid for `localhost`.
fn tls_explanation(running: &Running, certificate: &TryCertificate) -> String {
    let url = running.urls.iter().find(|url| url.starts_with("https://"));
    let port = url.and_then(|url| url.rsplit(':').next()).unwrap_or_default();
    let (url, file) = (format!("https://localhost:{port}"), certificate.cert.display());
    format!(
        "\
  HTTP/2 over TLS      curl --cacert {file} --http2 -si {url}/
  HTTP/1.1 over TLS    curl --cacert {file} --http1.1 -si {url}/
"
    )
}

/// An address to open, and commands that show a miss, a hit, a collapse and a purge. `more` has
/// further commands.
fn explanation(running: &Running, more: &str) -> String {
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
{more}
Stop with Ctrl-C.
"
    )
}
