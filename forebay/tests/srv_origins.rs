//! Origins from SRV records: shares, priorities, targets that come and go, and failures of DNS.

use std::net::Ipv4Addr;

use forebay_testkit::tls::TlsFront;
use forebay_testkit::{
    Client, DnsMode, DnsRecord, DnsServer, Origin, Request, Script, Server, ServerBuilder,
    StopFlag, TestAuthority, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
const SERVICE: &str = "_http._tcp.shop.test";
const HOST: &str = "origin.test";

/// The most requests of one load; the test ends it earlier.
const LOAD_MAX: u64 = 1_000_000;

fn origin() -> Origin {
    Origin::start(page)
}

fn page(_: &Request) -> Script {
    Script::answer("200 OK", &["Cache-Control: no-store"], b"page")
}

/// A name server at which the targets have these priorities, weights and origins.
fn dns(targets: &[(u16, u16, &Origin)]) -> DnsServer {
    let dns = DnsServer::start();
    set(&dns, targets);
    dns
}

fn set(dns: &DnsServer, targets: &[(u16, u16, &Origin)]) {
    dns.set(HOST, &[DnsRecord::Address(Ipv4Addr::LOCALHOST)]);
    let record = |(priority, weight, origin): &(u16, u16, &Origin)| {
        DnsRecord::Target(*priority, *weight, origin.address().port(), HOST.to_owned())
    };
    dns.set(SERVICE, &targets.iter().map(record).collect::<Vec<_>>());
}

/// A site whose origins are the targets; `settings` are lines of the site.
fn config(dns: &DnsServer, settings: &str) -> String {
    format!(
        "dns_servers = ['{}']\n[[site]]\nname = 'a'\nnames = ['*']\n\
         origin = 'srv+http://{SERVICE}'\n{settings}\n",
        dns.address()
    )
}

fn start(config: &str) -> Server {
    ServerBuilder::new(PROGRAM).flag("--workers", "1").config(config).start()
}

fn status(server: &Server) -> u16 {
    Client::connect(server.address()).ask("GET", "/", &[]).expect("an answer").status
}

fn ask(server: &Server, count: usize) {
    let mut client = Client::connect(server.address());
    for number in 0..count {
        let target = format!("/{number}");
        assert_eq!(client.ask("GET", &target, &[]).expect("whole").status, 200, "{target}");
    }
}

fn counts<const N: usize>(origins: [&Origin; N]) -> [usize; N] {
    origins.map(Origin::request_count)
}

/// Sends requests while `change` runs; each of them must be answered with 200.
fn under_load(server: &Server, change: impl FnOnce()) {
    let stop = StopFlag::default();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let _guard = stop.panic_guard();
            stop.steps(LOAD_MAX).for_each(|_| ask(server, 5));
        });
        {
            let _guard = stop.guard();
            change();
        }
        load.join().expect("no request fails");
    });
}

#[test]
fn targets_get_requests_by_their_weights() {
    let (one, other) = (origin(), origin());
    // Columns: the weights; the number of requests that the first target gets, and its limit.
    for (weights, least, most) in [((3, 1), 28, 32), ((0, 0), 18, 22), ((0, 5), 0, 2)] {
        let dns = dns(&[(0, weights.0, &one), (0, weights.1, &other)]);
        let server = start(&config(&dns, ""));
        let before = counts([&one, &other]);
        ask(&server, 40);
        let got = one.request_count() - before[0];
        assert!((least..=most).contains(&got), "{weights:?}: {got}");
    }
}

#[test]
fn a_target_whose_name_is_not_answered_does_not_delay_the_others() {
    let (origin, silent_server) = (origin(), DnsServer::start());
    silent_server.set_mode(DnsMode::Silent);
    let dns = DnsServer::start();
    dns.silence("silent.test");
    dns.set(HOST, &[DnsRecord::Address(Ipv4Addr::LOCALHOST)]);
    let silent = DnsRecord::Target(0, 0, 1, "silent.test".to_owned());
    let good = DnsRecord::Target(0, 100, origin.address().port(), HOST.to_owned());
    dns.set(SERVICE, &[silent, good]);
    let servers = format!("dns_servers = ['{}', '{}']", dns.address(), silent_server.address());
    let text =
        config(&dns, "").replacen(&format!("dns_servers = ['{}']", dns.address()), &servers, 1);
    let server = start(&text);
    ask(&server, 20);
    assert_eq!(origin.request_count(), 20);
}

