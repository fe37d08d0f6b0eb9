use crate::{
    error::RequestError::*,
    testing::{RequestVector, check},
};

#[test]
fn a_target_has_one_of_three_forms() {
    check(TARGETS);
}

const TARGETS: &[RequestVector] = &[
    ("GET /a/b?c=d&e=%20 HTTP/1.1\r\nHost: x\r\n\r\n", Ok("GET x/a/b?c=d&e=%20")),
    ("GET //evil/x HTTP/1.1\r\nHost: x\r\n\r\n", Ok("GET x//evil/x")),
    ("GET /?x=50%&y={}|^`\"<>\\ HTTP/1.1\r\nHost: x\r\n\r\n", Ok("GET x/?x=50%&y={}|^`\"<>\\")),
    ("GET /%2e%2F%zz HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET /% HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET /%2 HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET /caf\u{c3}\u{a9} HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET a/b HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET ?a HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n", Err(InvalidTarget)),
    ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", Ok("OPTIONS x*")),
    ("OPTIONS * HTTP/1.0\r\n\r\n", Ok("OPTIONS * 1.0")),
    ("OPTIONS *x HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET * HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n", Err(MethodNotImplemented)),
    ("TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", Err(MethodNotImplemented)),
    ("GET http://x/a HTTP/1.1\r\nHost: x\r\n\r\n", Ok("GET x/a")),
    ("GET HTTP://X:80/a HTTP/1.1\r\nHost: x\r\n\r\n", Ok("GET X:80/a")),
    ("GET https://x:443/ HTTP/1.1\r\nHost: x\r\n\r\n", Ok("GET x:443/")),
    ("GET http://x HTTP/1.1\r\nHost: x\r\n\r\n", Ok("GET x/")),
    ("GET http://x/ HTTP/1.0\r\n\r\n", Ok("GET x/ 1.0")),
    ("OPTIONS http://x HTTP/1.1\r\nHost: x\r\n\r\n", Ok("OPTIONS x*")),
    ("OPTIONS http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", Ok("OPTIONS x/")),
    ("GET http://x?a HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET http:///a HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET http:/a HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET http://u@x/ HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET http://u:p@x/ HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET http://x:0/ HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET ftp://x/a HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET file:///etc HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET http://x/%zz HTTP/1.1\r\nHost: x\r\n\r\n", Err(InvalidTarget)),
    ("GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n", Err(HostConflict)),
    ("GET http://x:81/ HTTP/1.1\r\nHost: x\r\n\r\n", Err(HostConflict)),
    ("GET https://x/ HTTP/1.1\r\nHost: x:80\r\n\r\n", Err(HostConflict)),
    ("GET http://x/ HTTP/1.0\r\nHost: y\r\n\r\n", Err(HostConflict)),
    ("GET http://x/ HTTP/1.1\r\n\r\n", Err(MissingHost)),
    ("GET http://x/ HTTP/1.1\r\nHost:\r\n\r\n", Err(InvalidHost)),
];

#[test]
fn there_is_one_valid_host() {
    check(HOSTS);
}

const HOSTS: &[RequestVector] = &[
    ("GET / HTTP/1.1\r\nHost: Example.com:8080\r\n\r\n", Ok("GET Example.com:8080/")),
    ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", Ok("GET [::1]:80/")),
    ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", Ok("GET 127.0.0.1/")),
    ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", Ok("GET a/ 1.0")),
    ("GET / HTTP/1.1\r\n\r\n", Err(MissingHost)),
    ("GET / HTTP/1.1\r\nX-Host: a\r\n\r\n", Err(MissingHost)),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Err(SeveralHosts)),
    ("GET / HTTP/1.1\r\nHost: a\r\nHOST: b\r\n\r\n", Err(SeveralHosts)),
    ("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", Err(SeveralHosts)),
    ("GET / HTTP/1.1\r\nHost:\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.0\r\nHost:\r\n\r\n", Err(InvalidHost)),
    ("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: a?b\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: a:80x\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: a:\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: \u{c3}\u{a9}\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", Err(InvalidHost)),
    ("GET / HTTP/1.1\r\nHost: 300.1.1.1\r\n\r\n", Err(InvalidHost)),
];
