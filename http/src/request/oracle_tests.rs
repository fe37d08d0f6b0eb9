//! Compares the request parser with a second implementation of the grammar.

use super::*;
use crate::testing::{LIMITS, Xorshift};

/// The parsed parts of an accepted head: its length, the method, the target, whether the version is
/// HTTP/1.0, and the fields.
type Said = (usize, String, String, bool, Vec<(String, String)>);

/// The slow second implementation: splits at CRLF and checks each part.
fn oracle(bytes: &[u8]) -> Option<Said> {
    let is_control = |c: char| (c < ' ' && c != '\t') || c == '\x7f';
    let is_token = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
    };
    let text: String = bytes.iter().copied().map(char::from).collect();
    let skipped = text.strip_prefix("\r\n").unwrap_or(&text);
    let (head, rest) = skipped.split_once("\r\n\r\n")?;
    let len = text.chars().count() - rest.chars().count();
    let lines: Vec<&str> = head.split("\r\n").collect();
    let [method, target, version] = lines[0].split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let fields: Option<Vec<(String, String)>> = lines[1..]
        .iter()
        .map(|line| line.split_once(':').filter(|(name, _)| is_token(name)))
        .map(|pair| pair.map(|(n, v)| (n.to_owned(), v.trim_matches([' ', '\t']).to_owned())))
        .collect();
    let minor = version.strip_prefix("HTTP/1.")?;
    let good = !lines.concat().contains(is_control)
        && is_token(method)
        && !target.is_empty()
        && target.chars().all(|c| ('!'..='~').contains(&c) && c != '#')
        && minor.len() == 1
        && minor.chars().all(|c| c.is_ascii_digit())
        && method.len() <= METHOD_BYTES_MAX
        && target.len() <= LIMITS.target_bytes_max as usize
        && lines.len() - 1 <= usize::from(LIMITS.field_count_max)
        && len <= LIMITS.head_bytes_max as usize;
    good.then_some((len, method.to_owned(), target.to_owned(), minor == "0", fields?))
}

fn parsed(bytes: &[u8], parts: &mut RequestParts) -> Option<Said> {
    let text = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
    let len = parse_request(bytes, &LIMITS, parts).ok()??;
    let head = parts.head(bytes);
    let fields = head.fields().iter().map(|field| (text(field.name), text(field.value))).collect();
    let is_10 = head.version() == Version::Http10;
    Some((len, text(head.method().as_bytes()), text(head.target()), is_10, fields))
}

#[test]
fn mutated_heads_parse_as_in_the_oracle() {
    const HEADS: [&[u8]; 4] = [
        b"GET /a?b HTTP/1.1\r\nHost: a.example:8080\r\nAccept: */*\r\n\r\n",
        b"\r\nPOST http://a/ HTTP/1.0\r\nContent-Length: 3\r\nX-Long-Name-Here:\tv w \r\n\r\nabc",
        b"OPTIONS * HTTP/1.1\r\nHost: [::1]\r\nCookie: a=b; c=d\xe9\r\nX:\r\n\r\n",
        b"DELETE /x HTTP/1.1\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\nF: 6\r\n\r\n",
    ];
    let seed = 0x5eed_0ff0_12eb_a7f3;
    println!("seed {seed:#x}");
    let mut random = Xorshift(seed);
    let mut parts = RequestParts::default();
    let mut accepted_count = 0;
    for round in 0..30_000 {
        let mut bytes = HEADS[random.below(HEADS.len())].to_vec();
        random.mutate(&mut bytes);
        let expected = oracle(&bytes);
        accepted_count += usize::from(expected.is_some());
        parts.clear();
        let shown = String::from_utf8_lossy(&bytes);
        assert_eq!(parsed(&bytes, &mut parts), expected, "seed {seed:#x}, {round}: {shown:?}");
        let split = random.below(bytes.len());
        parts.clear();
        let first = parse_request(&bytes[..split], &LIMITS, &mut parts);
        let second =
            if first == Ok(None) { parse_request(&bytes, &LIMITS, &mut parts) } else { first };
        let whole = parse_request(&bytes, &LIMITS, &mut RequestParts::default());
        assert_eq!(second, whole, "seed {seed:#x}, {round}, split at {split}: {shown:?}");
    }
    assert!((2_000..28_000).contains(&accepted_count), "{accepted_count} of 30000 are valid");
}
