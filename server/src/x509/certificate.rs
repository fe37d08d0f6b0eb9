//! X.509 certificates (RFC 5280).

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use aws_lc_rs::digest::{SHA256, digest};

use super::der::{DerElement, DerElements, elements, tag, unix_time};
use crate::limits::{CERTIFICATE_NAMES_BYTES_MAX, CERTIFICATE_SERIAL_BYTES_MAX};

/// The attributes of names that have a short form: those of RFC 4514 §3, and two that many
/// certificates have.
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
    (&[0x55, 4, 5], "serialNumber"),
];

/// The identifier of the extension subjectAltName (RFC 5280 §4.2.1.6).
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 29, 17];

/// The facts of a certificate, as printable ASCII without line breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CertificateFacts {
    /// The name of the subject, in the form of RFC 4514.
    pub(crate) subject: String,
    /// The name of the issuer, in the same form.
    pub(crate) issuer: String,
    /// The serial number as hexadecimal digits in upper case.
    pub(crate) serial: String,
    /// SHA-256 of the certificate as hexadecimal digits in lower case.
    pub(crate) fingerprint: String,
    /// The alternative names of each kind, joined by commas.
    pub(crate) dns_names: String,
    pub(crate) emails: String,
    pub(crate) uris: String,
    pub(crate) addresses: String,
}

/// The fields of a certificate, each with its content only, unless it says otherwise.
pub(super) struct CertificateFields<'a> {
    pub(super) serial: &'a [u8],
    issuer: DerElement<'a>,
    validity: &'a [u8],
    subject: &'a [u8],
    /// The subjectPublicKeyInfo, with its tag and length.
    public_key: &'a [u8],
    /// The list of extensions; empty if there are none.
    pub(super) extensions: &'a [u8],
}

impl CertificateFacts {
    /// Reads the facts of a certificate; `None` if it is malformed, or if its names or its serial
    /// number are longer than the limits.
    pub(crate) fn read(certificate: &[u8]) -> Option<CertificateFacts> {
        let fields = CertificateFields::read(certificate)?;
        // A number whose first bit is set begins with a byte 0.
        let serial = fields.serial.strip_prefix(&[0]).filter(|rest| !rest.is_empty());
        let serial = serial.unwrap_or(fields.serial);
        if serial.len() > CERTIFICATE_SERIAL_BYTES_MAX {
            return None;
        }
        fields.times()?;
        let mut facts = CertificateFacts {
            subject: name_text(fields.subject)?,
            issuer: name_text(fields.issuer.content)?,
            serial: hex(serial).to_ascii_uppercase(),
            fingerprint: hex(digest(&SHA256, certificate).as_ref()),
            ..CertificateFacts::default()
        };
        for extension in elements(fields.extensions)? {
            let mut parts = DerElements(extension.content);
            let id = parts.next_of(tag::OBJECT_IDENTIFIER)?;
            if id == SUBJECT_ALT_NAME {
                let value = parts.find(|part| part.tag == tag::OCTET_STRING)?.content;
                facts.add_alternative_names(DerElements(value).next_of(tag::SEQUENCE)?)?;
            }
        }
        Some(facts)
    }

    /// Adds the alternative names. A name that is not printable ASCII, or has a comma, is left out:
    /// in a list, it could look like several names.
    fn add_alternative_names(&mut self, names: &[u8]) -> Option<()> {
        for name in elements(names)? {
            let address;
            let (list, text) = match (name.tag, name.content.len()) {
                (0x81, _) => (&mut self.emails, str::from_utf8(name.content).ok()),
                (0x82, _) => (&mut self.dns_names, str::from_utf8(name.content).ok()),
                (0x86, _) => (&mut self.uris, str::from_utf8(name.content).ok()),
                (0x87, 4 | 16) => {
                    address = address_text(name.content)?;
                    (&mut self.addresses, Some(address.as_str()))
                }
                _ => continue,
            };
            let is_clear = |byte: u8| byte.is_ascii_graphic() && byte != b',';
            let Some(text) = text.filter(|text| !text.is_empty() && text.bytes().all(is_clear))
            else {
                continue;
            };
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(text);
            if list.len() > CERTIFICATE_NAMES_BYTES_MAX {
                return None;
            }
        }
        Some(())
    }
}

