//! The identifier of the key by which a certificate was signed (RFC 5280 §4.2.1.1).

use super::certificate::CertificateFields;
use super::der::{DerElements, tag};

/// The identifier of the extension authorityKeyIdentifier.
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 29, 35];

/// The tag of the key's identifier in this extension.
const KEY_IDENTIFIER: u8 = 0x80;

/// Returns the identifier of the issuer's key and the serial number of a certificate, which
/// together name it (RFC 9773 §4.1); `None` if they cannot be read.
pub(crate) fn issuer_key_and_serial(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let fields = CertificateFields::read(certificate)?;
    for extension in DerElements(fields.extensions) {
        let mut parts = DerElements(extension.content);
        if parts.next_of(tag::OBJECT_IDENTIFIER) == Some(AUTHORITY_KEY_IDENTIFIER) {
            let value = parts.find(|part| part.tag == tag::OCTET_STRING)?.content;
            let identifier = DerElements(value).next_of(tag::SEQUENCE)?;
            let key = DerElements(identifier).next_of(KEY_IDENTIFIER)?;
            return Some((key, fields.serial));
        }
    }
    None
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
        for end in 0..certificate.der().len() {
            assert_eq!(issuer_key_and_serial(&certificate.der()[..end]), None, "{end}");
        }
    }
}
