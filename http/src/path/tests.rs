use super::*;

const BYTES_MAX: usize = 32 << 10;

/// Returns the readings of a path in the order in which they are found; `None` if there are too
/// many.
fn readings(path: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let is_whole = every_reading(path, &mut Vec::new(), BYTES_MAX, |reading| {
        found.push(reading.path.to_vec());
        true
    });
    is_whole.then_some(found)
}

/// Whether no reading of the path is below `/private`.
fn is_outside(path: &str) -> bool {
    every_reading(path.as_bytes(), &mut Vec::new(), BYTES_MAX, |reading| {
        let rest = reading.path.strip_prefix(b"/private");
        !rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    })
}

/// Paths that some origin takes for a path below `/private`.
const HOSTILE: &[&str] = &[
    "/private",
    "/private/",
    "/private/x",
    "//private/x",
    "///private",
    "/./private",
    "/./././private/",
    "/x/../private",
    "/x/y/../../private/z",
    "/../private",
    "/../../../private",
    "/x//../private",
    "/x//../../private",
    "/x/.//../private",
    "/x/./../private",
    "/.//private",
    "/%70rivate",
    "/%70%72%69%76%61%74%65/x",
    "/p%72ivate/",
    "/privat%65",
    "/private%2fx",
    "/private%2Fx",
    "/%2fprivate",
    "/%2Fprivate%2F",
    "/%2e/private",
    "/%2E/private",
    "/x/%2e%2e/private",
    "/x/.%2e/private",
    "/x/%2E./private",
    "/x/..%2fprivate",
    "/x/..%2Fprivate%2fy",
    "/x%2f../private",
    "/x%2f..%2fprivate",
    "/x%2f%2e%2e%2fprivate",
    "/x/%2e%2e%2fprivate",
    "/x/%2e%2e%2f%70rivate",
    "/a/b%2f..%2f..%2fprivate",
    "/a/b/%2e%2e/../private",
    "/a/b/..%2f../private",
    "/x/%252e%252e/private",
    "/x/..%252fprivate",
    "/x%252f%252e%252e%252fprivate",
    "/%2570rivate",
    "/private%252fx",
    "/\\private",
    "\\private",
    "/private\\x",
    "/private%5cx",
    "/private%5Cx",
    "/x\\..\\private",
    "/x/..\\private",
    "/x\\../private",
    "/x%5c..%5cprivate",
    "/x%5C%2e%2e%5Cprivate",
    "/x/..%5c/private",
    "/x%255c..%255cprivate",
    "/private;x",
    "/private;x/y",
    "/private;x=1;y=2/z",
    "/x/..;/private",
    "/x/..;a=b/private",
    "/x/.;/../private",
    "/;/private",
    "/;x/private/",
    "/..;/private",
    "/x/..%3b/private",
    "/x/%2e%2e;/private",
    "/x/..;%2fprivate",
    "/private%3bx",
    "/x\\..;\\private",
    "/private%00",
    "/private%00.css",
    "/private%00/../x",
    "/private%0a",
    "/private%0d%0aX:%20y",
    "/private%23",
    "/private%23/../x.css",
    "/private%3f",
    "/private%3fx=y",
    "/private%3F/../../x",
    "/private/..%2fx",
    "/private/../x",
    "/private/..;/x",
    "/private/..%00/x",
    "/private/%2e%2e/x",
    "/private%2f..%2fx",
    "/private%2f..%2f..%2f..%2fetc",
    "/private/x/../y",
    "/x/..;/private/..%3b/",
    "/x/%2e%2e/private/z%2f..%2f..%2f..",
    "/%2e%2e%2f%2e%2e%2fprivate",
    "/x/%c0%af/../../private",
    "/./x/.././/private",
    "/x/y%2f..%2f../private",
    "/x%2f/..//..///private",
    // Taken for /private if encoded slashes stay encoded.
    "/x%2fy/%252e%252e/private",
    "/x%2fy/..%3bz/private",
    "/x%2fy/..%5cprivate",
];

