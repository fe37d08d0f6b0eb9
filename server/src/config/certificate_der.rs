//! The parts of certificates that the configuration and ACME need, read from DER. The TLS library
//! does not show them.

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_of_a_certificate_cause_a_panic() {
        let bytes = [0x30, 0x82, 0x01, 0x00, 0x30, 0x03, 0x02, 0x01, 0x05, 0x30, 0x84, 0xff];
        for end in 0..bytes.len() {
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
