//! Signed URLs: their signatures are made and checked with secret keys (HMAC with SHA-256, RFC
//! 2104).
//!
//! A signed URL ends with `expires=TIME&signature=HEX`. The signature covers the path and the query
//! up to and including the expiry time, in seconds since 1970. The host is not covered, so that
//! names of the same site can share URLs.

use std::fmt::Write;
use std::path::Path;

use aws_lc_rs::hmac;
use forebay_http::request::Method;

use crate::clock;
use crate::config::RouteSettings;
use crate::config::units::parse_duration;
use crate::config::value::UrlKeys;
use crate::fault::Fault;
use crate::key::{shown_url, split_url};
use crate::parse::Request;

const SIGNATURE_START: &str = "&signature=";

/// Bytes of a signature, of which each is two hexadecimal digits.
const SIGNATURE_BYTES: usize = 32;

/// Checks the signature of a request's URL.
///
/// # Errors
/// The URL has no signature, or one that is wrong or has expired; or the method is not GET or HEAD.
pub(crate) fn check(request: &Request<'_>, keys: &UrlKeys, now_s: u64) -> Result<(), Fault> {
    if !matches!(request.head.method(), Method::Get | Method::Head) {
        return Err(Fault::NotSigned);
    }
    let SignedPath { signed, expires_s, signature, .. } =
        SignedPath::parse(request.target.path_query).ok_or(Fault::NotSigned)?;
    if !keys.keys().iter().any(|key| hmac::verify(key, signed, &signature).is_ok()) {
        return Err(Fault::WrongSignature);
    }
    if expires_s <= now_s { Err(Fault::SignatureExpired) } else { Ok(()) }
}

/// Returns the path and query of a URL without the parameters of its signature, so that all
/// signatures of a URL have the same key, and the origin gets none.
pub(crate) fn without_signature<'a>(path_query: &'a [u8], settings: &RouteSettings) -> &'a [u8] {
    match settings.signed_urls.keys() {
        Some(_) => SignedPath::parse(path_query).map_or(path_query, |path| path.unsigned),
        None => path_query,
    }
}

/// A path and query that end with an expiry time and a signature.
struct SignedPath<'a> {
    /// The text before the parameter of the signature.
    signed: &'a [u8],
    /// The text before the two parameters.
    unsigned: &'a [u8],
    expires_s: u64,
    signature: [u8; SIGNATURE_BYTES],
}

