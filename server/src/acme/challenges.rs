//! The answers to the challenges of the order in progress. They are immutable; each order makes new
//! ones.

use crate::config::Identity;

/// The path below which a certificate authority requests answers (RFC 8555 §8.3).
const HTTP_PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// The answers to the challenges of one order; none while no order waits for its checks.
#[derive(Debug, Default)]
pub(crate) struct Challenges {
    pub(super) http: Vec<HttpAnswer>,
    pub(super) tls: Vec<TlsAnswer>,
}

/// The answer to a challenge of the type http-01.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) host: String,
    pub(super) token: String,
    pub(super) content: String,
}

/// The answer to a challenge of the type tls-alpn-01: a certificate for one name.
#[derive(Debug)]
pub(super) struct TlsAnswer {
    pub(super) name: String,
    pub(super) identity: Identity,
}

impl Challenges {
    /// Whether there is an answer to a challenge of the type http-01.
    pub(crate) fn has_http(&self) -> bool {
        !self.http.is_empty()
    }

    /// Returns the content that answers a GET of this path from this host; `None` if it is no
    /// challenge of the order.
    pub(crate) fn http_content(&self, host: &[u8], path_query: &[u8]) -> Option<&str> {
        let token = path_query.strip_prefix(HTTP_PREFIX)?;
        let answer = self.http.iter().find(|answer| {
            answer.token.as_bytes() == token && answer.host.as_bytes().eq_ignore_ascii_case(host)
        });
        answer.map(|answer| &*answer.content)
    }

    /// Returns the names of the challenges of the type tls-alpn-01, with their certificates.
    pub(crate) fn tls(&self) -> impl Iterator<Item = (&str, &Identity)> {
        self.tls.iter().map(|answer| (&*answer.name, &answer.identity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_challenges_of_the_order_are_answered() {
        let text = |text: &str| text.to_owned();
        let http = vec![HttpAnswer { host: text("a.org"), token: text("T"), content: text("T.k") }];
        let challenges = Challenges { http, tls: Vec::new() };
        for (host, path, expected) in [
            ("a.org", "/.well-known/acme-challenge/T", Some("T.k")),
            ("A.ORG", "/.well-known/acme-challenge/T", Some("T.k")),
            ("b.org", "/.well-known/acme-challenge/T", None),
            ("a.org", "/.well-known/acme-challenge/t", None),
            ("a.org", "/.well-known/acme-challenge/", None),
            ("a.org", "/.well-known/acme-challenge/T?", None),
            ("a.org", "/T", None),
        ] {
            let found = challenges.http_content(host.as_bytes(), path.as_bytes());
            assert_eq!(found, expected, "{host}{path}");
        }
    }
}
