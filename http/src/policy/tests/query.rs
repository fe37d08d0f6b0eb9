use crate::policy::query::{SORTED_PARAMETERS_MAX, write_normal_query};

/// Returns the normal form. `kept` and `dropped` are names; `*` as `kept` stands for all names.
fn normal(path_query: &str, is_sorted: bool, kept: &str, dropped: &str) -> String {
    let has = |names: &str, name: &[u8]| names.split(' ').any(|each| each.as_bytes() == name);
    let keeps = |name: &[u8]| (kept == "*" || has(kept, name)) && !has(dropped, name);
    let mut out = Vec::new();
    write_normal_query(path_query.as_bytes(), is_sorted, keeps, &mut out);
    String::from_utf8(out).expect("ASCII")
}

#[test]
fn a_query_is_normalised_byte_by_byte() {
    // The path and query, whether it is sorted, the names kept and dropped, the normal form.
    let cases: &[(&str, &str, bool, &str, &str, &str)] = &[
        ("no query", "/x", true, "*", "-", "/x"),
        ("the whole server", "*", true, "*", "-", "*"),
        ("a question mark alone", "/x?", true, "*", "-", "/x"),
        ("only separators", "/x?&&", false, "*", "-", "/x"),
        ("empty parameters", "/x?&b&&a&", false, "*", "-", "/x?b&a"),
        ("sorted by name", "/x?b=1&a=2&c", true, "*", "-", "/x?a=2&b=1&c"),
        ("a shorter name is first", "/x?ab=1&a=2&a-=3", true, "*", "-", "/x?a=2&a-=3&ab=1"),
        ("equal names keep their order", "/x?b&a=2&a=1&a", true, "*", "-", "/x?a=2&a=1&a&b"),
        ("values do not count", "/x?a=z&b=a&a=y", true, "*", "-", "/x?a=z&a=y&b=a"),
        ("names have case", "/x?b&A&a&B", true, "*", "-", "/x?A&B&a&b"),
        ("nothing is decoded", "/x?b&%61&a", true, "*", "-", "/x?%61&a&b"),
        ("unsorted", "/x?b=1&a=2", false, "*", "-", "/x?b=1&a=2"),
        ("dropped", "/x?b&u=1&a&u", false, "*", "u", "/x?b&a"),
        ("dropped to nothing", "/x?u=1&u", false, "*", "u", "/x"),
        ("another spelling is kept", "/x?%75=1&U=1&uu=1", false, "*", "u", "/x?%75=1&U=1&uu=1"),
        ("kept", "/x?b&u=1&a=2", false, "a", "-", "/x?a=2"),
        ("dropping goes before keeping", "/x?a&b", false, "a b", "a", "/x?b"),
        ("a second question mark", "/x?a?b=1&?", true, "*", "-", "/x??&a?b=1"),
        ("a second equals sign", "/x?b=a=1&a==2", true, "*", "-", "/x?a==2&b=a=1"),
        ("a parameter without a name", "/x?b&=1&=", true, "*", "-", "/x?=1&=&b"),
        ("semicolons separate nothing", "/x?b;a&a;b", true, "*", "a", "/x?a;b&b;a"),
    ];
    for (name, path_query, is_sorted, kept, dropped, expected) in cases {
        let found = normal(path_query, *is_sorted, kept, dropped);
        assert_eq!(found, *expected, "{name}");
        assert_eq!(normal(&found, *is_sorted, kept, dropped), found, "{name}: once more");
    }
}

#[test]
fn more_parameters_than_can_be_sorted_keep_their_order() {
    let query = |count: usize| {
        let parameters: Vec<_> = (0..count).map(|index| format!("{:04}", count - index)).collect();
        format!("/x?{}&drop", parameters.join("&"))
    };
    let sorted = normal(&query(SORTED_PARAMETERS_MAX), true, "*", "drop");
    assert!(sorted.starts_with("/x?0001&0002&") && sorted.ends_with("0127&0128"), "{sorted}");
    let unsorted = normal(&query(SORTED_PARAMETERS_MAX + 1), true, "*", "drop");
    assert!(unsorted.starts_with("/x?0129&0128&") && unsorted.ends_with("&0001"), "{unsorted}");
}
