use super::block;
use crate::policy::vary::{
    FieldNames, MatchRank, VARY_NAMES_MAX, Vary, key_values, names_with, secondary_key,
    split_selector, vary_names, write_selector,
};

fn names(text: &str) -> Vary {
    vary_names(block(text).fields())
}

// RFC: 9111-4.1-1
#[test]
fn vary_names_are_collected_from_every_line() {
    let some = |text: &str| Vary::Names(text.into());
    let many: Vec<_> = (0..=VARY_NAMES_MAX).map(|index| format!("x{index}")).collect();
    let too_many = format!("Vary: {}", many.join(","));
    let cases = [
        ("no Vary", "X: y", Vary::None),
        ("an empty Vary", "Vary:", Vary::None),
        ("only empty members", "Vary: , ,,", Vary::None),
        ("one name", "Vary: accept", some("accept")),
        ("names have no case", "Vary: Accept-Encoding", some("accept-encoding")),
        ("names are sorted", "Vary: b, a", some("a,b")),
        ("names count once", "Vary: a, A,a", some("a")),
        ("empty members do not count", "Vary: , a,, b ,", some("a,b")),
        ("several lines", "Vary: b\nVary: a", some("a,b")),
        ("unknown names", "Vary: X-Own", some("x-own")),
        ("a star", "Vary: *", Vary::Any),
        ("a star in a list", "Vary: a, *", Vary::Any),
        ("a star at the start of a list", "Vary: *, a", Vary::Any),
        ("a star after empty members", "Vary: ,, *", Vary::Any),
        ("a star in a second line", "Vary: a\nVary: *", Vary::Any),
        ("a star within a name is a letter", "Vary: a*", some("a*")),
        ("a name with a space", "Vary: a b", Vary::Any),
        ("a quoted name", "Vary: \"a\"", Vary::Any),
        ("too many names", &too_many, Vary::Any),
    ];
    for (name, text, expected) in cases {
        assert_eq!(names(text), expected, "{name}");
    }
}

#[test]
fn selectors_of_different_names_differ() {
    let request = block("X-A: 1\nX-B: 1");
    let selector = |names: &[u8]| {
        let mut out = Vec::new();
        write_selector(names, request.fields(), &mut out).map(|()| out)
    };
    assert_eq!(selector(b"").as_deref(), Some(&b""[..]), "of a response that does not vary");
    assert_eq!(selector(b"B,a"), None, "invalid names");
    let all = [&b""[..], b"x-a", b"x-b", b"x-a,x-b"].map(|names| selector(names).expect("valid"));
    for (index, one) in all.iter().enumerate() {
        assert!(!all[index + 1..].contains(one), "{one:?}");
    }
    let (names, key) = split_selector(&all[3]).expect("names");
    assert_eq!(names.as_bytes(), b"x-a,x-b");
    assert_eq!(key_values(names, key).collect::<Vec<_>>(), [Some(&b"1"[..]), Some(&b"1"[..])]);
    assert_eq!(split_selector(&all[0]), None);
}

// RFC: 9111-4.1-2, 9111-4-8
#[test]
fn a_response_with_vary_ranks_before_one_without_and_a_later_one_before_an_earlier_one() {
    let rank = |varies, date| MatchRank { varies, date };
    let ranks = [rank(false, 10), rank(false, 20), rank(true, 5), rank(true, 15)];
    assert!(ranks.is_sorted_by(|left, right| left < right), "{ranks:?}");
}

#[test]
fn only_encoded_names_are_decoded() {
    let cases: &[(&str, bool)] = &[
        ("accept", true),
        ("accept,cookie", true),
        ("", false),
        (",", false),
        ("a,", false),
        ("b,a", false),
        ("a,a", false),
        ("A", false),
        ("a b", false),
        ("a\0", false),
    ];
    for (text, expected) in cases {
        assert_eq!(FieldNames::decode(text.as_bytes()).is_some(), *expected, "{text:?}");
    }
    let Vary::Names(encoded) = names("Vary: C, a, B") else { panic!("three names") };
    let read = FieldNames::decode(&encoded).expect("just encoded");
    assert_eq!(read.iter().collect::<Vec<_>>(), [b"a", b"b", b"c"]);
}