#[test]
fn targets_of_a_higher_priority_number_get_requests_only_while_others_fail() {
    let (first, second, third) = (origin(), origin(), origin());
    let dns = dns(&[(30, 9, &third), (20, 9, &second), (10, 1, &first)]);
    let server = start(&config(&dns, ""));
    ask(&server, 10);
    assert_eq!(counts([&first, &second, &third]), [10, 0, 0]);
    first.stop();
    ask(&server, 10);
    assert_eq!(counts([&second, &third]), [10, 0]);
    second.stop();
    ask(&server, 10);
    assert_eq!(third.request_count(), 10);
}

#[test]
fn targets_vanish_and_appear_under_load_without_a_failed_request() {
    let (one, other) = (origin(), origin());
    let dns = dns(&[(0, 1, &one), (0, 1, &other)]);
    let server = start(&config(&dns, ""));
    under_load(&server, || {
        eventually("both are used", || counts([&one, &other]).iter().all(|count| *count > 20));
        set(&dns, &[(0, 1, &other)]);
        eventually("the change is applied", || server.stat("origin_target_changes_total") == 2.0);
        eventually("the target gets no requests", || {
            let (before, others) = (one.request_count(), other.request_count());
            eventually("time passes", || other.request_count() > others + 20);
            one.request_count() == before
        });
        one.stop();
        let third = origin();
        set(&dns, &[(0, 1, &third), (0, 1, &other)]);
        eventually("the new one is used", || third.request_count() > 20);
        // The origin must outlive its requests.
        set(&dns, &[(0, 1, &other)]);
        eventually("it has left", || server.stat("origin_target_changes_total") == 4.0);
        eventually("it gets no requests", || {
            let (before, others) = (third.request_count(), other.request_count());
            eventually("time passes", || other.request_count() > others + 20);
            third.request_count() == before
        });
    });
    let errors = server.errors();
    assert!(errors.contains(&format!("{SERVICE}: {HOST}:{}", other.address().port())), "{errors}");
    assert_eq!(server.stat("origin_ejections_total"), 0.0);
    assert_eq!(server.stat("reloads_total"), 0.0);
}

#[test]
fn the_last_targets_stay_in_use_while_name_servers_fail_or_know_no_targets() {
    let one = origin();
    type Failure = fn(&DnsServer);
    let failures: [(&str, Failure); 4] = [
        ("silent", |dns| dns.set_mode(DnsMode::Silent)),
        ("failing", |dns| dns.set_mode(DnsMode::Fails)),
        ("no such name", |dns| dns.remove(SERVICE)),
        ("no such record", |dns| dns.set(SERVICE, &[])),
    ];
    for (what, fail) in failures {
        let dns = dns(&[(0, 1, &one)]);
        let server = start(&config(&dns, ""));
        under_load(&server, || {
            fail(&dns);
            eventually(what, || server.stat("origin_resolution_errors_total") >= 2.0);
            eventually(what, || server.errors().contains("the last known targets stay in use"));
        });
        let reports = server.errors().matches("the last known targets stay in use").count();
        assert!((1..=3).contains(&reports), "{what}: {reports} reports of one reason");
        assert_eq!(server.stat("origin_target_changes_total"), 1.0, "{what}");
    }
}

#[test]
fn a_spare_target_is_used_for_the_first_time_while_all_name_servers_fail() {
    let (one, spare) = (origin(), origin());
    let dns = dns(&[(0, 1, &one)]);
    dns.set("spare.test", &[DnsRecord::Address(Ipv4Addr::LOCALHOST)]);
    let target = |priority, origin: &Origin, host: &str| {
        DnsRecord::Target(priority, 1, origin.address().port(), host.to_owned())
    };
    dns.set(SERVICE, &[target(0, &one, HOST), target(1, &spare, "spare.test")]);
    let server = start(&config(&dns, ""));
    ask(&server, 5);
    assert_eq!(spare.request_count(), 0);
    drop(dns);
    under_load(&server, || {
        one.stop();
        eventually("the spare target is used", || spare.request_count() > 10);
    });
}

#[test]
fn a_name_server_that_dies_costs_no_request() {
    let one = origin();
    let dns = dns(&[(0, 1, &one)]);
    let server = start(&config(&dns, ""));
    under_load(&server, || {
        drop(dns);
        eventually("failures", || server.stat("origin_resolution_errors_total") >= 3.0);
    });
}

