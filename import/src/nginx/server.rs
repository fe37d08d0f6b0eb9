//! `server`: sites with their names, ports and certificates.

mod addresses;
mod logs;
mod ports;
mod whole;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use self::logs::WrittenLogs;
use self::ports::{Listen, Ports};
use super::access::refuses;
use super::fields;
use super::known::{is_own_only, may_refuse};
use super::location::{self, Routes};
use super::redirect::{self, Names};
use super::request_limits;
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

const INTRO: &str = "# Translated from a configuration of nginx by `forebay import nginx`.\n\
                     # Check it: forebay check FILE; compare its access rules with \
                     nginx's\n";

/// Files that `tls_cert` may have.
const CERTIFICATES_MAX: usize = 4;

/// A server, and the site that it becomes.
struct NginxServer<'s> {
    directive: &'s NginxDirective,
    scope: BlockScope<'s>,
    ports: Ports,
    names: Vec<String>,
    /// The addresses of the site, if sites have different ones.
    listen: Vec<SocketAddr>,
    /// Whether it has names that are left out.
    has_other_names: bool,
    /// An address at which the site would be served now, but was not in nginx.
    exposed_at: Option<Listen>,
}

impl NginxServer<'_> {
    fn is_tls_only(&self) -> bool {
        self.ports.plain.is_empty() && !self.ports.tls.is_empty()
    }

    /// Whether it refuses requests that another server might answer.
    fn restricts(&self) -> bool {
        self.exposed_at.is_some() || refuses(self.directive.inner())
    }

    /// Whether another server must not answer for every host: this one refuses requests, or has
    /// hosts that would get the other server.
    fn restricts_others(&self) -> bool {
        self.restricts() || self.has_other_names
    }

    /// Whether it answers every request by an error or a redirect.
    fn has_no_content(&self) -> bool {
        let mut answers = self.directive.inner().iter().filter(|one| one.name == "return");
        answers.next().is_some_and(|one| one.arg(0).starts_with(['3', '4', '5']))
    }

    fn is_plain_only(&self) -> bool {
        self.ports.tls.is_empty()
    }

    /// The variables that do not depend on the request.
    fn constants(&self) -> Names<'_> {
        let scheme = match (self.is_plain_only(), self.is_tls_only()) {
            (true, _) => Some("http"),
            (_, true) => Some("https"),
            _ => None,
        };
        Names { scheme, name: self.names.first().map(String::as_str).filter(|name| *name != "*") }
    }
}

/// Writes all servers.
pub(super) fn write_all(source: &NginxSource<'_>, http: &BlockScope<'_>) -> String {
    let mut servers = Vec::new();
    for directive in source.http.iter().filter(|directive| directive.name == "server") {
        let scope = http.inside(directive.inner());
        let ports = Ports::of(source, directive);
        let (names, has_other_names) = names(source, directive);
        let (listen, exposed_at) = (Vec::new(), None);
        servers.push(NginxServer {
            directive,
            scope,
            ports,
            names,
            listen,
            has_other_names,
            exposed_at,
        });
    }
    let mut top = TomlTable::default();
    if !addresses::separate(source, &mut servers, &mut top) {
        merge(source, &mut servers, &mut top);
    }
    let has_tls = servers.iter().any(|server| !server.ports.tls.is_empty());
    if let Some(first) = servers.iter().find(|server| !server.ports.tls.is_empty()) {
        certificates(source, first, &mut top);
        whole::protocols(source, first.directive, &first.scope, &mut top);
    }
    // Without TLS, clients speak gRPC only if they may speak HTTP/2.
    if servers.iter().any(|server| !server.ports.plain.is_empty() && passes_grpc(&server.scope)) {
        top.raw("http2", "true");
    }
    whole::write(source, &mut top);
    let mut logs = WrittenLogs::default();
    logs.write_top(source, http, &mut top);
    let (mut sites, mut used) = (String::new(), BTreeSet::new());
    for server in servers.iter().filter(|server| !server.names.is_empty()) {
        let mut site = TomlTable::default();
        logs.write_site(source, server.directive, &top, &mut site);
        write(source, (server, site), has_tls, &mut used, &mut sites);
    }
    logs.write_format(&mut top);
    let mut out = INTRO.to_owned();
    top.write(&mut out, "");
    out + &sites
}

