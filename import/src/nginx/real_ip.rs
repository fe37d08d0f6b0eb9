//! `set_real_ip_from`: whether Forebay finds the same address of a client as nginx.

use super::access::ParseAddress;
use super::known::refusal as usual_refusal;
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;

/// The proxies that nginx trusts in a block.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct RealIp {
    pub(super) networks: Vec<String>,
    field: String,
    is_recursive: bool,
}

impl RealIp {
    pub(super) fn of(scope: &BlockScope<'_>) -> RealIp {
        let networks = scope.all(&["set_real_ip_from"]);
        let mut networks: Vec<_> = networks.iter().map(|one| one.arg(0).to_owned()).collect();
        networks.sort();
        networks.dedup();
        if networks.is_empty() {
            return RealIp::default();
        }
        let field = scope.one("real_ip_header").map_or("X-Real-IP", |one| one.arg(0));
        RealIp {
            networks,
            field: field.to_ascii_lowercase(),
            is_recursive: scope.is_on("real_ip_recursive"),
        }
    }

    /// The trusted proxies of all servers if they are the same, or else those of `http`.
    pub(super) fn of_all(http: &[NginxDirective]) -> RealIp {
        let outer = BlockScope::new(http);
        let servers = http.iter().filter(|directive| directive.name == "server");
        let mut each = servers.map(|server| RealIp::of(&outer.inside(server.inner())));
        let found = match each.next() {
            Some(first) if each.all(|other| other == first) => first,
            _ => RealIp::of(&outer),
        };
        if found.can_be_trusted() { found } else { RealIp::default() }
    }

    /// Whether `trusted_proxies` can have these networks.
    pub(super) fn can_be_trusted(&self) -> bool {
        self.field == "x-forwarded-for"
            && self.networks.iter().all(|one| one.parse_address().is_some())
    }

    /// Whether all clients get the same address as in nginx. Forebay passes over all trusted
    /// addresses of the field, so a client inside a trusted network could state another address,
    /// as with `real_ip_recursive`.
    fn is_exact(&self) -> bool {
        let is_host = |one: &String| {
            !one.contains('/')
                || one.ends_with("/128")
                || (one.ends_with("/32") && !one.contains(':'))
        };
        self.networks.is_empty()
            || (self.can_be_trusted() && (self.is_recursive || self.networks.iter().all(is_host)))
    }
}

/// Whether Forebay looks for a client's address where nginx does in a block.
pub(super) fn is_known(source: &NginxSource<'_>, scope: &BlockScope<'_>) -> bool {
    let mut listens = scope.everything().filter(|one| one.name == "listen");
    let is_behind_proxy = listens.any(|one| one.args.iter().any(|arg| arg == "proxy_protocol"));
    RealIp::of(scope) == source.real_ip && !is_behind_proxy
}

/// Whether every client of a block has the same address in Forebay as in nginx.
pub(super) fn is_exact(source: &NginxSource<'_>, scope: &BlockScope<'_>) -> bool {
    is_known(source, scope) && source.real_ip.is_exact()
}

/// The consequence for a list of addresses.
pub(super) fn refusal(source: &NginxSource<'_>) -> &'static str {
    match source.drop_access_rules {
        true => usual_refusal(source),
        false => {
            "the addresses of clients behind a proxy would differ from nginx's, so the requests \
             that it applies to get 403; trusted_proxies has the addresses of all servers, and \
             needs real_ip_header X-Forwarded-For, and real_ip_recursive for networks \
             (docs/proxies.md)"
        }
    }
}