#[test]
fn forged_and_truncated_answers_do_not_harm() {
    let one = origin();
    for mode in [DnsMode::Forges, DnsMode::Truncates] {
        let dns = dns(&[(0, 1, &one)]);
        dns.set_mode(mode);
        let server = start(&config(&dns, ""));
        ask(&server, 10);
        assert_eq!(server.stat("origin_resolution_errors_total"), 0.0, "{mode:?}");
        assert!(!server.errors().contains("forged"), "{}", server.errors());
    }
    assert_eq!(one.request_count(), 20);
}

#[test]
fn a_target_that_is_a_dot_makes_the_service_unavailable() {
    let (one, spare) = (origin(), origin());
    let dns = dns(&[(0, 1, &one)]);
    let alone = start(&config(&dns, ""));
    let backup = format!("[[site.origin]]\nurl = 'http://{}'\nbackup = true", spare.address());
    let text = config(&dns, "");
    let with_backup = text.replace(
        &format!("origin = 'srv+http://{SERVICE}'\n"),
        &format!("[[site.origin]]\nurl = 'srv+http://{SERVICE}'\n{backup}"),
    );
    let with_backup = start(&with_backup);
    ask(&with_backup, 5);
    assert_eq!((status(&alone), spare.request_count()), (200, 0));
    dns.set(SERVICE, &[DnsRecord::Target(0, 0, 0, String::new())]);
    eventually("the service is unavailable", || status(&alone) == 502);
    eventually("the reason is logged", || {
        let errors = alone.errors();
        errors.contains("no targets of _http._tcp.shop.test are known")
            && errors.contains("the service is not available")
    });
    under_load(&with_backup, || eventually("the backup", || spare.request_count() > 10));
    assert_eq!(with_backup.stat("origin_failovers_total"), 0.0);
    set(&dns, &[(0, 1, &one)]);
    eventually("the service is back", || status(&alone) == 200);
}

#[test]
fn targets_beyond_the_limit_are_left_out_and_reported() {
    let one = origin();
    let dns = dns(&[(1, 1, &one)]);
    let port = one.address().port();
    let target = |number: u16| {
        let name = format!("host-{number}.test");
        dns.set(&name, &[DnsRecord::Address(Ipv4Addr::LOCALHOST)]);
        // Only the last one has the smallest priority.
        DnsRecord::Target(if number == 99 { 1 } else { 2 }, 1, port, name)
    };
    dns.set(SERVICE, &(0..100).map(target).collect::<Vec<_>>());
    // Columns: the setting; the number of targets that are used.
    for (setting, used) in [("", 16), ("targets_max = 2", 2)] {
        let table = format!("[[site.origin]]\nurl = 'srv+http://{SERVICE}'\n{setting}");
        let text = config(&dns, "").replace(&format!("origin = 'srv+http://{SERVICE}'"), &table);
        let server = start(&text);
        ask(&server, 10);
        let left_out = server.stat("origin_targets_left_out_total");
        assert_eq!(left_out, f64::from(100 - used), "{setting}");
        eventually("it is logged", || {
            server.errors().contains(&format!("of 100 targets, {used} get requests"))
        });
        let metrics = server.metrics();
        let shown =
            metrics.lines().filter(|line| line.starts_with("forebay_site_origin_requests_total{"));
        assert_eq!(shown.count(), used as usize, "{setting}");
        let best = metrics.lines().find(|line| {
            line.starts_with("forebay_site_origin_requests_total{") && line.contains("host-99.test")
        });
        assert!(best.is_some_and(|line| line.ends_with(" 10")), "{setting}: {best:?}");
    }
}

#[test]
fn a_server_starts_without_name_servers_and_finds_its_targets_later() {
    let one = origin();
    let dns = dns(&[(0, 1, &one)]);
    dns.set_mode(DnsMode::Silent);
    let server = start(&config(&dns, ""));
    assert_eq!(status(&server), 502);
    dns.set_mode(DnsMode::Answers);
    eventually("the targets are in use", || status(&server) == 200);
    assert!(server.errors().contains("no targets are known"), "{}", server.errors());
}

