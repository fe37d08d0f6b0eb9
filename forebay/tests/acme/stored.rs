//! The files of the directory: certificates, accounts and failed orders; and effects of reloads.

use std::fs::{File, OpenOptions};
use std::time::Duration;

use forebay_testkit::clock::holds_within;
use forebay_testkit::tls::rustls::version::TLS13;
use forebay_testkit::{ServerBuilder, TestAuthority, TlsClient, eventually};
use serde_json::{Value, json};

use crate::PROGRAM;
use crate::authority::{
    NAMES, StalledAuthority, assert_served, closed_port, config, file, origin, private_dir,
    server_check, start, status,
};

#[test]
fn a_reload_that_does_not_concern_an_order_does_not_cut_it_off() {
    let (origin, ca) = (origin(), StalledAuthority::start());
    let port = ca.front.address().port();
    let server = start(&origin, (port, &ca.ca), ("", ""));
    let path = "/.well-known/acme-challenge/token-0_";
    eventually("the challenge is answered", || status(&server, "GET", "a.org", path).0 == 200);
    let failures = std::fs::read_to_string(file(&server, port, "failures")).expect("it is there");
    let text = std::fs::read_to_string(server.path("forebay.toml")).expect("it was written");
    // Another site gets a certificate by ACME, too.
    let other = "tls_cert = 'other.pem'\ntls_key = 'other.key'";
    server.write_config(&text.replace(other, "acme = true"));
    assert!(server.command(&["reload"]).status.success());
    let is_cut_off = || {
        let now = std::fs::read_to_string(file(&server, port, "failures")).expect("it is there");
        now != failures || status(&server, "GET", "a.org", path).0 != 200
    };
    assert!(!holds_within(Duration::from_secs(2), is_cut_off), "the order goes on");
    assert_eq!(server.stat("acme_orders_total"), 1.0);
}

#[test]
fn a_certificate_stays_in_use_until_the_first_order_after_a_reload() {
    let (origin, ca) = (origin(), TestAuthority::new());
    let server = start(&origin, (closed_port(), &ca), ("", ""));
    let text = std::fs::read_to_string(server.path("forebay.toml")).expect("it was written");
    let files = "tls_cert = 'other.pem'\ntls_key = 'other.key'";
    let client = ca.client(&[&TLS13]);
    let is_served = || TlsClient::connect(server.tls_address(), "other.org", &client).is_ok();
    let by_acme = text.replace(files, "acme = true");
    for changed in [
        by_acme.clone(),
        by_acme.replace("name = 'other'", "name = 'renamed'"),
        by_acme.replace("acme_dir = 'acme'", "acme_dir = 'elsewhere'"),
    ] {
        server.write_config(&changed);
        assert!(server.command(&["reload"]).status.success());
        assert!(is_served(), "{changed}");
        assert_eq!(server.stat("acme_certificates_missing"), 1.0, "that of shop");
    }
    // It is not for other names.
    server.write_config(&by_acme.replace("['other.org']", "['other.org', 'more.org']"));
    assert!(server.command(&["reload"]).status.success());
    assert!(!is_served());
}

#[test]
fn a_file_that_cannot_be_read_is_no_reason_for_an_order() {
    let (origin, ca) = (origin(), StalledAuthority::start());
    let port = ca.front.address().port();
    let builder = ServerBuilder::new(PROGRAM);
    let text = config(&builder, &origin, (port, &ca.ca));
    let dir = private_dir(&builder, port);
    std::fs::create_dir(dir.join("shop.pem")).expect("the folder is ours");
    let server = builder.config(&text).start();
    eventually("it is reported", || server.errors().contains("acme_failed"));
    assert!(server.errors().contains("cannot read"), "{}", server.errors());
    assert_served(&server, "no file");
    assert_eq!(server.stat("acme_orders_total"), 0.0);
    assert_eq!(ca.origin.request_count(), 0, "the authority is not asked");
}

#[test]
fn an_account_that_cannot_be_read_is_not_replaced() {
    for content in ["{", r#"{"directory": "no url"}"#] {
        let (origin, ca) = (origin(), StalledAuthority::start());
        let port = ca.front.address().port();
        let builder = ServerBuilder::new(PROGRAM);
        let text = config(&builder, &origin, (port, &ca.ca));
        let account = private_dir(&builder, port).join("account.json");
        std::fs::write(&account, content).expect("the folder is ours");
        let server = builder.config(&text).start();
        eventually("the order fails", || server.errors().contains("acme_urgent"));
        assert!(server.errors().contains("account.json"), "{}", server.errors());
        assert_eq!(std::fs::read_to_string(&account).expect("it is there"), content);
        assert_eq!(ca.origin.request_count(), 0, "no account is created");
    }
}

