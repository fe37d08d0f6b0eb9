//! Responses of the Online Certificate Status Protocol (RFC 6960 §4.2).

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::certificate::{public_key, serial_and_issuer};
use super::der::{DerElements, elements, tag, unix_time};

/// A response of an authority about one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OcspResponse {
    pub(crate) status: OcspStatus,
    /// The Unix time in seconds from which the status is known to be right.
    pub(crate) this_update_s: u64,
    /// The Unix time in seconds after which the response is out of date; `None` if it never is.
    pub(crate) next_update_s: Option<u64>,
}

/// The status of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OcspStatus {
    Good,
    Revoked,
    Unknown,
}

/// The type of a response that clients understand: id-pkix-ocsp-basic.
const BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];

/// The status of a response that is not an error.
const SUCCESSFUL: &[u8] = &[0];

impl OcspResponse {
    /// Reads what a response says about the first certificate of a chain. The signature is left to
    /// clients.
    ///
    /// # Errors
    /// The text says why the response is of no use.
    pub(crate) fn read<C: AsRef<[u8]>>(
        response: &[u8],
        chain: &[C],
    ) -> Result<OcspResponse, &'static str> {
        const MALFORMED: &str = "the file is not an OCSP response in DER";
        let outer = DerElements(response).next_of(tag::SEQUENCE).ok_or(MALFORMED)?;
        let mut fields = DerElements(outer);
        if fields.next_of(tag::ENUMERATED).ok_or(MALFORMED)? != SUCCESSFUL {
            return Err("the OCSP response is an error of the authority");
        }
        let statuses = statuses(fields).ok_or(MALFORMED)?;
        let found = statuses.into_iter().find(|(about, _)| about.is_of(chain) == Some(true));
        found.map(|(_, response)| response).ok_or("the OCSP response is about another certificate")
    }
}

/// The identity of a certificate in a response (RFC 6960 §4.1.1): its serial number, and hashes of
/// its issuer's name and key.
struct CertificateId<'a> {
    /// The algorithm of the hashes; `None` if it is not known.
    algorithm: Option<&'static Algorithm>,
    name_hash: &'a [u8],
    key_hash: &'a [u8],
    serial: &'a [u8],
}

/// The identifiers of SHA-1 and SHA-256.
const SHA1_ID: &[u8] = &[0x2b, 0x0e, 3, 2, 26];
const SHA256_ID: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];

impl<'a> CertificateId<'a> {
    fn read(id: &'a [u8]) -> Option<CertificateId<'a>> {
        let mut fields = DerElements(id);
        let algorithm =
            DerElements(fields.next_of(tag::SEQUENCE)?).next_of(tag::OBJECT_IDENTIFIER)?;
        Some(CertificateId {
            algorithm: match algorithm {
                SHA1_ID => Some(&SHA1_FOR_LEGACY_USE_ONLY),
                SHA256_ID => Some(&SHA256),
                _ => None,
            },
            name_hash: fields.next_of(tag::OCTET_STRING)?,
            key_hash: fields.next_of(tag::OCTET_STRING)?,
            serial: fields.next_of(tag::INTEGER)?,
        })
    }

    /// Whether this is the first certificate of a chain; `None` if the chain is malformed. The
    /// issuer is compared if the chain has its certificate.
    fn is_of<C: AsRef<[u8]>>(&self, chain: &[C]) -> Option<bool> {
        let (own, issuers) = chain.split_first()?;
        let (serial, issuer) = serial_and_issuer(own.as_ref())?;
        let (Some(algorithm), Some(of_issuer)) = (self.algorithm, issuers.first()) else {
            return Some(self.serial == serial);
        };
        let key = key_bits(public_key(of_issuer.as_ref())?)?;
        let has_issuer = digest(algorithm, issuer).as_ref() == self.name_hash
            && digest(algorithm, key).as_ref() == self.key_hash;
        Some(self.serial == serial && has_issuer)
    }
}

/// Returns the bits of a key, without their count of unused bits.
fn key_bits(public_key: &[u8]) -> Option<&[u8]> {
    let mut fields = DerElements(DerElements(public_key).next_of(tag::SEQUENCE)?);
    let _algorithm = fields.next_of(tag::SEQUENCE)?;
    fields.next_of(tag::BIT_STRING)?.get(1..)
}

/// Returns the identity and the status of each certificate of a response; `None` if it is
/// malformed. `fields` are those after the status of the response itself.
fn statuses<'a>(mut fields: DerElements<'a>) -> Option<Vec<(CertificateId<'a>, OcspResponse)>> {
    let mut bytes =
        DerElements(DerElements(fields.next_of(tag::FIRST_OPTION)?).next_of(tag::SEQUENCE)?);
    if bytes.next_of(tag::OBJECT_IDENTIFIER)? != BASIC {
        return None;
    }
    let basic = DerElements(bytes.next_of(tag::OCTET_STRING)?).next_of(tag::SEQUENCE)?;
    let data = DerElements(basic).next_of(tag::SEQUENCE)?;
    // The version and the responder come before the list.
    let list = elements(data)?.into_iter().find(|field| field.tag == tag::SEQUENCE)?;
    elements(list.content)?.into_iter().map(|single| status(single.content)).collect()
}

fn status(single: &[u8]) -> Option<(CertificateId<'_>, OcspResponse)> {
    let mut fields = DerElements(single);
    let about = CertificateId::read(fields.next_of(tag::SEQUENCE)?)?;
    let status = match fields.next()?.tag & 0x1f {
        0 => OcspStatus::Good,
        1 => OcspStatus::Revoked,
        _ => OcspStatus::Unknown,
    };
    let this_update_s = unix_time(fields.next()?.content)?;
    let next_update = fields.find(|field| field.tag == tag::FIRST_OPTION);
    let next_update_s = match next_update {
        Some(next) => Some(unix_time(DerElements(next.content).next()?.content)?),
        None => None,
    };
    Some((about, OcspResponse { status, this_update_s, next_update_s }))
}
