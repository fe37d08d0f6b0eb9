use super::block;
use crate::fields::{FieldId, FieldSet};
use crate::policy::tags::{SURROGATE_FIELDS, TAG_FIELDS, invalidated_groups, tags};

const ALL: FieldSet = FieldSet::of(&TAG_FIELDS);

fn read(text: &str, read: FieldSet) -> Vec<String> {
    let block = block(text);
    let tags = tags(block.fields(), read);
    tags.iter().map(|tag| String::from_utf8_lossy(tag).into_owned()).collect()
}

#[test]
fn each_field_has_its_own_separators() {
    let cases: &[(&str, &[&str])] = &[
        ("X: y", &[]),
        ("Surrogate-Key: a b-1 ,c", &["a", "b-1", ",c"]),
        ("surrogate-key: a\t  b", &["a", "b"]),
        ("Surrogate-Key: a\nSurrogate-Key: b", &["a", "b"]),
        ("Surrogate-Key:", &[]),
        ("Cache-Tag: a,b c , ,d", &["a", "b c", "d"]),
        ("Cache-Tag: ,", &[]),
        ("Cache-Tag: \"a,b\"", &["\"a", "b\""]),
        ("xkey: a b\nXkey: c", &["a", "b", "c"]),
        ("xkey: a,b, c", &["a", "b", "c"]),
        ("Cache-Groups: \"a\", \"B b\"", &["a", "B b"]),
        ("Cache-Groups: \"a\"\nCache-Tag: x\nSurrogate-Key: k\nxkey: y", &["k", "y", "x", "a"]),
        ("Surrogate-Key: a a", &["a", "a"]),
        ("Surrogate-Key: caf\u{e9}", &["caf\u{e9}"]),
        ("Cache-Tags: node:1 node_list", &["node:1", "node_list"]),
        ("Purge-Cache-Tags: node:1|node_list", &["node:1", "node_list"]),
        ("X-Magento-Tags: cat_c,cat_p_1", &["cat_c", "cat_p_1"]),
        ("Surrogate-Keys: a\nSurrogate: b\nX-Cache-Tags: c", &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(&read(text, ALL), expected, "{text}");
    }
}

#[test]
fn a_list_of_strings_is_valid_as_a_whole_or_ignored() {
    // Lists of strings, in the order of the sections of RFC 9651.
    let cases: &[(&str, &[&str])] = &[
        ("\"a\"", &["a"]),
        ("\"a\",\"b\"", &["a", "b"]),
        ("\"a\"\t,\t\"b\"", &["a", "b"]),
        ("\"a,b\"", &["a,b"]),
        ("\"\"", &[]),
        ("\"\", \"a\"", &["a"]),
        (r#""a\"b\\c""#, &[r#"a"b\c"#]),
        ("\"a\";x", &["a"]),
        ("\"a\";x;y=1;z=-2.5, \"b\"", &["a", "b"]),
        ("\"a\"; x=\"y\\\"\"; k=tok/en:x;b=?1;d=@12;s=:YQ==:;u=%\"f%c3%bc\"", &["a"]),
        ("\"a\";*k-1.0_*=*t", &["a"]),
        ("\"a\"\nCache-Groups: \"b\"", &["a", "b"]),
        // Several lines form one value, wherever the value is split.
        ("\"a\nCache-Groups: b\"", &["a, b"]),
        ("", &[]),
        ("\"a\",", &[]),
        (",\"a\"", &[]),
        ("\"a\",,\"b\"", &[]),
        ("\"a\" \"b\"", &[]),
        ("\"a", &[]),
        ("\"a\\", &[]),
        ("\"a\\b\"", &[]),
        ("\"caf\u{e9}\"", &[]),
        ("\"a\tb\"", &[]),
        ("a", &[]),
        ("\"a\", b", &[]),
        ("\"a\", 1", &[]),
        ("(\"a\" \"b\")", &[]),
        ("\"a\";", &[]),
        ("\"a\";X", &[]),
        ("\"a\";x=", &[]),
        ("\"a\";x=-", &[]),
        ("\"a\";x=1.", &[]),
        ("\"a\";x=?2", &[]),
        ("\"a\";x=:Y", &[]),
        ("\"a\";x=!", &[]),
        ("\"a\" ;x", &[]),
        ("\"a\"\nCache-Groups:", &[]),
    ];
    for (value, expected) in cases {
        assert_eq!(&read(&format!("Cache-Groups: {value}"), ALL), expected, "{value}");
        let text = format!("Cache-Groups: {value}").replace("Groups", "Group-Invalidation");
        let groups = invalidated_groups(block(&text).fields());
        let groups: Vec<_> = groups.iter().map(|group| String::from_utf8_lossy(group)).collect();
        assert_eq!(&groups, expected, "{value}");
    }
}

#[test]
fn only_the_selected_fields_are_read() {
    let text = "Surrogate-Key: s\nCache-Tag: c\nxkey: x\nCache-Tags: d\nPurge-Cache-Tags: p\n\
        X-Magento-Tags: m\nCache-Groups: \"g\"";
    for (id, expected) in TAG_FIELDS.into_iter().zip(["s", "c", "x", "d", "p", "m", "g"]) {
        assert_eq!(read(text, FieldSet::of(&[id])), [expected]);
        assert_eq!(SURROGATE_FIELDS.contains(id), id != FieldId::CacheGroups);
    }
    assert_eq!(read(text, FieldSet::EMPTY), [""; 0]);
    assert_eq!(invalidated_groups(block(text).fields()), [b""; 0]);
}