#[test]
fn a_path_that_some_origin_takes_for_a_private_one_is_found() {
    for path in HOSTILE {
        assert!(!is_outside(path), "{path}");
    }
}

/// Paths that no origin takes for a path below `/private`.
const HONEST: &[&str] = &[
    "/",
    "/x",
    "/privates",
    "/privat",
    "/x/private",
    "/x/private/y",
    "/x//private",
    "/x/./private",
    "/x/y/../private",
    "/x;private",
    "/x;/private",
    "/x/%70rivate",
    "/x%2fprivate",
    "/x%2Fprivate%2Fy",
    "/%20/private",
    "/%20private",
    "/x%20/private",
    "/caf%C3%A9/x.html",
    "/caf%c3%a9/x.html",
    "/.well-known/acme-challenge/x",
    "/.private",
    "/...",
    "/.../private",
    "/..private",
    "/img/https:%2F%2Forigin.example%2Fprivate%2Fpicture.png?w=1",
    "/img/https://origin.example/private/picture.png",
    "/wiki/C%2B%2B",
    "/wiki/100%25",
    "/page;jsessionid=0123456789",
    "/a;b;c/d;e",
    "/projects/group%2Fname/-/merge_requests",
    "/@scope%2fpackage",
    "/x/..%2fy",
    "/private%2520",
    "/%E4%B8%AD%E6%96%87/%E5%9B%BE",
    "*",
];

#[test]
fn an_honest_path_is_not_taken_for_a_private_one() {
    for path in HONEST {
        assert!(is_outside(path), "{path}");
    }
}

#[test]
fn a_path_has_these_readings() {
    let cases: &[(&str, &[&str])] = &[
        ("/", &["/"]),
        ("/a/b.c/", &["/a/b.c/"]),
        ("/.a", &["/.a"]),
        ("/caf%C3%A9", &["/caf%C3%A9", "/caf\u{e9}"]),
        ("/%61", &["/%61", "/a"]),
        ("/a/../b", &["/a/../b", "/b"]),
        ("/a//b", &["/a//b", "/a/b"]),
        ("/a;b/c", &["/a;b/c", "/a/c"]),
        ("/a%2fb", &["/a%2fb", "/a%2Fb", "/a/b"]),
        ("/x/..%2fy", &["/x/..%2fy", "/x/..%2Fy", "/x/../y", "/y"]),
        ("/a//../b", &["/a//../b", "/a/b", "/a/../b", "/b"]),
        ("/%2561", &["/%2561", "/%61", "/a"]),
        ("/%252561", &["/%252561", "/%2561", "/%61", "/a"]),
    ];
    for (path, expected) in cases {
        let expected = expected.iter().map(|text| text.as_bytes().to_vec()).collect();
        assert_eq!(readings(path.as_bytes()), Some(expected), "{path}");
    }
}

#[test]
fn a_normal_form_is_that_of_rfc_3986_with_single_slashes() {
    for (path, expected) in [
        ("/", "/"),
        ("/%61%2D%7e%5F%2Ex", "/a-~_.x"),
        ("/a%2fb%5cc%c3%a9%21", "/a%2Fb%5Cc%C3%A9%21"),
        ("/a\\b;c", "/a\\b;c"),
        ("/a/./b/../c", "/a/c"),
        ("/a/b/c/./../../g", "/a/g"),
        ("/mid/content=5/../6", "/mid/6"),
        ("/../x", "/x"),
        ("/..", "/"),
        ("/.", "/"),
        ("/a/..", "/"),
        ("/a/b/.", "/a/b/"),
        ("/a/b/..", "/a/"),
        ("/%2e%2E/x", "/x"),
        ("/a/%2e%2e/x", "/x"),
        ("/a/..%2fx", "/a/..%2Fx"),
        ("//a///b//", "/a/b/"),
        ("/a//../b", "/a/b"),
        ("/%2561", "/%2561"),
    ] {
        let mut form = Vec::new();
        normal_form(path.as_bytes(), &mut form);
        assert_eq!(String::from_utf8_lossy(&form), expected, "{path}");
    }
}