impl<'a> CertificateFields<'a> {
    pub(super) fn read(certificate: &'a [u8]) -> Option<CertificateFields<'a>> {
        let certificate = DerElements(certificate).next_of(tag::SEQUENCE)?;
        let mut fields = DerElements(DerElements(certificate).next_of(tag::SEQUENCE)?);
        if fields.peek()?.tag == tag::FIRST_OPTION {
            fields.next();
        }
        let serial = fields.next_of(tag::INTEGER)?;
        let _algorithm = fields.next_of(tag::SEQUENCE)?;
        let issuer = fields.next().filter(|issuer| issuer.tag == tag::SEQUENCE)?;
        let validity = fields.next_of(tag::SEQUENCE)?;
        let subject = fields.next_of(tag::SEQUENCE)?;
        let public_key = fields.next().filter(|key| key.tag == tag::SEQUENCE)?.whole;
        let extensions = fields.find(|field| field.tag == tag::EXTENSIONS);
        let extensions = match extensions {
            Some(extensions) => DerElements(extensions.content).next_of(tag::SEQUENCE)?,
            None => &[],
        };
        Some(CertificateFields { serial, issuer, validity, subject, public_key, extensions })
    }

    fn times(&self) -> Option<(u64, u64)> {
        let mut times = DerElements(self.validity);
        Some((unix_time(times.next()?.content)?, unix_time(times.next()?.content)?))
    }
}

/// Returns the Unix times in seconds from which and until which a certificate is valid (RFC 5280
/// §4.1.2.5); `None` if they cannot be read.
pub(crate) fn validity(certificate: &[u8]) -> Option<(u64, u64)> {
    CertificateFields::read(certificate)?.times()
}

/// Returns the serial number of a certificate, as it is encoded, and the name of its issuer, in
/// DER.
pub(super) fn serial_and_issuer(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    CertificateFields::read(certificate).map(|fields| (fields.serial, fields.issuer.whole))
}

/// Returns the subjectPublicKeyInfo of a certificate, in DER.
pub(crate) fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    CertificateFields::read(certificate).map(|fields| fields.public_key)
}

/// Returns a name in the form of RFC 4514: the most specific part first, such as `CN=ann,O=Shop`.
/// All bytes but printable ASCII are escaped.
fn name_text(name: &[u8]) -> Option<String> {
    let parts = elements(name)?;
    let mut text = String::new();
    for part in parts.iter().rev() {
        if part.tag != tag::SET {
            return None;
        }
        for (index, attribute) in elements(part.content)?.iter().enumerate() {
            if !text.is_empty() {
                text.push(if index == 0 { ',' } else { '+' });
            }
            let mut fields = DerElements(attribute.content);
            let id = fields.next_of(tag::OBJECT_IDENTIFIER)?;
            push_attribute(&mut text, id, fields.next()?);
            if text.len() > CERTIFICATE_NAMES_BYTES_MAX {
                return None;
            }
        }
    }
    Some(text)
}

fn push_attribute(text: &mut String, id: &[u8], value: DerElement<'_>) {
    let known = ATTRIBUTES.iter().find(|(known, _)| *known == id);
    let is_text = matches!(value.tag, tag::UTF8_STRING | tag::PRINTABLE_STRING | tag::IA5_STRING);
    match known {
        Some((_, short)) => text.push_str(short),
        None => push_identifier(text, id),
    }
    text.push('=');
    if known.is_none() || !is_text {
        text.push('#');
        text.push_str(&hex(value.whole));
        return;
    }
    let last = value.content.len().saturating_sub(1);
    for (at, byte) in value.content.iter().enumerate() {
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            b'#' if at == 0 => text.push_str("\\#"),
            b' ' if at == 0 || at == last => text.push_str("\\ "),
            b' ' | b'!'..=b'~' => text.push(char::from(*byte)),
            _ => push_hex(text, "\\", *byte),
        }
    }
}

/// Appends an object identifier in its dotted form.
fn push_identifier(text: &mut String, id: &[u8]) {
    let mut value = 0u64;
    let mut is_first = true;
    for byte in id {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if is_first {
            let first = (value / 40).min(2);
            let _ = write!(text, "{first}.{}", value - first * 40);
        } else {
            let _ = write!(text, ".{value}");
        }
        (value, is_first) = (0, false);
    }
}

