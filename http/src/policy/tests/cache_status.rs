use crate::policy::cache_status::{CacheName, CacheOutcome, CacheStatus, write_key};
use crate::policy::reason::{Detail, Reason};
use crate::policy::reuse::ForwardReason;

#[test]
fn cache_status_is_written_by_rfc_9211() {
    let miss = CacheStatus::forwarded(ForwardReason::UriMiss);
    let stale = CacheStatus::forwarded(ForwardReason::Stale);
    let cases = [
        (CacheStatus::hit(376), "forebay; hit; ttl=376"),
        (CacheStatus::hit(-412), "forebay; hit; ttl=-412"),
        (CacheStatus::hit(0), "forebay; hit; ttl=0"),
        (CacheStatus::hit(i64::MIN), "forebay; hit; ttl=-999999999999999"),
        (miss, "forebay; fwd=uri-miss"),
        (CacheStatus { outcome: CacheOutcome::NotForwarded, ..miss }, "forebay"),
        (
            CacheStatus { stored: true, fwd_status: Some(200), ..miss },
            "forebay; fwd=uri-miss; fwd-status=200; stored",
        ),
        (CacheStatus { collapsed: true, ..miss }, "forebay; fwd=uri-miss; collapsed"),
        (
            CacheStatus { fwd_status: Some(304), ttl: Some(60), ..stale },
            "forebay; fwd=stale; fwd-status=304; ttl=60",
        ),
        (
            CacheStatus { detail: Some(Reason::SetCookie.into()), ..miss },
            "forebay; fwd=uri-miss; detail=set-cookie",
        ),
        (
            CacheStatus {
                detail: Some(Detail::caused(Reason::Declined, Some(Reason::Private))),
                ..miss
            },
            "forebay; fwd=uri-miss; detail=declined-private",
        ),
    ];
    for (status, expected) in cases {
        let mut out = Vec::new();
        status.write(&CacheName::new("forebay").expect("it is printable"), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}

// RFC: 9211-2-3
#[test]
fn a_name_is_a_token_or_a_string() {
    let cases = [
        ("edge-1.example", Some("edge-1.example; hit; ttl=1")),
        ("*a:80/b", Some("*a:80/b; hit; ttl=1")),
        ("Edge 1", Some("\"Edge 1\"; hit; ttl=1")),
        ("1st", Some("\"1st\"; hit; ttl=1")),
        ("a\"b\\", Some("\"a\\\"b\\\\\"; hit; ttl=1")),
        ("", None),
        ("caf\u{e9}", None),
        ("a\r\nb", None),
    ];
    for (name, expected) in cases {
        let written = CacheName::new(name).map(|name| {
            let mut out = Vec::new();
            CacheStatus::hit(1).write(&name, &mut out);
            String::from_utf8(out).expect("a member is ASCII")
        });
        assert_eq!(written.as_deref(), expected, "{name}");
    }
}

#[test]
fn a_key_is_a_string() {
    let mut out = Vec::new();
    write_key(b"shop http://a/\"b\\c\"", &mut out);
    assert_eq!(String::from_utf8_lossy(&out), "; key=\"shop http://a/\\\"b\\\\c\\\"\"");
}

#[test]
fn every_reason_is_a_token_of_its_own_and_has_a_code() {
    for (code, reason) in Reason::ALL.iter().enumerate() {
        let word = reason.word().as_bytes();
        assert!(word[0].is_ascii_lowercase(), "{reason:?}");
        assert!(word.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'-'), "{reason:?}");
        assert_eq!(usize::from(reason.code()), code);
        assert_eq!(Reason::from_code(reason.code()), Some(*reason));
        let same = Reason::ALL.iter().filter(|other| other.word() == reason.word());
        assert_eq!(same.count(), 1, "{reason:?}");
    }
    assert_eq!(Reason::from_code(u8::MAX), None);
}