/// Crash points exist only in builds with debug assertions.
#[test]
#[cfg(debug_assertions)]
fn a_process_killed_while_it_writes_leaves_no_half_of_a_file() {
    let (origin, ca) = (origin(), StalledAuthority::start());
    let port = ca.front.address().port();
    let builder = ServerBuilder::new(PROGRAM);
    let text = config(&builder, &origin, (port, &ca.ca));
    let builder = builder.config(&text);
    let folder = builder.path(&format!("acme/localhost%3A{port}%2Fdir"));
    let written = || {
        let mut names: Vec<_> = std::fs::read_dir(&folder)
            .expect("it was made")
            .map(|entry| entry.expect("it can be read").file_name().into_string().expect("a name"))
            .filter(|name| !name.ends_with("lock"))
            .collect();
        names.sort();
        names
    };
    let killed = builder.clone().variable("FOREBAY_CRASH_AT", "acme.written").run();
    assert_eq!(killed.status.code(), None, "it was not killed");
    assert!(written().iter().all(|name| name.ends_with(".new")), "{:?}", written());
    assert_eq!(written().len(), 1, "{:?}", written());
    let server = builder.start();
    let path = "/.well-known/acme-challenge/token-0_";
    eventually("the order is made", || status(&server, "GET", "a.org", path).0 == 200);
    eventually("no part is left", || written().iter().all(|name| !name.ends_with(".new")));
    assert!(written().contains(&"account.json".to_owned()), "{:?}", written());
}

#[test]
fn an_account_that_the_authority_does_not_know_is_kept_aside() {
    let unknown = |value: &mut Value| {
        *value = json!({ "type": "urn:ietf:params:acme:error:accountDoesNotExist" });
    };
    let ca = StalledAuthority::start_with(("/order", "400 x", Box::new(unknown)));
    let port = ca.front.address().port();
    let server = start(&origin(), (port, &ca.ca), ("", ""));
    let account = file(&server, port, "pem").with_file_name("account.json");
    eventually("the order fails", || server.errors().contains("acme_urgent"));
    eventually("the account is kept", || account.with_extension("json.old").exists());
    assert!(!account.exists());
}

#[test]
fn a_certificate_of_another_process_is_used_and_one_process_orders_at_a_time() {
    let (origin, ca) = (origin(), TestAuthority::new());
    let port = closed_port();
    let builder = ServerBuilder::new(PROGRAM);
    let dir = private_dir(&builder, port);
    let text = config(&builder, &origin, (port, &ca));
    let lock = OpenOptions::new().write(true).create(true).truncate(true).open(dir.join("lock"));
    let lock = lock.expect("the folder is ours");
    File::try_lock(&lock).expect("no other process has it");
    let server = builder.config(&text).start();
    assert_served(&server, "without a certificate");
    assert_eq!(server.stat("acme_certificates_missing"), 1.0);
    let issued = ca.issue(&NAMES);
    let new = dir.join("new");
    std::fs::write(&new, issued.key + &issued.cert).expect("the folder is ours");
    std::fs::rename(&new, file(&server, port, "pem")).expect("the folder is ours");
    let config = ca.client(&[&TLS13]);
    eventually("the certificate is used", || {
        TlsClient::connect(server.tls_address(), "b.org", &config).is_ok()
    });
    let mut client = TlsClient::connect(server.tls_address(), "a.org", &config).expect("it fits");
    assert_eq!(client.get("a.org", "/").expect("an answer").text(), "page");
    eventually("it is counted", || server.stat("acme_certificates_missing") == 0.0);
    assert_eq!(server.stat("acme_orders_total"), 0.0, "another process held the lock");
    assert!(server_check(&server).contains("valid until"), "{}", server_check(&server));
    // A file that cannot be used changes nothing.
    std::fs::write(file(&server, port, "pem"), "x").expect("the folder is ours");
    eventually("it is refused", || server.stat("tls_certificates_refused_total") >= 1.0);
    assert_eq!(client.get("a.org", "/").expect("an answer").text(), "page");
    TlsClient::connect(server.tls_address(), "a.org", &config).expect("the old one is in use");
}

#[test]
fn a_directory_that_others_can_read_is_reported_and_nothing_is_ordered() {
    let (origin, ca) = (origin(), TestAuthority::new());
    let builder = ServerBuilder::new(PROGRAM);
    let text = config(&builder, &origin, (closed_port(), &ca));
    std::fs::create_dir(builder.path("acme")).expect("the folder is ours");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(builder.path("acme"), mode).expect("the folder is ours");
    let server = builder.config(&text).start();
    eventually("it is reported", || server.errors().contains("acme_failed"));
    assert!(server.errors().contains("chmod 0700"), "{}", server.errors());
    assert_served(&server, "no directory");
    assert_eq!(server.stat("acme_orders_total"), 0.0);
}