/// Returns the text of an address of 4 or 16 bytes.
fn address_text(bytes: &[u8]) -> Option<String> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|v6| Ipv6Addr::from(v6).to_string())
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    bytes.iter().for_each(|byte| push_hex(&mut text, "", *byte));
    text
}

fn push_hex(text: &mut String, before: &str, byte: u8) {
    let _ = write!(text, "{before}{byte:02x}");
}

#[cfg(test)]
mod tests {
    use forebay_testkit::TestAuthority;
    use forebay_testkit::tls::rcgen;

    use super::*;

    fn certificate(change: impl FnOnce(&mut rcgen::CertificateParams)) -> Vec<u8> {
        let authority = TestAuthority::new();
        let issued = authority.issue_with(&[], &rcgen::PKCS_ECDSA_P256_SHA256, change);
        issued.parsed().0[0].to_vec()
    }

    #[test]
    fn the_facts_of_a_certificate_are_printable_and_cannot_be_confused() {
        use rcgen::DnType::{CommonName, CountryName, CustomDnType, OrganizationName};
        use rcgen::SanType::{DnsName, IpAddress, Rfc822Name, URI};
        let names = [
            (CountryName, "DE"),
            (OrganizationName, "#a, b+c\"d\\e<f>;"),
            (CommonName, " r\u{e9}my\r\nX: y "),
            (CustomDnType(vec![1, 3, 6, 1, 4, 1, 99999, 7]), "z"),
        ];
        let der = certificate(|params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            for (kind, text) in names {
                params.distinguished_name.push(kind, text);
            }
            params.serial_number = Some(rcgen::SerialNumber::from(vec![0xf0, 1]));
            let text = |text: &str| text.try_into().expect("IA5");
            params.subject_alt_names = vec![
                DnsName(text("a.org")),
                DnsName(text("b.org,c.org")),
                DnsName(text("d.org")),
                Rfc822Name(text("ann@a.org")),
                URI(text("spiffe://a/b")),
                URI(text("spiffe://a\r\nb")),
                IpAddress([192, 0, 2, 1].into()),
                IpAddress("2001:db8::1".parse().expect("an address")),
            ];
        });
        let facts = CertificateFacts::read(&der).expect("a certificate");
        let expected = "1.3.6.1.4.1.99999.7=#0c017a,CN=\\ r\\c3\\a9my\\0d\\0aX: y\\ ,\
                        O=\\#a\\, b\\+c\\\"d\\\\e\\<f\\>\\;,C=DE";
        assert_eq!(facts.subject, expected);
        assert!(facts.issuer.starts_with("CN=authority "), "{}", facts.issuer);
        assert_eq!(facts.serial, "F001");
        assert_eq!(facts.dns_names, "a.org,d.org");
        assert_eq!((facts.emails.as_str(), facts.uris.as_str()), ("ann@a.org", "spiffe://a/b"));
        assert_eq!(facts.addresses, "192.0.2.1,2001:db8::1");
        assert_eq!(facts.fingerprint.len(), 64);
        let (from, until) = validity(&der).expect("it has them");
        assert!(from < until);
        for end in 0..der.len() {
            assert_eq!(CertificateFacts::read(&der[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn names_that_are_too_long_are_refused() {
        for (count, is_read) in [(100, true), (500, false)] {
            let der = certificate(|params| {
                let name = |at: usize| format!("{at}.example.org").as_str().try_into();
                let names = (0..count).map(|at| rcgen::SanType::DnsName(name(at).expect("IA5")));
                params.subject_alt_names = names.collect();
            });
            assert_eq!(CertificateFacts::read(&der).is_some(), is_read, "{count} names");
        }
    }

    #[test]
    fn no_bytes_of_a_certificate_cause_a_panic() {
        let bytes = [0x30, 0x82, 0x01, 0x00, 0x30, 0x03, 0x02, 0x01, 0x05, 0x30, 0x84, 0xff];
        for end in 0..bytes.len() {
            assert_eq!(validity(&bytes[..end]), None, "{end}");
        }
    }
}