// RFC: 9111-4-3, 9111-4.1-1
#[test]
fn requests_share_a_key_only_if_their_fields_are_equivalent() {
    let cases = [
        ("the same value", "A: 1", "A: 1", true),
        ("another value", "A: 1", "A: 2", false),
        ("names have no case", "A: 1", "a: 1", true),
        ("values have case", "A: x", "A: X", false),
        ("order of members matters", "A: x, y", "A: y, x", false),
        ("space around a comma", "Accept: x,y", "Accept: x \t,  y", true),
        ("two lines are a list", "Accept: x\nAccept: y", "Accept: x, y", true),
        ("two lines with the same values", "A: x\nA: y", "a: x\na: y", true),
        ("space in a field that may be no list", "A: (x,y)", "A: (x, y)", false),
        ("lines of a field that may be no list", "A: x\nA: y", "A: x, y", false),
        ("space after the comma of a cookie", "Cookie: cart=1,2", "Cookie: cart=1, 2", false),
        ("two lines of cookies", "Cookie: r=u\nCookie: x=1", "Cookie: r=u, x=1", false),
        ("two lines of cookies and one", "Cookie: r=u\nCookie: x=1", "Cookie: r=u; x=1", false),
        ("order of lines matters", "A: x\nA: y", "A: y\nA: x", false),
        ("space within a member matters", "A: x y", "A: x  y", false),
        ("space within quotes matters", "Accept: \"x, y\"", "Accept: \"x,y\"", false),
        ("an empty field is not an absent one", "A:", "C: 1", false),
        ("an empty member is not an absent one", "Accept: x,,y", "Accept: x,y", false),
        ("absent on both sides", "C: 1", "C: 2", true),
        ("other fields do not matter", "A: 1\nC: 1", "A: 1\nD: 2", true),
        ("order of fields does not matter", "A: 1\nB: 2", "B: 2\nA: 1", true),
        ("values do not move between fields", "A: 12\nB: 3", "A: 1\nB: 23", false),
        ("values do not swap fields", "A: 1", "B: 1", false),
        ("a well-known field", "Cookie: a", "cookie: a", true),
        ("a well-known field with another value", "Cookie: a", "Cookie: b", false),
    ];
    let names = FieldNames::decode(b"a,accept,b,cookie").expect("sorted tokens");
    let key = |text: &str| {
        let mut out = Vec::new();
        secondary_key(names, block(text).fields(), &mut out);
        out
    };
    for (name, left, right, expected) in cases {
        assert_eq!(key(left) == key(right), expected, "{name}");
    }
}

#[test]
fn requests_with_equivalent_codings_share_a_key() {
    let many: Vec<_> = (0..17).map(|index| format!("x{index:02}")).collect();
    let (many, reversed) =
        (many.join(","), many.iter().rev().cloned().collect::<Vec<_>>().join(","));
    let cases = [
        ("order", "gzip, br", "br, gzip", true),
        ("case, space and a weight of 1", "gzip, br", "BR ;Q=1.000,\t GZip;q=1.0", true),
        ("order of different weights", "br;q=0.5, gzip", "gzip, br;q=0.5", true),
        ("digits of a weight", "gzip;q=0.5", "gzip;q=0.500", true),
        ("a weight of 0", "gzip;q=0", "gzip; q=0.", true),
        ("empty members", "gzip,,br,", "br,gzip", true),
        ("two lines", "gzip\nAccept-Encoding: br", "br, gzip", true),
        ("a star", "*;q=0.1, gzip", "gzip, *;q=0.1", true),
        ("unknown codings", "x-own, gzip", "GZIP, X-Own", true),
        ("an empty field", "", ",", true),
        ("another coding", "gzip", "br", false),
        ("one coding more", "gzip, br", "gzip", false),
        ("another weight", "gzip;q=0.5", "gzip", false),
        ("swapped weights", "gzip;q=0.5, br", "gzip, br;q=0.5", false),
        ("a refused coding is not an absent one", "gzip, br;q=0", "gzip", false),
        ("identity that is listed is not one that is not", "gzip, identity", "gzip", false),
        ("an old name is a name of its own", "x-gzip", "gzip", false),
        ("a coding that is listed twice", "gzip, gzip;q=0.5", "gzip;q=0.5, gzip", false),
        ("a coding that is listed twice alike", "gzip, gzip", "gzip", false),
        ("another parameter", "gzip;level=1, br", "br, gzip;level=1", false),
        ("a parameter beside the weight", "gzip;q=1;x=1, br", "br, gzip;q=1;x=1", false),
        ("a weight above 1", "gzip;q=1.001, br", "br, gzip;q=1.001", false),
        ("a weight with four digits", "gzip;q=0.1234, br", "br, gzip;q=0.1234", false),
        ("a weight that is no number", "gzip;q=.5, br", "br, gzip;q=.5", false),
        ("a coding that is no token", "gz ip, br", "br, gz ip", false),
        ("too many codings", &many, &reversed, false),
    ];
    let names = FieldNames::decode(b"accept-encoding").expect("a token");
    let key = |value: &str| {
        let mut out = Vec::new();
        let text = format!("Accept-Encoding: {value}");
        secondary_key(names, block(&text).fields(), &mut out);
        out
    };
    for (name, left, right, expected) in cases {
        assert_eq!(key(left) == key(right), expected, "{name}");
        assert_eq!(key(left), key(left), "{name}");
    }
    let mut absent = Vec::new();
    secondary_key(names, block("Host: a").fields(), &mut absent);
    assert_ne!(key(""), absent, "an empty field is not an absent one");
    assert!(key("BR;q=0.050, gzip;q=1.0").ends_with(b"br;q=0.050, gzip"));
}

