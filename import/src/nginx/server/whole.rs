//! Settings that Forebay has for the whole server only.

use super::super::caching;
use super::super::scope::BlockScope;
use super::super::source::NginxSource;
use super::super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Versions of TLS of the profile `intermediate`.
const CURRENT: &[&str] = &["TLSv1.2", "TLSv1.3"];

/// Writes these settings.
pub(super) fn write(source: &NginxSource<'_>, top: &mut TomlTable) {
    let all = everything(source.http);
    if all.iter().any(|one| one.name == "proxy_cache" && one.arg(0) != "off") {
        top.raw("heuristic_percent", "0");
        // nginx stores no response that sets a cookie.
        top.text("set_cookie", "refuse");
        top.texts("targeted_cache_control", &[caching::LIFETIME_FIELD]);
    }
    trusted(source, &all, top);
}

/// All directives of servers and locations, and those around them.
fn everything(block: &[NginxDirective]) -> Vec<&NginxDirective> {
    let (mut all, mut blocks) = (Vec::new(), vec![block]);
    while let Some(block) = blocks.pop() {
        for directive in block {
            all.push(directive);
            if matches!(directive.name.as_str(), "server" | "location") {
                blocks.push(directive.inner());
            }
        }
    }
    all
}

fn trusted(source: &NginxSource<'_>, all: &[&NginxDirective], top: &mut TomlTable) {
    let networks = &source.real_ip.networks;
    for directive in all.iter().filter(|one| one.name == "set_real_ip_from") {
        if !networks.iter().any(|network| network == directive.arg(0)) {
            source.note(
                directive,
                "left out: with real_ip_header X-Forwarded-For, the addresses that all servers \
                 have become trusted_proxies",
            );
        }
    }
    if !networks.is_empty() {
        top.texts("trusted_proxies", networks);
    }
}

/// Writes the versions of TLS.
pub(super) fn protocols(
    source: &NginxSource<'_>,
    server: &NginxDirective,
    scope: &BlockScope<'_>,
    top: &mut TomlTable,
) {
    let Some(list) = scope.one("ssl_protocols") else { return };
    if list.args == ["TLSv1.3"] {
        top.text("tls_profile", "modern");
    } else if !list.args.iter().all(|version| CURRENT.contains(&version.as_str())) {
        source.note(list, "only TLS 1.2 and 1.3 are supported; older clients cannot connect");
    } else if !list.args.iter().any(|version| version == "TLSv1.3") {
        source.note(server, "TLS 1.3 is always possible");
    }
}
