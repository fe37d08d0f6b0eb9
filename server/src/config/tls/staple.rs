//! OCSP responses from files.

use std::path::Path;

use rustls::pki_types::CertificateDer;

use super::super::certificate_files::FileStamp;
use super::super::setting::ValueProblem;
use super::{read_file, unusable};
use crate::clock;
use crate::limits::CERTIFICATE_BYTES_MAX;
use crate::x509::{OcspResponse, OcspStatus};

/// An OCSP response (RFC 6960) that clients get in the handshake (RFC 6066 §8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Staple {
    pub(crate) response: Vec<u8>,
    /// The Unix time in seconds after which clients do not accept the response.
    pub(crate) until_s: Option<u64>,
}

/// Reads the OCSP response of a file about the first certificate of `chain`. Returns `None` if it
/// is out of date, or not valid yet, because clients refuse a handshake with such a response.
pub(in crate::config) fn read_staple(
    path: &Path,
    chain: &[CertificateDer<'static>],
    warnings: &mut Vec<String>,
) -> Result<(Option<Staple>, FileStamp), ValueProblem> {
    let (response, metadata) = read_file(path, CERTIFICATE_BYTES_MAX)?;
    let read = OcspResponse::read(&response, chain);
    let read = read.map_err(|why| {
        unusable(path, why).hint("`openssl ocsp -respout FILE` writes such a file")
    })?;
    if read.status != OcspStatus::Good {
        let status = match read.status {
            OcspStatus::Revoked => "is revoked",
            _ => "is unknown to its authority",
        };
        warnings.push(format!("{}: the certificate {status}", path.display()));
    }
    let (now_s, until_s) = (clock::unix_seconds(), read.next_update_s);
    let problem = if until_s.is_some_and(|until_s| until_s < now_s) {
        Some("is out of date")
    } else {
        (read.this_update_s > now_s).then_some("is not valid yet")
    };
    if let Some(problem) = problem {
        warnings.push(format!("{}: the OCSP response {problem}", path.display()));
    }
    let staple = problem.is_none().then_some(Staple { response, until_s });
    Ok((staple, FileStamp::of(&metadata)))
}
