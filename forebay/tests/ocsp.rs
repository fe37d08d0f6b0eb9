//! OCSP responses from files, which clients get in the handshake.

use std::sync::Arc;

use forebay_testkit::tls::rustls::SupportedProtocolVersion;
use forebay_testkit::tls::rustls::version::{TLS12, TLS13};
use forebay_testkit::tls::{AnyCertificate, rcgen};
use forebay_testkit::{Origin, Server, ServerBuilder, TestAuthority, TlsClient, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// Returns an element of DER.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = [(content.len() >> 8) as u8, content.len() as u8];
    [&[tag, 0x82][..], &length, &content].concat()
}

/// Returns a response about the certificate with this serial number (RFC 6960 §4.2.1), without a
/// valid signature, which only clients check. `next` is the time of the next one.
fn response(serial: u8, status: u8, next: &str) -> Vec<u8> {
    response_of(serial, status, "20260101000000Z", next)
}

/// The same for a response of the time `this`.
fn response_of(serial: u8, status: u8, this: &str, next: &str) -> Vec<u8> {
    let algorithm = element(0x30, &[&element(6, &[&[0x2b, 14, 3, 2, 26]])]);
    let hash = element(4, &[&[7; 20]]);
    let about = element(0x30, &[&algorithm, &hash, &hash, &element(2, &[&[serial]])]);
    let time = |text: &str| element(0x18, &[text.as_bytes()]);
    let next = element(0xa0, &[&time(next)]);
    let single = element(0x30, &[&about, &element(status, &[]), &time(this), &next]);
    let responder = element(0xa2, &[&hash]);
    let responses = element(0x30, &[&single]);
    let data = element(0x30, &[&responder, &time("20260101000000Z"), &responses]);
    let basic = element(0x30, &[&data, &algorithm, &element(3, &[&[0]])]);
    let kind = element(6, &[&[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1]]);
    let bytes = element(0x30, &[&kind, &element(4, &[&basic])]);
    element(0x30, &[&element(10, &[&[0]]), &element(0xa0, &[&bytes])])
}

/// Returns the OCSP response that a new client gets.
fn stapled(server: &Server, version: &'static SupportedProtocolVersion) -> Vec<u8> {
    let any = Arc::new(AnyCertificate::default());
    let connected = TlsClient::connect(server.tls_address(), "a.org", &any.config(version, &[]));
    let status = connected.expect("TLS").get("a.org", "/").expect("an answer").status();
    assert_eq!(status, 200);
    any.ocsp_response().expect("there was a handshake").to_vec()
}

#[test]
fn clients_get_the_response_in_use_until_it_is_out_of_date() {
    let (origin, authority) = (Origin::echo(), TestAuthority::new());
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let folder = builder.path("");
    let issued = authority.issue_with(&["a.org"], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.serial_number = Some(rcgen::SerialNumber::from(vec![9]));
    });
    issued.write(&folder, "site");
    let put = |response: &[u8]| {
        std::fs::write(folder.join("new"), response).expect("the folder is ours");
        std::fs::rename(folder.join("new"), folder.join("site.ocsp")).expect("the same");
    };
    let first = response(9, 0x80, "20990101000000Z");
    put(&first);
    let server = builder
        .config(&format!(
            "listen_tls = ['127.0.0.1:0']\ntls_cert = 'site.pem'\ntls_key = 'site.key'\n\
             tls_ocsp = 'site.ocsp'\ntls_watch_ms = '1s'\n\
             [[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n",
            origin.address()
        ))
        .start();
    assert_eq!(stapled(&server, &TLS13), first);
    assert_eq!(stapled(&server, &TLS12), first);
    for (wrong, reason) in [
        (response(8, 0x80, "20990101000000Z"), "is about another certificate"),
        (b"<html>".to_vec(), "is not an OCSP response"),
        (vec![0x30, 3, 10, 1, 6], "is an error of the authority"),
    ] {
        put(&wrong);
        eventually(reason, || server.errors().contains(reason));
        assert_eq!(stapled(&server, &TLS13), first, "{reason}");
    }
    let second = response(9, 0x80, "20980101000000Z");
    put(&second);
    eventually("it is used", || stapled(&server, &TLS13) == second);
    // Clients that check the response would refuse the handshake.
    put(&response(9, 0x80, "20260102000000Z"));
    eventually("it is left out", || stapled(&server, &TLS13).is_empty());
    assert!(server.errors().contains("the OCSP response is out of date"), "{}", server.errors());
    put(&response_of(9, 0x80, "20970101000000Z", "20990101000000Z"));
    eventually("it is early", || server.errors().contains("the OCSP response is not valid yet"));
    put(&response(9, 0xa1, "20990101000000Z"));
    eventually("it is read", || server.errors().contains("the certificate is revoked"));
}
