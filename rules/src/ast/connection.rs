//! The parts of a client's connection that conditions name.

/// A property of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionPart {
    /// `IP-FAMILY`: `ipv4` or `ipv6`, the family of the client's address.
    IpFamily,
    /// `IPV4`: `ipv4` if the client's address is IPv4, otherwise empty.
    Ipv4,
    /// `IPV6`: `ipv6` if the client's address is IPv6, otherwise empty.
    Ipv6,
    /// `TLS`: the TLS version; empty without TLS.
    Tls,
    /// `H2`: `h2` if the connection uses HTTP/2, otherwise empty.
    H2,
    /// `STACK`: all protocols of the connection, separated by commas.
    Stack,
}

/// A part of the client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CertificatePart {
    /// `SUBJECT`: the name of the subject, in the form of RFC 4514.
    Subject,
    /// `ISSUER`: the name of the issuer, in the same form.
    Issuer,
    /// `SERIAL`: the serial number, as hexadecimal digits in upper case.
    Serial,
    /// `FINGERPRINT`: SHA-256 of the certificate, as hexadecimal digits in lower case.
    Fingerprint,
    /// `SAN:DNS`: the alternative names that are host names, joined by commas.
    DnsNames,
    /// `SAN:EMAIL`: those that are email addresses.
    Emails,
    /// `SAN:URI`: those that are URIs.
    Uris,
    /// `SAN:IP`: those that are IP addresses.
    Addresses,
}