/// Whether a location passes requests to an origin by gRPC.
fn passes_grpc(scope: &BlockScope<'_>) -> bool {
    let mut scopes = vec![scope.clone()];
    while let Some(scope) = scopes.pop() {
        if scope.is_grpc() {
            return true;
        }
        let inner = scope.own().iter().filter(|one| one.name == "location");
        scopes.extend(inner.map(|one| scope.inside(one.inner())));
    }
    false
}

/// Writes `listen` and `listen_tls`, and gives each server its hosts. All servers get the same
/// addresses.
fn merge(source: &NginxSource<'_>, servers: &mut Vec<NginxServer<'_>>, top: &mut TomlTable) {
    let port = ports::choose(servers.iter().map(|one| &one.ports.plain));
    let tls_port = ports::choose(servers.iter().map(|one| &one.ports.tls));
    servers.retain(|server| {
        let has = |list: &[Listen], port| list.iter().any(|one| Some(one.port) == port);
        let kept = has(&server.ports.plain, port) || has(&server.ports.tls, tls_port);
        if !kept {
            source.note(
                server.directive,
                "left out: its addresses and hosts cannot be carried over beside those of the \
                 other servers; run a second Forebay for this one",
            );
        }
        kept
    });
    let listens: Vec<_> = servers.iter().map(|one| (one.directive, &one.ports)).collect();
    let served = ports::write(source, &listens, port, top);
    for server in servers.iter_mut() {
        server.exposed_at = server.ports.exposed_at(&served);
    }
    let everyone = default_server(source, servers, port);
    claim_names(source, servers, everyone);
}

