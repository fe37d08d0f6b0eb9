use super::block;
use crate::authority::Authority;
use crate::policy::invalidate::{TargetUri, invalidated_targets, invalidates, resolve};
use crate::target::Scheme;

const TARGET: TargetUri<'static> = TargetUri {
    scheme: Scheme::Http,
    authority: Authority { host: b"a.example", port: None },
    path_query: b"/b/c/d?q",
};

// RFC: 9111-4.4-1, 9110-15-1
#[test]
fn only_a_successful_unsafe_request_invalidates() {
    let cases = [
        (false, 200, true),
        (false, 201, true),
        (false, 204, true),
        (false, 303, true),
        (false, 399, true),
        (false, 400, false),
        (false, 404, false),
        (false, 500, false),
        (false, 100, false),
        (true, 200, false),
        (true, 302, false),
    ];
    for (is_safe, status, expected) in cases {
        assert_eq!(invalidates(is_safe, status), expected, "{is_safe} {status}");
    }
}

// RFC: 9111-4.4-2
#[test]
fn references_resolve_to_paths_of_the_same_origin() {
    // Relative references from RFC 3986 §5.4, with the path /b/c/d?q as base.
    let cases: &[(&str, Option<&str>)] = &[
        ("/x", Some("/x")),
        ("/x?y", Some("/x?y")),
        ("/x?y#z", Some("/x?y")),
        ("http://a.example/x", Some("/x")),
        ("HTTP://A.EXAMPLE/x", Some("/x")),
        ("http://a.example", Some("/")),
        ("http://a.example?y", Some("/?y")),
        ("http://a.example#z", Some("/")),
        ("http://a.example:80/x", Some("/x")),
        ("http://a.example:/x", None),
        ("//a.example/x", Some("/x")),
        ("http://a.example/x/../y", Some("/y")),
        ("g", Some("/b/c/g")),
        ("./g", Some("/b/c/g")),
        ("g/", Some("/b/c/g/")),
        ("?y", Some("/b/c/d?y")),
        ("g?y", Some("/b/c/g?y")),
        ("#s", Some("/b/c/d?q")),
        ("g#s", Some("/b/c/g")),
        ("", Some("/b/c/d?q")),
        (".", Some("/b/c/")),
        ("./", Some("/b/c/")),
        ("..", Some("/b/")),
        ("../", Some("/b/")),
        ("../g", Some("/b/g")),
        ("../..", Some("/")),
        ("../../g", Some("/g")),
        ("../../../g", Some("/g")),
        ("/./g", Some("/g")),
        ("/../g", Some("/g")),
        ("g.", Some("/b/c/g.")),
        ("..g", Some("/b/c/..g")),
        ("./g/.", Some("/b/c/g/")),
        ("g/../h", Some("/b/c/h")),
        ("/a//b", Some("/a//b")),
        ("g?y/../x", Some("/b/c/g?y/../x")),
        ("g?http://other/", Some("/b/c/g?http://other/")),
        ("http://other.example/x", None),
        ("//other.example/x", None),
        ("http://a.example.evil/x", None),
        ("http://a.example:8080/x", None),
        ("https://a.example/x", None),
        ("http://user@a.example/x", None),
        ("http:///x", None),
        ("http:x", None),
        ("mailto:x@y", None),
        ("/x y", None),
        ("/x\u{e9}", None),
    ];
    for (reference, expected) in cases {
        let resolved = resolve(TARGET, reference.as_bytes());
        assert_eq!(resolved, expected.map(Vec::from), "{reference:?}");
    }
}

// RFC: 9111-4.4-2
#[test]
fn ports_belong_to_the_origin() {
    let with_port =
        TargetUri { authority: Authority { host: b"a.example", port: Some(8080) }, ..TARGET };
    assert_eq!(resolve(with_port, b"http://a.example:8080/x"), Some(b"/x".to_vec()));
    assert_eq!(resolve(with_port, b"http://a.example/x"), None);
    let secure = TargetUri { scheme: Scheme::Https, ..TARGET };
    assert_eq!(resolve(secure, b"https://a.example:443/x"), Some(b"/x".to_vec()));
    assert_eq!(resolve(secure, b"http://a.example/x"), None);
}

#[test]
fn location_and_content_location_are_both_invalidated() {
    let cases: &[(&str, &[&str])] = &[
        ("X: y", &[]),
        ("Location: /x", &["/x"]),
        ("Content-Location: /y\nLocation: /x", &["/x", "/y"]),
        ("Location: http://other/\nContent-Location: /y", &["/y"]),
        ("Location: /x\nLocation: /z", &[]),
    ];
    for (text, expected) in cases {
        let found: Vec<_> = invalidated_targets(TARGET, block(text).fields()).collect();
        let expected: Vec<_> = expected.iter().map(|path| path.as_bytes().to_vec()).collect();
        assert_eq!(found, expected, "{text}");
    }
}
