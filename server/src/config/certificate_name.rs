//! The DNS names for which a certificate is valid.

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// Whether a certificate is for this DNS name.
pub(crate) fn is_for_name(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let (Ok(certificate), Ok(name)) =
        (ParsedCertificate::try_from(certificate), ServerName::try_from(name))
    else {
        return false;
    };
    verify_server_name(&certificate, &name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_for_its_own_names() {
        let params = rcgen::CertificateParams::new(["a.org".to_owned()]).unwrap();
        let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        assert!(is_for_name(certificate.der(), "a.org"));
        assert!(!is_for_name(certificate.der(), "b.org"));
    }
}
