//! Certificates whose files change while the server runs.

use std::path::Path;
use std::sync::Arc;

use forebay_testkit::tls::rustls::ClientConfig;
use forebay_testkit::tls::rustls::version::TLS13;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use forebay_testkit::{
    Origin, Script, Server, ServerBuilder, TestAuthority, TlsClient, eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A new client, which has no session to resume.
fn client(authority: &TestAuthority) -> Arc<ClientConfig> {
    authority.client(&[&TLS13])
}

fn is_served(server: &Server, authority: &TestAuthority) -> bool {
    let connected = TlsClient::connect(server.tls_address(), "a.org", &client(authority));
    connected.is_ok_and(|mut client| client.get("a.org", "/").is_ok_and(|one| one.status() == 200))
}

/// Replaces a file atomically, as programs that renew certificates do.
fn rename(folder: &Path, from: &str, to: &str) {
    std::fs::rename(folder.join(from), folder.join(to)).expect("the folder is ours");
}

#[test]
fn changed_files_are_used_under_open_connections_and_unusable_ones_are_not() {
    let origin = Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"x"));
    let (old, new) = (TestAuthority::new(), TestAuthority::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "2");
    let folder = builder.path("");
    old.issue(&["a.org"]).write(&folder, "default");
    let url = origin.address();
    let server = builder
        .config(&format!(
            "listen_tls = ['127.0.0.1:0']\ntls_cert = 'default.pem'\ntls_key = 'default.key'\n\
             tls_watch_ms = '1s'\n\
             [[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{url}'\n"
        ))
        .start();
    let mut open: Vec<_> = (0..50)
        .map(|_| {
            let connected = TlsClient::connect(server.tls_address(), "a.org", &client(&old));
            let mut client = connected.expect("TLS");
            assert_eq!(client.get("a.org", "/").expect("an answer").status(), 200);
            client
        })
        .collect();

    // The key file gets the key of another certificate.
    new.issue(&["a.org"]).write(&folder, "other");
    rename(&folder, "other.key", "default.key");
    eventually("it is refused", || server.stat("tls_certificates_refused_total") == 1.0);
    let errors = server.errors();
    assert!(errors.contains("event=\"certificates_refused\""), "{errors}");
    assert!(errors.contains("default.key: the key does not belong to"), "{errors}");
    assert!(is_served(&server, &old) && !is_served(&server, &new), "the old one stays");

    // The certificate file gets the certificate that belongs to this key.
    rename(&folder, "other.pem", "default.pem");
    eventually("it is used", || server.stat("tls_certificates_replaced_total") == 1.0);
    eventually("every worker has it", || (0..8).all(|_| is_served(&server, &new)));
    assert!(!is_served(&server, &old), "the old one is still used");
    for client in &mut open {
        assert_eq!(client.get("a.org", "/").expect("it is still open").status(), 200);
    }

    std::fs::remove_file(folder.join("default.pem")).expect("the folder is ours");
    eventually("it is missed", || server.stat("tls_certificates_refused_total") == 2.0);
    assert!(is_served(&server, &new), "the certificate stays in use");
    assert_eq!(server.stat("reloads_total"), 0.0);
}

#[test]
fn changed_files_that_cannot_be_read_for_a_while_are_used_afterwards() {
    let (origin, old, new) = (Origin::echo(), TestAuthority::new(), TestAuthority::new());
    let builder = ServerBuilder::new(PROGRAM);
    let folder = builder.path("");
    old.issue(&["a.org"]).write(&folder, "default");
    let server = builder
        .config(&format!(
            "listen_tls = ['127.0.0.1:0']\ntls_cert = 'default.pem'\ntls_key = 'default.key'\n\
             tls_watch_ms = '1s'\n\
             [[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n",
            origin.address()
        ))
        .start();
    assert!(is_served(&server, &old));
    let pid = Pid::from_raw(i32::try_from(server.id()).expect("a process")).expect("not zero");
    let before = getrlimit(Resource::Nofile);
    // The server has more files open already. With zero it could not even poll them.
    let few = Rlimit { current: Some(8), maximum: before.maximum };
    let limits = prlimit(Some(pid), Resource::Nofile, few).expect("the process is ours");
    new.issue(&["a.org"]).write(&folder, "default");
    eventually("it cannot be read", || server.errors().contains("certificates_refused"));
    assert!(server.errors().contains("Too many open files"), "{}", server.errors());
    prlimit(Some(pid), Resource::Nofile, limits).expect("the process is ours");
    eventually("it is read", || server.stat("tls_certificates_replaced_total") == 1.0);
    eventually("it is used", || is_served(&server, &new));
    assert_eq!(server.stat("tls_certificates_refused_total"), 1.0);
}
