//! Certificate revocation lists (RFC 5280 §5).

use super::der::{DerElements, tag, unix_time};

/// Returns the Unix time in seconds at which a list is out of date (RFC 5280 §5.1.2.5); `None` if
/// it has none, or if it is malformed.
pub(crate) fn next_update(list: &[u8]) -> Option<u64> {
    let list = DerElements(list).next_of(tag::SEQUENCE)?;
    let mut fields = DerElements(DerElements(list).next_of(tag::SEQUENCE)?);
    if fields.peek()?.tag == tag::INTEGER {
        fields.next();
    }
    let _algorithm = fields.next_of(tag::SEQUENCE)?;
    let _issuer = fields.next_of(tag::SEQUENCE)?;
    let _this_update = fields.next()?;
    let next = fields.next().filter(|next| tag::TIMES.contains(&next.tag))?;
    unix_time(next.content)
}

#[cfg(test)]
mod tests {
    use forebay_testkit::TestAuthority;
    use forebay_testkit::tls::rustls::pki_types::CertificateRevocationListDer;
    use forebay_testkit::tls::rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn the_end_of_a_list_is_read_and_no_piece_of_one_panics() {
        let list = TestAuthority::new().revocation_list(&[1, 2], 2030);
        let list = CertificateRevocationListDer::from_pem_slice(list.as_bytes()).expect("PEM");
        assert_eq!(next_update(&list), Some(1_893_456_000));
        for end in 0..list.len() {
            assert_eq!(next_update(&list[..end]), None, "{end}");
        }
    }
}