impl<'a> SignedPath<'a> {
    fn parse(path_query: &'a [u8]) -> Option<SignedPath<'a>> {
        let digits_at = path_query.len().checked_sub(2 * SIGNATURE_BYTES)?;
        let (front, digits) = path_query.split_at_checked(digits_at)?;
        let mut signature = [0; SIGNATURE_BYTES];
        for (byte, pair) in signature.iter_mut().zip(digits.as_chunks().0) {
            *byte = hex_byte(*pair)?;
        }
        let signed = front.strip_suffix(SIGNATURE_START.as_bytes())?;
        let query_at = signed.iter().position(|byte| *byte == b'?')?;
        let last_at = signed.iter().rposition(|byte| *byte == b'&');
        let expires_at = last_at.filter(|at| *at > query_at).unwrap_or(query_at);
        let (unsigned, expires) = signed.split_at_checked(expires_at)?;
        let digits = expires.strip_prefix(b"?").or_else(|| expires.strip_prefix(b"&"))?;
        let digits = digits.strip_prefix(b"expires=")?;
        // `parse` would also read a sign.
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let expires_s = str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
        Some(SignedPath { signed, unsigned, expires_s, signature })
    }
}

fn hex_byte([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Signs `http` and `https` URLs with the first key of a file, so that they are served for the next
/// `lifetime`, such as `1h`.
///
/// # Errors
/// The text is a message for the user: the file has no keys, a URL cannot be requested or is signed
/// already, or the lifetime is not a duration.
pub fn sign_urls(key_file: &Path, urls: &[&str], lifetime: &str) -> Result<Vec<String>, String> {
    let keys = UrlKeys::read(key_file)
        .map_err(|(reason, hint)| format!("cannot use {}{reason}; {hint}", key_file.display()))?;
    let lifetime_ms = parse_duration(lifetime, "").ok().filter(|ms| *ms >= 1000);
    let lifetime_ms = lifetime_ms.ok_or_else(|| {
        format!("{lifetime:?} is not a duration of a second or more, such as 30m, 1h or 7d")
    })?;
    let expires_s = clock::unix_seconds().saturating_add(lifetime_ms / 1000);
    urls.iter().map(|url| sign_until(&keys, url, expires_s)).collect()
}

fn sign_until(keys: &UrlKeys, url: &str, expires_s: u64) -> Result<String, String> {
    let split = split_url(url.as_bytes()).map_err(|why| format!("{}: {why}", shown_url(url)))?;
    if SignedPath::parse(split.path_query).is_some() {
        return Err(format!("{url}: the URL is signed already"));
    }
    let path = split.path_query.split(|byte| *byte == b'?').next().unwrap_or_default();
    let mut parts = path.split(|byte| *byte == b'/');
    let has_dots = parts.any(|part| matches!(part, b"." | b".."));
    if has_dots || split.path_query.iter().any(|byte| b"\"\\<>^`{|}".contains(byte)) {
        return Err(format!(
            "{url}: browsers request this URL in another spelling; write it without /./ and /../, \
             and with percent-encoding for \\ \" < > ^ ` {{ | }}"
        ));
    }
    let path_at = url.len().checked_sub(split.path_query.len());
    // A URL without a path has the path `/`.
    let (base, path_query) = match path_at.and_then(|at| url.split_at_checked(at)) {
        Some((base, path)) if path.as_bytes() == split.path_query => (base, path),
        _ => (url, "/"),
    };
    let joint = if path_query.contains('?') { '&' } else { '?' };
    let mut signed = format!("{path_query}{joint}expires={expires_s}");
    let key = keys.keys().first().ok_or("the file has no keys")?;
    let signature = hmac::sign(key, signed.as_bytes());
    signed.push_str(SIGNATURE_START);
    for byte in signature.as_ref() {
        let _ = write!(signed, "{byte:02x}");
    }
    Ok(format!("{base}{signed}"))
}

#[cfg(test)]
mod tests {
    use forebay_testkit::server::Folder;

    use super::*;

    #[test]
    fn a_signature_is_the_one_that_other_tools_make() {
        let folder = Folder::new();
        let file = folder.path("keys");
        std::fs::write(
            &file,
            "# new\n0123456789abcdef0123456789abcdef\n\nffffffffffffffffffffffffffffffff\n",
        )
        .expect("it is written");
        let keys = UrlKeys::read(&file).expect("it has keys");
        // printf '/f?x=1&expires=2000000000' |
        //     openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
        let signed = sign_until(&keys, "http://a.test/f?x=1", 2_000_000_000).expect("it is signed");
        assert_eq!(
            signed,
            "http://a.test/f?x=1&expires=2000000000&signature=\
             2e3fdc7eca93190354cad11622b178f8a1ecce7fb92627bc4f8a693ddc5795ed"
        );
        for (url, expected) in [
            ("https://a.test", "https://a.test/?expires=5&signature="),
            ("https://a.test/a%20b", "https://a.test/a%20b?expires=5&signature="),
        ] {
            let signed = sign_until(&keys, url, 5).expect("it is signed");
            assert!(signed.starts_with(expected), "{signed}");
        }
        for (url, why) in [
            ("a.test/", "begins with http"),
            ("http://a.test/a b", "bytes that a request cannot have"),
            ("http://a.test/a#b", "bytes that a request cannot have"),
            ("http://a.test/a/../b", "another spelling"),
            ("http://a.test/a<b", "another spelling"),
            (&*signed, "signed already"),
        ] {
            let error = sign_until(&keys, url, 5).expect_err(url);
            assert!(error.contains(why), "{url}: {error}");
        }
    }

    #[test]
    fn only_a_time_and_a_signature_at_the_end_are_read() {
        let hex = "0".repeat(64);
        let good = [
            format!("/?expires=1&signature={hex}"),
            format!("/a?b=c&expires=1&signature={hex}"),
            format!("/a?expires=2&expires=1&signature={hex}"),
        ];
        for target in good {
            let parsed = SignedPath::parse(target.as_bytes()).expect(&target);
            assert_eq!(parsed.expires_s, 1, "{target}");
            let front = target.strip_suffix(&format!("expires=1&signature={hex}"));
            let front = front.and_then(|front| front.strip_suffix(['?', '&'])).expect("it ends so");
            assert_eq!(parsed.unsigned, front.as_bytes(), "{target}");
        }
        let bad = [
            String::new(),
            "/".to_owned(),
            hex.clone(),
            format!("/a&expires=1&signature={hex}"),
            format!("/a?expires=1&signature={hex}0"),
            format!("/a?expires=1&signature={hex}&b"),
            format!("/a?expires=1&b&signature={hex}"),
            format!("/a?xexpires=1&signature={hex}"),
            format!("/a?expires=&signature={hex}"),
            format!("/a?expires=-1&signature={hex}"),
            format!("/a?expires=+1&signature={hex}"),
            format!("/a&b?c&signature={hex}"),
            format!("/a?expires=99999999999999999999&signature={hex}"),
            format!("/a?signature={hex}"),
            format!("/a?expires=1&signature={}g", "0".repeat(63)),
        ];
        for target in bad {
            assert!(SignedPath::parse(target.as_bytes()).is_none(), "{target}");
        }
    }
}