#[test]
fn a_reload_to_a_service_and_back_costs_no_request() {
    let (one, plain) = (origin(), origin());
    let dns = dns(&[(0, 1, &one)]);
    let before = format!(
        "dns_servers = ['{}']\n[[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n",
        dns.address(),
        plain.address()
    );
    let server = start(&before);
    under_load(&server, || {
        for turn in 1..=3 {
            server.write_config(&config(&dns, ""));
            assert!(server.command(&["reload"]).status.success());
            let count = one.request_count();
            eventually("the target is used", || one.request_count() > count + 10);
            // The targets are those of the configuration, so a reload would change nothing.
            let diff = server.command(&["diff"]);
            let text = String::from_utf8_lossy(&diff.stdout).into_owned();
            assert!(!text.contains("origin"), "{turn}: {text}");
            server.write_config(&before);
            assert!(server.command(&["reload"]).status.success());
        }
    });
}

#[test]
fn the_certificate_of_a_target_must_have_the_name_of_the_domain() {
    let (one, authority) = (origin(), TestAuthority::new());
    // Columns: the name in the certificate; the status.
    for (name, expected) in [("shop.test", 200), (HOST, 502)] {
        let front = TlsFront::start(&authority.issue(&[name]), one.address());
        let dns = DnsServer::start();
        dns.set_targets(SERVICE, &[front.address().port()]);
        let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
        let ca = builder.path("ca.pem");
        std::fs::write(&ca, authority.pem()).expect("the folder is ours");
        let server = builder
            .flag("--origin", &format!("srv+https://{SERVICE}"))
            .flag("--origin-ca", &ca.display().to_string())
            .flag("--dns-servers", &dns.address().to_string())
            .start();
        assert_eq!(status(&server), expected, "{name}");
    }
}

#[test]
fn a_request_without_a_host_has_the_domain_of_the_service() {
    let one = origin();
    let dns = dns(&[(0, 1, &one)]);
    let server = start(&config(&dns, ""));
    let mut client = Client::connect(server.address());
    assert!(client.send("GET /old HTTP/1.0\r\n\r\n"));
    assert_eq!(client.response("GET").expect("an answer").status, 200);
    let requests = one.requests();
    assert_eq!(requests.last().and_then(|request| request.head.field("Host")), Some("shop.test"));
}

#[test]
fn counts_of_rules_go_on_when_targets_change() {
    let (one, other) = (origin(), origin());
    let dns = dns(&[(0, 1, &one)]);
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    std::fs::write(builder.path("a.rules"), "cond %{REMAP_PSEUDO_HOOK}\ncounter seen\n")
        .expect("the folder is ours");
    let server = builder.config(&config(&dns, "rules = ['a.rules']")).start();
    ask(&server, 7);
    set(&dns, &[(0, 1, &other)]);
    eventually("the change is applied", || {
        ask(&server, 1);
        other.request_count() > 0
    });
    let seen = 7 + (one.request_count() - 7) + other.request_count();
    let metrics = server.metrics();
    let line = metrics.lines().find(|line| line.contains("seen") && !line.starts_with('#'));
    assert!(line.is_some_and(|line| line.ends_with(&format!(" {seen}"))), "{seen}: {line:?}");
}

#[test]
fn explain_and_check_show_the_targets() {
    let one = origin();
    let dns = dns(&[(0, 1, &one)]);
    let server = start(&config(&dns, ""));
    let url = format!("http://{}/", server.address());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let explained = text(&server.command(&["explain", &url]).stdout);
    let target = format!("{HOST}:{}", one.address().port());
    assert!(explained.contains(&format!("{target} (targets of {SERVICE})")), "{explained}");

    // Columns: the records; the exit status; a text of the output.
    let port = one.address().port();
    let record = |port: u16, host: &str| DnsRecord::Target(0, 1, port, host.to_owned());
    let cases = [
        (vec![record(port, HOST)], 0, format!("target {target}: 127.0.0.1:{port} accepts")),
        (vec![record(port, "none.test")], 1, "does not resolve".to_owned()),
        (vec![record(port, HOST), record(0, HOST)], 1, "1 SRV records have no".to_owned()),
        (vec![record(0, "")], 1, "the service is not available".to_owned()),
        (vec![], 1, "the name has no SRV record".to_owned()),
    ];
    for (records, expected, part) in cases {
        dns.set(SERVICE, &records);
        let builder = ServerBuilder::bare(PROGRAM, "check");
        let file = builder.path("forebay.toml").display().to_string();
        std::fs::write(&file, config(&dns, "")).expect("the folder is ours");
        let output = builder.switch("--resolve").switch(&file).run();
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(told.contains(&part), "{part}: {told}");
        assert_eq!(output.status.code(), Some(expected), "{told}");
    }
}