#[test]
fn a_key_is_appended_with_lengths_first() {
    let names = FieldNames::decode(b"accept,b,c").expect("sorted tokens");
    let mut out = b"=".to_vec();
    secondary_key(names, block("Accept: x,y\nC:").fields(), &mut out);
    assert_eq!(out, b"=\x04\0\0\0x, y\xff\xff\xff\xff\0\0\0\0");
}

#[test]
fn the_values_of_a_key_are_read_back() {
    let names = FieldNames::decode(b"a,b,c").expect("sorted tokens");
    let values = |key: &[u8]| -> Vec<_> {
        key_values(names, key).map(|value| value.map(<[u8]>::to_vec)).collect()
    };
    let mut key = Vec::new();
    secondary_key(names, block("C: 1\nA: x,y\nC: 2").fields(), &mut key);
    let expected = [Some(&b"x,y"[..]), None, Some(b"1\n2")];
    assert_eq!(values(&key), expected.map(|value| value.map(<[u8]>::to_vec)));
    for len in 0..key.len() {
        assert_eq!(values(&key[..len]).len(), 3, "a key that is cut to {len} bytes");
    }
}

#[test]
fn cookies_in_the_key_are_compared_in_each_spelling_of_their_names() {
    let names = names_with(&Vary::None, [&b"cookie:plan"[..]].into_iter()).expect("one name");
    let key = |request: &str| {
        let mut key = Vec::new();
        write_selector(&names, block(request).fields(), &mut key).expect("valid names");
        key
    };
    let none = key("Host: h");
    for same in ["Cookie: a=b", "Cookie: planet=1; xplan=2", "Cookie: a=plan"] {
        assert_eq!(key(same), none, "{same}");
    }
    let others = [
        "Cookie: plan=1",
        "Cookie: plan=2",
        "Cookie: Plan=1",
        "Cookie: plan",
        "Cookie: x=1,plan=1",
        "Cookie: plan=1; plan=2",
        "Cookie: plan=2; plan=1",
        "Cookie: %70lan=1",
        "Cookie: plan[a]=1",
    ];
    let keys: std::collections::BTreeSet<_> = others.iter().map(|other| key(other)).collect();
    assert_eq!(keys.len(), others.len());
    assert!(!keys.contains(&none));
    assert_eq!(key("Cookie: a=b; plan=1; c=d"), key("Cookie: plan=1"));
    // Some origins join lines with a comma.
    assert_ne!(key("Cookie: plan=1\nCookie: plan=2"), key("Cookie: plan=1; plan=2"));
}

#[test]
fn settings_add_names_to_those_of_vary() {
    let with = |vary: &Vary| {
        let others = [&b"x-b"[..], b"cookie:plan"];
        let names = names_with(vary, others.into_iter())?;
        Some(String::from_utf8(names).expect("ASCII"))
    };
    assert_eq!(with(&Vary::None).as_deref(), Some("cookie:plan,x-b"));
    assert_eq!(
        with(&names("Vary: X-C, x-b, cookie")).as_deref(),
        Some("cookie,cookie:plan,x-b,x-c")
    );
    assert_eq!(with(&Vary::Any), None);
    let many: Vec<_> = (0..VARY_NAMES_MAX).map(|number| format!("x-{number}")).collect();
    assert_eq!(with(&names(&format!("Vary: {}", many.join(",")))), None, "too many together");
}