/// The hosts of a server, and whether some are left out. `_` is the usual name of a server that has
/// none.
fn names(source: &NginxSource<'_>, server: &NginxDirective) -> (Vec<String>, bool) {
    let (mut names, mut has_others) = (Vec::new(), false);
    let all = server.inner().iter().filter(|directive| directive.name == "server_name");
    for (directive, name) in all.flat_map(|one| one.args.iter().map(move |name| (one, name))) {
        let name = name.to_ascii_lowercase();
        let host = name.trim_start_matches("*.").trim_start_matches('.');
        let is_label = |label: &str| {
            let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(valid)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        match name.as_str() {
            "_" | "" => {}
            _ if !host.split('.').all(is_label) || host.len() > 250 => {
                has_others = true;
                source.note(
                    directive,
                    format!(
                        "left out: {name} is not a host, nor a host after \"*.\"; a request for \
                         it gets 421"
                    ),
                );
            }
            _ if name.starts_with('.') => names.extend([host.to_owned(), format!("*.{host}")]),
            _ => names.push(name),
        }
    }
    (names, has_others)
}

/// The server that gets every other host, if it is safe to keep one. nginx drops a final dot of a
/// host; Forebay takes such a name for another host, which must not evade a restriction.
fn default_server(
    source: &NginxSource<'_>,
    servers: &[NginxServer<'_>],
    port: Option<u16>,
) -> Option<usize> {
    let plain =
        |server: &NginxServer<'_>| server.ports.plain.iter().any(|one| Some(one.port) == port);
    let tls = |server: &NginxServer<'_>| !server.ports.tls.is_empty();
    let of = |belongs: &dyn Fn(&NginxServer<'_>) -> bool| {
        let is_candidate =
            |server: &NginxServer<'_>| belongs(server) && server.exposed_at.is_none();
        let all = || servers.iter().enumerate().filter(|(_, server)| is_candidate(server));
        let explicit = all().find(|(_, server)| server.ports.is_default);
        explicit.or_else(|| all().next()).map(|(index, _)| index)
    };
    let (plain, tls) = (of(&plain), of(&tls));
    let (Some(first), other) = (plain.or(tls), tls) else { return None };
    let others_refuse = servers
        .iter()
        .enumerate()
        .any(|(index, server)| index != first && server.restricts_others());
    if !servers[first].names.is_empty() && !fields::pass_host(source, &servers[first].scope) {
        source.note(
            servers[first].directive,
            "nginx serves every unknown host by this server, but sends a host of its own to the \
             origin; Forebay answers them with 421",
        );
        return None;
    }
    let is_redirect = https_redirect(&servers[first]).is_some();
    // A server without content of its own is safe under any name.
    let others_refuse = others_refuse && !servers[first].has_no_content();
    if others_refuse || !(other.is_none_or(|other| other == first) || is_redirect) {
        source.note(
            servers[first].directive,
            "nginx serves every unknown host by this server; Forebay answers them with 421 (add \
             \"*\" to the names of a site that is not restricted)",
        );
        return None;
    }
    Some(first)
}

/// Each host has one site: of the server with TLS, else of the first server.
fn claim_names(source: &NginxSource<'_>, servers: &mut [NginxServer<'_>], everyone: Option<usize>) {
    if let Some(index) = everyone {
        servers[index].names.push("*".to_owned());
    }
    let mut taken = BTreeSet::new();
    for with_tls in [true, false] {
        for server in servers.iter_mut().filter(|one| one.ports.tls.is_empty() != with_tls) {
            let before = server.names.len();
            server.names.retain(|name| taken.insert(name.clone()));
            if server.names.len() < before && https_redirect(server).is_none() {
                source.note(
                    server.directive,
                    "left out for names that another server has: they have one site, and \
                     requests without TLS are redirected if that site has only TLS",
                );
            } else if server.names.is_empty() && before == 0 {
                source.note(server.directive, "left out: it has no name that can be carried over");
            }
        }
    }
}

/// The status and port, if the server only redirects to `https` on the same host.
fn https_redirect(server: &NginxServer<'_>) -> Option<u16> {
    let block = server.directive.inner();
    let is_redirect = |directive: &&NginxDirective| {
        directive.name == "return"
            && matches!(directive.arg(0), "301" | "302" | "307" | "308")
            && matches!(
                directive.arg(1),
                "https://$host$request_uri"
                    | "https://$server_name$request_uri"
                    | "https://$http_host$request_uri"
            )
    };
    let of = |block: &[NginxDirective]| block.iter().find(is_redirect).is_some();
    let root = block.iter().find(|one| one.name == "location" && one.args == ["/"]);
    // `certbot` writes such a condition for each name.
    let mut conditions = block.iter().filter(|one| one.name == "if" && one.arg(0) == "($host");
    let others = block.iter().any(|one| one.name == "location");
    let found = of(block)
        || root.is_some_and(|root| of(root.inner()))
        || (!others && conditions.any(|one| of(one.inner())));
    (server.is_plain_only() && found).then_some(443)
}

fn certificates(source: &NginxSource<'_>, server: &NginxServer<'_>, table: &mut TomlTable) {
    let files = |name: &str| -> Vec<String> {
        server.scope.all(&[name]).iter().map(|one| one.arg(0).to_owned()).collect()
    };
    let (certs, keys) = (files("ssl_certificate"), files("ssl_certificate_key"));
    let is_file = |name: &String| !name.is_empty() && !name.contains('$') && !name.contains(':');
    let usable = !certs.is_empty()
        && certs.len() == keys.len()
        && certs.len() <= CERTIFICATES_MAX
        && certs.iter().chain(&keys).all(is_file);
    if !usable {
        let message = "its certificate is left out: name the files in tls_cert and tls_key";
        return source.note(server.directive, message);
    }
    let absolute = |list: &[String]| list.iter().map(|file| source.path(file)).collect::<Vec<_>>();
    table.texts("tls_cert", &absolute(&certs));
    table.texts("tls_key", &absolute(&keys));
}

fn write(
    source: &NginxSource<'_>,
    (server, log): (&NginxServer<'_>, TomlTable),
    has_tls: bool,
    used: &mut BTreeSet<String>,
    out: &mut String,
) {
    let mut site = TomlTable::default();
    site.comment(format!("{}:{}", server.directive.file, server.directive.line));
    let base = match server.names[0].trim_start_matches("*.") {
        "*" => "default",
        name => name,
    };
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    let mut candidates = std::iter::once(base.to_owned()).chain(numbered);
    let name = candidates.find(|name| used.insert(name.clone())).unwrap_or_default();
    site.text("name", &name);
    site.texts("names", &server.names);
    if !server.listen.is_empty() {
        let texts: Vec<_> = server.listen.iter().map(SocketAddr::to_string).collect();
        site.texts("listen", &texts);
    }
    site.extend(log);
    if !server.ports.tls.is_empty() {
        certificates(source, server, &mut site);
    }
    let mut routes = Routes::default();
    let answer = server.directive.inner().iter().find(|one| one.name == "return");
    let redirect = https_redirect(server).filter(|_| has_tls);
    if let Some(reason) = whole_site(source, server) {
        site.comment(reason);
        site.text("respond", "403");
    } else if let Some(port) = redirect {
        others_left_out(source, server);
        site.raw("https_redirect_port", port.to_string());
        site.text("respond", "404");
    } else if let Some(answer) = answer {
        for rewrite in server.directive.inner().iter().filter(|one| one.name == "rewrite") {
            source.note(rewrite, "left out: all requests of the server get the same answer");
        }
        redirect::write_return(source, answer, &server.scope, None, &server.constants(), &mut site);
    } else {
        routes = location::routes(source, server.directive, &server.scope, &server.constants());
        request_limits::of_server(source, &server.scope, &mut site);
    }
    if site.has("redirect") || site.has("respond") {
        fields::of_response(source, &server.scope, &mut site);
    }
    if server.is_tls_only() && server.listen.is_empty() {
        site.raw("https_redirect_port", "443");
    }
    match &routes.origins {
        Some(origins) => origins.write(&mut site),
        None if !site.has("respond") && !site.has("redirect") => site.text("respond", "404"),
        None => {}
    }
    out.push('\n');
    site.write(out, "[[site]]");
    for table in &routes.tables {
        out.push('\n');
        table.write(out, "[[site.route]]");
    }
}

/// The reason for which all requests of a site are refused, if there is one.
fn whole_site(source: &NginxSource<'_>, server: &NginxServer<'_>) -> Option<&'static str> {
    if let Some(address) = server.exposed_at {
        let address = SocketAddr::new(address.ip, address.port);
        let consequence = match source.drop_access_rules {
            true => "it is served there now (--drop-access-rules)",
            false => "its requests get 403; run a second Forebay for it",
        };
        source.note(
            server.directive,
            format!(
                "it listens only at internal addresses, but would be served at {address}, because \
                 the addresses of all servers cannot be carried over; {consequence}"
            ),
        );
        if !source.drop_access_rules {
            return Some("nginx serves this site only at internal addresses.");
        }
    }
    let around = || source.http.iter().chain(server.directive.inner());
    let has_answer = server.directive.inner().iter().any(|one| one.name == "return");
    // A `return` of the server comes before the access rules that its locations inherit.
    let refuses = around().any(|one| may_refuse(one) && (has_answer || is_of_server(&one.name)));
    (refuses && !source.drop_access_rules).then_some(
        "nginx refuses these requests, or may refuse them by a rule that is not carried over.",
    )
}

/// Directives that apply to a server as a whole, before a location is chosen.
fn is_of_server(name: &str) -> bool {
    is_own_only(name) || name.starts_with("ssl_") || name.starts_with("server_rewrite_by_lua")
}

/// Locations beside a redirect of everything else, such as for the renewal of certificates.
fn others_left_out(source: &NginxSource<'_>, server: &NginxServer<'_>) {
    let locations = server.directive.inner().iter().filter(|one| one.name == "location");
    for location in locations.filter(|one| one.args != ["/"]) {
        source.note(location, "left out: requests without TLS are redirected to https");
    }
}
