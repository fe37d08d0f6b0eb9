//! Bytes as readable text and back: the notation of the vector files.
//!
//! `\r \n \t \0 \\ \s` (a space), `\xHH`, and `\{COUNT*TEXT}` for TEXT repeated COUNT times.

/// Decodes text in the notation above into bytes. Errors say why the text is invalid.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = escape_at(&rest[at + 1..], &mut out)?;
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

/// Appends the bytes of the escape at the start of `text`, after its backslash. Returns the text
/// after the escape.
fn escape_at<'a>(text: &'a str, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let kind = text.chars().next().ok_or("the text ends in a backslash")?;
    let rest = &text[kind.len_utf8()..];
    let plain = match kind {
        'r' => b'\r',
        'n' => b'\n',
        't' => b'\t',
        '0' => 0,
        's' => b' ',
        '\\' => b'\\',
        'x' => {
            let digits = rest.get(..2).ok_or("\\x needs two digits")?;
            let byte = u8::from_str_radix(digits, 16).map_err(|_| format!("bad \\x{digits}"))?;
            out.push(byte);
            return Ok(&rest[2..]);
        }
        '{' => {
            let (inside, rest) = rest.split_once('}').ok_or("\\{ without }")?;
            let (count, piece) = inside.split_once('*').ok_or("\\{ without *")?;
            let count: usize = count.parse().map_err(|_| format!("bad count {count:?}"))?;
            out.extend(unescape(piece)?.repeat(count));
            return Ok(rest);
        }
        _ => return Err(format!("unknown escape \\{kind}")),
    };
    out.push(plain);
    Ok(rest)
}

/// Returns bytes as one printable line; long bytes are shortened in the middle.
pub fn show(bytes: &[u8]) -> String {
    const HALF: usize = 400;
    if bytes.len() <= 2 * HALF {
        return bytes.escape_ascii().to_string();
    }
    let (head, tail) = (&bytes[..HALF], &bytes[bytes.len() - HALF..]);
    let left_out = bytes.len() - 2 * HALF;
    format!("{} […{left_out} bytes…] {}", head.escape_ascii(), tail.escape_ascii())
}

/// Decodes bytes as Latin-1, one character for each byte, so that any field value can be compared
/// with a plain string.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_escape_means_its_bytes() {
        let cases: [(&str, &[u8]); 6] = [
            ("GET / HTTP/1.1\\r\\n", b"GET / HTTP/1.1\r\n"),
            ("a\\0b\\x7F\\t\\\\", b"a\0b\x7f\t\\"),
            ("\\s\\{3*a\\r}b", b" a\ra\ra\rb"),
            ("\\{0*a}", b""),
            ("caf\\xe9", b"caf\xe9"),
            ("plain", b"plain"),
        ];
        for (text, bytes) in cases {
            assert_eq!(unescape(text).as_deref(), Ok(bytes), "{text}");
        }
        for bad in ["\\", "\\q", "\\x1", "\\xzz", "\\{3*a", "\\{a}", "\\{x*a}"] {
            assert!(unescape(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn long_bytes_are_shown_by_their_ends() {
        assert_eq!(show(b"a\r\n\0"), "a\\r\\n\\x00");
        let long = show(&[b'x'; 5000]);
        assert!(long.contains("4200 bytes") && long.len() < 900, "{long}");
        assert_eq!(latin1(b"caf\xe9"), "café");
    }
}
