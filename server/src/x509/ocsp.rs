//! Responses of the Online Certificate Status Protocol (RFC 6960 §4.2).

use super::der::{DerElements, elements, tag, unix_time};

/// A response of an authority about one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OcspResponse {
    pub(crate) status: OcspStatus,
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
    /// Reads what a response says about the certificate with this serial number. The signature is
    /// left to clients.
    ///
    /// # Errors
    /// The text says why the response is of no use.
    pub(crate) fn read(response: &[u8], serial: &[u8]) -> Result<OcspResponse, &'static str> {
        const MALFORMED: &str = "the file is not an OCSP response in DER";
        let outer = DerElements(response).next_of(tag::SEQUENCE).ok_or(MALFORMED)?;
        let mut fields = DerElements(outer);
        if fields.next_of(tag::ENUMERATED).ok_or(MALFORMED)? != SUCCESSFUL {
            return Err("the OCSP response is an error of the authority");
        }
        let statuses = statuses(fields).ok_or(MALFORMED)?;
        let found = statuses.into_iter().find(|(about, _)| *about == serial);
        found.map(|(_, response)| response).ok_or("the OCSP response is about another certificate")
    }
}

/// Returns the serial number and the status of each certificate of a response; `None` if it is
/// malformed. `fields` are those after the status of the response itself.
fn statuses<'a>(mut fields: DerElements<'a>) -> Option<Vec<(&'a [u8], OcspResponse)>> {
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

fn status(single: &[u8]) -> Option<(&[u8], OcspResponse)> {
    let mut fields = DerElements(single);
    let about = elements(fields.next_of(tag::SEQUENCE)?)?;
    let serial = about.last().filter(|last| last.tag == tag::INTEGER)?.content;
    let status = match fields.next()?.tag & 0x1f {
        0 => OcspStatus::Good,
        1 => OcspStatus::Revoked,
        _ => OcspStatus::Unknown,
    };
    let _this_update = fields.next()?;
    let next_update = fields.find(|field| field.tag == tag::FIRST_OPTION);
    let next_update_s = match next_update {
        Some(next) => Some(unix_time(DerElements(next.content).next()?.content)?),
        None => None,
    };
    Some((serial, OcspResponse { status, next_update_s }))
}