#[test]
fn readings_without_bound_are_refused() {
    let long = "/%2f".repeat(BYTES_MAX / 8);
    let too_long = "/".repeat(BYTES_MAX + 1);
    let many = "/%2561\\%255c;a;%253b/./%252e/..%252f//%2f\\..%00%253f/%2525252e".repeat(3);
    for path in [long, too_long, many] {
        let mut buffer = Vec::new();
        let is_safe = every_reading(path.as_bytes(), &mut buffer, BYTES_MAX, |_| true);
        assert!(!is_safe, "{} bytes", path.len());
        assert!(buffer.len() <= 2 * BYTES_MAX, "{} bytes need {}", path.len(), buffer.len());
    }
}

#[test]
fn a_plain_path_has_one_reading() {
    const PARTS: [&str; 16] = [
        "/", "/", ".", "..", "a", "b.c", "%", "%2e", "%2f", "%5C", "%61", "\\", ";", "?", "~", "|",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut plain_count = 0;
    for case in 0..20_000 {
        let mut path = b"/".to_vec();
        for _ in 0..case % 9 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let part = PARTS[(state >> 60) as usize];
            if part != "?" {
                path.extend_from_slice(part.as_bytes());
            }
        }
        let text = String::from_utf8_lossy(&path).into_owned();
        if is_plain(&path) {
            plain_count += 1;
            assert_eq!(readings(&path), Some(vec![path.clone()]), "{text}");
        }
        let mut form = Vec::new();
        normal_form(&path, &mut form);
        if let Some(found) = readings(&path) {
            assert!(found.contains(&form), "{text}: {form:?}");
        }
    }
    assert!(plain_count > 1_000, "{plain_count}");
}

#[test]
fn a_path_that_is_not_plain_is_found_at_every_position_of_every_length() {
    for len in 0..40 {
        for at in 0..len {
            for (byte, next, is_special) in [
                (b'%', b'a', true),
                (b'\\', b'a', true),
                (b';', b'a', true),
                (b'/', b'/', true),
                (b'/', b'.', true),
                (b'/', b'a', false),
                (b'.', b'/', false),
                (b'.', b'.', false),
                (b'a', b'b', false),
                (b'/' | 0x80, b'/', false),
                (b'$', b'&', false),
            ] {
                let mut path = vec![b'x'; len];
                path[at] = byte;
                let is_whole = path.get_mut(at + 1).map(|slot| *slot = next).is_some();
                let expected = !(is_special && (is_whole || byte != b'/'));
                assert_eq!(is_plain(&path), expected, "{}", path.escape_ascii());
            }
        }
    }
}

#[test]
fn a_prefix_has_one_spelling() {
    for (prefix, expected) in [
        ("/", Some("/")),
        ("/private/", Some("/private/")),
        ("/~user", Some("/~user")),
        ("/.well-known/", Some("/.well-known/")),
        ("/a|b", Some("/a|b")),
        ("/a%20b", Some("/a b")),
        ("/caf%C3%A9/", Some("/caf\u{e9}/")),
        ("/caf%c3%a9/", None),
        ("/%7Euser", None),
        ("/a%21", None),
        ("/a%7Cb", None),
        ("/a%2Fb", None),
        ("/a%5Cb", None),
        ("/a%25", None),
        ("/a%00", None),
        ("/a%3F", None),
        ("/50%", None),
        ("/a%2", None),
        ("/a\\b", None),
        ("/a;b", None),
        ("//a", None),
        ("/a//", None),
        ("/a/./b", None),
        ("/a/..", None),
    ] {
        let decoded = decode_prefix(prefix.as_bytes());
        let expected = expected.map(|text| text.as_bytes().to_vec());
        assert_eq!(decoded, expected, "{prefix}");
    }
}
