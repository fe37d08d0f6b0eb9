//! Reads the parts of X.509 certificates (RFC 5280), and of responses about their revocation (RFC
//! 6960), that the TLS library does not return.
//!
//! The bytes come from files or from the network. Malformed bytes never cause a panic.

mod authority_key;
mod certificate;
mod der;
mod ocsp;
mod revocation_list;

pub(crate) use authority_key::issuer_key_and_serial;
pub(crate) use certificate::{CertificateFacts, public_key, validity};
pub(crate) use ocsp::{OcspResponse, OcspStatus};
pub(crate) use revocation_list::next_update;
