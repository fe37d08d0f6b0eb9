//! The file with a certificate and its key, as the thread that orders certificates reads it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::storage::modified_ns;
use crate::limits::CERTIFICATE_BYTES_MAX;

/// The content of a certificate's file.
#[derive(Debug, Default)]
pub(super) struct CertificateFile {
    /// The certificate; `None` if the file is missing or malformed.
    pub(super) certificate: Option<CertificateDer<'static>>,
    /// The time at which the file was written, as a Unix time in nanoseconds.
    pub(super) written_ns: Option<i128>,
}

impl CertificateFile {
    /// Reads the file.
    ///
    /// # Errors
    /// The system cannot read it. Its certificate may be usable nevertheless.
    pub(super) fn read(path: &Path) -> io::Result<CertificateFile> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let written_ns = Some(modified_ns(&file.metadata()?));
        let mut pem = Vec::new();
        file.take(CERTIFICATE_BYTES_MAX as u64 + 1).read_to_end(&mut pem)?;
        let is_small = pem.len() <= CERTIFICATE_BYTES_MAX;
        let certificate = usable_certificate(&pem).ok().filter(|_| is_small);
        Ok(CertificateFile { certificate, written_ns })
    }
}

/// Returns the certificate of a PEM text, if it can be used with the chain and the key of the text.
///
/// # Errors
/// The text names the part that cannot be used.
pub(super) fn usable_certificate(pem: &[u8]) -> Result<CertificateDer<'static>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| format!("the chain is malformed: {error}"))?;
    let first = chain.first().cloned().ok_or("the chain is empty")?;
    let key = PrivateKeyDer::from_pem_slice(pem);
    let key = key.map_err(|error| format!("the key is malformed: {error}"))?;
    let pair = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
    pair.map_err(|error| format!("the key and the certificate cannot be used: {error}"))?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use forebay_testkit::server::Folder;

    use super::*;

    #[test]
    fn only_a_missing_or_malformed_file_has_no_certificate() {
        let folder = Folder::new();
        let path = folder.path("site.pem");
        let read = || CertificateFile::read(&path).expect("it can be read");
        assert!(read().written_ns.is_none(), "it is missing");
        let issued = rcgen::generate_simple_self_signed(vec!["a.org".to_owned()]).expect("made");
        let other = rcgen::KeyPair::generate().expect("made").serialize_pem();
        let key = issued.signing_key.serialize_pem();
        for (key, is_usable) in [(key.as_str(), true), (&other, false), ("", false)] {
            let pem = format!("{key}{}", issued.cert.pem());
            std::fs::write(&path, pem).expect("the folder is ours");
            let file = read();
            assert_eq!(file.certificate.is_some(), is_usable, "{key}");
            assert!(file.written_ns.is_some());
        }
        std::fs::remove_file(&path).expect("the folder is ours");
        std::fs::create_dir(&path).expect("the folder is ours");
        CertificateFile::read(&path).expect_err("a directory is an error of the system");
    }
}
