//! The parts of certificates that the configuration and ACME need, read from DER. The TLS library
//! does not show them.

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// Returns the Unix times in seconds from which and until which a certificate is valid (RFC 5280
/// §4.1.2.5); `None` if they cannot be read.
pub(crate) fn validity(certificate: &[u8]) -> Option<(u64, u64)> {
    const SEQUENCE: u8 = 0x30;
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    let mut sequences = 0;
    loop {
        let (tag, content, after) = element(rest)?;
        sequences += u8::from(tag == SEQUENCE);
        // The two earlier sequences are the algorithm and the issuer.
        if sequences == 3 {
            let (_, from, content) = element(content)?;
            let (_, until, _) = element(content)?;
            return Some((unix_time(from)?, unix_time(until)?));
        }
        rest = after;
    }
}

/// Returns the identifier of the issuer's key (RFC 5280 §4.2.1.1) and the serial number of a
/// certificate, which together name it (RFC 9773 §4.1); `None` if they cannot be read.
pub(crate) fn issuer_key_and_serial(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    const INTEGER: u8 = 0x02;
    const EXTENSIONS: u8 = 0xa3;
    const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x23];
    const KEY_IDENTIFIER: u8 = 0x80;
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    let mut serial = None;
    loop {
        let (tag, content, after) = element(rest)?;
        rest = after;
        match tag {
            INTEGER if serial.is_none() => serial = Some(content),
            EXTENSIONS => {
                let (_, mut extensions, _) = element(content)?;
                loop {
                    let (_, extension, after) = element(extensions)?;
                    extensions = after;
                    let Some(value) = extension.strip_prefix(AUTHORITY_KEY_IDENTIFIER) else {
                        continue;
                    };
                    let (_, value, _) = element(value)?;
                    let (_, identifier, _) = element(value)?;
                    let (tag, key, _) = element(identifier)?;
                    return (tag == KEY_IDENTIFIER).then_some((key, serial?));
                }
            }
            _ => {}
        }
    }
}

/// Whether a certificate is for this DNS name.
pub(crate) fn is_for_name(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let (Ok(certificate), Ok(name)) =
        (ParsedCertificate::try_from(certificate), ServerName::try_from(name))
    else {
        return false;
    };
    verify_server_name(&certificate, &name).is_ok()
}

/// Splits the first element of DER from the bytes after it. Returns the element's tag, its content,
/// and the bytes after the element.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Returns the Unix time in seconds of `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn unix_time(text: &[u8]) -> Option<u64> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| {
        let part = digits.get(range)?;
        Some(part.iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0')))
    };
    let (year, at) = match digits.len() {
        12 => (number(0..2)?, 2),
        14 => (number(0..4)?, 4),
        _ => return None,
    };
    let year = if at == 2 { year + if year < 50 { 2000 } else { 1900 } } else { year };
    let (month, day) = (number(at..at + 2)?, number(at + 2..at + 4)?);
    let seconds =
        number(at + 4..at + 6)? * 3600 + number(at + 6..at + 8)? * 60 + number(at + 8..at + 10)?;
    // Days since 1970 in the Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    days.checked_sub(719_469).map(|days| days * 86_400 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_certificates_are_unix_seconds() {
        for (text, expected) in [
            ("19700101000000Z", Some(0)),
            ("700101000001Z", Some(1)),
            ("000229120000Z", Some(951_825_600)),
            ("491231235959Z", Some(2_524_607_999)),
            ("20500101000000Z", Some(2_524_608_000)),
            ("20261125000000Z", Some(1_795_564_800)),
            ("2026112500000Z", None),
            ("20261125000000", None),
            ("", None),
        ] {
            assert_eq!(unix_time(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn no_bytes_of_a_certificate_cause_a_panic() {
        let bytes = [0x30, 0x82, 0x01, 0x00, 0x30, 0x03, 0x02, 0x01, 0x05, 0x30, 0x84, 0xff];
        for end in 0..bytes.len() {
            assert_eq!(validity(&bytes[..end]), None, "{end}");
            assert_eq!(issuer_key_and_serial(&bytes[..end]), None, "{end}");
        }
    }
    #[test]
    fn a_certificate_is_named_by_its_issuers_key_and_its_serial_number() {
        let mut issuer = rcgen::CertificateParams::default();
        issuer.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        issuer.key_identifier_method = rcgen::KeyIdMethod::PreSpecified(vec![0xc0, 0xff, 0xee]);
        let issuer = rcgen::Issuer::new(issuer, rcgen::KeyPair::generate().unwrap());
        let mut params = rcgen::CertificateParams::new(["a.org".to_owned()]).unwrap();
        params.serial_number = Some(rcgen::SerialNumber::from_slice(&[0x00, 0xca, 0xfe]));
        params.use_authority_key_identifier_extension = true;
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        // A serial number that would be negative begins with a zero (RFC 9773 §4.1).
        let expected = (&[0xc0, 0xff, 0xee][..], &[0x00, 0xca, 0xfe][..]);
        assert_eq!(issuer_key_and_serial(certificate.der()), Some(expected));
        assert!(is_for_name(certificate.der(), "a.org"));
        assert!(!is_for_name(certificate.der(), "b.org"));
        for end in 0..certificate.der().len() {
            assert_eq!(issuer_key_and_serial(&certificate.der()[..end]), None, "{end}");
        }
    }
}
